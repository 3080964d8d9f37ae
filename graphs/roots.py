"""Who started it: candidates that nothing explains, thinned by order, presence in waits and strength, until few are left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import networkx as nx

from correlator.core.vocabulary import CollateralKind, Context, FaultCode, Order, Role
from correlator.graphs.build import AttemptGraph
from correlator.graphs.episodes import HARDWARE_KERNEL, Episode
from correlator.graphs.firsts import Firsts
from correlator.graphs.scene import WEAK, Scene
from correlator.graphs.unknown import shared_by_many

EXPLAINED_AT = 0.5
SURE = 0.5
SAME_WAVE_S = 30.0
"""Ranks of one node that fail alike within this time fail from one cause: the node's, not the first rank's."""


@dataclass(frozen=True, slots=True)
class Ruled:
    """A candidate that was dropped, and why."""

    episode: Episode
    reason: str
    weight: float = 0.2
    """How much is left of it, 0..1: what explains it well leaves little."""


@dataclass(frozen=True, slots=True)
class Roots:
    """The initiators, at most one episode for each rank or node, and the candidates that were ruled out."""

    chosen: tuple[Episode, ...]
    tied: bool
    ruled_out: tuple[Ruled, ...]
    supporting: dict[str, tuple[Episode, ...]]
    """Root id -> further episodes that show the same fault (the Xid behind a CUDA error, an exit code)."""


def find_roots(attempt: AttemptGraph) -> Roots:
    """Candidates without a cause, then the earliest of them; several where no clock can part them."""
    scene, graph = attempt.scene, attempt.graph
    ruled: list[Ruled] = []
    candidates: list[Episode] = []
    for episode in scene.initiating:
        cause = _explained_by(graph, episode)
        if cause is not None:
            ruled.append(Ruled(episode, cause[1], 1.0 - cause[0]))
        elif episode.specificity < SURE:
            ruled.append(Ruled(episode, "only mentioned, or an exit code without a word"))
        else:
            candidates.append(episode)
    candidates = _waited_after(scene, candidates, ruled) or candidates
    candidates = _spoke_later(scene, candidates, ruled)
    candidates = _lived_on(scene, candidates, ruled)
    candidates = _like_many(scene, candidates, ruled)
    candidates = _weaker(candidates, ruled)
    candidates = _external_after(scene, candidates, ruled)
    candidates = _later(scene, candidates, ruled)
    if not candidates:
        candidates = _last_resort(scene, graph, ruled)
    chosen = _one_for_each_place(candidates)
    support = {root.id: _support(scene, graph, root) for root in chosen}
    return Roots(tuple(chosen), len(chosen) > 1, tuple(ruled), support)


def _explained_by(graph: nx.DiGraph[str], episode: Episode) -> tuple[float, str] | None:
    """Probability and reason of the strongest sufficient in-edge that does not come back from the episode itself."""
    incoming = [
        (data["q"], data["reason"], cause)
        for cause, _, data in graph.in_edges(episode.id, data=True)
        if data["q"] >= EXPLAINED_AT and not graph.has_edge(episode.id, cause)
    ]
    if not incoming:
        return None
    q, reason, _ = max(incoming, key=lambda item: (item[0], item[2]))
    return float(q), str(reason)


def _waited_after(scene: Scene, candidates: Sequence[Episode], ruled: list[Ruled]) -> list[Episode]:
    """A rank that timed out in a collective was alive and waiting: its own fault, if any, did not start this."""
    holding = {rank for hub in scene.hubs for rank in hub.held_by | hub.deviating}
    waiting = {rank for hub in scene.hubs for rank in hub.waiters} - holding
    kept = []
    others = any(episode.rank not in waiting for episode in candidates)
    for episode in candidates:
        alive = episode.rank in waiting and not episode.from_kernel and episode.code != FaultCode.COLLECTIVE_MISMATCH
        if alive and others:
            ruled.append(Ruled(episode, "the rank had entered the collective and waited in it"))
        else:
            kept.append(episode)
    return kept


_STILL_ALIVE = (CollateralKind.COLLECTIVE_TIMEOUT, CollateralKind.REMOTE_PEER_LOST)


def _spoke_later(scene: Scene, candidates: Sequence[Episode], ruled: list[Ruled]) -> list[Episode]:
    """An untimed exception after which its rank still lost peers in the same file was caught; where others are plainer."""
    kept: list[Episode] = []
    caught: list[Episode] = []
    for episode in candidates:
        head = episode.head
        later = episode.bare_exception and any(
            e.code in _STILL_ALIVE and any(f.file == head.file and f.line > head.line for f in e.facts)
            for e in scene.by_rank.get(episode.rank if episode.rank is not None else -1, ())
        )
        (caught if later else kept).append(episode)
    if not kept:
        return list(candidates)
    ruled += [Ruled(episode, "the rank went on after it and lost its peers later") for episode in caught]
    return kept


def _lived_on(scene: Scene, candidates: Sequence[Episode], ruled: list[Ruled]) -> list[Episode]:
    """An untimed exception that nothing shows to have ended its process gives way to those that did end theirs.

    A process ends by an exception where a launcher reports its own exit code, or torch's hook or error file printed it; it
    lived on where a launcher or scheduler had to stop it, or where torch's hook printed others' tracebacks and not this one.
    """
    own = {end.rank for end in scene.ends if not end.told and end.exit_code > 0}
    stopped = scene.stopped_ranks
    fatal = [e for e in candidates if e.rank in own or e.uncaught]
    hooked = any(f.attribute("excepthook") for e in fatal for f in e.facts)
    unhooked = _started(scene) if hooked else frozenset()
    alike = {e.code for e in fatal}  # one fault all over a node: whoever had not left yet was stopped in leaving
    ended, lived = {e.id for e in fatal}, stopped | unhooked
    others = [e for e in candidates if e.id not in ended and e.code not in alike]
    caught = [e for e in others if e.bare_exception and e.rank in lived]
    if not fatal or not caught:
        return list(candidates)
    ruled += [Ruled(episode, "its process went on after it, others ended by theirs") for episode in caught]
    dropped = {e.id for e in caught}
    return [e for e in candidates if e.id not in dropped]


def _started(scene: Scene) -> frozenset[int]:
    """Ranks that were past the setup of their process group, so that torch's hook was in place."""
    ranks = {rank for rank, _ in scene.last_steps if rank is not None}
    return frozenset(ranks | {f.rank for f in scene.facts if f.name == Context.NCCL_COMM_INIT and f.rank is not None})


def _like_many(scene: Scene, candidates: Sequence[Episode], ruled: list[Ruled]) -> list[Episode]:
    """Unknown errors that many ranks, or a healthy run, print give way to whatever else is there."""
    reasons = shared_by_many(scene, candidates)
    left = [episode for episode in candidates if episode.id not in reasons]
    if not left:
        return list(candidates)
    ruled += [Ruled(e, reasons[e.id]) for e in candidates if e.id in reasons]
    return left


def _weaker(candidates: Sequence[Episode], ruled: list[Ruled]) -> list[Episode]:
    """Raised errors and kernel faults go before warnings, silent ranks and bare ends."""
    top = max((_strength(e) for e in candidates), default=0)
    kept = []
    for episode in candidates:
        if _strength(episode) < top:
            ruled.append(Ruled(episode, "others state their fault more plainly"))
        else:
            kept.append(episode)
    return kept


def _strength(episode: Episode) -> int:
    if episode.code in WEAK and episode.code != FaultCode.PROCESS_KILLED and episode.node is not None:
        return 1
    if episode.code in (FaultCode.RANK_STALLED, FaultCode.PREEMPTED, FaultCode.PROCESS_KILLED, FaultCode.NODE_LOST):
        return 2
    return 2 if episode.specificity >= 0.7 else 1


def _external_after(scene: Scene, candidates: Sequence[Episode], ruled: list[Ruled]) -> list[Episode]:
    """A scheduler's own order wins, unless a fault certainly came before it."""
    orders = [e for e in candidates if e.code == FaultCode.PREEMPTED]
    if not orders:
        return list(candidates)
    order = orders[0]
    before = [e for e in candidates if e is not order and scene.order(e, order) is Order.BEFORE]
    if before:
        ruled.append(Ruled(order, "a rank had failed before the job was stopped"))
        return [e for e in candidates if e.code != FaultCode.PREEMPTED]
    ruled += [Ruled(e, "it came with or after the scheduler's stop") for e in candidates if e is not order]
    return [order]


def _later(scene: Scene, candidates: Sequence[Episode], ruled: list[Ruled]) -> list[Episode]:
    """Of independent faults the one that certainly came first started it; the same fault all over a node stays one."""
    kept = []
    firsts = Firsts(scene, candidates)
    for episode in candidates:
        earlier = firsts.before(episode, beside=partial(_one_wave, episode))
        if earlier is None:
            kept.append(episode)
        else:
            ruled.append(Ruled(episode, f"{earlier.where} had failed before; an independent second fault"))
    return kept


def _one_wave(a: Episode, b: Episode) -> bool:
    if a.code != b.code or a.node is None or a.node != b.node or a.code in HARDWARE_KERNEL:
        return False  # devices fail one by one; the other end of a link only reports it
    if a.onset_ns is None or b.onset_ns is None:
        return True
    return abs(a.onset_ns - b.onset_ns) <= SAME_WAVE_S * 1e9


def _last_resort(scene: Scene, graph: nx.DiGraph[str], ruled: Sequence[Ruled]) -> list[Episode]:
    """Nothing plain is left: an unexplained end without a word still tells where to look.

    Not a bare abort, which is how a watchdog ends the innocent; nor an end whose own log is missing beside others' logs.
    """
    logged = {place.rank for place in scene.topology.ranks if place.has_log}
    weak = [r.episode for r in ruled if r.episode.inferred.startswith("exit code")]
    left = [e for e in weak if _explained_by(graph, e) is None and (not logged or e.rank in logged)]
    return left if len(left) == 1 and left[0].code != FaultCode.NATIVE_ABORT else []


def _one_for_each_place(candidates: Sequence[Episode]) -> list[Episode]:
    """One episode for a rank; faults of a device, node or the fabric stay by node."""
    best: dict[tuple[object, ...], Episode] = {}
    for episode in candidates:
        place = ("rank", episode.rank) if episode.rank is not None else ("node", episode.node, episode.gpu)
        if place not in best or _preference(episode) > _preference(best[place]):
            best[place] = episode
    ranked_nodes = {e.node for e in best.values() if e.rank is not None}
    return [e for e in best.values() if e.rank is not None or e.node is None or e.node not in ranked_nodes]


_VAGUE = frozenset(
    {
        FaultCode.PYTHON_EXCEPTION,
        FaultCode.CUDA_LAUNCH_FAILURE,
        FaultCode.CHECKPOINT_SAVE_FAILURE,
        FaultCode.NATIVE_ABORT,
    }
)


def _preference(episode: Episode) -> tuple[int, int, float]:
    return (int(episode.code in HARDWARE_KERNEL), int(episode.code not in _VAGUE), episode.specificity)


def _support(scene: Scene, graph: nx.DiGraph[str], root: Episode) -> tuple[Episode, ...]:
    """Episodes of the same rank or device that the root explains directly, faults first."""
    same = []
    for _, effect in graph.out_edges(root.id):
        episode = scene.by_id.get(effect)
        if episode is not None and episode.rank == root.rank and root.rank is not None:
            same.append(episode)
    return tuple(sorted(same, key=lambda e: (e.role is not Role.INITIATING, e.head.file, e.head.line)))
