"""A node that went without a word: its peers name it, while its ranks and its own launcher fell silent (formats.md R7)."""

from __future__ import annotations

from collections.abc import Sequence

from correlator.core.model import Topology
from correlator.core.vocabulary import CollateralKind, FaultCode, FileKind, Role
from correlator.graphs.episodes import Episode
from correlator.graphs.facts import LAUNCHER_WORDS, Fact

WITNESSES = 2
"""Ranks, and nodes, that have to name it: one may be mistaken about its own link."""


def vanished_node(
    facts: Sequence[Fact], episodes: Sequence[Episode], topology: Topology, attempt: int
) -> Episode | None:
    """The one node that peers on several nodes lost and that says nothing of a failure, with its launcher's log at hand.

    A single process that is killed leaves a living agent, which reports it; without that agent's log nobody can tell the
    two apart, and the node is only asked for. Any fault that is stated elsewhere comes first.
    """
    if any(e.role is Role.INITIATING and not e.inferred for e in episodes):
        return None
    witnesses: dict[str, list[Fact]] = {}
    for fact in facts:
        peer = (fact.attribute("peer_node") or fact.attribute("peer")) if _lost_peer(fact) else None
        node = peer.split(".")[0] if peer else None
        if node is not None and node != fact.node:
            witnesses.setdefault(node, []).append(fact)
    spoke = {f.node for f in facts if f.name in LAUNCHER_WORDS or f.role is not Role.CONTEXT}
    launched = {f.node for f in facts if f.file_kind is FileKind.LAUNCHER_LOG}
    gone = [
        node
        for node, found in witnesses.items()
        if node not in spoke and node in launched and node in topology.nodes_with_logs and _several(found)
    ]
    if len(gone) != 1:
        return None
    node = gone[0]
    named = witnesses[node]
    number = len({f.rank for f in named})
    return Episode(
        id="",
        code=FaultCode.NODE_LOST,
        role=Role.INITIATING,
        attempt=attempt,
        rank=None,
        node=node,
        gpu=None,
        pid=None,
        facts=tuple(named[:4]),
        inferred=f"{number} ranks of other nodes lost {node}, whose ranks and launcher fell silent without a word",
        specificity=0.7,
    )


def _lost_peer(fact: Fact) -> bool:
    return fact.name == CollateralKind.REMOTE_PEER_LOST and fact.rank is not None


def _several(found: Sequence[Fact]) -> bool:
    return len({f.rank for f in found}) >= WITNESSES and len({f.node for f in found}) >= WITNESSES
