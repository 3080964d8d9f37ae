"""From matches to the segments that are parsed: one entry a segment, dense ones thinned.

Progress lines are a fifth of a log, and hardly any of them matters: the last ones before a fault do, and enough of the
others, on every rank, to compare clocks and pace. A chunk with many of them keeps its last `TAIL` and, of the rest,
those whose step is a multiple of a power of two, chosen so that about `TARGET` are left. As the rule looks at the step
alone and the strides of two files divide each other, files of different ranks keep the same steps, so that what is kept
can be compared across ranks.

Each `BUDGET` progress segments that were kept of a file halve what is kept further, so that the table grows with the
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
from correlator.ingest.segments import Positions
from correlator.parsers.base import LinePattern

DENSE = 4096
"""Segments of a chunk that are hit by dense patterns only, from which on they are thinned."""
TARGET = 256
TAIL = 128
LAST_TAIL = 512
"""Tail of a file's last chunk."""
BUDGET = 20_000
FLOOD_OF_ONE_WRITER = 5_000
FLOOD_OF_MANY = 100_000
_LEAST = 32
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

    def __init__(self, patterns: Sequence[LinePattern]) -> None:
        self.dense: Mask = np.array([pattern.bulk for pattern in patterns], dtype=np.bool_)
        self._priority = np.array([pattern.priority for pattern in patterns], dtype=np.int64)
        self._count = max(len(patterns), 1)
        self.reset(FileKind.TEXT)

    def reset(self, kind: FileKind) -> None:
        """Begin a new file."""
        self._flood = FLOOD_OF_ONE_WRITER if kind is FileKind.RANK_LOG else FLOOD_OF_MANY
        self._kept = np.zeros(self._count, dtype=np.int64)

    def select(self, matches: Matches, *, final: bool) -> Selection:
        """The segments of a chunk to parse, with the ids of their patterns. `final`: the chunk is the file's last."""
        segments, ids = matches.segments, matches.ids
        droppable = self._flooding(ids)
        droppable |= self._thinned(matches, droppable, final=final)
        thinned = np.setdiff1d(segments[droppable], segments[~droppable])
        kept = ~np.isin(segments, thinned)
        segments, ids = segments[kept], ids[kept]
        return Selection(_grouped(segments, ids), thinned, segments, ids)

    def consumed(self, selection: Selection, segments: int) -> int:
        """The first `segments` of the chunk are done with, and count. Returns how many of them were thinned."""
        pairs = int(np.searchsorted(selection.kept_segments, segments))
        self._kept += np.bincount(selection.kept_ids[:pairs], minlength=self._count)
        return int(np.searchsorted(selection.thinned, segments))

    def _flooding(self, ids: Positions) -> Mask:
        """Pairs of patterns that have had their share of the file, but the first and last of the chunk."""
        droppable = np.zeros(len(ids), dtype=np.bool_)
        if not len(ids):
            return droppable
        halvings = self._kept // self._flood
        for pattern in np.flatnonzero((halvings > 0) & ~self.dense):
            keep = max(TARGET >> int(halvings[pattern] - 1), _LEAST)
            droppable[np.flatnonzero(ids == pattern)[keep:-keep]] = True
        return droppable

    def _thinned(self, matches: Matches, flooding: Mask, *, final: bool) -> Mask:
        """Pairs of dense segments whose step is left out."""
        segments, ids = matches.segments, matches.ids
        droppable = np.zeros(len(ids), dtype=np.bool_)
        if not len(ids):
            return droppable
        halvings = int(self._kept[self.dense].sum()) // BUDGET
        bulk = self.dense[ids]
        pairs = np.flatnonzero(bulk & ~np.isin(segments, segments[~bulk & ~flooding]))
        deciding = pairs[self._deciding(segments[pairs], ids[pairs])]
        if len(deciding) > max(DENSE >> halvings, 2 * _LEAST):
            wanted = _evenly(matches.steps[deciding], max(TARGET >> halvings, _LEAST))
            wanted[-(LAST_TAIL if final else max(TAIL >> halvings, _LEAST)) :] = True
            droppable[pairs] = ~np.isin(segments[pairs], segments[deciding][wanted])
        return droppable

    def _deciding(self, segments: Positions, ids: Positions) -> Positions:
        """Of the pairs of each segment the one whose pattern wins, as the parser would choose."""
        order = np.lexsort((ids, -self._priority[ids], segments))
        _, first = np.unique(segments[order], return_index=True)
        return order[first]


def _evenly(steps: Positions, target: int) -> Mask:
    """Steps that are multiples of the least power of two that leaves at most twice the target.

    Steps that no stride tells apart (one number over and over) are all left out.
    """
    for exponent in range(_STRIDES):
        wanted: Mask = (steps & ((1 << exponent) - 1)) == 0
        if np.count_nonzero(wanted) <= 2 * target:
            return wanted
    return np.zeros(len(steps), dtype=np.bool_)


def _grouped(segments: Positions, ids: Positions) -> list[tuple[int, tuple[int, ...]]]:
    """The ids of each segment."""
    if not len(segments):
        return []
    starts = np.flatnonzero(np.diff(segments, prepend=-1))
    numbers: list[int] = ids.tolist()
    bounds: list[int] = [*starts.tolist(), len(numbers)]
    found: list[int] = segments[starts].tolist()
    return [(segment, tuple(numbers[bounds[i] : bounds[i + 1]])) for i, segment in enumerate(found)]
