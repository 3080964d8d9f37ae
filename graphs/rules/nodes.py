"""E16 node lost, E17 fabric: a node or link that went explains the ranks on it and those that talked to it."""

from __future__ import annotations

from collections.abc import Iterator

from correlator.core.vocabulary import CollateralKind, FaultCode, Role
from correlator.graphs.episodes import gap_s
from correlator.graphs.scene import WEAK, Edge, Rejection, Scene

LINK_REACH_S = 900.0


def node_lost(scene: Scene) -> Iterator[Edge | Rejection]:
    """E16: a lost node explains lost peers, stops and weak ends elsewhere (q 0.9)."""
    for cause in scene.initiating:
        if cause.code != FaultCode.NODE_LOST:
            continue
        for effect in scene.episodes:
            own = effect.code == FaultCode.RANK_STALLED and effect.node == cause.node
            follows = effect.role is Role.COLLATERAL or effect.code in WEAK or own
            if effect is not cause and follows and scene.may_precede(cause, effect):
                yield Edge(cause.id, effect.id, "E16", 0.9, f"{cause.node} was gone")


def rendezvous(scene: Scene) -> Iterator[Edge | Rejection]:
    """E16 before the start: who did not come to the rendezvous explains the agents that gave up there (q 0.9)."""
    absent = [e for e in scene.initiating if e.code == FaultCode.RENDEZVOUS_TIMEOUT and e.inferred]
    for cause in absent:
        for effect in scene.initiating:
            if effect.code == FaultCode.RENDEZVOUS_TIMEOUT and not effect.inferred:
                yield Edge(cause.id, effect.id, "E16", 0.9, cause.inferred)


def fabric(scene: Scene) -> Iterator[Edge | Rejection]:
    """E17: a link that went down explains network errors of its node's ranks and lost peers everywhere (q 0.85)."""
    for cause in scene.initiating:
        if cause.code != FaultCode.NETWORK_FAULT or not cause.from_kernel:
            continue
        for effect in scene.episodes:
            same_node = effect.node == cause.node and effect.code == FaultCode.NETWORK_FAULT
            lost = effect.code in (CollateralKind.REMOTE_PEER_LOST, CollateralKind.STORE_LOST)
            if effect is cause or not (same_node or lost or effect.code in WEAK):
                continue
            gap = gap_s(cause, effect, scene.clocks)
            if gap is not None and (gap[1] < 0 or gap[0] > LINK_REACH_S):
                yield Rejection(cause.id, effect.id, "E17", "not within reach of the link's fault")
            else:
                yield Edge(cause.id, effect.id, "E17", 0.85, f"a link of {cause.node} was down")
