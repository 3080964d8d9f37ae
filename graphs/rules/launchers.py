"""E8 launcher signal, E8b across nodes, E9 launcher report, E15 scheduler: who was told to stop, and by whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from correlator.core.vocabulary import CollateralKind, FaultCode, Order, Role
from correlator.graphs.episodes import Episode
from correlator.graphs.facts import order_of
from correlator.graphs.pairing import MOST_CAUSES, SURE, in_turn, pair
from correlator.graphs.scene import TEARDOWN_ID, WEAK, Edge, Rejection, Scene


def launcher_signal(scene: Scene) -> Iterator[Edge | Rejection]:
    """E8: a failed child makes its agent stop the other children of the node (q 0.99)."""
    for stop in _stops(scene, CollateralKind.TERMINATED_BY_LAUNCHER):
        for cause in _of_place(scene, stop.node):
            unplaced = stop.node is None and cause.role is Role.INITIATING
            if (cause.rank is not None or unplaced) and cause.code != CollateralKind.TERMINATED_BY_LAUNCHER:
                reported = cause.inferred.startswith("exit code")  # when it ended, the report of it does not say
                if reported or scene.may_precede(cause, stop):
                    yield Edge(cause.id, stop.id, "E8", 0.99, f"{cause.where} failed, so its agent stopped the node")
                else:
                    yield Rejection(cause.id, stop.id, "E8", "the agent had stopped the node before")
                    if cause.role is Role.INITIATING and not cause.from_kernel:
                        yield Edge(stop.id, cause.id, "E8", 0.9, "it came after the agent had stopped the node")
    for stop in _stops(scene, CollateralKind.TERMINATED_BY_LAUNCHER):
        for effect in _of_place(scene, stop.node):
            if effect.rank is not None and effect.code == CollateralKind.TERMINATED_BY_LAUNCHER:
                yield Edge(stop.id, effect.id, "E8", 0.99, f"the agent of {stop.node} stopped it")


def across_nodes(scene: Scene) -> Iterator[Edge | Rejection]:
    """E8b: the first failing node brings the others down through rendezvous, srun or the controller (q 0.9)."""
    causes = in_turn(scene, (c for c in scene.initiating if c.code not in WEAK or c.specificity >= SURE))
    for told in _stops(scene, CollateralKind.SCHEDULER_CANCEL):
        yield from pair(causes, partial(_took_down, scene, told))


def _took_down(scene: Scene, told: Episode, cause: Episode) -> Edge | Rejection | None:
    if cause.node == told.node and cause.rank is not None:
        return None  # E8: its own agent acted for it
    if not scene.may_precede(cause, told):
        return Rejection(cause.id, told.id, "E8b", "the job was being taken down before")
    return Edge(cause.id, told.id, "E8b", 0.9, f"{cause.where} failed, so the job was taken down")


def scheduler(scene: Scene) -> Iterator[Edge | Rejection]:
    """E15: time limit, preemption or cancel explains every stop that did not come before it (q 0.98)."""
    for cause in scene.initiating:
        if cause.code != FaultCode.PREEMPTED:
            continue
        for effect in scene.episodes:
            stopped = effect.code in (CollateralKind.SCHEDULER_CANCEL, CollateralKind.TERMINATED_BY_LAUNCHER)
            ended = effect.role is Role.INITIATING and effect.code in WEAK
            lost = effect.role is Role.COLLATERAL and effect.code != CollateralKind.COLLECTIVE_TIMEOUT
            if effect is cause or not (stopped or ended or lost):
                continue
            if scene.order(cause, effect) is Order.AFTER and not stopped:
                yield Rejection(cause.id, effect.id, "E15", "it happened before the stop was ordered")
            else:
                yield Edge(cause.id, effect.id, "E15", 0.98, "the scheduler stopped the job")


def scheduler_teardown(scene: Scene) -> Iterator[Edge | Rejection]:
    """E8b: srun, or the scheduler, ends all tasks of a step once one has failed; its list of ends is what shows it (q 0.9)."""
    if scene.teardown is None:
        return
    for cause in in_turn(scene, (c for c in scene.initiating if c.specificity >= SURE))[:MOST_CAUSES]:
        if order_of(cause.head, scene.teardown, scene.clocks) is Order.AFTER:
            yield Rejection(cause.id, TEARDOWN_ID, "E8b", "the scheduler was ending the step before")
        else:
            yield Edge(cause.id, TEARDOWN_ID, "E8b", 0.9, f"{cause.where} failed, so the scheduler ended the step")
    for effect in scene.episodes:
        if effect.code == CollateralKind.SCHEDULER_CANCEL and effect.rank is not None:
            yield Edge(TEARDOWN_ID, effect.id, "E8b", 0.95, "the scheduler ended it with the step")


def launcher_report(scene: Scene) -> Iterator[Edge | Rejection]:
    """E9: a launcher's report of a rank is explained by that rank; it never explains anything itself (q 0.99)."""
    for effect in scene.episodes:
        if effect.code != CollateralKind.LAUNCHER_REPORT or effect.rank is None:
            continue
        for cause in scene.by_rank.get(effect.rank, ()):
            if cause.role is Role.INITIATING:
                yield Edge(cause.id, effect.id, "E9", 0.99, f"reports the end of rank {effect.rank}")


def _stops(scene: Scene, code: CollateralKind) -> list[Episode]:
    """Stops of a whole node, or of the one that nobody names: an agent signalled its children, or was signalled itself."""
    return [e for e in scene.episodes if e.code == code and e.rank is None]


def _of_place(scene: Scene, node: str | None) -> Sequence[Episode]:
    """Episodes of a node, or those whose node nobody names."""
    return scene.by_node.get(node, ()) if node is not None else scene.nowhere
