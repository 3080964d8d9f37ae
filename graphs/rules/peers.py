"""E5 peer lost, E6 store lost: who ended explains who lost the connection to it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from correlator.core.vocabulary import CollateralKind, FaultCode, Role
from correlator.graphs.episodes import Episode
from correlator.graphs.pairing import SURE, in_turn, pair
from correlator.graphs.scene import WEAK, Edge, Rejection, Scene

IB_REACH_S = 600.0
"""Retry timers and error handling put this much between a death and the last peer's complaint at most."""
REPORT_LAG_S = 60.0
"""An agent reports the end of a child this long after it at most: it first stops the others, and waits 30 s for them."""
STORE_REACH_S = 1800.0


def peer_lost(scene: Scene) -> Iterator[Edge | Rejection]:
    """E5: a rank or node that ended explains the lost connections of its peers; named ones more than others."""
    causes = in_turn(scene, (cause for cause in scene.initiating if not _bare_end(cause)))
    for effect in scene.episodes:
        if effect.code != CollateralKind.REMOTE_PEER_LOST:
            continue
        peers = _peers_named(effect)
        named = [c for peer in sorted(peers) for c in scene.by_node.get(peer, ()) if c.role is Role.INITIATING]
        likely = [cause for cause in named if not _bare_end(cause)]
        yield from pair([*likely, *causes], partial(_lost, scene, effect, peers))


def _bare_end(cause: Episode) -> bool:
    """How a process ended is no reason for its peers, unless somebody killed it."""
    return cause.code in WEAK and cause.inferred.startswith("exit code") and cause.code != FaultCode.PROCESS_KILLED


def _lost(scene: Scene, effect: Episode, peers: frozenset[str], cause: Episode) -> Edge | Rejection | None:
    if effect.rank is not None and effect.rank == cause.rank:
        return None
    gap = scene.gap_s(cause, effect)
    lag_s = REPORT_LAG_S if cause.inferred.startswith("exit code") else 0.0
    if gap is not None and (gap[1] < -lag_s or gap[0] > IB_REACH_S):
        return Rejection(cause.id, effect.id, "E5", "it lost its peer before that" if gap[1] < 0 else "too long after")
    named = cause.node is not None and cause.node in peers
    reason = f"its peer {cause.where} was gone" if named else "a peer of the job was gone"
    return Edge(cause.id, effect.id, "E5", 0.95 if named else 0.6, reason)


def _peers_named(effect: Episode) -> frozenset[str]:
    """Nodes that the lines of a lost connection name as the other end."""
    peers = (fact.attribute("peer_node") or fact.attribute("peer") for fact in effect.facts)
    return frozenset(peer.split(".")[0] for peer in peers if peer is not None)


def store_lost(scene: Scene) -> Iterator[Edge | Rejection]:
    """E6: the end of the store's host explains broken store connections."""
    host = scene.topology.store_node
    strong = [c for c in scene.initiating if c.code not in WEAK or c.code == FaultCode.PROCESS_KILLED]
    causes = in_turn(scene, strong)
    causes.sort(key=lambda cause: cause.id not in scene.accused and not _hosts(cause, host))
    for effect in scene.episodes:
        if effect.code == CollateralKind.STORE_LOST:
            yield from pair(causes, partial(_without_store, scene, effect, host))


def _hosts(cause: Episode, host: str | None) -> bool:
    return cause.rank == 0 or (host is not None and cause.node == host)


def _without_store(scene: Scene, effect: Episode, host: str | None, cause: Episode) -> Edge | Rejection:
    gap = scene.gap_s(cause, effect)
    if gap is not None and (gap[1] < 0 or gap[0] > STORE_REACH_S):
        why = "it lost the store before that" if gap[1] < 0 else "too long after"
        return Rejection(cause.id, effect.id, "E6", why)
    hosts = _hosts(cause, host)
    reason = "the host of the store went with it" if hosts else "the store closed when the job came down"
    return Edge(cause.id, effect.id, "E6", 0.97 if hosts else 0.6, reason)


def weak_faults(scene: Scene) -> Iterator[Edge | Rejection]:
    """E5: a fault that a lost peer can also produce is explained by a stronger one that did not come later (q 0.6)."""
    plain = (e for e in scene.initiating if e.code not in WEAK and e.specificity >= SURE)
    strong = in_turn(scene, (e for e in plain if not _after_its_stop(scene, e)))
    killed = in_turn(scene, (e for e in scene.initiating if e.code == FaultCode.PROCESS_KILLED))
    for effect in scene.initiating:
        if effect.code in WEAK:
            causes = strong or (killed if effect.code != FaultCode.PROCESS_KILLED else [])
            yield from pair(causes, partial(_stronger, scene, effect))


def _after_its_stop(scene: Scene, episode: Episode) -> bool:
    """Its agent had stopped the node before: what a process says while it is being ended brought nobody down."""
    if episode.node is None or episode.from_kernel:
        return False
    stops = (e for e in scene.by_node.get(episode.node, ()) if e.code == CollateralKind.TERMINATED_BY_LAUNCHER)
    return any(stop.rank is None and not scene.may_precede(episode, stop) for stop in stops)


def _stronger(scene: Scene, effect: Episode, cause: Episode) -> Edge | Rejection | None:
    if cause.rank is not None and cause.rank == effect.rank:
        return None
    if not scene.may_precede(cause, effect):
        return Rejection(cause.id, effect.id, "E5", "it came after that")
    return Edge(cause.id, effect.id, "E5", 0.6, f"{cause.where} failed with {cause.code}")
