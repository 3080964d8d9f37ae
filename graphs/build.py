"""One attempt as a scene, and the causal graph that the rules draw over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import networkx as nx

from correlator.core.vocabulary import CollateralKind, Context, FaultCode, FileKind, Role
from correlator.graphs.dump_age import stale_dumps
from correlator.graphs.episodes import Episode, build_episodes
from correlator.graphs.exits import exit_episodes, place_memory_kills, process_ends
from correlator.graphs.facts import Fact, RunFacts, facts_of
from correlator.graphs.hubs import wait_hubs
from correlator.graphs.inferred import (
    lost_nodes,
    mismatches,
    missing_rendezvous,
    stops,
    told_from_outside,
)
from correlator.graphs.placing import join_unplaced, place_node_faults
from correlator.graphs.recovery import Advance, advance_of, cut_short, last_steps, logged_tracebacks, recovered
from correlator.graphs.rules import RULES
from correlator.graphs.scene import TEARDOWN_ID, Edge, Refused, Rejection, Scene
from correlator.graphs.silence import Explained, silent_ranks
from correlator.graphs.survivors import of_strangers, outlived
from correlator.graphs.unknown import last_words
from correlator.graphs.vanished import vanished_node


@dataclass(frozen=True)
class AttemptGraph:
    """The causal graph of one attempt and what it was drawn from."""

    scene: Scene
    graph: nx.DiGraph[str]
    refused: tuple[Refused, ...]
    """What the rules looked for and did not find, most frequent first."""
    survived: tuple[Episode, ...]
    """Episodes after which training went on; shown, never blamed."""
    advance: Advance
    evaluations: tuple[Fact, ...] = ()
    """Lines that tell of evaluation, kept out of the scene's facts since there are many."""
    stale_dumps: frozenset[str] = frozenset()
    """Files of flight-recorder dumps that an older run left; set aside."""


def build_attempt(run: RunFacts, all_facts: Sequence[Fact], attempt: int) -> AttemptGraph:
    """Episodes, inferred episodes, hubs and edges of an attempt."""
    stale = stale_dumps(run.events, attempt, run.clocks)
    facts = [fact for fact in all_facts if fact.attempt == attempt and fact.file not in stale]
    torn = {(r.path, r.lines) for r in run.reports if r.cut_off and r.kind is not FileKind.ERROR_FILE}
    advance = advance_of(run.events, list(facts), attempt, run.clocks)
    stated = place_node_faults([_weakened(e, facts, torn) for e in build_episodes(facts)])
    ends = process_ends(facts, tasks_are_ranks=run.topology.tasks_are_ranks)
    logged = logged_tracebacks(facts, {end.rank for end in ends if not end.told and end.exit_code > 0})
    survived: list[Episode] = []
    episodes: list[Episode] = []
    lived = outlived(stated, facts, ends, run.topology)
    for episode in stated:
        gone_on = episode.id in lived or recovered(episode, advance, run.clocks, logged)
        (survived if gone_on else episodes).append(episode)
    unknown = last_words(facts, ends, stated, world_size=run.topology.world_size, healthy=run.healthy)
    episodes += [episode for episode in unknown if not recovered(episode, advance, run.clocks)]
    episodes = join_unplaced(place_memory_kills([*episodes, *exit_episodes(ends, 0)]))
    episodes = of_strangers(episodes, facts, run.topology)
    episodes += lost_nodes(facts, run.topology)
    hubs = [hub for hub in wait_hubs(run, facts, attempt, set_aside=stale, cut_short=cut_short(advance)) if hub.waiters]
    episodes += mismatches(hubs)
    waiting = {rank for hub in hubs for rank in hub.waiters}
    faults = [e for e in episodes if e.role is Role.INITIATING and not _bare_abort(e)]
    faulty = frozenset(e.rank for e in faults if e.rank is not None and e.rank not in waiting)
    unlinked = frozenset(e.node for e in faults if e.code == FaultCode.NETWORK_FAULT and e.node is not None)
    silent = silent_ranks(hubs, facts, run.topology, Explained(faulty, unlinked), attempt)
    episodes = place_node_faults([*episodes, *silent])
    missing = missing_rendezvous(facts, episodes, run.topology)
    episodes += [missing] if missing else []
    episodes += stops(facts)
    outside = told_from_outside(facts, episodes)
    episodes += [outside] if outside else []
    vanished = vanished_node(facts, episodes, run.topology, attempt)
    episodes += [vanished] if vanished else []
    episodes = [replace(e, id=f"e{number}") for number, e in enumerate(episodes)]
    scene = Scene(
        attempt=attempt,
        episodes=tuple(episodes),
        hubs=tuple(hubs),
        ends=tuple(ends),
        facts=tuple(facts),
        topology=run.topology,
        clocks=run.clocks,
        last_steps=last_steps(run.events, attempt),
        healthy=run.healthy,
    )
    graph, refused = draw(scene)
    evaluations = tuple(f for f in facts_of(run.events, (Context.EVALUATION,)) if f.attempt == attempt)
    return AttemptGraph(scene, graph, refused, tuple(survived), advance, evaluations, stale)


def redrawn(attempt: AttemptGraph, accused: Sequence[Episode]) -> AttemptGraph:
    """The graph with links from the accused kept before those of others, where rules had more causes than they keep."""
    scene = replace(attempt.scene, accused=frozenset(episode.id for episode in accused))
    graph, refused = draw(scene)
    return replace(attempt, scene=scene, graph=graph, refused=refused)


def _bare_abort(episode: Episode) -> bool:
    """Exit code -6 alone: a watchdog ends a stalled rank that way too, so it does not explain why the rank stayed away."""
    return episode.code == FaultCode.NATIVE_ABORT and bool(episode.inferred)


_APPLICATION_KERNEL = (FaultCode.GPU_MMU_FAULT, FaultCode.NATIVE_SEGFAULT)


def _weakened(episode: Episode, facts: Sequence[Fact], torn: set[tuple[str, int]]) -> Episode:
    """Kernel faults of application kinds say little about a rank that shows no fault of its own (benign Xid 13/31)."""
    ends = {(fact.file, fact.line + fact.line_count - 1) for fact in episode.facts}
    if _only_recorded(episode) or (episode.code == FaultCode.PYTHON_EXCEPTION and ends <= torn):
        return replace(episode, specificity=0.4)
    if not (episode.from_kernel and episode.code in _APPLICATION_KERNEL):
        return episode
    told = (Context.WORKER_FAILED, Context.CHILD_FAILED_ROW)
    suffers = episode.rank is not None and any(
        f.rank == episode.rank and f is not episode.head and (f.role is Role.INITIATING or f.name in told)
        for f in facts
    )
    return episode if suffers else replace(episode, specificity=0.6)


def _only_recorded(episode: Episode) -> bool:
    """Xid 63 alone: a row was marked for remapping, which by itself ends nothing (formats.md H1)."""
    numbers = {fact.attribute("xid") for fact in episode.facts}
    return episode.code == FaultCode.GPU_ECC_DBE and numbers == {"63"}


def draw(scene: Scene) -> tuple[nx.DiGraph[str], tuple[Refused, ...]]:
    """All rules over the scene; nodes carry code, role and evidence ids, edges rule, q and reason."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for episode in scene.episodes:
        graph.add_node(
            episode.id,
            kind="episode",
            code=str(episode.code),
            role=str(episode.role),
            rank=episode.rank,
            node=episode.node,
            events=[fact.event_id for fact in episode.facts],
        )
    for index, hub in enumerate(scene.hubs):
        graph.add_node(
            scene.hub_id(index),
            kind="hub",
            code=str(CollateralKind.COLLECTIVE_TIMEOUT),
            role=str(Role.COLLATERAL),
            name=hub.name,
            waiters=sorted(hub.waiters),
            missing=sorted(hub.missing),
            events=[hub.waiters[rank].event_id for rank in sorted(hub.waiters)],
        )
    if scene.teardown is not None:
        graph.add_node(
            TEARDOWN_ID,
            kind="episode",
            code=str(CollateralKind.SCHEDULER_CANCEL),
            role=str(Role.COLLATERAL),
            rank=None,
            node=None,
            events=[scene.teardown.event_id],
        )
    refused: dict[tuple[str, str, str, str], tuple[int, Rejection]] = {}
    for rule in RULES:
        for found in rule(scene):
            if isinstance(found, Rejection):
                codes = (graph.nodes[found.cause]["code"], graph.nodes[found.effect]["code"])
                key = (found.rule, found.reason, *codes)
                count, example = refused.get(key, (0, found))
                refused[key] = (count + 1, example)
            else:
                _add(graph, found)
    folded = (Refused(*key, count, example) for key, (count, example) in refused.items())
    return graph, tuple(sorted(folded, key=lambda one: (-one.count, one.rule, one.reason)))


def _add(graph: nx.DiGraph[str], edge: Edge) -> None:
    """The strongest of several edges between two nodes stays; none from a node to itself."""
    if edge.cause == edge.effect:
        return
    known = graph.get_edge_data(edge.cause, edge.effect)
    if known is None or known["q"] < edge.q:
        graph.add_edge(edge.cause, edge.effect, rule=edge.rule, q=edge.q, reason=edge.reason)
