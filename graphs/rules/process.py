"""E1 process order, E2 poisoned context: what came first in a process explains what came later in it."""

from __future__ import annotations

from collections.abc import Iterator

from correlator.core.vocabulary import CollateralKind, FaultCode, Order, Role
from correlator.graphs.episodes import STICKY_CUDA, Episode
from correlator.graphs.scene import TERMINAL_KINDS, Edge, Rejection, Scene

_AFTERMATH = frozenset(
    {
        FaultCode.NATIVE_ABORT,
        FaultCode.SILENT_EXIT,
        FaultCode.PROCESS_KILLED,
        CollateralKind.SECONDARY_ABORT,
        CollateralKind.CONTEXT_POISONED,
    }
)
"""Codes that name how a process ended rather than why; an end is always the last thing of its rank."""


def process_order(scene: Scene) -> Iterator[Edge | Rejection]:
    """E1: on one rank the earlier fault explains the later ones, its abort and its exit code (q 0.97)."""
    for episodes in scene.by_rank.values():
        faults = [e for e in episodes if e.role is Role.INITIATING]
        for effect in episodes:
            cause = _first_cause(scene, faults, effect)
            if cause is not None:
                yield Edge(cause.id, effect.id, "E1", 0.97, f"{cause.code} came first in the same process")


def _first_cause(scene: Scene, faults: list[Episode], effect: Episode) -> Episode | None:
    for cause in faults:
        if cause is effect or cause.from_kernel:
            continue
        if effect.role is Role.COLLATERAL and effect.code == CollateralKind.COLLECTIVE_TIMEOUT:
            continue  # a rank that waited long enough to time out was alive: waits belong to hubs
        if _is_end(effect) and not _is_end(cause):
            return cause
        if _is_end(cause) or (cause.code == FaultCode.RANK_STALLED and effect.from_kernel):
            continue  # a device's fault is why its rank stayed away, whenever the kernel came to write it down
        order = scene.order(cause, effect)
        if order is Order.BEFORE or (order is Order.INDISTINGUISHABLE and effect.role is Role.COLLATERAL):
            return cause
    return None


def _is_end(episode: Episode) -> bool:
    return bool(episode.inferred.startswith("exit code")) or episode.code in _AFTERMATH


def dragged_in_first(scene: Scene) -> Iterator[Edge | Rejection]:
    """E1 the other way: a rank that had lost a peer, or been told to stop, before its own fault only followed."""
    for episodes in scene.by_rank.values():
        collateral = [e for e in episodes if e.role is Role.COLLATERAL and e.code in TERMINAL_KINDS]
        for effect in episodes:
            if effect.role is not Role.INITIATING or effect.from_kernel:
                continue
            first = next((c for c in collateral if _came_before(scene, c, effect)), None)
            if first is not None:
                reason = f"the rank already had {first.code} before its {effect.code}"
                yield Edge(first.id, effect.id, "E1", 0.9, reason)


def _came_before(scene: Scene, cause: Episode, effect: Episode) -> bool:
    if _is_end(cause) and not _is_end(effect):
        return False
    if _is_end(effect):
        return (
            effect.code in (FaultCode.SILENT_EXIT, FaultCode.NATIVE_ABORT) or scene.order(cause, effect) is Order.BEFORE
        )
    return scene.order(cause, effect) is Order.BEFORE


def poisoned_context(scene: Scene) -> Iterator[Edge | Rejection]:
    """E2: a sticky CUDA error explains every later CUDA or NCCL error of its process (q 0.98)."""
    for episodes in scene.by_rank.values():
        sticky = next((e for e in episodes if e.code in STICKY_CUDA), None)
        if sticky is None:
            continue
        for effect in episodes:
            later_cuda = effect.code.startswith(("cuda_", "cublas", "nccl_")) or effect.code in (
                CollateralKind.CONTEXT_POISONED,
                CollateralKind.REMOTE_PEER_LOST,
            )
            if effect is not sticky and later_cuda and scene.order(sticky, effect) is not Order.AFTER:
                yield Edge(sticky.id, effect.id, "E2", 0.98, f"{sticky.code} poisons the CUDA context")
