"""E5 peer lost, E6 store lost: who ended explains who lost the connection to it."""

from __future__ import annotations

from collections.abc import Iterator

from correlator.core.vocabulary import CollateralKind, FaultCode
from correlator.graphs.episodes import Episode, gap_s
from correlator.graphs.scene import WEAK, Edge, Rejection, Scene

IB_REACH_S = 600.0
"""Retry timers and error handling put this much between a death and the last peer's complaint at most."""
STORE_REACH_S = 1800.0


def peer_lost(scene: Scene) -> Iterator[Edge | Rejection]:
    """E5: a rank or node that ended explains the lost connections of its peers; named ones more than others."""
    lost = [e for e in scene.episodes if e.code == CollateralKind.REMOTE_PEER_LOST]
    for cause in scene.initiating:
        if cause.code in WEAK and cause.inferred.startswith("exit code") and cause.code != FaultCode.PROCESS_KILLED:
            continue  # how a process ended is no reason for its peers
        for effect in lost:
            if effect.rank is not None and effect.rank == cause.rank:
                continue
            gap = gap_s(cause, effect, scene.clocks)
            if gap is not None and (gap[1] < 0 or gap[0] > IB_REACH_S):
                why = "it lost its peer before that" if gap[1] < 0 else "too long after"
                yield Rejection(cause.id, effect.id, "E5", why)
            else:
                named = _names(effect, cause)
                reason = f"its peer {cause.where} was gone" if named else "a peer of the job was gone"
                yield Edge(cause.id, effect.id, "E5", 0.95 if named else 0.6, reason)


def _names(effect: Episode, cause: Episode) -> bool:
    if cause.node is None:
        return False
    peers = {fact.attribute("peer_node") or fact.attribute("peer") for fact in effect.facts}
    return any(peer is not None and peer.split(".")[0] == cause.node for peer in peers)


def store_lost(scene: Scene) -> Iterator[Edge | Rejection]:
    """E6: the end of the store's host explains broken store connections."""
    host = scene.topology.store_node
    causes = [c for c in scene.initiating if c.code not in WEAK or c.code == FaultCode.PROCESS_KILLED]
    for effect in scene.episodes:
        if effect.code != CollateralKind.STORE_LOST:
            continue
        for cause in causes:
            gap = gap_s(cause, effect, scene.clocks)
            if gap is not None and (gap[1] < 0 or gap[0] > STORE_REACH_S):
                yield Rejection(cause.id, effect.id, "E6", "not within reach of the lost store")
                continue
            hosts = cause.rank == 0 or (host is not None and cause.node == host)
            reason = "the host of the store went with it" if hosts else "the store closed when the job came down"
            yield Edge(cause.id, effect.id, "E6", 0.97 if hosts else 0.6, reason)


def weak_faults(scene: Scene) -> Iterator[Edge | Rejection]:
    """A fault that a lost peer can also produce is explained by a stronger one that did not come later."""
    strong = [e for e in scene.initiating if e.code not in WEAK and e.specificity >= 0.5]
    silent = [e for e in scene.initiating if e.code == FaultCode.PROCESS_KILLED]
    for effect in scene.initiating:
        if effect.code not in WEAK:
            continue
        causes = strong or [s for s in silent if s is not effect and effect.code != FaultCode.PROCESS_KILLED]
        for cause in causes:
            if (cause.rank is None or cause.rank != effect.rank) and scene.may_precede(cause, effect):
                yield Edge(cause.id, effect.id, "E5", 0.6, f"{cause.where} failed with {cause.code}")
