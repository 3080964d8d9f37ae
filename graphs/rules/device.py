"""E10 device, E11 NVLink and NVSwitch, E12 host memory, E13 storage, E14 shared memory: the node explains its ranks."""

from __future__ import annotations

from collections.abc import Iterator

from correlator.core.vocabulary import CollateralKind, FaultCode, Order, Role
from correlator.graphs.episodes import HARDWARE_KERNEL, Episode
from correlator.graphs.facts import order_of
from correlator.graphs.scene import Edge, Rejection, Scene

XID_LAG_S = 10.0
"""The driver may log an Xid this long after the CUDA error that it caused (method.md E10)."""
XID_REACH_S = 3600.0
"""A GPU off the bus may leave its rank hanging until the longest watchdog; hardware codes reach this far."""
SOFT_REACH_S = 300.0


def device_fault(scene: Scene) -> Iterator[Edge | Rejection]:
    """E10: an Xid on a rank's GPU explains the errors of that rank; hardware codes also override their class."""
    for cause in scene.initiating:
        if not cause.from_kernel or cause.rank is None or cause.code == FaultCode.HOST_OOM_KILL:
            continue
        for effect in scene.by_rank.get(cause.rank, ()):
            if effect is cause or effect.from_kernel:
                continue
            yield _device_edge(scene, cause, effect)


def _device_edge(scene: Scene, cause: Episode, effect: Episode) -> Edge | Rejection:
    reach_s = XID_REACH_S if cause.code in HARDWARE_KERNEL else SOFT_REACH_S
    gap = scene.gap_s(cause, effect)
    if gap is not None and (gap[1] < -XID_LAG_S or gap[0] > reach_s) and not _while_waiting(scene, cause, effect):
        reason = "the kernel line came after the error" if gap[1] < -XID_LAG_S else "the kernel line is too old"
        return Rejection(cause.id, effect.id, "E10", reason)
    if cause.code in (FaultCode.GPU_MMU_FAULT, FaultCode.NATIVE_SEGFAULT) and effect.role is Role.INITIATING:
        # The driver's page fault and the process' own error are one event; the process' words name it better.
        return Edge(effect.id, cause.id, "E10", 0.97, "the driver logged the process' own fault")
    return Edge(cause.id, effect.id, "E10", 0.97, f"{cause.code} on the rank's GPU {cause.gpu or ''}".rstrip())


def _while_waiting(scene: Scene, cause: Episode, effect: Episode) -> bool:
    """A rank held up by its device: the driver may note it at any time until its peers give up waiting."""
    if effect.code != FaultCode.RANK_STALLED or cause.code not in HARDWARE_KERNEL or effect.began is None:
        return False
    gave_up = [f for f in effect.facts if f.name == CollateralKind.COLLECTIVE_TIMEOUT]
    return any(order_of(cause.head, fact, scene.clocks) is Order.BEFORE for fact in gave_up)


def host_memory(scene: Scene) -> Iterator[Edge | Rejection]:
    """E12: the kernel's OOM killer explains SIGKILL of the process, and a dead data-loader worker on that node."""
    for cause in scene.initiating:
        if cause.code != FaultCode.HOST_OOM_KILL:
            continue
        for effect in scene.by_node.get(cause.node or "", ()):
            if effect is cause or effect.role is not Role.INITIATING:
                continue
            named = cause.rank is not None and cause.rank == effect.rank
            worker = effect.code == FaultCode.DATALOADER_WORKER_DIED
            killed = effect.code in (FaultCode.PROCESS_KILLED, FaultCode.SILENT_EXIT)
            if named or (cause.rank is None and (worker or killed)):
                q = 0.98 if named else 0.8
                yield Edge(cause.id, effect.id, "E12", q, "the kernel killed it for memory")


_STORAGE_EFFECTS = frozenset(
    {FaultCode.CHECKPOINT_SAVE_FAILURE, FaultCode.CHECKPOINT_LOAD_FAILURE, FaultCode.STORAGE_IO, FaultCode.DATA_ERROR}
)


def storage(scene: Scene) -> Iterator[Edge | Rejection]:
    """E13: a file-system fault in a node's kernel log explains the failed reads and writes of its ranks."""
    for cause in scene.initiating:
        if not cause.from_kernel or cause.code not in (FaultCode.STORAGE_IO, FaultCode.DISK_FULL):
            continue
        for effect in scene.by_node.get(cause.node or "", ()):
            if effect.code in _STORAGE_EFFECTS and not effect.from_kernel and scene.may_precede(cause, effect):
                yield Edge(cause.id, effect.id, "E13", 0.9, f"{cause.code} in the kernel log of {cause.node}")


LINK_REACH_S = 300.0
_LINK_EFFECTS = frozenset({FaultCode.CUDA_LAUNCH_FAILURE, FaultCode.NCCL_INTERNAL_ERROR, FaultCode.RANK_STALLED})


def switch_fault(scene: Scene) -> Iterator[Edge | Rejection]:
    """E11: a fault of NVLink or NVSwitch explains what other ranks of its node met on their own GPUs (q 0.8)."""
    for cause in scene.initiating:
        if cause.code != FaultCode.GPU_NVLINK or not cause.from_kernel:
            continue
        for effect in scene.by_node.get(cause.node or "", ()):
            if effect.code not in _LINK_EFFECTS or effect.from_kernel or effect.rank in (None, cause.rank):
                continue
            gap = scene.gap_s(cause, effect)
            if gap is not None and (gap[1] < -XID_LAG_S or gap[0] > LINK_REACH_S):
                why = "the link failed after that" if gap[1] < 0 else "the link's fault is too old"
                yield Rejection(cause.id, effect.id, "E11", why)
            else:
                yield Edge(cause.id, effect.id, "E11", 0.8, f"NVLink of {cause.node} had failed")


SHM_REACH_S = 60.0
_SHM_EFFECTS = frozenset({FaultCode.NATIVE_BUS_ERROR, FaultCode.DATALOADER_WORKER_DIED})


def shared_memory(scene: Scene) -> Iterator[Edge | Rejection]:
    """E14: a full /dev/shm explains SIGBUS and dead loader workers on its node (q 0.85)."""
    for cause in scene.initiating:
        if cause.code != FaultCode.SHM_EXHAUSTED:
            continue
        for effect in scene.by_node.get(cause.node or "", ()):
            if effect.code not in _SHM_EFFECTS:
                continue
            gap = scene.gap_s(cause, effect)
            if gap is not None and (gap[1] < 0 or gap[0] > SHM_REACH_S):
                why = "it came before memory ran out" if gap[1] < 0 else "too long after"
                yield Rejection(cause.id, effect.id, "E14", why)
            else:
                yield Edge(cause.id, effect.id, "E14", 0.85, f"shared memory of {cause.node} was full")
