"""One file from its bytes to events and an account; nothing that a file holds or that happens to it raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from correlator.core.event import Event
from correlator.core.files import Compression, FileReport, LogFile, RunHints, Skipped
from correlator.core.vocabulary import FileKind
from correlator.ingest.account import Account
from correlator.ingest.columns import ColumnBuilder
from correlator.ingest.engines import Engine, Patterns
from correlator.ingest.matches import find_matches
from correlator.ingest.reader import Chunk, ChunkReader, Limits, Readable
from correlator.ingest.segments import ChunkSegments, SegmentIndex
from correlator.ingest.selection import Selection, Selector
from correlator.parsers.base import FileContext

GROWTH_BYTES = 64 * 1024 * 1024
"""How far beyond the size it was found with a file is read, so that a live log cannot be followed for ever."""
_STAMP_LINES = 64

Hits = Sequence[tuple[int, tuple[int, ...]]]


class Result(Protocol):
    """What a parser says of a chunk (`parsers.interpret.ChunkResult`)."""

    @property
    def events(self) -> list[Event]:
        """The events that are complete."""

    @property
    def event_segments(self) -> int:
        """Segments that became (the head of) an event."""

    @property
    def folded_segments(self) -> int:
        """Further segments that belong to a record."""

    @property
    def resume_index(self) -> int | None:
        """Segments from here on must be given again, in front of the next chunk."""


class LineParser(Protocol):
    """The parser of one file (`parsers.interpret.FileParser`)."""

    def parse(self, lines: ChunkSegments, hits: Hits) -> Result:
        """The events of a chunk."""


Stream = AbstractContextManager[Readable]
WholeFile = Mapping[FileKind, Callable[[bytes, FileContext], list[Event]]]


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Everything that gives bytes a meaning."""

    table: Patterns
    make_parser: Callable[[FileContext], LineParser]
    whole_file: WholeFile
    stamp_of: Callable[[bytes, FileContext], int | None] | None = None
    """The time that is printed on a line."""


@dataclass(slots=True)
class FileOutcome:
    """A file that was read, as far as it could be."""

    report: FileReport | None = None
    skipped: list[Skipped] = field(default_factory=list)


class FileReader:
    """Reads files one after the other with the same buffer and engine."""

    def __init__(
        self,
        interpreter: Interpreter,
        engine: Engine,
        hints: RunHints,
        open_file: Callable[[LogFile], Stream],
        limits: Limits | None = None,
        selector: Selector | None = None,
    ) -> None:
        self._limits = limits or Limits()
        self._interpreter = interpreter
        self._engine = engine
        self._hints = hints
        self._open_file = open_file
        self._reader = ChunkReader(self._limits)
        self._selector = selector or Selector(interpreter.table.patterns)

    def read(
        self, file: LogFile, file_index: int, builder: ColumnBuilder, advance: Callable[[int], None]
    ) -> FileOutcome:
        """Read a file: its events go to the builder, everything else into the outcome."""
        outcome = FileOutcome()
        meter = _Meter(file, advance)
        try:
            if file.kind in self._interpreter.whole_file and self._read_whole(file, file_index, builder, outcome):
                return outcome
            reading = _Reading(file, file_index, builder, outcome, self._context(file), meter)
            with self._open_file(file) as stream:
                self._read_lines(reading, stream)
                _conclude(reading, self._reader, stream)
        except Exception as error:  # noqa: BLE001  (whatever a file does to us, it is one row of `skipped`)
            outcome.skipped.append(Skipped(file.path, f"cannot be read: {_reason(error)}"))
        finally:
            meter.finish()
        return outcome

    def _context(self, file: LogFile) -> FileContext:
        return FileContext(file.path, file.kind, file.hints, self._hints, modified_ns=file.modified_ns)

    def _read_lines(self, reading: _Reading, stream: Readable) -> None:
        file, reader = reading.file, self._reader
        known = file.size_bytes > 0 and file.compression is Compression.NONE
        reader.open(stream, file.size_bytes + GROWTH_BYTES if known else None)
        self._selector.reset(file.kind)
        parser = self._interpreter.make_parser(reading.context)
        while (chunk := reader.next_chunk()) is not None:
            if chunk.forced:
                reading.account.note(f"a line longer than {self._limits.line_bytes} bytes was cut")
            index = SegmentIndex(reader.buffer, chunk.length, open_end=chunk.final or chunk.forced)
            selector = self._selector
            matches = find_matches(self._engine, reader.buffer, chunk.length, index, selector.dense, selector.now)
            selection = selector.select(matches, final=chunk.final)
            done = self._parse(reading, parser, chunk, index, selection)
            consumed = min(index.start(done), chunk.length)
            self._settle(reading, index, selection, done, consumed)
            reader.consume(consumed, chunk)
            reading.meter.at(reader.bytes_read)

    def _parse(
        self, reading: _Reading, parser: LineParser, chunk: Chunk, index: SegmentIndex, selection: Selection
    ) -> int:
        """Parse a chunk; returns how many of its segments are done with."""
        lines = self._lines(reading, index, final=chunk.final)
        resume = self._parse_lines(reading, parser, lines, selection.hits)
        if resume is None or chunk.final or not 0 <= resume < len(index):
            return len(index)
        if chunk.length - index.start(resume) <= self._limits.record_bytes:
            return resume
        reading.account.note(f"a record longer than {self._limits.record_bytes} bytes was closed early")
        rest = [(segment - resume, ids) for segment, ids in selection.hits if segment >= resume]
        self._parse_lines(reading, parser, self._lines(reading, index, final=True, first=resume), rest)
        return len(index)

    def _lines(self, reading: _Reading, index: SegmentIndex, *, final: bool, first: int = 0) -> ChunkSegments:
        return ChunkSegments(
            self._reader.buffer,
            index,
            offset=self._reader.offset,
            line_number=reading.account.newlines + 1,
            final=final,
            first=first,
        )

    def _parse_lines(self, reading: _Reading, parser: LineParser, lines: ChunkSegments, hits: Hits) -> int | None:
        """Hand segments to the parser and take in what it makes of them."""
        account = reading.account
        try:
            result = parser.parse(lines, hits)
        except Exception as error:  # noqa: BLE001  (a bug of a parser must cost one chunk, not the file)
            place = f"lines {lines.number(0)}-{lines.number(len(lines) - 1)}" if len(lines) else "its end"
            reading.outcome.skipped.append(Skipped(reading.file.path, f"{place} could not be parsed: {_reason(error)}"))
            return None
        reading.add(result.events)
        account.events += result.event_segments
        account.folded += result.folded_segments
        return result.resume_index

    def _settle(self, reading: _Reading, index: SegmentIndex, selection: Selection, done: int, consumed: int) -> None:
        """Count the segments that are done with."""
        self._see_stamps(reading, index, done)
        reading.account.thinned += self._selector.consumed(selection, done)
        reading.account.take(self._reader.buffer, consumed, index, done)

    def _see_stamps(self, reading: _Reading, index: SegmentIndex, done: int) -> None:
        """Widen the file's span to the first and the last stamp of a chunk, events or not."""
        stamp_of = self._interpreter.stamp_of
        if stamp_of is None:
            return
        lines = self._lines(reading, index, final=False)
        for segments in (range(min(done, _STAMP_LINES)), range(done - 1, max(done - 1 - _STAMP_LINES, -1), -1)):
            found = (stamp_of(lines.raw(segment), reading.context) for segment in segments)
            reading.account.see_time(next((time for time in found if time is not None), None))

    def _read_whole(self, file: LogFile, file_index: int, builder: ColumnBuilder, outcome: FileOutcome) -> bool:
        """Read a file that is one document. False: it is text in which nothing was found; its lines may still speak."""
        limit = self._limits.whole_file_bytes
        context = self._context(file)
        reading = _Reading(file, file_index, builder, outcome, context, _Meter(file, lambda _: None))
        with self._open_file(file) as stream:
            self._reader.open(stream, limit)
            data = self._reader.read_all()
            try:
                events = self._interpreter.whole_file[file.kind](data, context)
            except Exception as error:  # noqa: BLE001  (untrusted input, and a dump may be damaged anywhere)
                events = []
                outcome.skipped.append(Skipped(file.path, f"could not be parsed: {_reason(error)}"))
            binary = data.startswith(b"\x80") or b"\0" in data[:4096]
            if not events and not binary:
                return False
            reading.add(events)
            reading.account.count_whole(data, len(events), binary=binary)
            _conclude(reading, self._reader, stream)
        return True


@dataclass(slots=True)
class _Reading:
    """A file while it is read."""

    file: LogFile
    file_index: int
    builder: ColumnBuilder
    outcome: FileOutcome
    context: FileContext
    meter: _Meter
    account: Account = field(default_factory=Account)

    def add(self, events: list[Event]) -> None:
        """Take in the events of a chunk."""
        events.sort(key=lambda event: (event.line_number, event.byte_offset))
        self.builder.add(events, self.file, self.file_index)
        self.account.see_times(events)


class _Meter:
    """Progress in bytes on disk: a packed file counts when it is done."""

    def __init__(self, file: LogFile, advance: Callable[[int], None]) -> None:
        self._advance = advance
        self._size = file.size_bytes
        self._live = file.compression is Compression.NONE
        self._told = 0

    def at(self, position: int) -> None:
        """So many bytes were read of the stream."""
        if self._live:
            self._tell(min(position, self._size))

    def finish(self) -> None:
        """The file is done with, read or not."""
        self._tell(self._size)

    def _tell(self, position: int) -> None:
        if position > self._told:
            self._advance(position - self._told)
            self._told = position


def _conclude(reading: _Reading, reader: ChunkReader, stream: Readable) -> None:
    """Write the file's report, and a row for what is missing of it."""
    file, account = reading.file, reading.account
    account.bytes_read = reader.bytes_read
    broken = reader.failure or getattr(stream, "cut_off", None)
    if broken is not None:
        reading.outcome.skipped.append(Skipped(file.path, f"{broken}; read up to byte {reader.bytes_read}"))
    elif reader.limit_reached:
        reading.outcome.skipped.append(Skipped(file.path, f"longer than expected; read up to byte {reader.bytes_read}"))
    elif getattr(stream, "transcoded", False):
        account.note("UTF-16; offsets are those of the same text in UTF-8")
    elif file.compression is Compression.NONE and file.size_bytes and reader.bytes_read != file.size_bytes:
        change = "grew" if reader.bytes_read > file.size_bytes else "shrank"
        account.note(f"{change} while it was read, from {file.size_bytes} to {reader.bytes_read} bytes")
    cut_off = account.open_line or broken is not None or reader.limit_reached
    reading.outcome.report = account.report(file, cut_off=cut_off)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"{type(error).__name__}: {error}".strip().rstrip(":")
