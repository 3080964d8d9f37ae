"""Who wrote which line when, before any layout decides which file it lands in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class Source(StrEnum):
    """What wrote a line."""

    STDOUT = "stdout"
    STDERR = "stderr"
    AGENT = "agent"
    KERNEL = "kernel"
    CONSOLE = "console"


@dataclass(frozen=True, slots=True)
class Line:
    """A line at a true time (epoch seconds). `rank` is set for STDOUT and STDERR, `node` for all but CONSOLE."""

    at: float
    order: int
    source: Source
    node: int
    rank: int | None
    attempt: int
    text: str


@dataclass(slots=True)
class Journal:
    """All lines of a run, and its files that are no logs of lines."""

    lines: list[Line] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    attempt: int = 0

    def write(self, at: float, source: Source, node: int, texts: Iterable[str], rank: int | None = None) -> None:
        """Add the lines of one record; they stay together where files are shared."""
        for text in texts:
            self.lines += (
                Line(at, len(self.lines), source, node, rank, self.attempt, part) for part in text.split("\n")
            )

    def silence(self, rank: int, after: float) -> None:
        """The process ended: whatever it would have said later was never written."""
        self.lines = [line for line in self.lines if line.rank != rank or line.at <= after]

    def keep(self, wanted: Callable[[Line], bool]) -> None:
        """Drop all other lines (logs that were not handed in)."""
        self.lines = [line for line in self.lines if wanted(line)]

    def ordered(self) -> list[Line]:
        """By true time; the lines of one record together."""
        return sorted(self.lines, key=lambda line: (line.at, line.order))
