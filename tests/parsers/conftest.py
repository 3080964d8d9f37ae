"""How parser tests read text: the lines of a chunk, the scan by plain `re`, and a file read whole or in pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import hyperscan
import pytest

from correlator.core.event import Event
from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import FileKind
from correlator.parsers.base import FileContext
from correlator.parsers.interpret import FileParser
from correlator.parsers.table import PatternTable, pattern_table

REFERENCE_NS = 1_764_464_523_000_000_000
"""2025-11-30T01:02:03Z, the date of the examples in formats.md."""


class Lines:
    """A chunk in memory."""

    def __init__(self, raw: Sequence[bytes], *, number: int = 1, offset: int = 0, final: bool = True) -> None:
        self._raw = list(raw)
        self._number = number
        self._offsets = []
        for line in self._raw:
            self._offsets.append(offset)
            offset += len(line) + 1
        self.final = final

    def __len__(self) -> int:
        return len(self._raw)

    def raw(self, index: int) -> bytes:
        return self._raw[index]

    def number(self, index: int) -> int:
        return self._number + index

    def offset(self, index: int) -> int:
        return self._offsets[index]


@dataclass(slots=True)
class Parsed:
    """What a whole file gave."""

    events: list[Event] = field(default_factory=list)
    event_segments: int = 0
    folded_segments: int = 0
    segments: int = 0


@cache
def _database(digest: str) -> hyperscan.Database:
    table = _TABLES[digest]
    database = hyperscan.Database()
    count = len(table.patterns)
    database.compile(
        expressions=[pattern.regex.encode() for pattern in table.patterns],
        ids=list(range(count)),
        elements=count,
        flags=[hyperscan.HS_FLAG_SINGLEMATCH] * count,
    )
    return database


_TABLES: dict[str, PatternTable] = {}


def scan(lines: Lines, table: PatternTable) -> list[tuple[int, tuple[int, ...]]]:
    """The hits of the lines, as ingest finds them in the raw bytes."""
    _TABLES[table.digest] = table
    database = _database(table.digest)
    found = []
    for index in range(len(lines)):
        ids: list[int] = []
        database.scan(lines.raw(index), match_event_handler=lambda scan_id, *_rest, ids=ids: ids.append(scan_id))
        if ids:
            found.append((index, tuple(sorted(ids))))
    return found


def file_context(kind: FileKind = FileKind.TEXT, reference_ns: int | None = REFERENCE_NS) -> FileContext:
    """A file of which nothing but its kind is known."""
    return FileContext("run/file.log", kind, FileHints(), RunHints(reference_ns))


def read(
    data: bytes, kind: FileKind = FileKind.TEXT, table: PatternTable | None = None, chunk_lines: int | None = None
) -> Parsed:
    """Parse a file, in chunks of so many lines, giving open records again as ingest does."""
    table = table or pattern_table()
    raw = data.split(b"\n")
    if raw and not raw[-1]:
        raw.pop()
    parser = FileParser(file_context(kind), table)
    parsed = Parsed(segments=sum(1 + line.removesuffix(b"\r").count(b"\r") for line in raw))
    size = chunk_lines or max(1, len(raw))
    start, end = 0, min(size, len(raw))
    while True:
        offset = sum(len(line) + 1 for line in raw[:start])
        lines = Lines(raw[start:end], number=start + 1, offset=offset, final=end == len(raw))
        result = parser.parse(lines, scan(lines, table))
        parsed.events += result.events
        parsed.event_segments += result.event_segments
        parsed.folded_segments += result.folded_segments
        if lines.final:
            return parsed
        start = end if result.resume_index is None else start + result.resume_index
        end = min(end + size, len(raw))


Reader = Callable[..., Parsed]


@pytest.fixture
def read_file() -> Reader:
    """`read(data, kind=..., table=..., chunk_lines=...)`."""
    return read


@pytest.fixture
def one_line() -> Callable[[bytes, PatternTable], tuple[Lines, list[tuple[int, tuple[int, ...]]]]]:
    """`one_line(raw, table)`: a chunk of one line, and its hits."""

    def make(raw: bytes, table: PatternTable) -> tuple[Lines, list[tuple[int, tuple[int, ...]]]]:
        lines = Lines([raw])
        return lines, scan(lines, table)

    return make


@pytest.fixture
def context() -> FileContext:
    """A text file of a run on 2025-11-30."""
    return file_context()


@pytest.fixture
def context_of() -> Callable[..., FileContext]:
    """`file_context(kind, reference_ns)`."""
    return file_context
