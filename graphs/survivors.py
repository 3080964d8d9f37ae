"""Exceptions without a time that their process is known to have outlived, and kernel lines that are about other processes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from correlator.core.model import Topology
from correlator.core.vocabulary import Context, FaultCode
from correlator.graphs.episodes import Episode
from correlator.graphs.exits import TELLING_SIGNALS, ProcessEnd
from correlator.graphs.facts import Fact

LATER_NS = 2_000_000_000
WEAKENED = 0.4
"""Below what a root needs: shown, weighed and ruled out."""
_TOLD_OF_CHILDREN = (Context.WORKER_FAILED, Context.CHILD_FAILED_ROW)
_ENDS = frozenset(
    {
        FaultCode.PROCESS_KILLED,
        FaultCode.SILENT_EXIT,
        FaultCode.DATALOADER_WORKER_DIED,
        FaultCode.NATIVE_BUS_ERROR,
    }
)


def outlived(
    episodes: Sequence[Episode], facts: Sequence[Fact], ends: Sequence[ProcessEnd], topology: Topology
) -> frozenset[str]:
    """Ids of exceptions whose process went on, by a launcher's word or by its own.

    Where a process ended by a signal that nobody sent on purpose, the ranks that its agent had to stop, or does not list
    among the failed, had not failed by themselves. And who says at the end that training is finished had survived all.
    """
    failed = {end.rank for end in ends if not end.told}
    finished = {f.rank for f in facts if f.name == Context.TRAINING_FINISHED and f.rank is not None} - failed
    alive: set[int | None] = set(finished)
    if any(end.exit_code in TELLING_SIGNALS and not end.told for end in ends):
        told_of = {f.node for f in facts if f.name in _TOLD_OF_CHILDREN and f.node is not None}
        alive |= {p.rank for p in topology.ranks if p.node in told_of} - failed
        alive |= {f.rank for f in facts if f.name == Context.WORKER_SIGNALLED} - failed
    return frozenset(
        e.id for e in episodes if e.rank is not None and e.rank in alive and e.bare_exception and not e.uncaught
    )


def of_strangers(episodes: Sequence[Episode], facts: Sequence[Fact], topology: Topology) -> list[Episode]:
    """The episodes, those weakened in which a kernel speaks of a node or process that is none of the job's."""
    homes = {place.node for place in topology.ranks if place.node is not None}
    whole = bool(topology.world_size) and sum(place.node is not None for place in topology.ranks) == topology.world_size
    shapes = {_shape(node) for node in homes} if whole else set()
    weak = {
        e.id
        for e in episodes
        if e.from_kernel
        and e.node is not None
        and ((e.node not in homes and _shape(e.node) in shapes) or _foreign_kill(e, episodes, facts, topology))
    }
    return [replace(e, specificity=min(e.specificity, WEAKENED)) if e.id in weak else e for e in episodes]


def _shape(node: str) -> str:
    """Names of one cluster differ in their digits; a pod's name and its node's do not compare."""
    return re.sub(r"\d+", "0", node)


def _foreign_kill(episode: Episode, episodes: Sequence[Episode], facts: Sequence[Fact], topology: Topology) -> bool:
    """The kernel killed a process for memory, and every rank of the node wrote on after it, and none of them died."""
    when = episode.onset_ns
    if episode.code != FaultCode.HOST_OOM_KILL or episode.rank is not None or when is None:
        return False
    if any(e.node == episode.node and e.code in _ENDS for e in episodes):
        return False
    after = {f.rank for f in facts if f.rank is not None and not f.inherited and (f.aligned_ns or 0) > when + LATER_NS}
    ranks = topology.ranks_of(episode.node or "")
    return bool(ranks) and ranks <= after
