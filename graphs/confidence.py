"""How sure the verdict is: how often such a finding, on such a share of the logs, names exactly who began (decision 0010).

The figures are shares that were measured on generated runs, whole ones and such with files lost (benchmarks/calibration.py);
they are not sums of opinions. What speaks against a finding in the run at hand caps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from correlator.core.model import Topology
from correlator.core.vocabulary import Context, FaultCode
from correlator.graphs.build import AttemptGraph
from correlator.graphs.episodes import Episode
from correlator.graphs.roots import Roots

FLOOR = 0.5
"""Below this the product abstains."""
HALF = 0.5
_BY_HAND = frozenset({"SIGHUP", "SIGINT"})
"""Signals of a terminal; a launcher that follows another node's failure is sent SIGTERM."""


class Finding(StrEnum):
    """What a verdict rests on."""

    STATED = "a fault that lines state"
    STATED_BY_SEVERAL = "the same or several faults that no clock orders"
    VAGUE = "an exit by a signal, or a kernel line of an application's kind"
    SILENT_EXIT = "an exit code without a word"
    KILLED = "SIGKILL by nobody that the files name"
    BEHIND = "a rank that its own counters or dump show behind"
    SILENT = "the one rank that is missing from a collective"
    SEVERAL_SILENT = "several ranks missing from a collective, without counters"
    MISMATCH = "another call than the peers'"
    NODE_REPORTED = "a node that the controller or its peers call lost"
    NODE_SILENT = "a node that fell silent as a whole"
    ORDERED = "the scheduler's own order"
    SIGNALLED = "agents told to stop, and nothing that failed before"
    NOT_COME = "agents that gave up in the rendezvous"


class Coverage(StrEnum):
    """How many of the ranks left a log."""

    ALL = "all"
    MOST = "half or more"
    FEW = "less than half"


SHARE_RIGHT: dict[Finding, tuple[float, float, float]] = {
    Finding.STATED: (0.98, 0.9, 0.87),
    Finding.STATED_BY_SEVERAL: (0.93, 0.6, 0.55),
    Finding.VAGUE: (0.85, 0.72, 0.72),
    Finding.SILENT_EXIT: (0.9, 0.62, 0.62),
    Finding.KILLED: (0.95, 0.92, 0.85),
    Finding.BEHIND: (0.98, 0.9, 0.8),
    Finding.SILENT: (0.94, 0.88, 0.86),
    Finding.SEVERAL_SILENT: (0.4, 0.3, 0.3),
    Finding.MISMATCH: (0.97, 0.85, 0.8),
    Finding.NODE_REPORTED: (0.95, 0.9, 0.85),
    Finding.NODE_SILENT: (0.6, 0.55, 0.55),
    Finding.ORDERED: (0.95, 0.92, 0.92),
    Finding.SIGNALLED: (0.93, 0.3, 0.3),
    Finding.NOT_COME: (0.9, 0.45, 0.4),
}
"""Share of verdicts that named exactly the initiators, where all, half or more, and fewer of the ranks left a log.

Counts of few runs are drawn towards one half; a finding that accuses the innocent more often than not stays below FLOOR.
"""


@dataclass(frozen=True, slots=True)
class Confidence:
    """The figure and what raised or lowered it."""

    value: float
    supports: tuple[str, ...]
    contradicts: tuple[str, ...]


def confidence_of(attempt: AttemptGraph, roots: Roots) -> Confidence:
    """Confidence in a non-empty set of roots."""
    supports: list[str] = []
    contradicts: list[str] = []
    topology = attempt.scene.topology
    coverage = coverage_of(topology)
    finding = min((finding_of(root, roots) for root in roots.chosen), key=lambda kind: SHARE_RIGHT[kind][0])
    value = SHARE_RIGHT[finding][tuple(Coverage).index(coverage)]
    supports.append(f"it rests on {finding}")
    kinds = {fact.file_kind for root in roots.chosen for fact in root.facts}
    kinds |= {fact.file_kind for found in roots.supporting.values() for e in found for fact in e.facts}
    if len(kinds) > 1:
        value += 0.01
        supports.append(f"{len(kinds)} kinds of file agree")
    held = [hub for hub in attempt.scene.hubs if any(r.rank in hub.missing | hub.deviating for r in roots.chosen)]
    if held:
        supports.append(f"it is what held {held[0].name} up")
    contradicting = [
        hub for hub in attempt.scene.hubs if any(r.rank is not None and r.rank in hub.waiters for r in roots.chosen)
    ]
    if contradicting and not held:
        value = min(value, 0.8)
        contradicts.append(f"it also waited in {contradicting[0].name}")
    left = _end_of_nobody(attempt, roots)
    if left is not None:
        value = min(value, HALF - 0.05)
        contradicts.append(f"{left.where} ended by itself without a word, and nothing says whose the fault was")
    _tell_coverage(topology, coverage, roots.chosen, contradicts)
    return Confidence(round(max(0.0, min(value, 0.99)), 2), tuple(supports), tuple(contradicts))


def finding_of(root: Episode, roots: Roots) -> Finding:
    """What kind of finding an initiator is."""
    several = len(roots.chosen) > 1
    match root.code:
        case FaultCode.RANK_STALLED:
            if root.specificity >= 0.9:
                return Finding.BEHIND
            return Finding.SEVERAL_SILENT if several else Finding.SILENT
        case FaultCode.COLLECTIVE_MISMATCH:
            return Finding.MISMATCH
        case FaultCode.PREEMPTED:
            told = root.head.name == Context.AGENT_SIGNALLED and root.head.attribute("signal") not in _BY_HAND
            return Finding.SIGNALLED if told else Finding.ORDERED
        case FaultCode.NODE_LOST:
            return Finding.NODE_SILENT if root.inferred.startswith("all ") else Finding.NODE_REPORTED
        case FaultCode.PROCESS_KILLED:
            return Finding.KILLED
        case FaultCode.SILENT_EXIT:
            return Finding.SILENT_EXIT
        case FaultCode.RENDEZVOUS_TIMEOUT if root.inferred:
            return Finding.NOT_COME
        case _:
            if root.specificity < 0.9:
                return Finding.VAGUE
            return Finding.STATED_BY_SEVERAL if several else Finding.STATED


def _end_of_nobody(attempt: AttemptGraph, roots: Roots) -> Episode | None:
    """The bare exit of a rank beside a raised fault that no line gives a rank or node: they may be one or two."""
    if any(r.rank is not None or r.node is not None or r.head.exception_type is None for r in roots.chosen):
        return None
    exits = (e for e in attempt.scene.initiating if e.code == FaultCode.SILENT_EXIT and e.rank is not None)
    return next(exits, None)


def coverage_of(topology: Topology) -> Coverage:
    """How many ranks of the world left a log; all of them where nobody knows how many there are."""
    logged = sum(place.has_log for place in topology.ranks)
    world = topology.world_size or len(topology.ranks)
    if not world or logged >= world:
        return Coverage.ALL
    return Coverage.MOST if logged >= HALF * world else Coverage.FEW


def _tell_coverage(topology: Topology, coverage: Coverage, roots: Sequence[Episode], contradicts: list[str]) -> None:
    """Other ranks could hold an earlier fault: with few logs even a plain one is only the best seen."""
    if coverage is Coverage.ALL:
        return
    if not all(root.rank is None or _has_log(topology, root.rank) for root in roots):
        contradicts.append("the accused left no log of its own")
    logged = sum(place.has_log for place in topology.ranks)
    contradicts.append(f"only {logged} of {topology.world_size or len(topology.ranks)} ranks left a log")


def _has_log(topology: Topology, rank: int) -> bool:
    place = topology.place(rank)
    return place is not None and place.has_log
