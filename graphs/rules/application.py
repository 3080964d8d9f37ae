"""E18 child worker, E19 application chain: one trouble of a process that its own code reports twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from correlator.core.vocabulary import FaultCode, Order, Role
from correlator.graphs.episodes import Episode
from correlator.graphs.scene import Edge, Rejection, Scene

WORKER_REACH_S = 10.0
"""The parent notices a dead loader worker at its next batch, or by SIGCHLD at once."""

_OF_LOADING = frozenset({FaultCode.PYTHON_EXCEPTION, FaultCode.DATA_ERROR, FaultCode.NATIVE_ABORT})
_CHAINS: Mapping[str, frozenset[str]] = {
    FaultCode.NAN_LOSS: frozenset({FaultCode.ASSERTION_FAILURE, FaultCode.PYTHON_EXCEPTION}),
    FaultCode.CHECKPOINT_LOAD_FAILURE: frozenset(
        {FaultCode.PYTHON_EXCEPTION, FaultCode.DATA_ERROR, FaultCode.CONFIG_ERROR}
    ),
    FaultCode.DISK_FULL: frozenset({FaultCode.CHECKPOINT_SAVE_FAILURE, FaultCode.PYTHON_EXCEPTION}),
    FaultCode.STORAGE_IO: frozenset({FaultCode.CHECKPOINT_SAVE_FAILURE, FaultCode.CHECKPOINT_LOAD_FAILURE}),
    FaultCode.IMPORT_ERROR: frozenset({FaultCode.PYTHON_EXCEPTION, FaultCode.CONFIG_ERROR}),
}
"""What a program raises after what: a guard that stops on NaN, a load that failed and leaves a key out."""


def child_worker(scene: Scene) -> Iterator[Edge | Rejection]:
    """E18: a data-loader worker that died explains the exception of its parent (q 0.98)."""
    for cause in scene.initiating:
        if cause.code != FaultCode.DATALOADER_WORKER_DIED or cause.rank is None:
            continue
        for effect in scene.by_rank.get(cause.rank, ()):
            if effect.code in _OF_LOADING and not effect.from_kernel:
                gap = scene.gap_s(cause, effect)
                if gap is not None and (gap[1] < 0 or gap[0] > WORKER_REACH_S):
                    why = "the parent failed before its worker" if gap[1] < 0 else "too long after"
                    yield Rejection(cause.id, effect.id, "E18", why)
                else:
                    yield Edge(cause.id, effect.id, "E18", 0.98, "a loader worker of the process had died")


def application_chain(scene: Scene) -> Iterator[Edge | Rejection]:
    """E19: what the program met first explains the error that its own code then raises (q 0.975)."""
    for cause in scene.initiating:
        if cause.code not in _CHAINS or cause.rank is None or cause.from_kernel:
            continue
        for effect in scene.by_rank.get(cause.rank, ()):
            if effect.role is Role.INITIATING and effect.code in _CHAINS[cause.code] and not effect.inferred:
                yield _chained(scene, cause, effect)


def _chained(scene: Scene, cause: Episode, effect: Episode) -> Edge | Rejection:
    if scene.order(cause, effect) is Order.AFTER:
        return Rejection(cause.id, effect.id, "E19", "it came after that")
    return Edge(cause.id, effect.id, "E19", 0.975, f"the program raised it because of its {cause.code}")
