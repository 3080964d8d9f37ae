"""Faults that are told without a rank, given to the rank that shows their effect or tells the same."""

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
    ranked = [episode for episode in episodes if episode.rank is not None and episode.role is Role.INITIATING]
    for episode in ranked:
        if episode.node is not None:
            suffering.setdefault(episode.node, []).append(episode)
    return [_placed(e, ranked if e.node is None else suffering.get(e.node, ())) for e in episodes]


def _placed(episode: Episode, ranked: Sequence[Episode]) -> Episode:
    """`ranked` are faults of ranks on the episode's node; of all ranks where nothing says whose kernel log it is."""
    if not episode.from_kernel or episode.rank is not None or episode.role is not Role.INITIATING:
        return episode
    suffering = {e.rank: e for e in ranked if _suffers(e, episode)}
    if len(suffering) != 1:
        return episode
    (effect,) = suffering.values()
    return replace(episode, rank=effect.rank, node=effect.node if episode.node is None else episode.node)


def join_unplaced(episodes: Sequence[Episode]) -> list[Episode]:
    """A fault of nobody is that of the rank that tells the same words, else of the only rank with such a fault.

    Files that were renamed or moved out of their folders still repeat what a launcher reports of a rank (formats.md R8).
    """
    ranked: dict[tuple[int, str], dict[int, Episode]] = {}
    told: dict[tuple[int, str, str], Episode] = {}
    for episode in episodes:
        if episode.rank is not None and episode.role is Role.INITIATING:
            ranked.setdefault((episode.attempt, episode.code), {}).setdefault(episode.rank, episode)
            for fact in episode.facts:
                told.setdefault((episode.attempt, episode.code, fact.body), episode)
    joined: dict[str, list[Episode]] = {}
    kept = []
    for episode in episodes:
        same = None
        if (
            episode.rank is None
            and episode.node is None
            and episode.role is Role.INITIATING
            and not episode.from_kernel
        ):
            alike = ranked.get((episode.attempt, episode.code), {})
            words = ((episode.attempt, episode.code, fact.body) for fact in episode.facts)
            only = next(iter(alike.values())) if len(alike) == 1 else None
            same = next((told[key] for key in words if key in told), only)
        if same is None:
            kept.append(episode)
        else:
            joined.setdefault(same.id, []).append(episode)
    return [_with(e, joined[e.id]) if e.id in joined else e for e in kept]


def _with(episode: Episode, told: Sequence[Episode]) -> Episode:
    """The rank's episode with the lines of nobody: what these state in words needs no conclusion from an exit code."""
    facts = (*episode.facts, *(fact for other in told for fact in other.facts))
    specificity = max(episode.specificity, *(other.specificity for other in told))
    return replace(episode, facts=facts, specificity=specificity, inferred="")


def _suffers(effect: Episode, cause: Episode) -> bool:
    """Whether the rank's own fault is what the node's fault looks like from inside."""
    if cause.code in HARDWARE_KERNEL:
        if effect.code == cause.code and not effect.from_kernel:
            return True
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
