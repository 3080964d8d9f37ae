"""Which signature a line goes to when all of them compete: for checking that a new one is ever heard."""

from __future__ import annotations

from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import FileKind
from correlator.parsers.base import FileContext
from correlator.parsers.interpret import FileParser
from correlator.parsers.table import PatternTable


class _OneLine(tuple[bytes, ...]):
    """A file of one line, as `ChunkLines`."""

    __slots__ = ()
    final = True

    def raw(self, index: int) -> bytes:
        return self[index]

    def number(self, index: int) -> int:
        return 1 + index

    def offset(self, index: int) -> int:
        return sum(len(line) + 1 for line in self[:index])


def signatures_of(line: str, table: PatternTable, kind: FileKind = FileKind.RANK_LOG) -> tuple[str, ...]:
    """Signatures of the events that a printed line is in a file of this kind; empty where no pattern takes it."""
    context = FileContext("line", kind, FileHints(), RunHints())
    everything = tuple(range(len(table.patterns)))
    result = FileParser(context, table).parse(_OneLine((line.encode(),)), [(0, everything)])
    return tuple(event.signature for event in result.events)
