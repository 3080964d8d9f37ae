"""Lines through the real peeler and file parser, with the dialects only (no catalogue)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from correlator.core.event import Event
from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import FileKind
from correlator.parsers.base import FileContext
from correlator.parsers.dialects import DIALECTS
from correlator.parsers.interpret import FileParser
from correlator.parsers.table import PatternTable, build_table

Parse = Callable[..., list[Event]]


@dataclass(frozen=True)
class _Lines:
    texts: tuple[bytes, ...]
    final: bool = True

    def __len__(self) -> int:
        return len(self.texts)

    def raw(self, index: int) -> bytes:
        return self.texts[index]

    def number(self, index: int) -> int:
        return index + 1

    def offset(self, index: int) -> int:
        return sum(len(text) + 1 for text in self.texts[:index])


@pytest.fixture(scope="session")
def table() -> PatternTable:
    """All dialects, without the signatures of the catalogue."""
    return build_table(DIALECTS, ())


@pytest.fixture(scope="session")
def parse(table: PatternTable) -> Parse:
    """Parses lines as if every pattern had hit each of them; returns the events."""

    def run(*texts: str, kind: FileKind = FileKind.NODE_LOG) -> list[Event]:
        context = FileContext(
            path="run.log", kind=kind, hints=FileHints(), run=RunHints(reference_ns=1_764_464_523_000_000_000)
        )
        lines = _Lines(tuple(text.encode() for text in texts))
        everything = tuple(range(len(table.patterns)))
        hits = [(index, everything) for index in range(len(lines))]
        return FileParser(context, table).parse(lines, hits).events

    return run
