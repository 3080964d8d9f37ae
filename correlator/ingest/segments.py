r"""Where the lines of a chunk begin and end, and what line numbers they have.

A physical line ends at ``\n``; a ``\r`` that does not stand directly before the ``\n`` starts a further segment of
the same line. Segments are what is scanned, thinned, parsed and counted: a progress bar of a million updates is one
line, and must neither be decoded as a whole nor hide the fault that is printed at its end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

INDEX_BLOCK_BYTES = 128 * 1024
"""Newlines are looked for in blocks that stay in the processor's cache (performance.md, recommended engine 4)."""
MAX_SEGMENT_BYTES = 256 * 1024
"""Of a longer segment only the head is handed to the parsers: regexes of Python may be quadratic in its length."""
_DENSE_SHARE = 64
"""Where more than one byte in so many is marked, whole segments are tested rather than places."""
_HOLE = bytes(MAX_SEGMENT_BYTES)
_NEWLINE = 10
_RETURN = 13

Positions = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def positions_of(buffer: bytearray, length: int, byte: bytes) -> Positions:
    """Where a byte occurs in the first `length` bytes."""
    data: Bytes = np.frombuffer(buffer, dtype=np.uint8, count=length)
    value = byte[0]
    found = [
        np.flatnonzero(data[start : start + INDEX_BLOCK_BYTES] == value) + start
        for start in range(0, length, INDEX_BLOCK_BYTES)
    ]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def segments_where(mask: NDArray[np.bool_], index: SegmentIndex) -> Positions:
    """The segments that hold a marked byte, each once and ascending; marks may be everywhere at no cost in memory."""
    count = int(np.count_nonzero(mask))
    if not count or not len(index):
        return np.empty(0, dtype=np.int64)
    if count <= len(mask) // _DENSE_SHARE:
        found = np.unique(index.locate(np.flatnonzero(mask) + 1))  # a match ends behind its last byte
        return found[found < len(index)]
    inside = mask[: int(index.ends[-1])]
    starts = np.concatenate([np.zeros(1, dtype=np.int64), index.ends[:-1] + 1])
    starts = starts[starts < len(inside)]
    return np.flatnonzero(np.logical_or.reduceat(inside, starts)) if len(starts) else starts


class SegmentIndex:
    """The segments of one chunk.

    `open_end`: the chunk ends inside a line and what follows its last separator is a segment too (end of the file, or a
    line that is longer than the reader holds).
    """

    __slots__ = ("_newlines_before", "ends", "newlines")

    def __init__(self, buffer: bytearray, length: int, *, open_end: bool) -> None:
        newlines = positions_of(buffer, length, b"\n")
        ends = newlines
        self._newlines_before: Positions | None = None
        if buffer.find(b"\r", 0, length) >= 0:
            ends = np.sort(np.concatenate([newlines, _inner_returns(buffer, length)]))
        if open_end and (len(newlines) == 0 or newlines[-1] != length - 1) and length:
            ends = np.append(ends, length)
        if len(ends) != len(newlines):
            self._newlines_before = np.searchsorted(newlines, ends)
        self.newlines = newlines
        self.ends = ends

    def __len__(self) -> int:
        return len(self.ends)

    def locate(self, match_ends: Positions) -> Positions:
        """The segment in which each match ends (a match end is the offset behind its last byte)."""
        return np.searchsorted(self.ends, match_ends)

    def start(self, segment: int) -> int:
        """Offset of the segment's first byte in the chunk; of the end of the chunk for the segment behind the last."""
        return int(self.ends[segment - 1]) + 1 if segment else 0

    def lines_before(self, segment: int) -> int:
        """How many newlines stand before the segment."""
        if self._newlines_before is None:
            return segment
        return int(self._newlines_before[segment]) if segment < len(self.ends) else len(self.newlines)

    def lines_of(self, segments: Positions) -> Positions:
        """The physical line of each segment, counted from the chunk's first."""
        return segments if self._newlines_before is None else self._newlines_before[segments]


def _inner_returns(buffer: bytearray, length: int) -> Positions:
    r"""Carriage returns that are not part of a ``\r\n``."""
    data: Bytes = np.frombuffer(buffer, dtype=np.uint8, count=length)
    returns = positions_of(buffer, length, b"\r")
    following = returns + 1
    inside = following < length
    before_newline = np.zeros(len(returns), dtype=np.bool_)
    before_newline[inside] = data[following[inside]] == _NEWLINE
    return returns[~before_newline]


def segment_head(buffer: bytearray, start: int, end: int) -> bytes:
    """The bytes from `start` to `end`; of more than MAX_SEGMENT_BYTES the first that are no NUL.

    A node that crashes leaves holes of many MB in its logs, and the next line is printed right behind one.
    """
    view = memoryview(buffer)
    if end - start <= MAX_SEGMENT_BYTES:
        return bytes(view[start:end])
    parts: list[bytes] = []
    wanted = MAX_SEGMENT_BYTES
    for position in range(start, end, MAX_SEGMENT_BYTES):
        part = bytes(view[position : min(position + MAX_SEGMENT_BYTES, end)])
        if part == _HOLE:  # many times faster than to delete them
            continue
        parts.append(part.translate(None, b"\0")[:wanted])
        wanted -= len(parts[-1])
        if not wanted:
            break
    return b"".join(parts)


class ChunkSegments:
    """The `ChunkLines` that a parser sees: segments of the chunk from `first` on."""

    __slots__ = ("_buffer", "_first", "_index", "_line_base", "_offset_base", "final")

    def __init__(
        self, buffer: bytearray, index: SegmentIndex, *, offset: int, line_number: int, final: bool, first: int = 0
    ) -> None:
        """`offset` and `line_number` (1-based) are those of the chunk's first byte in the file."""
        self._buffer = buffer
        self._index = index
        self._offset_base = offset
        self._line_base = line_number
        self._first = first
        self.final = final

    def __len__(self) -> int:
        return len(self._index) - self._first

    def raw(self, index: int) -> bytes:
        """The segment's bytes without its line end; of a longer one what `segment_head` leaves."""
        segment = self._checked(index)
        start = self._index.start(segment)
        end = int(self._index.ends[segment])
        if end > start and self._buffer[end - 1] == _RETURN and self._buffer[end : end + 1] == b"\n":
            end -= 1
        return segment_head(self._buffer, start, end)

    def number(self, index: int) -> int:
        """1-based number of the physical line."""
        return self._line_base + self._index.lines_before(self._checked(index))

    def offset(self, index: int) -> int:
        """Byte offset of the segment in the decompressed file."""
        return self._offset_base + self._index.start(self._checked(index))

    def _checked(self, index: int) -> int:
        if not 0 <= index < len(self):
            msg = f"segment {index} of {len(self)}"
            raise IndexError(msg)
        return index + self._first
