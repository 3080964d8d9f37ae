"""Who was where when: one lane a rank (or, when they are many, a lane for several nodes alike), read from a diagnosis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from correlator.core.model import Collateral, Diagnosis, Evidence, Initiator
from correlator.core.ranges import fold_hosts, fold_numbers
from correlator.core.vocabulary import FaultCode
from correlator.reports import phrases
from correlator.reports.causes import CauseGraph, nanoseconds_of
from correlator.reports.details import Details
from correlator.reports.lanes_events import (
    HORIZON_NS,
    NO_STAMP,
    Stamp,
    Wait,
    ranks_of,
    stamps_of,
    steps_of,
    steps_to_show,
    waits_of,
)

MOST_LANES = 72
"""Up to here every rank has a lane of its own."""
MOST_FOLDED_LANES = 40
_STARTED = "initiating"


@dataclass(frozen=True, slots=True)
class Mark:
    """The moment at which something befell a rank; `kind` is a kind of collateral, or `initiating`."""

    kind: str
    time_ns: int | None
    uncertainty_ms: float | None
    words: str
    bound: bool = False
    """It was not before `time_ns`; no more is known."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of the picture."""

    node: str
    label: str
    ranks: int
    accused: bool
    absent: bool
    """True for a rank that its peers waited for in vain."""
    marks: tuple[Mark, ...]
    waits: tuple[Wait, ...]

    @property
    def end_ns(self) -> int | None:
        """When the last of its ranks was seen to end; None = not known."""
        if any(wait.high_ns is None for wait in self.waits) or self.absent:
            return None
        times = [mark.time_ns for mark in self.marks if mark.time_ns is not None and not mark.bound]
        return max(times) if times and len(times) == len(self.marks) else None


@dataclass(frozen=True, slots=True)
class Swim:
    """The lanes, the steps that were made, and the times that the picture has to show."""

    lanes: tuple[Lane, ...]
    steps: tuple[tuple[int, int], ...]
    """(time, step), in order of time."""
    anchors: tuple[int, ...]
    folded: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """A rank (or a node, where `rank` is None) with all that befell it."""

    rank: int | None
    node: str
    accused: bool
    absent: bool
    marks: tuple[Mark, ...]
    waits: tuple[Wait, ...]


def swim(diagnosis: Diagnosis, details: Details | None, graph: CauseGraph | None) -> Swim:
    """The picture of a diagnosis. Without details there are no waits, steps or healthy ranks in it."""
    stamps = {} if details is None else stamps_of(details.events)
    waits = {} if details is None else waits_of(details.events, graph)
    places: dict[tuple[int | None, str], _Place] = {}
    for initiator in diagnosis.verdict.initiators:
        _put(places, _accused(initiator, waits))
    for entry in diagnosis.collateral:
        _put(places, _dragged(entry, waits, stamps, onset_of(diagnosis)))
    known = {place.rank for place in places.values()}
    for rank, node in [] if details is None else ranks_of(details.events):
        if rank not in known:
            _put(places, _Place(rank, node or "", accused=False, absent=False, marks=(), waits=()))
    ordered = _in_order(list(places.values()))
    lanes = [_lane([place]) for place in ordered] if len(ordered) <= MOST_LANES else _folded(ordered)
    times = _times(places.values())
    if any(mark.time_ns is None or mark.bound for place in places.values() for mark in place.marks):
        times += _end_of_run(diagnosis, times)
    steps = [] if details is None else steps_of(details.events, min(times, default=None), max(times, default=None))
    if not times:
        times = [
            ns for ns in map(nanoseconds_of, (diagnosis.run.first_time, diagnosis.run.last_time)) if ns is not None
        ]
    anchors = sorted([*times, *steps_to_show(steps, times)])
    return Swim(tuple(lanes), tuple(steps), tuple(anchors), folded=len(ordered) > MOST_LANES)


def _put(places: dict[tuple[int | None, str], _Place], place: _Place) -> None:
    """One place a rank: what two entries say of it is put together."""
    key = (place.rank, "" if place.rank is not None else place.node)
    known = places.get(key)
    if known is None:
        places[key] = place
        return
    places[key] = _Place(
        place.rank,
        known.node or place.node,
        known.accused or place.accused,
        known.absent or place.absent,
        (*known.marks, *place.marks),
        known.waits or place.waits,
    )


def _accused(initiator: Initiator, waits: dict[int, Wait]) -> _Place:
    words = (
        f"{phrases.culprit(initiator)}: {initiator.fault.value}, {_when(initiator.time, initiator.time_uncertainty_ms)}"
    )
    mark = Mark(
        _STARTED, nanoseconds_of(initiator.time), initiator.time_uncertainty_ms, words + _cited(initiator.evidence)
    )
    absent = initiator.fault is FaultCode.RANK_STALLED and bool(waits)
    return _Place(initiator.rank, initiator.node or "", accused=True, absent=absent, marks=(mark,), waits=())


def onset_of(diagnosis: Diagnosis) -> int | None:
    """When the first initiator began, in ns since 1970."""
    times = (nanoseconds_of(initiator.time) for initiator in diagnosis.verdict.initiators)
    return min((ns for ns in times if ns is not None), default=None)


def _end_of_run(diagnosis: Diagnosis, times: Sequence[int]) -> list[int]:
    """The last time in the files, for what has no time of its own: it lies somewhere before that."""
    last = nanoseconds_of(diagnosis.run.last_time)
    return [min(last, max(times) + HORIZON_NS)] if last is not None and times and last > max(times) else []


def _dragged(
    entry: Collateral, waits: dict[int, Wait], stamps: dict[tuple[str, int], Stamp], onset_ns: int | None
) -> _Place:
    time = nanoseconds_of(entry.time)
    first = next(iter(entry.evidence), None)
    stamp = NO_STAMP if first is None else stamps.get((first.file, first.line), NO_STAMP)
    who = phrases.fold_places([(entry.rank, entry.node)])
    when = f"not before {phrases.clock_time(entry.time)}" if stamp.bound else _when(entry.time, stamp.margin_ms)
    words = f"{who}: {entry.kind}, {when}{_cited(entry.evidence)}"
    if stamp.bound and time is not None and onset_ns is not None and time <= onset_ns:
        time = None  # a bound that says less than the cause does
    wait = None if entry.rank is None else waits.get(entry.rank)
    if wait is not None and wait.high_ns is not None and time is not None and not stamp.bound:
        wait = Wait(wait.low_ns, max(time, wait.low_ns))
    spans = () if wait is None else (wait,)
    return _Place(
        entry.rank,
        entry.node or "",
        accused=False,
        absent=False,
        marks=(Mark(str(entry.kind), time, None if stamp.bound else stamp.margin_ms, words, bound=stamp.bound),),
        waits=spans,
    )


def _when(time: str | None, margin_ms: float | None) -> str:
    if time is None:
        return "at an unknown time"
    return phrases.clock_time(time) + ("" if margin_ms is None else f" ± {phrases.duration(margin_ms)}")


def _cited(evidence: Sequence[Evidence]) -> str:
    return f" ({evidence[0].file}:{evidence[0].line})" if evidence else ""


# --- from places to lanes --------------------------------------------------------------------------------------------


def _in_order(places: list[_Place]) -> list[_Place]:
    """Node by node, the one with the lowest rank first; what belongs to no node comes before all."""
    first: dict[str, int] = {}
    for place in places:
        rank = -1 if place.rank is None and not place.node else place.rank
        if rank is not None:
            first[place.node] = min(first.get(place.node, rank), rank)
    last = 1 << 62
    return sorted(places, key=lambda p: (first.get(p.node, last), p.node, -1 if p.rank is None else p.rank))


def _lane(places: Sequence[_Place]) -> Lane:
    nodes = sorted({place.node for place in places if place.node})
    ranks = [place.rank for place in places if place.rank is not None]
    return Lane(
        node=fold_hosts(nodes) if nodes else "",
        label=fold_numbers(ranks) if ranks else ("node" if nodes else "job"),
        ranks=max(len(ranks), 1),
        accused=any(place.accused for place in places),
        absent=any(place.absent for place in places),
        marks=tuple(mark for place in places for mark in place.marks),
        waits=tuple(wait for place in places for wait in place.waits),
    )


def _folded(places: Sequence[_Place]) -> list[Lane]:
    """The accused keep lanes of their own while they are few; neighbours of whom the same is told share one."""
    alone = sum(place.accused for place in places) <= MOST_FOLDED_LANES // 2
    units: list[list[_Place]] = []
    for place in places:
        last = units[-1][0] if units else None
        same = last is not None and last.node == place.node and last.accused == place.accused
        if same and not (alone and place.accused):
            units[-1].append(place)
        else:
            units.append([place])
    size = -(-len(units) // MOST_FOLDED_LANES)
    chunks: list[list[list[_Place]]] = []
    for unit in units:
        open_chunk = chunks and len(chunks[-1]) < size and _alike(chunks[-1][-1], unit)
        if open_chunk and not (alone and unit[0].accused):
            chunks[-1].append(unit)
        else:
            chunks.append([unit])
    return [_lane([place for unit in chunk for place in unit]) for chunk in chunks]


def _alike(a: Sequence[_Place], b: Sequence[_Place]) -> bool:
    return a[0].accused == b[0].accused


def _times(places: Iterable[_Place]) -> list[int]:
    """All that the picture has to show: marks with the margins of the accused, and the starts of waits."""
    times = []
    for place in places:
        for mark in place.marks:
            if mark.time_ns is None:
                continue
            times.append(mark.time_ns)
            if place.accused and mark.uncertainty_ms is not None and mark.uncertainty_ms * 1e6 < HORIZON_NS:
                margin = int(mark.uncertainty_ms * 1e6)
                times += [mark.time_ns - margin, mark.time_ns + margin]
        times += [wait.low_ns for wait in place.waits]
    return times
