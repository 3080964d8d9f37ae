"""Every line of a file with its time and its writer: peeled like the lines that mean something, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from correlator.all_lines.rows import LineRows
from correlator.all_lines.who import FileWriter, Known
from correlator.core.files import Compression, LogFile, RunHints
from correlator.core.vocabulary import FileKind, TimeSource
from correlator.ingest.filereader import GROWTH_BYTES
from correlator.ingest.reader import ChunkReader, Limits
from correlator.ingest.segments import ChunkSegments, SegmentIndex
from correlator.parsers.base import FileContext, Prefix, Stamp
from correlator.parsers.peel import peel, segments
from correlator.parsers.timestamps_discovery import discover
from correlator.sources import open_stream

CHUNK_BYTES = 1 << 20
RUN_ROWS = 100_000
"""Rows that are held, sorted and spilled together."""
DOCUMENTS = frozenset({FileKind.FLIGHT_RECORDER, FileKind.ERROR_FILE})
"""Files that are one document and have no lines of their own; their events stand for them."""

_LOOK_AHEAD = 400
"""Lines at the head of a file that take the first time below them (as events do)."""
_DISCOVERY_LINES = 60
_CLOCK_SET = b"setting system clock to"
_ONE_WRITER = frozenset({FileKind.RANK_LOG, FileKind.NCCL_DEBUG_LOG, FileKind.KERNEL_LOG, FileKind.STACK_DUMP})
_NS_LIMIT = 1 << 63

Spill = Callable[[LineRows], None]


class LineReader:
    """Reads files one after the other into `rows`, and calls `spill` when they are many."""

    def __init__(self, known: Known, hints: RunHints, spill: Spill, *, by_host: bool) -> None:
        self.rows = LineRows(known, by_host=by_host)
        self._hints = hints
        self._spill = spill
        self._reader = ChunkReader(Limits(chunk_bytes=CHUNK_BYTES))

    def read(self, file: LogFile, index: int, writer: FileWriter) -> str | None:
        """Read a file. Returns why it, or the rest of it, could not be read; None where all is well."""
        if file.kind in DOCUMENTS:
            return None
        context = FileContext(file.path, file.kind, file.hints, self._hints, modified_ns=file.modified_ns)
        try:
            with open_stream(file) as stream:
                packed = file.compression is not Compression.NONE
                self._reader.open(stream, None if packed else file.size_bytes + GROWTH_BYTES)
                self._read(file, index, writer, context)
                return self._reader.failure or stream.cut_off
        except OSError as error:
            return error.strerror or str(error)

    def finish(self) -> None:
        """Spill what is left."""
        if len(self.rows):
            self._spill(self.rows)

    def _read(self, file: LogFile, index: int, writer: FileWriter, context: FileContext) -> None:
        clock = _LineClock(self.rows, merged=file.kind not in _ONE_WRITER)
        for number, offset, raw in self._lines(context):
            _, text = segments(raw)[-1]
            prefix, _ = peel(text, context)
            self.rows.add(file, index, writer, prefix, text, number, offset)
            clock.tell(prefix)
            if len(self.rows) >= RUN_ROWS:
                self._spill(self.rows)
                clock.forget_rows()

    def _lines(self, context: FileContext) -> Iterator[tuple[int, int, bytes]]:
        """(line number, byte offset, bytes) of each segment."""
        reader, newlines = self._reader, 0
        while (chunk := reader.next_chunk()) is not None:
            index = SegmentIndex(reader.buffer, chunk.length, open_end=chunk.final or chunk.forced)
            lines = ChunkSegments(
                reader.buffer, index, offset=reader.offset, line_number=newlines + 1, final=chunk.final
            )
            if reader.offset == 0:
                _learn(lines, context)
            for number in range(len(lines)):
                yield lines.number(number), lines.offset(number), lines.raw(number)
            newlines += len(index.newlines)
            reader.consume(min(index.start(len(index)), chunk.length), chunk)


class _LineClock:
    """Gives rows their times: their own stamp, or the last one of the same writer (formats.md R1)."""

    def __init__(self, rows: LineRows, *, merged: bool) -> None:
        self._rows = rows
        self._merged = merged
        self._of_writer: dict[tuple[int | None, int | None, int | None], Stamp] = {}
        self._last: Stamp | None = None
        self._waiting = 0

    def tell(self, prefix: Prefix) -> None:
        """Set the time of the row that was added last."""
        stamp = prefix.stamp
        writer = (prefix.task_id, prefix.local_rank, prefix.rank)
        if stamp is not None and stamp.ns is not None and -_NS_LIMIT <= stamp.ns < _NS_LIMIT:
            if self._last is None:
                for row in range(-1 - self._waiting, -1):
                    self._rows.set_time(row, stamp, TimeSource.INHERITED)
            self._last = self._of_writer[writer] = stamp
            if prefix.rank is not None:  # lines of the same writer may name its task or local rank alone
                self._of_writer[prefix.task_id, prefix.local_rank, None] = stamp
            self._rows.set_time(-1, stamp, TimeSource.EXPLICIT)
            return
        known = self._last
        if self._merged and writer != (None, None, None):
            known = self._of_writer.get(writer, known)
        if known is not None:
            self._rows.set_time(-1, known, TimeSource.INHERITED)
        else:
            self._waiting = min(self._waiting + 1, _LOOK_AHEAD)

    def forget_rows(self) -> None:
        """The rows so far are gone; they keep what they have."""
        self._waiting = 0


def _learn(lines: ChunkSegments, context: FileContext) -> None:
    """What the first chunk says about all times of the file: the boot anchor of a kernel log, an unknown layout."""
    if context.kind is FileKind.KERNEL_LOG:
        anchor = next((raw for raw in map(lines.raw, range(len(lines))) if _CLOCK_SET in raw), None)
        if anchor is not None:
            for _, text in segments(anchor)[-1:]:
                peel(text, context)
    heads = [segments(lines.raw(index))[-1][1] for index in range(min(len(lines), _DISCOVERY_LINES))]
    context.layout = discover(heads, context)
