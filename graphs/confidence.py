"""How sure the verdict is: a sum of plain reasons, each with its weight, capped where evidence is thin (method.md 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from correlator.core.model import Topology
from correlator.core.vocabulary import FaultCode
from correlator.graphs.build import AttemptGraph
from correlator.graphs.episodes import Episode
from correlator.graphs.roots import Roots

FLOOR = 0.5
"""Below this the product abstains."""


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
    value = min(_base(root) for root in roots.chosen)
    kinds = {fact.file_kind for root in roots.chosen for fact in root.facts}
    kinds |= {fact.file_kind for found in roots.supporting.values() for e in found for fact in e.facts}
    if len(kinds) > 1:
        value += 0.04
        supports.append(f"{len(kinds)} kinds of file agree")
    held = [hub for hub in attempt.scene.hubs if any(r.rank in hub.missing | hub.deviating for r in roots.chosen)]
    if held:
        value += 0.03
        supports.append(f"it is what held {held[0].name} up")
    contradicting = [
        hub for hub in attempt.scene.hubs if any(r.rank is not None and r.rank in hub.waiters for r in roots.chosen)
    ]
    if contradicting and not held:
        value = min(value, 0.8)
        contradicts.append(f"it also waited in {contradicting[0].name}")
    value = min(value, _coverage_cap(attempt.scene.topology, roots.chosen, contradicts))
    if roots.tied:
        value = min(value, 0.9)
    return Confidence(round(max(0.0, min(value, 0.99)), 2), tuple(supports), tuple(contradicts))


def _base(root: Episode) -> float:
    match root.code:
        case FaultCode.RANK_STALLED:
            return 0.88 if root.specificity >= 0.9 else 0.7
        case FaultCode.COLLECTIVE_MISMATCH | FaultCode.PREEMPTED:
            return 0.88
        case FaultCode.NODE_LOST:
            return 0.8
        case FaultCode.PROCESS_KILLED:
            return 0.75
        case FaultCode.SILENT_EXIT:
            return 0.55
        case _:
            return 0.92 if root.specificity >= 0.9 else 0.75


def _coverage_cap(topology: Topology, roots: Sequence[Episode], contradicts: list[str]) -> float:
    """Other ranks could hold an earlier fault: with few logs even a plain one is only the best seen."""
    logged = sum(place.has_log for place in topology.ranks)
    world = topology.world_size or len(topology.ranks)
    if not world or logged >= world:
        return 0.99
    own = all(r.rank is None or _has_log(topology, r.rank) for r in roots)
    share = logged / world
    if not own:
        contradicts.append("the accused left no log of its own")
        return 0.75
    if share < 0.5:
        contradicts.append(f"only {logged} of {world} ranks left a log")
        return 0.8
    return 0.95


def _has_log(topology: Topology, rank: int) -> bool:
    place = topology.place(rank)
    return place is not None and place.has_log
