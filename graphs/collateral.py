"""Everyone else: how each rank that did not start it was dragged in, and by which path."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import networkx as nx

from correlator.core.model import Collateral
from correlator.core.reasons import EpisodeSummary
from correlator.core.vocabulary import CollateralKind, Context, FaultCode, Role
from correlator.graphs.build import AttemptGraph
from correlator.graphs.episodes import Episode, evidence, iso
from correlator.graphs.facts import Fact
from correlator.graphs.scene import TEARDOWN_ID, Scene

_OWN_WORDS = (
    CollateralKind.COLLECTIVE_TIMEOUT,
    CollateralKind.REMOTE_PEER_LOST,
    CollateralKind.STORE_LOST,
    CollateralKind.HEARTBEAT_EXIT,
    CollateralKind.CONTEXT_POISONED,
    CollateralKind.ACTOR_DIED,
    CollateralKind.SECONDARY_ABORT,
)
_TOLD = (CollateralKind.TERMINATED_BY_LAUNCHER, CollateralKind.SCHEDULER_CANCEL)
_EVIDENCE_LINES = 3


def collateral_of(attempt: AttemptGraph, roots: Sequence[Episode]) -> list[Collateral]:
    """One entry for each rank of the run that is no initiator, as far as anything shows how it ended."""
    scene = attempt.scene
    guilty = {root.rank for root in roots if root.rank is not None}
    lost = {root.node: root.id for root in roots if root.rank is None and root.code == FaultCode.NODE_LOST}
    paths = _paths(attempt.graph, roots)
    entries = []
    for place in scene.topology.ranks:
        if place.rank in guilty:
            continue
        if place.node is not None and place.node in lost:
            entries.append(_entry(place.rank, place.node, CollateralKind.SILENT_EXIT, (), paths, lost[place.node]))
            continue
        found = _kind(scene, place.rank, place.node, roots)
        if found is not None:
            kind, facts, via = found
            entries.append(_entry(place.rank, place.node, kind, facts, paths, via))
    return entries


def _entry(
    rank: int, node: str | None, kind: str, facts: Sequence[Fact], paths: dict[str, tuple[str, ...]], via: str
) -> Collateral:
    times = [fact.aligned_ns if fact.aligned_ns is not None else fact.printed_ns for fact in facts]
    known = [time for time in times if time is not None]
    return Collateral(
        rank=rank,
        node=node,
        kind=kind,
        time=iso(min(known), zoned=facts[0].zoned) if known else None,
        evidence=tuple(evidence(fact) for fact in facts[:_EVIDENCE_LINES]),
        explained_by=paths.get(via, ()),
    )


def _kind(
    scene: Scene, rank: int, node: str | None, roots: Sequence[Episode]
) -> tuple[str, tuple[Fact, ...], str] | None:
    """The rank's own words first; else who stopped it: its agent, or whoever stopped its agent."""
    own = [e for e in scene.by_rank.get(rank, ()) if e.role is Role.COLLATERAL and not e.inferred]
    spoken = [e for e in own if e.code in _OWN_WORDS]
    if spoken:
        untimed = _untimed(spoken)
        first = min(spoken, key=lambda e: _decisive(e, untimed=untimed))
        if first.code == CollateralKind.SECONDARY_ABORT and len(spoken) > 1:
            first = next((e for e in spoken if e.code != CollateralKind.SECONDARY_ABORT), first)
        return first.code, first.facts, first.id
    waits = scene.waits_of.get(rank)
    if waits:
        return CollateralKind.COLLECTIVE_TIMEOUT, (scene.hubs[waits[0]].waiters[rank],), scene.hub_id(waits[0])
    faults = [e for e in scene.by_rank.get(rank, ()) if e.role is Role.INITIATING and not e.from_kernel]
    stop = _stop_of(scene, node)
    if stop is not None and not _failed_by_itself(faults):
        kind = CollateralKind.TERMINATED_BY_LAUNCHER if _signalled_only(roots) else CollateralKind(stop.code)
        return kind, stop.facts, stop.id
    if faults:
        kind, shown = _dragged(faults, roots)
        return kind, shown.facts, shown.id
    told = [e for e in scene.by_rank.get(rank, ()) if e.code in _TOLD]
    if told:
        return told[0].code, told[0].facts, told[0].id
    return _by_scheduler(scene, node, roots)


def _dragged(faults: Sequence[Episode], roots: Sequence[Episode]) -> tuple[CollateralKind, Episode]:
    """What a rank's own fault is worth where another started it: a wait that ran out, a stop, or an end that followed."""
    waited = next((e for e in faults if e.code == FaultCode.RENDEZVOUS_TIMEOUT), None)
    if waited is not None:
        return CollateralKind.COLLECTIVE_TIMEOUT, waited
    cancelled = bool(roots) and all(root.code == FaultCode.PREEMPTED for root in roots) and not _signalled_only(roots)
    return CollateralKind.SCHEDULER_CANCEL if cancelled else CollateralKind.SECONDARY_ABORT, faults[0]


def _signalled_only(roots: Sequence[Episode]) -> bool:
    """The launcher itself was signalled and passed it on; no scheduler's or controller's word is in the files."""
    return bool(roots) and all(
        root.code == FaultCode.PREEMPTED and root.head.name == Context.AGENT_SIGNALLED for root in roots
    )


def _untimed(episodes: Sequence[Episode]) -> bool:
    return all(e.onset_ns is None for e in episodes)


def _decisive(episode: Episode, *, untimed: bool) -> tuple[bool, int, tuple[int, int]]:
    """What dragged the rank in: what came first by its own stamps; lines that only inherit a time come after."""
    stamped = any(f.printed_ns is not None and not f.inherited for f in episode.facts)
    order = _OWN_WORDS.index(CollateralKind(episode.code)) if untimed else 0
    return (not stamped, order, _when(episode))


def _when(episode: Episode) -> tuple[int, int]:
    return (episode.onset_ns or 0, episode.head.line)


def _failed_by_itself(faults: Sequence[Episode]) -> bool:
    return any(not e.inferred for e in faults)


def _stop_of(scene: Scene, node: str | None) -> Episode | None:
    """Who stopped the node: an agent that was told to stop passes the order on; else it acted for a failed child."""
    here = scene.placeless if node is None else [e for e in scene.by_node.get(node, ()) if e.rank is None]
    told = next((e for e in here if e.code == CollateralKind.SCHEDULER_CANCEL), None)
    acted = next((e for e in here if e.code == CollateralKind.TERMINATED_BY_LAUNCHER), None)
    if told is not None and acted is not None:
        failed_first = [
            e for e in scene.by_node.get(node or "", ()) if e.rank is not None and e.role is Role.INITIATING
        ]
        return acted if failed_first else told
    return told or acted


def _by_scheduler(scene: Scene, node: str | None, roots: Sequence[Episode]) -> tuple[str, tuple[Fact, ...], str] | None:
    """Nothing of the rank's own and no agent's word: cancelled, where the scheduler says that it took the step down.

    That one task ended says nothing of the others: they may have run to their end.
    """
    order = scene.taken_down
    if not roots or order is None:
        return None
    told = scene.task_exits.get(node or "") or order
    return CollateralKind.SCHEDULER_CANCEL, (told,), TEARDOWN_ID


def _paths(graph: nx.DiGraph[str], roots: Sequence[Episode]) -> dict[str, tuple[str, ...]]:
    """Graph node -> the shortest causal path to it from an initiator, initiator first."""
    found: dict[str, tuple[str, ...]] = {root.id: (root.id,) for root in roots}
    waiting = deque(found)
    while waiting:
        cause = waiting.popleft()
        for effect in graph.successors(cause):
            if effect not in found:
                found[effect] = (*found[cause], effect)
                waiting.append(effect)
    return found


MOST_EVENTS = 20
"""Event ids listed for one step; a hub of thousands of waiters has as many."""


def steps_of(attempt: AttemptGraph, collateral: Sequence[Collateral]) -> tuple[EpisodeSummary, ...]:
    """Every episode and hub that some causal path goes through, so that its ids can be looked up."""
    wanted = dict.fromkeys(step for entry in collateral for step in entry.explained_by)
    by_id = attempt.scene.by_id
    hubs = {attempt.scene.hub_id(index): hub for index, hub in enumerate(attempt.scene.hubs)}
    steps = []
    for step in wanted:
        events = tuple(str(number) for number in attempt.graph.nodes[step]["events"][:MOST_EVENTS])
        if step == TEARDOWN_ID:
            what = "the scheduler ended the tasks of the step"
            steps.append(EpisodeSummary(step, CollateralKind.SCHEDULER_CANCEL, None, None, what, events))
        elif step in by_id:
            episode = by_id[step]
            what = episode.inferred or episode.head.body[:200]
            steps.append(EpisodeSummary(step, str(episode.code), episode.rank, episode.node, what, events))
        else:
            what = f"{len(hubs[step].waiters)} ranks waited in {hubs[step].name}"
            steps.append(EpisodeSummary(step, CollateralKind.COLLECTIVE_TIMEOUT, None, None, what, events))
    return tuple(steps)
