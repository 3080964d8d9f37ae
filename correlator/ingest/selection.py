"""From matches to the segments that are parsed: one entry a segment, dense ones thinned.

Progress lines are a fifth of a log, and hardly any of them matters: the last ones before a fault do, and enough of the
others, on every rank, to compare clocks and pace. A chunk with many of them keeps its last ones and, of the rest, those
whose step is a multiple of a power of two, chosen so that about a target is left. As the rule looks at the step alone
and the strides of two files divide each other, files of different ranks keep the same steps, so that what is kept can be
compared across ranks. A file that many ranks write into keeps more; of files that belong to one rank each, each keeps
the less the more there are (`quota`).

Each time that a file had its budget of progress segments halves what is kept further, so that the table grows with the
logarithm of a file's size. Any other pattern may flood a log too (a warning in each step). Once it has had its share of
a file it is parsed at its first and last occurrences of a chunk only; the share is large where many ranks write into
one file, because there the same line once for each rank is no flood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correlator.core.vocabulary import FileKind
from correlator.ingest.matches import Matches
from correlator.ingest.quota import THIN_EXPONENT, Quota, quota
from correlator.ingest.segments import Positions
from correlator.parsers.base import LinePattern

FLOOD_OF_ONE_WRITER = 5_000
FLOOD_OF_MANY = 100_000
FLOOD_TARGET = 256
_LEAST_OF_FLOOD = 32
_STRIDES = 60  # doublings that an int64 step can tell apart


Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Selection:
    """What to parse of a chunk, and what was left out; segments ascending."""

    hits: list[tuple[int, tuple[int, ...]]]
    thinned: Positions
    kept_segments: Positions
    kept_ids: Positions
    """The pairs behind `hits`, column by column."""


class Selector:
    """Chooses segments, chunk by chunk, of one file."""

    def __init__(self, patterns: Sequence[LinePattern], rank_logs: int = 1) -> None:
        """`rank_logs`: files of the run that belong to one rank each."""
        self.dense: Mask = np.array([pattern.bulk for pattern in patterns], dtype=np.bool_)
        priority = np.array([pattern.priority for pattern in patterns], dtype=np.int64)
        self._rank = np.empty(len(patterns), dtype=np.int64)
        """Of each pattern: the dense ones first, in the order in which the parser prefers them."""
        self._rank[np.lexsort((np.arange(len(patterns)), -priority, ~self.dense))] = np.arange(len(patterns))
        self._count = max(len(patterns), 1)
        self._rank_logs = rank_logs
        self.reset(FileKind.TEXT)

    def reset(self, kind: FileKind) -> None:
        """Begin a new file."""
        self._flood = FLOOD_OF_ONE_WRITER if kind is FileKind.RANK_LOG else FLOOD_OF_MANY
        self._quota = quota(kind, self._rank_logs)
        self._kept = np.zeros(self._count, dtype=np.int64)

    @property
    def now(self) -> Quota:
        """What the next chunk may keep."""
        return self._quota.halved(int(self._kept[self.dense].sum()))

    def select(self, matches: Matches, *, final: bool) -> Selection:
        """The segments of a chunk to parse, with the ids of their patterns. `final`: the chunk is the file's last."""
        segments, ids = matches.segments, matches.ids
        if not len(ids):
            return Selection([], segments, segments, ids)
        starts = np.flatnonzero(np.diff(segments, prepend=-1))
        flooding = self._flooding(ids)
        dropped = np.logical_and.reduceat(flooding, starts)
        idle = np.logical_and.reduceat(flooding | self.dense[ids], starts) & ~dropped
        dropped |= self._thinned(matches, starts, idle, final=final)
        kept = ~np.repeat(dropped, np.diff(starts, append=len(ids)))
        return _selection(segments[starts][dropped], segments[kept], ids[kept])

    def consumed(self, selection: Selection, segments: int) -> int:
        """The first `segments` of the chunk are done with, and count. Returns how many of them were thinned."""
        pairs = int(np.searchsorted(selection.kept_segments, segments))
        self._kept += np.bincount(selection.kept_ids[:pairs], minlength=self._count)
        return int(np.searchsorted(selection.thinned, segments))

    def _flooding(self, ids: Positions) -> Mask:
        """Pairs of patterns that have had their share of the file, but the first and last of the chunk."""
        droppable = np.zeros(len(ids), dtype=np.bool_)
        halvings = self._kept // self._flood
        for pattern in np.flatnonzero((halvings > 0) & ~self.dense):
            keep = max(FLOOD_TARGET >> int(halvings[pattern] - 1), _LEAST_OF_FLOOD)
            droppable[np.flatnonzero(ids == pattern)[keep:-keep]] = True
        return droppable

    def _thinned(self, matches: Matches, starts: Positions, idle: Mask, *, final: bool) -> Mask:
        """Of all hit segments, those whose step is left out; `idle`: those hit by nothing but progress and floods."""
        thinned: Mask = np.zeros(len(starts), dtype=np.bool_)
        now = self.now
        places = np.flatnonzero(idle)
        if matches.thin or len(places) > now.dense:
            steps = matches.steps[self._deciding(matches.ids, starts)[places]]
            wanted = _evenly(steps, now.target, THIN_EXPONENT if matches.thin else 0)
            wanted[-(now.last_tail if final else now.tail) :] = True
            thinned[places] = ~wanted
        return thinned

    def _deciding(self, ids: Positions, starts: Positions) -> Positions:
        """Of the pairs of each segment the one whose step counts: of its dense patterns the one that the parser prefers."""
        pairs = len(ids)
        winner: Positions = np.minimum.reduceat(self._rank[ids] * pairs + np.arange(pairs), starts) % pairs
        return winner


def _evenly(steps: Positions, target: int, least: int) -> Mask:
    """Steps that are multiples of the least power of two, of this exponent or a higher one, that leaves few enough.

    That is at most twice the target. Steps that no stride tells apart (one number over and over) are all left out.
    """
    for exponent in range(least, _STRIDES):
        wanted: Mask = (steps & ((1 << exponent) - 1)) == 0
        if np.count_nonzero(wanted) <= 2 * target:
            return wanted
    return np.zeros(len(steps), dtype=np.bool_)


def _selection(thinned: Positions, segments: Positions, ids: Positions) -> Selection:
    """The ids of each segment that is kept."""
    starts = np.flatnonzero(np.diff(segments, prepend=-1))
    numbers: list[int] = ids.tolist()
    bounds: list[int] = [*starts.tolist(), len(numbers)]
    found: list[int] = segments[starts].tolist()
    hits = [(segment, tuple(numbers[bounds[i] : bounds[i + 1]])) for i, segment in enumerate(found)]
    return Selection(hits, thinned, segments, ids)
