"""The swim lanes as shapes: the template only writes down what is computed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from correlator.core.model import Diagnosis
from correlator.core.vocabulary import CollateralKind
from correlator.reports import phrases
from correlator.reports.causes import nanoseconds_of
from correlator.reports.lanes import Lane, Mark, Swim
from correlator.reports.svg_scale import BREAK_WIDTH, Piece, Scale, Tick, scale_of

WIDTH = 1040
NODE_X = 2.0
MOST_NODE, MOST_LABEL = 24, 20
"""Characters of a node's name and of the ranks of a lane; longer ones give way in the middle."""
_NODE_CHARACTER = 7.2
"""Width of a character of a node's name, with room to spare; that of a rank is a share of the size of its letters."""
_RANK_CHARACTER = 0.62
NARROWEST = 168.0
LABEL_GAP = 10.0
RIGHT = 1030.0
UNKNOWN_WIDTH = 64.0
"""A strip at the right for what has no time."""
TOP = 44.0
STEPS_HEIGHT = 22.0
NODE_GAP = 5.0
MARGIN_SEEN = 3.0
"""A margin narrower than this hides behind its mark."""
TICK_FREE = 34.0
"""No label of the axis is so near to the line of the initiating event."""
BIN = 3.0
"""Marks of a folded lane closer than this are one bar."""

FAMILIES: dict[str, tuple[str, str]] = {
    CollateralKind.COLLECTIVE_TIMEOUT: ("waited", "circle"),
    CollateralKind.HEARTBEAT_EXIT: ("waited", "square"),
    CollateralKind.REMOTE_PEER_LOST: ("lost", "circle"),
    CollateralKind.STORE_LOST: ("lost", "square"),
    CollateralKind.ACTOR_DIED: ("lost", "diamond"),
    CollateralKind.TERMINATED_BY_LAUNCHER: ("stopped", "circle"),
    CollateralKind.SCHEDULER_CANCEL: ("stopped", "square"),
    CollateralKind.LAUNCHER_REPORT: ("stopped", "diamond"),
    CollateralKind.SECONDARY_ABORT: ("aborted", "circle"),
    CollateralKind.CONTEXT_POISONED: ("aborted", "square"),
    CollateralKind.SILENT_EXIT: ("aborted", "diamond"),
    "initiating": ("started", "diamond"),
}
"""Kind -> its colour (four families and the initiator's own) and its shape, so that colour is never alone."""
OTHER = ("aborted", "circle")


@dataclass(frozen=True, slots=True)
class Glyph:
    """A mark: colour family, shape, place, the margin of its time, and words for a tooltip."""

    family: str
    shape: str
    x: float
    low_x: float
    high_x: float
    words: str
    bound: bool
    """It was not before; no more is known."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of a lane: `alive`, `waited`, `absent`, or marks of a folded lane in one place (a family)."""

    family: str
    x: float
    width: float
    height: float
    words: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A lane at its height."""

    y: float
    height: float
    label: str
    accused: bool
    bars: tuple[Bar, ...]
    glyphs: tuple[Glyph, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of one node (or of several alike)."""

    y: float
    height: float
    node: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Onset:
    """Where the failure began, drawn through all lanes."""

    x: float
    low_x: float
    high_x: float
    words: str
    anchor: str


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A kind that occurs, how often, and how it is drawn."""

    kind: str
    family: str
    shape: str
    count: int


@dataclass(frozen=True, slots=True)
class LanesPicture:
    """All shapes of the swim lanes."""

    width: int
    height: float
    head: float
    """Where the picture begins: what is above is empty."""
    top: float
    bottom: float
    label_x: float
    ticks: tuple[Tick, ...]
    breaks: tuple[Piece, ...]
    blocks: tuple[Block, ...]
    onsets: tuple[Onset, ...]
    steps: tuple[float, ...]
    last_step: int | None
    unknown_x: float | None
    legend: tuple[LegendEntry, ...]
    date: str
    folded: bool
    has_waits: bool
    has_absent: bool
    has_margins: bool
    has_bounds: bool
    font: float
    most_node: int
    most_label: int


def lanes_picture(diagnosis: Diagnosis, swim: Swim) -> LanesPicture | None:
    """The picture, or None where no time is known at all."""
    if not swim.anchors or not swim.lanes:
        return None
    unknown = any(mark.time_ns is None for lane in swim.lanes for mark in lane.marks)
    right = RIGHT - UNKNOWN_WIDTH if unknown else RIGHT
    label_x = _label_x(swim)
    scale = scale_of(swim.anchors, label_x + LABEL_GAP, right)
    top = TOP + (STEPS_HEIGHT if swim.steps else 0)
    blocks, bottom = _blocks(swim, scale, top, RIGHT - UNKNOWN_WIDTH / 2 if unknown else None)
    glyphs = [glyph for block in blocks for row in block.rows for glyph in row.glyphs]
    shown = [(ns, step) for ns, step in swim.steps if scale.inside(ns)]
    onsets = tuple(_onsets(diagnosis, scale))
    return LanesPicture(
        width=WIDTH,
        height=round(bottom + 8, 1),
        head=0.0 if onsets else 18.0,
        top=top,
        bottom=bottom,
        label_x=label_x,
        ticks=tuple(tick for tick in scale.ticks() if all(abs(tick.x - onset.x) > TICK_FREE for onset in onsets)),
        breaks=tuple(piece for piece in scale.pieces if piece.quiet),
        blocks=blocks,
        onsets=onsets,
        steps=tuple(dict.fromkeys(scale.x(ns) for ns, _ in shown)),
        last_step=shown[-1][1] if shown else None,
        unknown_x=RIGHT - UNKNOWN_WIDTH / 2 if unknown else None,
        legend=_legend(swim),
        date=scale.date(),
        folded=swim.folded,
        has_waits=any(lane.waits for lane in swim.lanes),
        has_absent=any(lane.absent for lane in swim.lanes),
        has_margins=any(g.high_x - g.low_x > MARGIN_SEEN for g in glyphs),
        has_bounds=any(g.bound for g in glyphs),
        font=_font(swim),
        most_node=MOST_NODE,
        most_label=MOST_LABEL,
    )


def _font(swim: Swim) -> float:
    return 9.0 if _row_height(len(swim.lanes)) < 12 else 11.0


def _label_x(swim: Swim) -> float:
    """Where labels of lanes end: names of nodes and ranks stand side by side and never on each other."""
    node = max(min(len(lane.node), MOST_NODE) for lane in swim.lanes) * _NODE_CHARACTER
    rank = max(min(len(lane.label), MOST_LABEL) for lane in swim.lanes) * _RANK_CHARACTER * _font(swim)
    return round(max(NARROWEST, node + rank + LABEL_GAP), 1)


def _row_height(lanes: int) -> float:
    return next(height for most, height in ((12, 26.0), (24, 18.0), (44, 14.0), (1 << 30, 11.0)) if lanes <= most)


def _blocks(swim: Swim, scale: Scale, top: float, unknown_x: float | None) -> tuple[tuple[Block, ...], float]:
    height = _row_height(len(swim.lanes))
    y = top + 4
    blocks: list[Block] = []
    waits = [wait.low_ns for lane in swim.lanes for wait in lane.waits]
    rows: list[Row] = []
    for index, lane in enumerate(swim.lanes):
        rows.append(_row(lane, scale, y, height, unknown_x, min(waits, default=None)))
        y = round(y + height, 1)
        following = swim.lanes[index + 1] if index + 1 < len(swim.lanes) else None
        if following is None or following.node != lane.node:
            blocks.append(Block(rows[0].y, round(y - rows[0].y, 1), lane.node, tuple(rows)))
            rows = []
            y = round(y + NODE_GAP, 1)
    return tuple(blocks), y


def _row(lane: Lane, scale: Scale, y: float, height: float, unknown_x: float | None, absent_ns: int | None) -> Row:
    end = scale.x(lane.end_ns) if lane.end_ns is not None else scale.pieces[-1].right
    bars = [_bar("alive", scale.pieces[0].left, end, height * 0.4)]
    if lane.absent and absent_ns is not None:
        bars.append(_bar("absent", scale.x(absent_ns), end, height * 0.62))
    starts = [wait.low_ns for wait in lane.waits]
    if starts:
        ends = [wait.high_ns for wait in lane.waits]
        last = scale.pieces[-1].right if None in ends else scale.x(max(ns for ns in ends if ns is not None))
        bars.append(_bar("waited", scale.x(min(starts)), last, height * 0.42))
    if lane.ranks > 1 and len(lane.marks) > 1:
        bars += _binned(lane.marks, scale, height, unknown_x)
        glyphs: tuple[Glyph, ...] = ()
    else:
        glyphs = tuple(_glyph(mark, scale, unknown_x) for mark in lane.marks)
    return Row(y, height, lane.label, lane.accused, tuple(bars), glyphs)


def _bar(family: str, low: float, high: float, height: float) -> Bar:
    return Bar(family, low, round(max(high - low, 1.0), 1), round(height, 1))


def _glyph(mark: Mark, scale: Scale, unknown_x: float | None) -> Glyph:
    family, shape = FAMILIES.get(mark.kind, OTHER)
    if mark.time_ns is None:
        x = RIGHT if unknown_x is None else unknown_x
        return Glyph(family, shape, x, x, x, mark.words, bound=False)
    margin = int((mark.uncertainty_ms or 0.0) * 1e6)
    low, high = scale.x(mark.time_ns - margin), scale.x(mark.time_ns + margin)
    return Glyph(family, shape, scale.x(mark.time_ns), low, high, mark.words, mark.bound)


def _binned(marks: Sequence[Mark], scale: Scale, height: float, unknown_x: float | None) -> Iterable[Bar]:
    """Marks of a folded lane, put together where they fall into one place: the more, the taller."""
    places: dict[tuple[float, str], list[Mark]] = {}
    for mark in marks:
        x = scale.x(mark.time_ns) if mark.time_ns is not None else (RIGHT if unknown_x is None else unknown_x)
        family = FAMILIES.get(mark.kind, OTHER)[0]
        places.setdefault((round(x / BIN) * BIN, family), []).append(mark)
    for (x, family), found in sorted(places.items(), key=lambda item: (item[0][0], item[0][1])):
        kinds = Counter(mark.kind for mark in found)
        words = (
            found[0].words
            if len(found) == 1
            else ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
        )
        share = (len(found) / len(marks)) ** 0.5
        yield Bar(family, round(x - BIN / 2, 1), BIN, round(max(share * height * 0.9, 5.0), 1), words)


def _onsets(diagnosis: Diagnosis, scale: Scale) -> Iterable[Onset]:
    """The initiators, put together where they are drawn in one place."""
    places: dict[float, list[tuple[str, int, float]]] = {}
    for initiator in diagnosis.verdict.initiators:
        ns = nanoseconds_of(initiator.time)
        if ns is None:
            continue
        who = "" if initiator.rank is None and initiator.node is None else phrases.culprit(initiator)
        near = next((x for x in places if abs(x - scale.x(ns)) < 8), scale.x(ns))
        places.setdefault(near, []).append((who, ns, initiator.time_uncertainty_ms or 0.0))
    for x, found in sorted(places.items())[:3]:
        _, ns, margin_ms = found[0]
        name = found[0][0] if len(found) == 1 else f"{len(found)} initiators"
        time = phrases.clock_time(next(i.time for i in diagnosis.verdict.initiators if nanoseconds_of(i.time) == ns))
        margin = f" ± {phrases.duration(margin_ms)}" if margin_ms >= 1 else ""
        anchor = "start" if x < WIDTH * 0.6 else "end"
        low, high = scale.x(ns - int(margin_ms * 1e6)), scale.x(ns + int(margin_ms * 1e6))
        yield Onset(x, low, high, f"{time}{margin}" + (f"  {name}" if name else ""), anchor)


def _legend(swim: Swim) -> tuple[LegendEntry, ...]:
    counts = Counter(mark.kind for lane in swim.lanes for mark in lane.marks)
    ordered = sorted(counts.items(), key=lambda item: (item[0] != "initiating", -item[1], item[0]))
    return tuple(LegendEntry(kind, *FAMILIES.get(kind, OTHER), number) for kind, number in ordered)


__all__ = ["BREAK_WIDTH", "FAMILIES", "LanesPicture", "lanes_picture"]
