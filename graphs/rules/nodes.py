"""E16 node lost, E17 fabric: a node or link that went explains the ranks on it and those that talked to it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from correlator.core.vocabulary import CollateralKind, FaultCode, Role
from correlator.graphs.episodes import Episode
from correlator.graphs.pairing import in_turn, pair
from correlator.graphs.scene import WEAK, Edge, Rejection, Scene

LINK_REACH_S = 900.0


def node_lost(scene: Scene) -> Iterator[Edge | Rejection]:
    """E16: a lost node explains lost peers, stops and weak ends elsewhere (q 0.9)."""
    lost = in_turn(scene, (cause for cause in scene.initiating if cause.code == FaultCode.NODE_LOST))
    own = {cause.node: cause for cause in lost}
    for effect in scene.episodes if lost else ():
        if effect.code == FaultCode.RANK_STALLED:
            yield from pair([own[effect.node]] if effect.node in own else [], partial(_gone, scene, effect))
        elif effect.role is Role.COLLATERAL or effect.code in WEAK:
            yield from pair(lost, partial(_gone, scene, effect))


def _gone(scene: Scene, effect: Episode, cause: Episode) -> Edge | Rejection:
    if not scene.may_precede(cause, effect):
        return Rejection(cause.id, effect.id, "E16", "the node was lost after that")
    return Edge(cause.id, effect.id, "E16", 0.9, f"{cause.node} was gone")


def rendezvous(scene: Scene) -> Iterator[Edge | Rejection]:
    """E16 before the start: who did not come to the rendezvous explains the agents that gave up there (q 0.9)."""
    absent = [e for e in scene.initiating if e.code == FaultCode.RENDEZVOUS_TIMEOUT and e.inferred]
    for cause in absent:
        for effect in scene.initiating:
            if effect.code == FaultCode.RENDEZVOUS_TIMEOUT and not effect.inferred:
                yield Edge(cause.id, effect.id, "E16", 0.9, cause.inferred)


def fabric(scene: Scene) -> Iterator[Edge | Rejection]:
    """E17: a link that went down explains network errors of its node's ranks and lost peers everywhere (q 0.85)."""
    links = in_turn(scene, (c for c in scene.initiating if c.code == FaultCode.NETWORK_FAULT and c.from_kernel))
    for effect in scene.episodes if links else ():
        if effect.code in (CollateralKind.REMOTE_PEER_LOST, CollateralKind.STORE_LOST) or effect.code in WEAK:
            yield from pair(links, partial(_unlinked, scene, effect))
        elif effect.code == FaultCode.NETWORK_FAULT:
            here = [link for link in links if link.node == effect.node and link is not effect]
            yield from pair(here, partial(_unlinked, scene, effect))


def _unlinked(scene: Scene, effect: Episode, cause: Episode) -> Edge | Rejection:
    gap = scene.gap_s(cause, effect)
    if gap is not None and (gap[1] < 0 or gap[0] > LINK_REACH_S):
        why = "the link went down after that" if gap[1] < 0 else "too long after"
        return Rejection(cause.id, effect.id, "E17", why)
    return Edge(cause.id, effect.id, "E17", 0.85, f"a link of {cause.node} was down")
