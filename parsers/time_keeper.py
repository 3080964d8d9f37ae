"""When a line was written: by its own stamp, or by that of a neighbour of the same writer (formats.md R1)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from correlator.core.vocabulary import FileKind, TimeSource
from correlator.parsers.base import FileContext, Layer, Line, Prefix, Stamp
from correlator.parsers.chunk_view import ChunkView

WALK = 400
"""Lines looked at before (or, at the head of a file, after) a line without a time."""

_MERGED = frozenset(
    {
        FileKind.NODE_LOG,
        FileKind.CONSOLE_LOG,
        FileKind.LAUNCHER_LOG,
        FileKind.SCHEDULER_LOG,
        FileKind.RAY_LOG,
        FileKind.TEXT,
    }
)
_HOST_LABELS = frozenset({Layer.PDSH, Layer.MPI_TAG})
_CAN_BE_STAMPED = re.compile(rb"\d\d:\d\d:\d\d|\d{9}|\d\.\d{3}")

Label = tuple[object, ...]
_NO_LABEL: Label = (None,) * 5


@dataclass(frozen=True, slots=True)
class LineTime:
    """The time of a line as an event takes it."""

    ns: int | None = None
    source: TimeSource = TimeSource.NONE
    granularity_ms: float | None = None
    zone: str | None = None


class TimeKeeper:
    """Remembers the last time of each writer of a file, over chunk borders."""

    def __init__(self, context: FileContext) -> None:
        self._merged = context.kind in _MERGED
        self._one_node = context.kind is FileKind.NODE_LOG
        self._known: dict[tuple[Label, int | None], tuple[int, Stamp]] = {}
        self._labels: dict[Label, Stamp] = {}
        self._noted = 0
        self._last: Stamp | None = None
        self._scanned = 0

    def begin_chunk(self) -> None:
        """Forget positions: they count from the head of each chunk."""
        self._scanned = 0

    def end_chunk(self, view: ChunkView) -> None:
        """Take the times that the next chunk may need from this one's last lines."""
        self._scan(view, len(view.lines))

    def time_of(self, view: ChunkView, line: Line) -> LineTime:
        """The time of a line; lines must be asked for in order."""
        stamp = line.prefix.stamp
        if stamp is not None:
            return LineTime(
                stamp.ns,
                TimeSource.EXPLICIT if stamp.ns is not None else TimeSource.NONE,
                stamp.granularity_ms,
                stamp.zone,
            )
        index = view.index_of(line)
        self._scan(view, index)
        for earlier in view.segments(index):
            if earlier.byte_offset < line.byte_offset:
                self._note(earlier)
        found = self._recall(line) or self._look_ahead(view, index, line)
        if found is None:
            return LineTime()
        return LineTime(found.ns, TimeSource.INHERITED, found.granularity_ms, found.zone)

    def _scan(self, view: ChunkView, end: int) -> None:
        for index in range(max(self._scanned, end - WALK), end):
            if _CAN_BE_STAMPED.search(view.lines.raw(index)):
                for line in view.segments(index):
                    self._note(line)
        self._scanned = max(self._scanned, end)

    def _note(self, line: Line) -> None:
        stamp = line.prefix.stamp
        if stamp is None or stamp.ns is None:
            return
        self._last = stamp
        self._noted += 1
        if self._merged:
            label, rank = self._writer(line)
            self._known[label, rank] = (self._noted, stamp)
            self._labels[label] = stamp

    def _recall(self, line: Line) -> Stamp | None:
        """The nearest known time before: of the same writer where the file has several, else of any."""
        if not self._merged:
            return self._last
        label, rank = self._writer(line)
        if rank is None:
            return self._last if label == _NO_LABEL else self._labels.get(label, self._last)
        known = [self._known.get((label, rank))]
        if label != _NO_LABEL:
            known.append(self._known.get((label, None)))  # the label's lines that name no rank may be this rank's
        found = max((entry for entry in known if entry is not None), key=lambda entry: entry[0], default=None)
        return self._last if found is None else found[1]

    def _writer(self, line: Line) -> tuple[Label, int | None]:
        """The label in front of a line, and the rank where several may write under that label.

        `[default3]:[rank3]: Traceback` goes on where `[default3]:2025-11-30 01:02:03 ERROR` left off: in the log of a
        node a local rank has one process, so what that process prints of itself tells nothing more.
        """
        label = _label(line.prefix)
        alone = self._one_node and line.prefix.local_rank is not None
        return label, None if alone else line.prefix.rank

    def _look_ahead(self, view: ChunkView, index: int, line: Line) -> Stamp | None:
        """The next time in the chunk, where nothing before the line has one."""
        for position in range(index, min(len(view.lines), index + WALK)):
            if not _CAN_BE_STAMPED.search(view.lines.raw(position)):
                continue
            for later in view.segments(position):
                stamp = later.prefix.stamp
                if later.byte_offset > line.byte_offset and stamp is not None and stamp.ns is not None:
                    return stamp
        return None


def _label(prefix: Prefix) -> Label:
    """What a launcher, a container runtime or Ray put in front of the line: it tells processes apart."""
    host = prefix.host if _HOST_LABELS.intersection(prefix.layers) else None
    pid = prefix.pid if Layer.RAY in prefix.layers else None
    return (prefix.task_id, prefix.local_rank, prefix.pod, host, pid)
