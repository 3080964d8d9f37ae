"""Faults that a node's own log states without a rank, given to the one rank that shows their effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from correlator.core.vocabulary import FaultCode, Role
from correlator.graphs.episodes import HARDWARE_KERNEL, Episode

_STORAGE = frozenset({FaultCode.STORAGE_IO, FaultCode.DISK_FULL})
_STORAGE_EFFECTS = _STORAGE | {
    FaultCode.CHECKPOINT_SAVE_FAILURE,
    FaultCode.CHECKPOINT_LOAD_FAILURE,
    FaultCode.DATA_ERROR,
}


def place_node_faults(episodes: Sequence[Episode]) -> list[Episode]:
    """Kernel faults of a node that exactly one of its ranks suffers from are told at that rank; all others stay the node's."""
    suffering: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.node is not None and episode.rank is not None and episode.role is Role.INITIATING:
            suffering.setdefault(episode.node, []).append(episode)
    return [_placed(episode, suffering.get(episode.node or "", ())) for episode in episodes]


def _placed(episode: Episode, here: Sequence[Episode]) -> Episode:
    if (
        not episode.from_kernel
        or episode.rank is not None
        or episode.node is None
        or episode.role is not Role.INITIATING
    ):
        return episode
    ranks = {e.rank for e in here if _suffers(e, episode)}
    return replace(episode, rank=ranks.pop()) if len(ranks) == 1 else episode


def _suffers(effect: Episode, cause: Episode) -> bool:
    """Whether the rank's own fault is what the node's fault looks like from inside."""
    if cause.code in HARDWARE_KERNEL:
        return str(effect.code).startswith(("cuda_", "cublas_")) or effect.code == FaultCode.RANK_STALLED
    if cause.code == FaultCode.HOST_OOM_KILL:
        worker = effect.code == FaultCode.DATALOADER_WORKER_DIED
        return effect.code == FaultCode.PROCESS_KILLED or (worker and _names_pid(effect, cause))
    if cause.code == FaultCode.NETWORK_FAULT:
        return effect.code == FaultCode.NETWORK_FAULT
    return cause.code in _STORAGE and effect.code in _STORAGE_EFFECTS


def _names_pid(effect: Episode, cause: Episode) -> bool:
    """The rank's message names the process that the kernel killed; where no pid is printed, the kind alone must do."""
    pids = {str(fact.pid) for fact in cause.facts if fact.pid is not None}
    return not pids or any(pid in fact.body for fact in effect.facts for pid in pids)
