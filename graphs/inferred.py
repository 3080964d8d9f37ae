"""Episodes that no line states: stops by agents and schedulers, silent ranks, mismatches, lost nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from correlator.core.model import Topology
from correlator.core.vocabulary import CollateralKind, Context, FaultCode, FileKind, Role
from correlator.graphs.episodes import Episode
from correlator.graphs.facts import Fact
from correlator.graphs.hubs import WaitHub

EXTERNAL_REASONS = frozenset({"time_limit", "preemption", "requeue", "deadline"})
NODE_REASONS = frozenset({"node_failure"})
LOST_POD_STATES = frozenset({"NodeLost", "Unknown"})


def _made(
    code: str,
    role: Role,
    fact: Fact,
    facts: Sequence[Fact],
    inferred: str,
    *,
    rank: int | None = None,
    node: str | None,
) -> Episode:
    return Episode(
        id="",
        code=code,
        role=role,
        attempt=fact.attempt,
        rank=rank,
        node=node,
        gpu=None,
        pid=None,
        facts=tuple(facts),
        inferred=inferred,
        specificity=0.8,
    )


def stops(facts: Sequence[Fact]) -> list[Episode]:
    """Node-wide stops (collateral) and orders of the scheduler (initiating where it acts on its own account)."""
    episodes: list[Episode] = []
    for node, found in _by_node(f for f in facts if f.name == Context.AGENT_SIGNALLED).items():
        text = f"the agent of {node} was told to stop" if node else "the agent was told to stop"
        episodes.append(_made(CollateralKind.SCHEDULER_CANCEL, Role.COLLATERAL, found[0], found, text, node=node))
    for place, found in _by_node(f for f in facts if f.name == Context.WORKER_SIGNALLED).items():
        node = place or _only_failing_node(facts, found)
        text = f"the agent stopped its workers on {node}" if node else "the agent stopped its workers"
        episodes.append(_made(CollateralKind.TERMINATED_BY_LAUNCHER, Role.COLLATERAL, found[0], found, text, node=node))
    cancels = [f for f in facts if f.name == Context.SCHEDULER_CANCELLED]
    own = [f for f in cancels if f.attribute("reason") in EXTERNAL_REASONS]
    if own:
        text = f"the scheduler ended the job ({own[0].attribute('reason')})".replace("_", " ")
        episodes.append(_made(FaultCode.PREEMPTED, Role.INITIATING, own[0], own, text, node=None))
    return episodes


def _only_failing_node(facts: Sequence[Fact], told: Sequence[Fact]) -> str | None:
    """In a console of several nodes the agent's own lines name no node; its report of the failed child does."""
    files = {fact.file for fact in told}
    nodes = {f.node for f in facts if f.name == Context.CHILD_FAILED_ROW and f.node and f.file in files}
    return nodes.pop() if len(nodes) == 1 else None


def _by_node(facts: Iterable[Fact]) -> dict[str | None, list[Fact]]:
    groups: dict[str | None, list[Fact]] = {}
    for fact in facts:
        groups.setdefault(fact.node, []).append(fact)
    return groups


def told_from_outside(facts: Sequence[Fact], episodes: Sequence[Episode]) -> Episode | None:
    """The job was stopped from outside: agents were signalled, and nothing of the run's own had failed before."""
    told = [f for f in facts if f.name == Context.AGENT_SIGNALLED]
    if not told or any(e.role is Role.INITIATING for e in episodes):
        return None
    first = min(told, key=lambda f: (f.aligned_ns or f.printed_ns or 0, f.file, f.line))
    signal = first.attribute("signal") or "a signal"
    return _made(
        FaultCode.PREEMPTED, Role.INITIATING, first, told, f"the launcher was sent {signal} from outside", node=None
    )


def lost_nodes(facts: Sequence[Fact], topology: Topology) -> list[Episode]:
    """Nodes that a scheduler or controller reports as gone."""
    named: dict[str, list[Fact]] = {}
    for fact in facts:
        lost_pod = fact.name == Context.POD_STATUS and fact.attribute("status") in LOST_POD_STATES
        if not lost_pod and fact.name != Context.NODE_FAILURE_REPORTED:
            continue
        node = fact.attribute("node") or fact.node
        if node and (node in topology.nodes or not topology.nodes):
            named.setdefault(node, []).append(fact)
    text = "its files end without a word, and the controller reports it lost"
    return [
        _made(FaultCode.NODE_LOST, Role.INITIATING, found[0], found, text, node=node)
        for node, found in sorted(named.items())
    ]


def mismatches(hubs: Sequence[WaitHub]) -> list[Episode]:
    """One episode for each rank that brought another operation or size to a hub in which others hang."""
    episodes = []
    for hub in hubs:
        calls = {call.rank: call for call in hub.calls}
        for rank in sorted(hub.deviating):
            call = calls[rank]
            peers = [c for c in hub.calls if c.rank not in hub.deviating][:1]
            other = f", its peers {peers[0].op} ({peers[0].sizes})" if peers else ""
            text = f"in {hub.name} it runs {call.op} ({call.sizes}){other}"
            facts = [call.fact, *(peer.fact for peer in peers)]
            mismatch = FaultCode.COLLECTIVE_MISMATCH
            node = call.fact.node
            episode = _made(mismatch, Role.INITIATING, call.fact, facts, text, rank=rank, node=node)
            episodes.append(replace(episode, began=hub.began))
    return episodes


ENOUGH_AGENTS = 3
"""With fewer launcher logs at hand, the one node without is as likely one whose files were not kept."""


def missing_rendezvous(facts: Sequence[Fact], episodes: Sequence[Episode], topology: Topology) -> Episode | None:
    """Agents that gave up in the rendezvous only waited: for the one node that left no launcher line, else for the job."""
    waits = [e for e in episodes if e.code == FaultCode.RENDEZVOUS_TIMEOUT]
    if not waits:
        return None
    agents = {
        f.node
        for f in facts
        if f.node is not None and f.file_kind is not FileKind.KERNEL_LOG and f.file_kind is not FileKind.SCHEDULER_LOG
    }
    absent = [node for node in topology.nodes if node not in agents]
    node = absent[0] if len(absent) == 1 and len(agents) >= ENOUGH_AGENTS else None
    found = [e.head for e in waits]
    text = f"{len(found)} agents gave up in the rendezvous"
    text += f"; {node} left no launcher line" if node else "; nothing says who did not come"
    return _made(FaultCode.RENDEZVOUS_TIMEOUT, Role.INITIATING, found[0], found, text, node=node)
