"""A time axis for failures: seconds that matter are drawn wide, minutes in which nothing happened are a narrow break."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from correlator.reports import phrases
from correlator.reports.causes import moment_of

_SECOND_NS = 1_000_000_000
QUIET_SHARE = 0.2
"""A gap of this share of the whole, with nothing in it, is a break..."""
QUIET_FLOOR_NS = 20 * _SECOND_NS
"""...if it lasts this long at least."""
MOST_BREAKS = 3
BREAK_WIDTH = 58.0
TICK_WIDTH = 84.0
"""Labels of ticks need this much room."""
EDGE = 38.0
"""No label of a tick is nearer to the end of its stretch: the break beside it has words of its own."""
_STEPS_NS = tuple(
    int(step * _SECOND_NS)
    for step in (
        *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
        *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400),
    )
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the axis: from `low_ns` at `left` to `high_ns` at `right`."""

    low_ns: int
    high_ns: int
    left: float
    right: float
    quiet: bool

    @property
    def words(self) -> str:
        """How long it lasts."""
        return phrases.duration((self.high_ns - self.low_ns) / 1e6)


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled place on the axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Times to places. What lies outside is drawn at the edge."""

    pieces: tuple[Piece, ...]

    @property
    def low_ns(self) -> int:
        """Where the axis begins."""
        return self.pieces[0].low_ns

    @property
    def high_ns(self) -> int:
        """Where the axis ends."""
        return self.pieces[-1].high_ns

    def x(self, ns: int) -> float:
        """Where a time is drawn."""
        index = bisect_right([piece.low_ns for piece in self.pieces], ns) - 1
        piece = self.pieces[max(index, 0)]
        length = max(piece.high_ns - piece.low_ns, 1)
        share = min(max((ns - piece.low_ns) / length, 0.0), 1.0)
        return round(piece.left + share * (piece.right - piece.left), 1)

    def inside(self, ns: int) -> bool:
        """True where the axis covers the time."""
        return self.low_ns <= ns <= self.high_ns

    def ticks(self) -> tuple[Tick, ...]:
        """Times of day, as many as there is room for."""
        return tuple(tick for piece in self.pieces if not piece.quiet for tick in _ticks(piece))

    def date(self) -> str:
        """The day on which it begins."""
        return f"{moment_of(self.low_ns):%Y-%m-%d}"


def scale_of(times: Iterable[int], left: float, right: float) -> Scale:
    """An axis that shows all the times, with breaks in the longest of the gaps between them."""
    anchors = sorted(set(times)) or [0]
    span = anchors[-1] - anchors[0]
    gaps = sorted(pairwise(anchors), key=lambda gap: (gap[0] - gap[1], gap[0]))
    quiet = [gap for gap in gaps if gap[1] - gap[0] > max(QUIET_SHARE * span, QUIET_FLOOR_NS)][:MOST_BREAKS]
    if quiet and sum(high - low for low, high in quiet) < span // 2:
        quiet = []
    pieces = _stretches(anchors, sorted(quiet))
    return Scale(tuple(_placed(pieces, left, right)))


def _stretches(anchors: Sequence[int], quiet: Sequence[tuple[int, int]]) -> list[tuple[int, int, bool]]:
    """(low, high, quiet) in order. Busy stretches get a margin, taken from the breaks beside them."""
    edges = [anchors[0], *(edge for gap in quiet for edge in gap), anchors[-1]]
    busy = list(zip(edges[::2], edges[1::2], strict=True))
    room = [high - low for low, high in quiet]
    stretches: list[tuple[int, int, bool]] = []
    for index, (low, high) in enumerate(busy):
        wanted = max((high - low) // 14, _SECOND_NS // 2)
        before = wanted if index == 0 else min(wanted, room[index - 1] // 3)
        after = wanted if index == len(room) else min(wanted, room[index] // 3)
        if stretches:
            stretches.append((stretches[-1][1], low - before, True))
        stretches.append((low - before, high + after, False))
    return stretches


def _placed(stretches: Sequence[tuple[int, int, bool]], left: float, right: float) -> Iterable[Piece]:
    """Breaks have one width; the rest is shared so that a long stretch is wider, but not by as much as it is longer."""
    weights = [0.0 if quiet else float(high - low) ** 0.25 for low, high, quiet in stretches]
    breaks = sum(quiet for _, _, quiet in stretches)
    room = right - left - breaks * BREAK_WIDTH
    x = left
    for (low, high, quiet), weight in zip(stretches, weights, strict=True):
        width = BREAK_WIDTH if quiet else room * weight / sum(weights)
        yield Piece(low, high, round(x, 1), round(x + width, 1), quiet)
        x += width


def _ticks(piece: Piece) -> Iterable[Tick]:
    per_ns = (piece.right - piece.left) / max(piece.high_ns - piece.low_ns, 1)
    step = next((step for step in _STEPS_NS if step * per_ns >= TICK_WIDTH), None)
    if step is None:
        step = _STEPS_NS[-1] * max(1, int(TICK_WIDTH / (per_ns * _STEPS_NS[-1])) + 1)
    first = -(-piece.low_ns // step) * step
    for ns in range(first, piece.high_ns + 1, step):
        x = piece.left + (ns - piece.low_ns) * per_ns
        if piece.left + EDGE <= x <= piece.right - EDGE:
            yield Tick(round(x, 1), _time_of_day(ns, step))


def _time_of_day(ns: int, step: int) -> str:
    moment = moment_of(ns)
    if step >= 86400 * _SECOND_NS:
        return f"{moment:%b %d}"
    return f"{moment:%H:%M:%S}" + (f".{moment.microsecond // 1000:03d}" if step < _SECOND_NS else "")
