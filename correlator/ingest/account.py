"""The account of one file while it is read: what its segments became, and which of its bytes had to be repaired."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from correlator.core.event import Event
from correlator.core.files import FileReport, LogFile
from correlator.ingest.segments import INDEX_BLOCK_BYTES, SegmentIndex, segments_where

_HIGH = 0x80


@dataclass(slots=True)
class Account:
    """Running sums of one file; `report` closes them."""

    bytes_read: int = 0
    segments: int = 0
    newlines: int = 0
    events: int = 0
    folded: int = 0
    thinned: int = 0
    repaired: int = 0
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    open_line: bool = False
    """The bytes so far do not end with a newline."""
    open_line_repaired: bool = False
    """The line that they end in was counted as repaired already."""
    notes: list[str] = field(default_factory=list)

    def see_times(self, events: Iterable[Event]) -> None:
        """Widen the file's span to the times of these events."""
        for event in events:
            self.see_time(event.timestamp_ns)

    def see_time(self, time_ns: int | None) -> None:
        """Widen the file's span to this time."""
        if time_ns is None:
            return
        self.first_time_ns = time_ns if self.first_time_ns is None else min(self.first_time_ns, time_ns)
        self.last_time_ns = time_ns if self.last_time_ns is None else max(self.last_time_ns, time_ns)

    def note(self, text: str) -> None:
        """Remember something a person should know of this file, once."""
        if text not in self.notes:
            self.notes.append(text)

    def take(self, buffer: bytearray, length: int, index: SegmentIndex, segments: int) -> None:
        """Count the first `segments` of a chunk, which are its first `length` bytes, as read."""
        lines = index.lines_before(segments)
        bad = repaired_lines(buffer, length, index)
        again = self.open_line_repaired and bool(bad) and bad[0] == 0
        self.repaired += len(bad) - again
        self.open_line_repaired = bad[-1:] == [lines] or (self.open_line_repaired and not lines)
        self.segments += segments
        self.newlines += lines
        if length:
            self.open_line = buffer[length - 1 : length] != b"\n"

    def count_whole(self, data: bytes, events: int, *, binary: bool) -> None:
        """Count a file that was parsed as one document; the lines of a binary one mean nothing."""
        if binary:
            return
        self.newlines = data.count(b"\n")
        self.open_line = bool(data) and not data.endswith(b"\n")
        self.segments = self.newlines + self.open_line + data.count(b"\r") - data.count(b"\r\n")
        self.events = min(events, self.segments)
        self.folded = self.segments - self.events if events else 0

    def report(self, file: LogFile, *, cut_off: bool) -> FileReport:
        """The file's report; its sums agree even where a thinned line lay inside a record and was counted with it."""
        lines = self.newlines + self.open_line
        events = min(self.events, self.segments)
        folded = min(self.folded, self.segments - events)
        thinned = min(self.thinned, self.segments - events - folded)
        return FileReport(
            path=file.path,
            kind=file.kind,
            node=file.hints.node,
            rank=file.hints.rank,
            bytes_read=self.bytes_read,
            lines=lines,
            cr_splits=self.segments - lines,
            events=events,
            folded=folded,
            thinned=thinned,
            plain=self.segments - events - folded - thinned,
            repaired=self.repaired,
            first_time_ns=self.first_time_ns,
            last_time_ns=self.last_time_ns,
            cut_off=cut_off,
            note="; ".join(self.notes) or None,
        )


def repaired_lines(buffer: bytearray, length: int, index: SegmentIndex) -> list[int]:
    """The lines of the first `length` bytes that hold a NUL or are not UTF-8, counted from the chunk's first."""
    data = np.frombuffer(buffer, dtype=np.uint8, count=length)
    bad: set[int] = set()
    if buffer.find(b"\0", 0, length) >= 0:
        bad.update(segments_where(data == 0, index).tolist())
    if length and int(data.max()) >= _HIGH and not _is_utf8(buffer, length):
        for segment in segments_where(data >= _HIGH, index).tolist():
            if segment not in bad and not _is_utf8(buffer, int(index.ends[segment]), index.start(segment)):
                bad.add(segment)
    lines: list[int] = np.unique(index.lines_of(np.array(sorted(bad), dtype=np.int64))).tolist()
    return lines


def _is_utf8(buffer: bytearray, stop: int, start: int = 0) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    view = memoryview(buffer)
    try:
        for position in range(start, stop, INDEX_BLOCK_BYTES):
            decoder.decode(view[position : min(position + INDEX_BLOCK_BYTES, stop)])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
