"""Fakes of the parsers' side, and a way to read bytes as a file."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from correlator.core.event import Event
from correlator.core.files import LogFile, RunHints
from correlator.core.vocabulary import FileKind, Role
from correlator.ingest.columns import ColumnBuilder
from correlator.ingest.engines import HyperscanEngine, ReEngine
from correlator.ingest.filereader import FileOutcome, FileReader, Interpreter
from correlator.ingest.reader import Limits
from correlator.ingest.segments import ChunkSegments
from correlator.parsers.base import FileContext, LinePattern


def _pattern(name: str, regex: str, *, bulk: bool = False) -> LinePattern:
    return LinePattern(id=name, event_name="message", regex=regex, samples=(), lookalikes=(), bulk=bulk)


@dataclass(frozen=True)
class FakeTable:
    """A table of few patterns, of every shape that real ones have."""

    patterns: tuple[LinePattern, ...] = (
        _pattern("error", r"^[A-Za-z]*Error: (?P<reason>[^\n]*)$"),
        _pattern("oom", r"(?i)out of memory"),
        _pattern("rank", r"\[rank(?P<rank>\d+)\]"),
        _pattern("anything", r"begin.*end"),
        _pattern("blank", r"a\s+b"),
        _pattern("record", r"RECORD"),
        _pattern("progress", r"step: +(?P<step>\d+)", bulk=True),
    )


@dataclass(frozen=True)
class FakeResult:
    """What the fake parser hands back."""

    events: list[Event]
    event_segments: int
    folded_segments: int
    resume_index: int | None


@dataclass
class FakeParser:
    """One event for each hit segment; a segment with RECORD takes the indented ones that follow it."""

    seen: list[bytes] = field(default_factory=list)

    def parse(self, lines: ChunkSegments, hits: Sequence[tuple[int, tuple[int, ...]]]) -> FakeResult:
        events: list[Event] = []
        folded = 0
        for index, ids in hits:
            raw = lines.raw(index)
            stop = index + 1
            if b"RECORD" in raw:
                while stop < len(lines) and lines.raw(stop).startswith(b"  "):
                    stop += 1
                if stop == len(lines) and not lines.final:
                    return FakeResult(events, len(events), folded, index)
            if raw.startswith(b"  "):
                continue
            if b"explode" in raw:
                raise ValueError("a bug")
            folded += stop - index - 1
            self.seen.append(raw)
            events.append(
                Event(
                    event_name="message",
                    role=Role.CONTEXT,
                    signature=",".join(map(str, ids)),
                    line_number=lines.number(index),
                    byte_offset=lines.offset(index),
                    line_count=stop - index,
                    body=raw.decode("utf-8", errors="replace"),
                )
            )
        return FakeResult(events, len(events), folded, None)


@dataclass(frozen=True)
class Read:
    """A file as it was read."""

    outcome: FileOutcome
    rows: list[dict[str, object]]
    advanced: int


class BrokenStream(io.BytesIO):
    """Fails like a damaged file, after `good` bytes."""

    def __init__(self, data: bytes, good: int) -> None:
        super().__init__(data[:good])

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = super().readinto(buffer)
        if not count:
            raise OSError(5, "Input/output error")
        return count


def _read_bytes(
    data: bytes,
    limits: Limits | None = None,
    *,
    force_re: bool = False,
    kind: FileKind = FileKind.RANK_LOG,
    stream: Callable[[], io.BytesIO] | None = None,
    whole_file: dict[FileKind, Callable[[bytes, FileContext], list[Event]]] | None = None,
    size_bytes: int | None = None,
) -> Read:
    table = FakeTable()
    engine = ReEngine(table.patterns) if force_re else HyperscanEngine(table.patterns)
    interpreter = Interpreter(table, lambda _: FakeParser(), whole_file or {})
    opened = stream or (lambda: io.BytesIO(data))
    reader = FileReader(interpreter, engine, RunHints(), lambda _: opened(), limits)
    file = LogFile("logs/rank_0.log", "/nowhere", kind, size_bytes=len(data) if size_bytes is None else size_bytes)
    builder = ColumnBuilder()
    told: list[int] = []
    outcome = reader.read(file, 0, builder, told.append)
    tables = builder.take()
    return Read(outcome, pa.concat_tables(tables).to_pylist() if tables else [], sum(told))


@pytest.fixture(scope="session")
def read_bytes() -> Callable[..., Read]:
    """Read bytes as a log file with the fake parser."""
    return _read_bytes


@pytest.fixture(scope="session")
def table() -> FakeTable:
    """The patterns of the fake parser."""
    return FakeTable()


@pytest.fixture(scope="session")
def broken_stream() -> type[BrokenStream]:
    """A stream that fails in the middle."""
    return BrokenStream


@pytest.fixture(scope="session")
def make_pattern() -> Callable[..., LinePattern]:
    """A pattern from id and regex."""
    return _pattern
