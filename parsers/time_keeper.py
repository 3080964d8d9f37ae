"""When a line was written: by its own stamp, or by that of a neighbour of the same writer (formats.md R1).

Only lines that become events are asked for, and most of those carry a stamp. For one that does not, the lines before it
are peeled, from the nearest on, until a time is found; lines that nobody asks for are never peeled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from correlator.core.vocabulary import FileKind, TimeSource
from correlator.parsers.base import FileContext, Layer, Line, Prefix, Stamp
from correlator.parsers.chunk_view import ChunkLines, ChunkView

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
_LEAST_WALK = 16
_HOST_LABELS = frozenset({Layer.PDSH, Layer.MPI_TAG})
_CAN_BE_STAMPED = re.compile(rb"\d\d:\d\d:\d\d|\d{9}|\d\.\d{3}")
_SEARCHED_BYTES = 1 << 14
"""How far into a line a stamp is looked for."""

Label = tuple[object, ...]
_NO_LABEL: Label = (None,) * 5
_ANY_RANK = -1
Writer = tuple[Label, int | None]
"""The label in front of a line, and the rank (or any) where several may write under that label."""


@dataclass(frozen=True, slots=True)
class LineTime:
    """The time of a line as an event takes it."""

    ns: int | None = None
    source: TimeSource = TimeSource.NONE
    granularity_ms: float | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class _Noted:
    """A stamp, whose it is, and where in the file it stands."""

    offset: int
    label: Label
    rank: int | None
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class _Tail:
    """The last lines of chunks that are gone, as `ChunkLines`."""

    lines: tuple[tuple[bytes, int, int], ...] = ()
    final: bool = False

    def __len__(self) -> int:
        return len(self.lines)

    def raw(self, index: int) -> bytes:
        """A line without its newline."""
        return self.lines[index][0]

    def number(self, index: int) -> int:
        """1-based number in the file."""
        return self.lines[index][1]

    def offset(self, index: int) -> int:
        """Byte offset in the file."""
        return self.lines[index][2]

    def followed_by(self, lines: ChunkLines, end: int) -> _Tail:
        """The last lines before the line `end` of a chunk that follows this tail."""
        more = tuple((lines.raw(at), lines.number(at), lines.offset(at)) for at in range(max(end - WALK, 0), end))
        return _Tail((*self.lines, *more)[-WALK:])


@dataclass(slots=True)
class _Patience:
    """How far lines are peeled in the hope for a stamp: the less, the more were peeled in vain since the last one."""

    in_vain: int = 0

    @property
    def reach(self) -> int:
        """Lines to look at."""
        return max(WALK >> (self.in_vain // WALK), _LEAST_WALK)


class _Stamps:
    """The stamps on the lines of a chunk, each line peeled once and only when it is asked for."""

    def __init__(self, view: ChunkView, patience: _Patience) -> None:
        self._view = view
        self._patience = patience
        self._seen: dict[int, tuple[_Noted, ...]] = {}
        self.count = len(view.lines)

    def on(self, index: int) -> tuple[_Noted, ...]:
        """All stamps on a line, in order."""
        found = self._seen.get(index)
        if found is None:
            found = self._seen[index] = tuple(self._peeled(index))
            if found:
                self._patience.in_vain = 0
        return found

    def _peeled(self, index: int) -> Iterator[_Noted]:
        if not _CAN_BE_STAMPED.search(self._view.lines.raw(index), 0, _SEARCHED_BYTES):
            return
        self._patience.in_vain += 1
        for line in self._view.segments(index):
            stamp = line.prefix.stamp
            if stamp is not None and stamp.ns is not None:
                yield _Noted(line.byte_offset, _label(line.prefix), line.prefix.rank, stamp)


class TimeKeeper:
    """Finds the times of lines that carry none, over chunk borders."""

    def __init__(self, context: FileContext) -> None:
        self._merged = context.kind in _MERGED
        self._one_node = context.kind is FileKind.NODE_LOG
        self._known: dict[Writer, _Noted] = {}
        self._last: _Noted | None = None
        self._tail = _Tail()
        self._patience = _Patience()

    def begin_chunk(self, view: ChunkView) -> None:
        """Take the next chunk; positions count from its head."""
        self._stamps = _Stamps(view, self._patience)
        self._tail_stamps = _Stamps(view.over(self._tail), self._patience)
        self._bare_before = range(0)
        self._bare_behind = range(0)

    def end_chunk(self, view: ChunkView, end: int) -> None:
        """Keep what the next chunk may need of this one's lines before the line `end`."""
        if self._merged:
            self._tail = self._tail.followed_by(view.lines, end)
        else:
            self._last = next(self._history(end, -1), self._last)

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
        writers = self._same(line)
        if writers is None:
            found = self._last = next(self._history(index, line.byte_offset), self._last)
        else:
            found = self._of_writers(index, line.byte_offset, writers)
        found = found or self._first_behind(index, line.byte_offset)
        if found is None:
            return LineTime()
        return LineTime(found.stamp.ns, TimeSource.INHERITED, found.stamp.granularity_ms, found.stamp.zone)

    def _history(self, index: int, offset: int) -> Iterator[_Noted]:
        """The stamps before an offset, which lies on a line, nearest first, on the lines within reach before that line."""
        reach = self._patience.reach
        first = max(index - reach, 0)
        position = index if index < self._stamps.count else index - 1
        bare = True
        while position >= first:
            if position in self._bare_before:
                position = self._bare_before.start - 1
                continue
            for noted in reversed(self._stamps.on(position)):
                if position < index or noted.offset < offset:
                    if bare:
                        self._bare_before = range(position + 1, index)
                        bare = False
                    yield noted
            position -= 1
        if bare:
            self._bare_before = range(first, index)
        tail = self._tail_stamps
        for position in range(tail.count - 1, max(tail.count - 1 - (reach - index), -1), -1):
            yield from reversed(tail.on(position))

    def _of_writers(self, index: int, offset: int, writers: Sequence[Writer]) -> _Noted | None:
        """The nearest time before of one of the writers; else of any."""
        nearest: _Noted | None = None
        for noted in self._history(index, offset):
            names = ((noted.label, noted.rank), (noted.label, _ANY_RANK))
            for name in names:
                known = self._known.get(name)
                if known is None or known.offset < noted.offset:
                    self._known[name] = noted
            if names[0] in writers or names[1] in writers:
                return noted
            nearest = nearest or noted
        self._last = nearest or self._last
        older = (self._known[writer] for writer in writers if writer in self._known)
        return max(older, key=lambda noted: noted.offset, default=self._last)

    def _same(self, line: Line) -> tuple[Writer, ...] | None:
        """Who may have written a line before this one; None for anybody.

        `[default3]:[rank3]: Traceback` goes on where `[default3]:2025-11-30 01:02:03 ERROR` left off: in the log of a
        node a local rank has one process, so what that process prints of itself tells nothing more. Elsewhere a label's
        lines that name no rank may be those of any rank under it.
        """
        if not self._merged:
            return None
        label, rank = _label(line.prefix), line.prefix.rank
        if rank is None or (self._one_node and line.prefix.local_rank is not None):
            return None if label == _NO_LABEL else ((label, _ANY_RANK),)
        return ((label, rank),) if label == _NO_LABEL else ((label, rank), (label, None))

    def _first_behind(self, index: int, offset: int) -> _Noted | None:
        """The next time in the chunk, where nothing before the line has one."""
        stop = min(self._stamps.count, index + self._patience.reach)
        position = index
        found: _Noted | None = None
        while position < stop and found is None:
            if position in self._bare_behind:
                position = self._bare_behind.stop
                continue
            found = next((noted for noted in self._stamps.on(position) if noted.offset > offset), None)
            position += 1
        self._bare_behind = range(index + 1, position - 1 if found else stop)
        return found


def _label(prefix: Prefix) -> Label:
    """What a launcher, a container runtime or Ray put in front of the line: it tells processes apart."""
    host = prefix.host if _HOST_LABELS.intersection(prefix.layers) else None
    pid = prefix.pid if Layer.RAY in prefix.layers else None
    return (prefix.task_id, prefix.local_rank, prefix.pod, host, pid)
