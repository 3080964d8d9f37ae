"""From the hit lines of a file to its events: what ingest calls. A `FileParser` reads one file, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from correlator.core.event import Event
from correlator.core.vocabulary import FileKind
from correlator.parsers.base import FileContext, Hit, Line, Record
from correlator.parsers.chunk_view import ChunkLines, ChunkView, PatternMatch
from correlator.parsers.classify import FALLBACK
from correlator.parsers.event_factory import default_event
from correlator.parsers.partial_lines import join_partial
from correlator.parsers.peel import peel, segments
from correlator.parsers.records import STITCHERS
from correlator.parsers.records.citing import cited
from correlator.parsers.records.launcher import classified_rows, speaks_of_ray, with_ray_facts
from correlator.parsers.table import CATALOGUE, UNCLASSIFIED_PRIORITY, PatternTable
from correlator.parsers.templates import with_template
from correlator.parsers.time_keeper import LineTime, TimeKeeper
from correlator.parsers.timestamps_discovery import discover

__all__ = ["ChunkLines", "ChunkResult", "FileParser", "stamp_of"]

_CLOCK_SET = b"setting system clock to"
_DISCOVERY_LINES = 60
NOTE = "parser_note"
"""Attribute that says what went wrong in making an event."""


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What a chunk held, in segments."""

    events: list[Event]
    event_segments: int
    """Segments that became (the head of) an event."""
    folded_segments: int
    """Further segments that belong to a record."""
    resume_index: int | None
    """Lines from here on must be given again, in front of the next chunk: a record is open. None = all consumed."""


def stamp_of(raw: bytes, context: FileContext) -> int | None:
    """The last time printed in the prefixes of a physical line, ns since the epoch; None where it has none."""
    for _, text in reversed(segments(raw)[-8:]):
        prefix, _ = peel(text, context)
        if prefix.stamp is not None and prefix.stamp.ns is not None:
            return prefix.stamp.ns
    return None


class FileParser:
    """Parses one file. It keeps what a later chunk needs: last times, the boot anchor, what is already folded."""

    def __init__(self, context: FileContext, table: PatternTable) -> None:
        self._context = context
        self._table = table
        self._times = TimeKeeper(context)
        self._done: frozenset[int] = frozenset()
        self._tally: _Tally | None = None
        self._learned = False

    @property
    def taken(self) -> frozenset[int]:
        """Byte offsets of the last chunk's segments that are events or parts of one."""
        return frozenset(self._tally.heads | self._tally.folded) if self._tally is not None else frozenset()

    def parse(self, lines: ChunkLines, hits: Sequence[tuple[int, tuple[int, ...]]]) -> ChunkResult:
        """The events of a chunk.

        Args:
            lines: the physical lines; those that `resume_index` asked for come first.
            hits: (line index, scan ids of the patterns that hit), ascending.
        """
        if hits and not self._learned:
            self._learned = True
            self._learn(lines)
        hits, joined = join_partial(lines, hits, self._table)
        view = ChunkView(lines, hits, self._table, self._context, self._done, joined)
        self._times.begin_chunk(view)
        tally = self._tally = _Tally(view, self._done)
        resume = self._walk(view, hits, tally)
        self._done = tally.carried(lines.offset(resume)) if resume is not None else frozenset()
        if not lines.final:
            self._times.end_chunk(view, len(lines) if resume is None else resume)
        return ChunkResult(tally.events, len(tally.heads), len(tally.folded - tally.heads), resume)

    def _walk(self, view: ChunkView, hits: Sequence[tuple[int, tuple[int, ...]]], tally: _Tally) -> int | None:
        """Recognise segment by segment; the index of the line whose record is open, or None."""
        for index, _ in hits:
            if index in view.joined and not view.joined[index].complete:
                return index
            for line in view.segments(index):
                if line.byte_offset in view.folded:
                    continue
                found = view.best(line)
                if found is None:
                    continue
                record = self._record(view, line, found)
                if record is not None and not record.complete:
                    return index
                self._take(view, line, found, record, tally)
        return None

    def _record(self, view: ChunkView, line: Line, found: PatternMatch) -> Record | None:
        stitcher = STITCHERS.get(found.record)
        return stitcher.collect(line, view) if stitcher is not None else None

    def _take(self, view: ChunkView, line: Line, found: PatternMatch, record: Record | None, tally: _Tally) -> None:
        """Turn a recognised segment and its record into events, and account for all of their segments."""
        events = self._events(view, line, found, record)
        extra: list[Event] = []
        if record is not None and record.kind == "traceback":
            events, extra = self._spoken_inside(view, record, events)
        events = [cited(event, record) for event in events]
        if events or extra:
            tally.take(line, record, [with_template(event) for event in (*events, *extra)])
        else:
            view.folded.add(line.byte_offset)

    def _events(self, view: ChunkView, line: Line, found: PatternMatch, record: Record | None) -> list[Event]:
        hit = self._hit(view, line, found, record)
        stitcher = STITCHERS.get(found.record)
        build: Callable[[Hit], Iterable[Event]] | None = found.pattern.build
        if build is None and record is not None and stitcher is not None and stitcher.describe is not None:
            build = partial(_described, stitcher.describe, self._table)
        if build is None:
            return [hit.make()]
        try:
            events = list(build(hit))
            if found.record == "child_failed":
                return list(classified_rows(events, self._table))
            return list(with_ray_facts(events, record)) if record is not None and speaks_of_ray(record) else events
        except Exception as error:  # noqa: BLE001 - a broken builder must not end the run; the line is kept and says so
            return [hit.make(attributes=((NOTE, f"{type(error).__name__} in the builder of {found.pattern.id}"),))]

    def _hit(self, view: ChunkView, line: Line, found: PatternMatch, record: Record | None) -> Hit:
        time = self._times.time_of(view, line)
        dialect = self._table.dialect_of[found.scan_id]
        return Hit(
            pattern=found.pattern,
            dialect=dialect,
            line=line,
            match=found.match,
            record=record,
            context=self._context,
            timestamp_ns=time.ns,
            time_source=time.source,
            time_granularity_ms=time.granularity_ms,
            make=_Maker(found, dialect, line, record, self._context, time),
        )

    def _spoken_inside(self, view: ChunkView, record: Record, events: list[Event]) -> tuple[list[Event], list[Event]]:
        """What dialects know of the lines inside a traceback (a dead actor's pid, a rendezvous that closed).

        Their event replaces a traceback that no signature knows, and stands beside a known one if it adds context.
        """
        extra: list[Event] = []
        for place, line in enumerate(record.lines[1:], start=1):
            found = view.best(line)
            if found is None or self._table.dialect_of[found.scan_id] == CATALOGUE or found.record == "traceback":
                continue
            if found.pattern.priority == UNCLASSIFIED_PRIORITY:
                continue
            inner = self._events(view, line, found, Record(found.record, record.lines[place:]))
            unknown = [event for event in events if event.signature == FALLBACK and event.body == line.message.strip()]
            if unknown:
                extra += [_with_trace(event, unknown[0]) for event in inner]
                events = [event for event in events if event not in unknown]
            else:
                extra += [event for event in inner if event.role == "context"]
        return events, extra

    def _learn(self, lines: ChunkLines) -> None:
        """Before the first event: the boot anchor of a kernel log, and a layout that none of ours fits."""
        context = self._context
        if context.kind is FileKind.KERNEL_LOG and context.boot_epoch_ns is None:
            anchor = next((raw for raw in map(lines.raw, range(len(lines))) if _CLOCK_SET in raw), None)
            if anchor is not None:
                stamp_of(anchor, context)
        heads = [segments(lines.raw(index))[-1][1] for index in range(min(len(lines), _DISCOVERY_LINES))]
        context.layout = discover(heads, context)


@dataclass(frozen=True, slots=True)
class _Maker:
    """`Hit.make`: the default event with fields replaced."""

    found: PatternMatch
    dialect: str
    line: Line
    record: Record | None
    context: FileContext
    time: LineTime

    def __call__(self, **overrides: Any) -> Event:
        return default_event(
            self.found.pattern,
            self.dialect,
            self.line,
            self.found.match,
            self.record,
            self.context,
            self.time,
            overrides,
        )


class _Tally:
    """Events of a chunk and the physical segments they account for; what an earlier pass counted counts no more."""

    def __init__(self, view: ChunkView, done: frozenset[int]) -> None:
        self.events: list[Event] = []
        self.heads: set[int] = set()
        self.folded: set[int] = set()
        self._view = view
        self._before = done

    def take(self, line: Line, record: Record | None, events: list[Event]) -> None:
        self.events += events
        owners = {self._view.owner(line.byte_offset)}
        self._view.folded.add(line.byte_offset)
        self.heads |= owners - self._before
        for other in record.lines if record is not None else (line,):
            self._view.folded.add(other.byte_offset)
            offsets = [self._view.owner(other.byte_offset)] if other is not line else []
            self.folded.update(offset for offset in (*offsets, *self._view.pieces(other)) if offset not in self._before)

    def carried(self, resume_offset: int) -> frozenset[int]:
        """Segments behind the resume point that are accounted for already."""
        return frozenset(offset for offset in self._view.folded | self.heads | self.folded if offset >= resume_offset)


def _described(
    describe: Callable[[Hit, PatternTable], Iterable[Event]], table: PatternTable, hit: Hit
) -> Iterable[Event]:
    return describe(hit, table)


def _with_trace(event: Event, traceback: Event) -> Event:
    """A dialect's event with the exception that the whole traceback gave."""
    return replace(
        event,
        line_count=traceback.line_count,
        exception_type=event.exception_type or traceback.exception_type,
        exception_message=event.exception_message or traceback.exception_message,
        exception_stacktrace=traceback.exception_stacktrace,
        code_file_path=traceback.code_file_path,
        code_line_number=traceback.code_line_number,
    )
