"""Clock offsets as dots with their intervals, on one axis; clocks alike share a row when they are many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from correlator.core.model import ClockEstimate
from correlator.core.ranges import fold_hosts
from correlator.core.vocabulary import ClockStatus
from correlator.reports import phrases

LEFT = 170.0
RIGHT = 680.0
ROW = 24.0
MOST_ROWS = 16


@dataclass(frozen=True, slots=True)
class ClockRow:
    """One clock, or several of which the same is said."""

    nodes: str
    words: str
    evidence: int
    status: str
    y: float
    x: float | None
    low_x: float | None
    high_x: float | None


@dataclass(frozen=True, slots=True)
class ClocksPicture:
    """All shapes of the clocks."""

    rows: tuple[ClockRow, ...]
    zero_x: float
    left: float
    right: float
    height: float
    span: str
    """What the half of the axis stands for."""


def clocks_picture(clocks: Sequence[ClockEstimate]) -> ClocksPicture | None:
    """The picture, or None where no clock was estimated."""
    known = [clock for clock in clocks if clock.offset_ms is not None and math.isfinite(clock.offset_ms)]
    if not known:
        return None
    groups = _grouped(clocks)
    reach = max((max(abs(edge) for edge in _interval(clock)) for clock in known), default=0.0) or 1.0
    half = (RIGHT - LEFT) / 2
    rows = tuple(_row(group, 14 + ROW * number, half / reach) for number, group in enumerate(groups))
    return ClocksPicture(rows, LEFT + half, LEFT, RIGHT, 14 + ROW * len(rows), phrases.duration(reach))


def clock_words(clock: ClockEstimate) -> str:
    """How a clock stands to the reference, in a sentence fragment."""
    if clock.offset_ms is None or not math.isfinite(clock.offset_ms):
        return "nothing to compare it with"
    words = phrases.offset(clock.offset_ms)
    if clock.interval_ms is not None:
        words += f" ± {phrases.duration((clock.interval_ms[1] - clock.interval_ms[0]) / 2)}"
    if clock.drift_ppm is not None and abs(clock.drift_ppm) >= 1:
        words += f", drifting {clock.drift_ppm:+.0f} ppm"
    if clock.timezone:
        words += f", {clock.timezone}"
    return words + (f", {clock.status.value}" if clock.status not in {ClockStatus.ALIGNED, ClockStatus.NONE} else "")


def _grouped(clocks: Sequence[ClockEstimate]) -> list[list[ClockEstimate]]:
    """A row each while they are few; else the farthest off alone, and all others together."""
    ordered = sorted(clocks, key=lambda clock: clock.node)
    if len(ordered) <= MOST_ROWS:
        return [[clock] for clock in ordered]
    by_distance = sorted(ordered, key=lambda clock: (clock.offset_ms is None, -abs(clock.offset_ms or 0.0), clock.node))
    far = by_distance[: MOST_ROWS - 2]
    rest = [clock for clock in by_distance[MOST_ROWS - 2 :] if clock.offset_ms is not None]
    unknown = [clock for clock in by_distance[MOST_ROWS - 2 :] if clock.offset_ms is None]
    return [*([clock] for clock in far), *(group for group in (rest, unknown) if group)]


def _interval(clock: ClockEstimate) -> tuple[float, float]:
    offset = clock.offset_ms or 0.0
    edges = clock.interval_ms if clock.interval_ms is not None else (offset, offset)
    return (edges[0] if math.isfinite(edges[0]) else offset, edges[1] if math.isfinite(edges[1]) else offset)


def _row(group: Sequence[ClockEstimate], y: float, scale: float) -> ClockRow:
    nodes = fold_hosts(clock.node for clock in group)
    evidence = sum(clock.evidence for clock in group)
    known = [clock for clock in group if clock.offset_ms is not None and math.isfinite(clock.offset_ms)]
    if not known:
        return ClockRow(nodes, clock_words(group[0]), evidence, group[0].status.value, y, None, None, None)
    middle = LEFT + (RIGHT - LEFT) / 2
    low = min(_interval(clock)[0] for clock in known)
    high = max(_interval(clock)[1] for clock in known)
    offset = (known[0].offset_ms or 0.0) if len(known) == 1 else (low + high) / 2
    words = clock_words(known[0]) if len(group) == 1 else f"within {phrases.duration(max(abs(low), abs(high)))}"
    places = [round(middle + scale * value, 1) for value in (offset, low, high)]
    return ClockRow(nodes, words, evidence, group[0].status.value, y, places[0], places[1], places[2])
