"""From matches to the segments that are parsed: one entry a segment, dense ones thinned.

Progress lines are a fifth of a log, and hardly any of them matters: the last ones before a fault do, and enough of the others,
on every rank, to compare clocks and pace. A chunk with many of them keeps its last `TAIL` and, of the rest, those whose step is a
multiple of a power of two, chosen so that about `TARGET` are left. As the rule looks at the step alone and the strides of two
files divide each other, files of different ranks keep the same steps, so that what is kept can be compared across ranks.

Each `BUDGET` progress segments that were kept of a file halve what is kept further, so that the table grows with the
logarithm of a file's size. Any other pattern may flood a log too (a warning in each step). Once it has had its share of a file it
is parsed at its first and last occurrences of a chunk only; the share is large where many ranks write into one file, because
there the same line once for each rank is no flood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correlator.core.vocabulary import FileKind
from correlator.ingest.engines import Scan
from correlator.ingest.segments import Positions, SegmentIndex
from correlator.parsers.base import LinePattern

DENSE = 4096
"""Segments of a chunk that are hit by dense patterns only, from which on they are thinned."""
TARGET = 512
TAIL = 512
BUDGET = 20_000
FLOOD_OF_ONE_WRITER = 5_000
FLOOD_OF_MANY = 100_000
_LEAST = 32
_MAX_DIGITS = 18  # of an int64

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
        self._bulk: Mask = np.array([pattern.bulk for pattern in patterns], dtype=np.bool_)
        self._priority = np.array([pattern.priority for pattern in patterns], dtype=np.int64)
        self._count = max(len(patterns), 1)
        self.reset(FileKind.TEXT)

    def reset(self, kind: FileKind) -> None:
        """Begin a new file."""
        self._flood = FLOOD_OF_ONE_WRITER if kind is FileKind.RANK_LOG else FLOOD_OF_MANY
        self._kept = np.zeros(self._count, dtype=np.int64)

    def select(self, scan: Scan, index: SegmentIndex, buffer: bytearray, *, final: bool) -> Selection:
        """The segments of a chunk to parse, with the ids of their patterns."""
        segments, ids, ends = self._distinct(scan, index)
        droppable = self._flooding(ids)
        droppable |= self._thinned(segments, ids, ends, droppable, buffer, final=final)
        thinned = np.setdiff1d(segments[droppable], segments[~droppable])
        kept = ~np.isin(segments, thinned)
        segments, ids = segments[kept], ids[kept]
        return Selection(_grouped(segments, ids), thinned, segments, ids)

    def consumed(self, selection: Selection, segments: int) -> int:
        """The first `segments` of the chunk are done with, and count. Returns how many of them were thinned."""
        pairs = int(np.searchsorted(selection.kept_segments, segments))
        self._kept += np.bincount(selection.kept_ids[:pairs], minlength=self._count)
        return int(np.searchsorted(selection.thinned, segments))

    def _distinct(self, scan: Scan, index: SegmentIndex) -> tuple[Positions, Positions, Positions]:
        """Segment, pattern and last match end, once for each pair, ordered by segment and pattern."""
        match_ends, ids = scan
        order = np.argsort(match_ends, kind="stable")
        ends = match_ends[order]
        keys = index.locate(ends) * self._count + ids[order]
        pairs, last = np.unique(keys[::-1], return_index=True)
        segments, patterns = np.divmod(pairs, self._count)
        inside = segments < len(index)
        return segments[inside], patterns[inside], ends[::-1][last][inside]

    def _flooding(self, ids: Positions) -> Mask:
        """Pairs of patterns that have had their share of the file, but the first and last of the chunk."""
        droppable = np.zeros(len(ids), dtype=np.bool_)
        if not len(ids):
            return droppable
        halvings = self._kept // self._flood
        for pattern in np.flatnonzero((halvings > 0) & ~self._bulk):
            keep = max(TARGET >> int(halvings[pattern] - 1), _LEAST)
            droppable[np.flatnonzero(ids == pattern)[keep:-keep]] = True
        return droppable

    def _thinned(
        self, segments: Positions, ids: Positions, ends: Positions, flooding: Mask, buffer: bytearray, *, final: bool
    ) -> Mask:
        """Pairs of dense segments whose step is left out."""
        droppable = np.zeros(len(ids), dtype=np.bool_)
        if not len(ids):
            return droppable
        halvings = int(self._kept[self._bulk].sum()) // BUDGET
        bulk = self._bulk[ids]
        pairs = np.flatnonzero(bulk & ~np.isin(segments, segments[~bulk & ~flooding]))
        deciding = pairs[self._deciding(segments[pairs], ids[pairs])]
        if len(deciding) > max(DENSE >> halvings, 2 * _LEAST):
            wanted = _evenly(step_before(buffer, ends[deciding]), max(TARGET >> halvings, _LEAST))
            wanted[-(TAIL if final else max(TAIL >> halvings, _LEAST)) :] = True
            droppable[pairs] = ~np.isin(segments[pairs], segments[deciding][wanted])
        return droppable

    def _deciding(self, segments: Positions, ids: Positions) -> Positions:
        """Of the pairs of each segment the one whose pattern wins, as the parser would choose."""
        order = np.lexsort((ids, -self._priority[ids], segments))
        _, first = np.unique(segments[order], return_index=True)
        return order[first]


def step_before(buffer: bytearray | bytes, ends: Positions) -> Positions:
    """The decimal number that ends at each offset; 0 where no digit stands before it.

    >>> step_before(b"step 120/500 x", np.array([8, 12, 14])).tolist()
    [120, 500, 0]
    """
    data = np.frombuffer(buffer, dtype=np.uint8)
    steps = np.zeros(len(ends), dtype=np.int64)
    reading = np.ones(len(ends), dtype=np.bool_)
    for place in range(_MAX_DIGITS):
        positions = ends - 1 - place
        digits = data[np.maximum(positions, 0)].astype(np.int64) - ord("0")
        reading &= (positions >= 0) & (digits >= 0) & (digits <= 9)
        if not reading.any():
            break
        steps[reading] += digits[reading] * 10**place
    return steps


def _evenly(steps: Positions, target: int) -> Mask:
    """Steps that are multiples of the least power of two that leaves at most twice the target.

    Steps that no stride tells apart (one number over and over) are all left out.
    """
    for exponent in range(_MAX_DIGITS * 3):
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
