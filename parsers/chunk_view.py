"""A chunk's lines as stitchers and patterns see them: peeled on demand, matched once, without what is folded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from correlator.parsers.base import Anchor, FileContext, Layer, Line, LinePattern, Prefix
from correlator.parsers.partial_lines import Joined
from correlator.parsers.peel import embedded_start, peel, segments
from correlator.parsers.peel.state import CARRIERS, COLLECTORS
from correlator.parsers.table import CATALOGUE, UNCLASSIFIED_PRIORITY, PatternTable

C10D_RECORD = "c10d_block"
EXCEPTION_RECORD = "exception_text"
_RAISED = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception)(?:\([\w.]{1,80}\))?: ")
_LOOKAHEAD_BYTES = 4 << 20
_LOOKAHEAD_LINES = 20_000
_CACHE_LINES = 16_384
_MANY_SEGMENTS = 256
_KEPT_TAIL = 16
_MAX_INNER_LINES = 2_000
_MATCHED_CHARACTERS = 1 << 14
"""Of a message, matched by patterns: a search may take the square of the length."""
_OVERLAP = 512
_MAX_SEGMENT_BYTES = 1 << 18
"""No log line that means something is longer; what follows in the segment is not looked at."""


class ChunkLines(Protocol):
    """The physical lines of a chunk, as ingest holds them."""

    @property
    def final(self) -> bool:
        """Whether the file ends with this chunk."""
        ...

    def __len__(self) -> int: ...

    def raw(self, index: int) -> bytes:
        """A line without its newline; it may hold carriage returns."""
        ...

    def number(self, index: int) -> int:
        """1-based number in the file."""
        ...

    def offset(self, index: int) -> int:
        """Byte offset in the decompressed file."""
        ...


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """The pattern that recognises a segment, and the kind of record that begins there ("" for none)."""

    scan_id: int
    pattern: LinePattern
    match: re.Match[str]
    record: str


class ChunkView:
    """Lines by index, matches by segment, records ahead. A segment is known by its byte offset."""

    def __init__(
        self,
        lines: ChunkLines,
        hits: Sequence[tuple[int, tuple[int, ...]]],
        table: PatternTable,
        context: FileContext,
        done: frozenset[int] = frozenset(),
        joined: Mapping[int, Joined] | None = None,
    ) -> None:
        self.lines = lines
        self.joined = joined or {}
        """Lines that a container runtime cut up, by the index of their first piece."""
        self._later = {index for line in self.joined.values() for index in line.pieces[1:]}
        self.folded: set[int] = set(done)
        self.exhausted = False
        self._table = table
        self._context = context
        self._ids = dict(hits)
        self._cache: dict[int, tuple[Line, ...]] = {}
        self._matches: dict[int, PatternMatch | None] = {}
        self._index: dict[int, int] = {}
        self._owner: dict[int, int] = {}

    def segments(self, index: int) -> tuple[Line, ...]:
        """The segments of a line, peeled; a torn-in message of another writer is one of its own (formats.md R6)."""
        found = self._cache.get(index)
        if found is None:
            if len(self._cache) >= _CACHE_LINES:
                self._cache.clear()
            found = self._cache[index] = tuple(self._peel_line(index))
        return found

    def over(self, lines: ChunkLines) -> ChunkView:
        """Other lines of the same file, in which nothing is looked for."""
        return ChunkView(lines, (), self._table, self._context)

    def owner(self, offset: int) -> int:
        """The offset of the physical segment that a segment lies in (itself, unless it is torn in)."""
        return self._owner.get(offset, offset)

    def index_of(self, line: Line) -> int:
        """The index in the chunk of a line that came from here."""
        return self._index[line.byte_offset]

    def best(self, line: Line) -> PatternMatch | None:
        """The pattern of highest priority that recognises a segment, or None."""
        offset = line.byte_offset
        if offset not in self._matches:
            self._matches[offset] = self._match(line, self._ids.get(self._index[offset], ()))
        return self._matches[offset]

    def begins(self, line: Line) -> str | None:
        """The record that a recognised segment begins ("" for none); None where nothing knows what it means."""
        found = self.best(line)
        return None if found is None or found.pattern.priority == UNCLASSIFIED_PRIORITY else found.record

    def after(self, head: Line) -> Iterator[Line]:
        """The segments behind a head that no record has taken, up to the bounds of a look-ahead."""
        self.exhausted = False
        index = self._index[head.byte_offset]
        budget = self.lines.offset(index) + _LOOKAHEAD_BYTES
        last = min(len(self.lines), index + _LOOKAHEAD_LINES)
        for position in range(index, last):
            if self.lines.offset(position) > budget:
                return
            for line in self.segments(position):
                if line.byte_offset > head.byte_offset and line.byte_offset not in self.folded:
                    yield line
        self.exhausted = last == len(self.lines) and not self.lines.final

    def pieces(self, line: Line) -> Iterator[int]:
        """The offsets of the further pieces of a line that was cut up."""
        joined = self.joined.get(self._index[line.byte_offset])
        if joined is not None:
            yield from map(self.lines.offset, joined.pieces[1:])

    def _peel_line(self, index: int) -> Iterator[Line]:
        base, number = self.lines.offset(index), self.lines.number(index)
        if index in self._later:
            return
        raw = self.lines.raw(index)
        if index in self.joined:
            yield from self._split(self.joined[index].text, base, number, index, raw)
            return
        pieces = segments(raw, _MAX_SEGMENT_BYTES)
        if len(pieces) > _MANY_SEGMENTS:
            pieces = self._relevant(pieces, self._ids.get(index, ()))
        for offset, text in pieces:
            yield from self._split(text, base + offset, number, index, raw)

    def _relevant(self, pieces: list[tuple[int, str]], ids: tuple[int, ...]) -> list[tuple[int, str]]:
        """Of a line of very many segments (a history of bars): those that can be recognised, and the last ones."""
        regexes = [self._table.compiled[scan_id] for scan_id in ids]
        head = [piece for piece in pieces[:-_KEPT_TAIL] if any(regex.search(piece[1]) for regex in regexes)]
        return head + pieces[-_KEPT_TAIL:]

    def _split(self, text: str, offset: int, number: int, index: int, raw: bytes) -> Iterator[Line]:
        owner, base = offset, self.lines.offset(index)
        first: Prefix | None = None
        while True:
            prefix, message = peel(text, self._context)
            prefix = prefix if first is None else _carried(prefix, first)
            first = first or prefix
            cut = embedded_start(message)
            head = message if cut is None else message[:cut]
            shown = text if cut is None else text.removesuffix(message[cut:])
            for place_in_text, part in enumerate(head.split("\n", _MAX_INNER_LINES)):
                # A JSON text may hold a whole traceback; its lines have the object's prefix and places inside it.
                self._index[offset + place_in_text], self._owner[offset + place_in_text] = index, owner
                yield Line(part, prefix, number, offset + place_in_text, shown if not place_in_text else part)
            if cut is None:
                return
            text = message[cut:]
            place = raw.find(text[:24].encode(), offset - base + 1)
            offset = base + place if place > 0 else offset + 1

    def _match(self, line: Line, ids: tuple[int, ...]) -> PatternMatch | None:
        best: tuple[int, re.Match[str]] | None = None
        record = ""
        for scan_id in sorted(ids, key=lambda scan_id: (-self._table.patterns[scan_id].priority, scan_id)):
            match = self._fits(line, scan_id)
            if match is None:
                continue
            best = best or (scan_id, match)
            record = record or self._table.patterns[scan_id].record or ""
        if best is None:
            return None
        if not record and Layer.C10D in line.prefix.layers:
            record = C10D_RECORD  # any of its lines may have a C++ stack behind it
        elif not record and self._table.dialect_of[best[0]] == CATALOGUE and _RAISED.match(line.message):
            record = EXCEPTION_RECORD  # its message may go on, though the head of the traceback is lost
        return PatternMatch(best[0], self._table.patterns[best[0]], best[1], record)

    def _fits(self, line: Line, scan_id: int) -> re.Match[str] | None:
        pattern = self._table.patterns[scan_id]
        if pattern.kinds and self._context.kind not in pattern.kinds:
            return None
        if pattern.requires and pattern.requires.isdisjoint(line.prefix.layers):
            return None
        if self._table.stacks[scan_id] is not None:
            return None  # only a traceback can show where it was raised
        regex = self._table.compiled[scan_id]
        if pattern.anchor is Anchor.START:
            return regex.match(line.message, 0, _MATCHED_CHARACTERS)
        text = line.text if pattern.anchor is Anchor.LINE else line.message
        for start in range(0, max(len(text), 1), _MATCHED_CHARACTERS):
            if match := regex.search(text, max(start - _OVERLAP, 0), start + _MATCHED_CHARACTERS):
                return match
            if self._index[line.byte_offset] not in self.joined:
                break
        return None


def _carried(prefix: Prefix, first: Prefix) -> Prefix:
    """The prefix of text that was torn into a line: what runtime, host or launcher put before the line holds for it too."""
    if CARRIERS.isdisjoint(first.layers):
        return prefix
    stamp, own = prefix.stamp, prefix.outer_stamp
    if first.layers[0] in COLLECTORS and first.stamp is not None:
        stamp, own = first.stamp, prefix.stamp
    tagged = Layer.MPI_TAG in prefix.layers
    return replace(
        prefix,
        stamp=stamp,
        outer_stamp=own,
        task_id=prefix.task_id if prefix.task_id is not None or tagged else first.task_id,
        host=prefix.host or first.host,
        pod=prefix.pod or first.pod,
        ip=prefix.ip or first.ip,
        stream=prefix.stream or first.stream,
    )
