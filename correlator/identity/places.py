"""Where each rank ran: decided votes first, then the launchers' block map where it is confirmed, not contradicted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from correlator.core.model import Conflict
from correlator.identity.names import natural
from correlator.identity.spawn import pids_by_spawn_order
from correlator.identity.tasks import TaskMode, Tasks
from correlator.identity.votes import Slot, Votes


@dataclass(frozen=True, slots=True)
class Seating:
    """Who sits where in one attempt."""

    node_of: dict[int, str]
    local_of: dict[int, int]
    pid_of: dict[int, int]
    rank_at: dict[Slot, int]
    node_rank: dict[str, int]
    per_node: int | None
    """Ranks on each node, where all nodes are alike."""
    conflicts: tuple[Conflict, ...]
    warnings: tuple[str, ...]


def seat(votes: Votes, tasks: Tasks, nodes: Sequence[str], world: int | None) -> Seating:
    """Decides the votes of one attempt and fills what the block map proves."""
    node_of, local_of = votes.node_of.winners(), votes.local_of.winners()
    rank_at = votes.rank_at.winners()
    for (node, local), rank in rank_at.items():
        node_of.setdefault(rank, node)
        local_of.setdefault(rank, local)
    node_rank = votes.node_rank.winners()
    size: int | None = None
    warnings: list[str] = []
    told = {node: task for task, node in tasks.nodes} | node_rank if tasks.mode is TaskMode.NODE else dict(node_rank)
    for candidate in _sizes(votes, local_of, nodes, world):
        blocks = _Blocks(candidate, world, node_of, local_of)
        if blocks.consistent:
            size = candidate
            warnings += blocks.complete(told, nodes)
            node_of, local_of = blocks.filled()
            node_rank = blocks.node_ranks() | node_rank
            break
    for rank, node in node_of.items():
        if rank in local_of:
            rank_at.setdefault((node, local_of[rank]), rank)
    return Seating(
        node_of=node_of,
        local_of=local_of,
        pid_of=_pids(votes, rank_at, size),
        rank_at=rank_at,
        node_rank=node_rank,
        per_node=size,
        conflicts=tuple(_conflicts(votes)),
        warnings=tuple(warnings),
    )


def _sizes(votes: Votes, local_of: dict[int, int], nodes: Sequence[str], world: int | None) -> list[int]:
    """How many ranks a node may have, best supported first; empty where nodes differ or nothing says it."""
    told = set(votes.local_sizes.values())
    if told:
        return list(told) if len(told) == 1 else []
    seen = max(local_of.values(), default=-1) + 1
    sizes = []
    if world is not None and nodes and world % len(nodes) == 0 and world // len(nodes) >= seen:
        sizes.append(world // len(nodes))
    if seen > 0 and (world is None or world % seen == 0) and seen not in sizes:
        sizes.append(seen)
    return sizes


class _Blocks:
    """The map rank = base of the node + local rank, with bases that are multiples of the node's size."""

    def __init__(self, size: int, world: int | None, node_of: dict[int, str], local_of: dict[int, int]) -> None:
        self.size = size
        self.blocks = None if world is None else world // size
        self._node_of = dict(node_of)
        self._local_of = dict(local_of)
        self.base: dict[str, int] = {}
        self.consistent = self._bases()

    def _bases(self) -> bool:
        """Reads the base of each node off the known pairs; False where a pair contradicts the map."""
        if any(rank % self.size != local for rank, local in self._local_of.items()):
            return False
        for rank, node in self._node_of.items():
            base = rank - rank % self.size
            if self.base.setdefault(node, base) != base:
                return False
        return len(set(self.base.values())) == len(self.base)

    def complete(self, told: dict[str, int], nodes: Sequence[str]) -> list[str]:
        """Gives the nodes that no pair names their block; returns what was assumed."""
        open_nodes = [node for node in nodes if node not in self.base]
        if not open_nodes or self.blocks is None:
            return []
        known = [node for node in self.base if node in told]
        if known and all(self.base[node] == told[node] * self.size for node in known):
            for node in open_nodes:
                if node in told:
                    self._give(node, told[node])
            open_nodes = [node for node in open_nodes if node not in self.base]
        free = [block for block in range(self.blocks) if block * self.size not in self.base.values()]
        if len(open_nodes) == 1 == len(free):
            self._give(open_nodes[0], free[0])
            return []
        return self._by_order(open_nodes, free, told, nodes)

    def _by_order(
        self, open_nodes: list[str], free: list[int], told: dict[str, int], nodes: Sequence[str]
    ) -> list[str]:
        """Launchers number nodes by name; used where the order of tasks or of the known nodes agrees."""
        order = sorted(nodes, key=natural)
        if not open_nodes or len(order) != self.blocks or len(free) != len(open_nodes):
            return []
        agrees = [order[base // self.size] == node for node, base in self.base.items()]
        agrees += [order.index(node) == block for node, block in told.items() if node in order]
        if not agrees or not all(agrees) or 2 * len(agrees) < len(order):
            return []
        for node in open_nodes:
            self._give(node, order.index(node))
        names = ", ".join(sorted(open_nodes, key=natural)[:8])
        return [
            f"ranks of {names} placed by node order (rank = node index * {self.size} + local rank); no line says it"
        ]

    def _give(self, node: str, block: int) -> None:
        base = block * self.size
        if 0 <= block < (self.blocks or 0) and base not in self.base.values():
            self.base[node] = base

    def filled(self) -> tuple[dict[int, str], dict[int, int]]:
        """Nodes and local ranks of all ranks of the placed nodes."""
        node_of = {base + i: node for node, base in self.base.items() for i in range(self.size)} | self._node_of
        ranks = node_of.keys() | self._local_of.keys()
        return node_of, {rank: rank % self.size for rank in ranks} | self._local_of

    def node_ranks(self) -> dict[str, int]:
        """Index of the block of each placed node."""
        return {node: base // self.size for node, base in self.base.items()}


def _pids(votes: Votes, rank_at: dict[Slot, int], per_node: int | None) -> dict[int, int]:
    said = votes.pid_of.winners()
    known = {slot: said[rank] for slot, rank in rank_at.items() if rank in said} | votes.pid_at.winners()
    spawned = pids_by_spawn_order(votes.told_pids, known, votes.local_sizes, per_node)
    pids = {rank_at[slot]: pid for slot, pid in (spawned | known).items() if slot in rank_at}
    return pids | said


def _conflicts(votes: Votes) -> Iterator[Conflict]:
    yield from votes.node_of.conflicts(lambda rank: f"node of rank {rank}")
    yield from votes.local_of.conflicts(lambda rank: f"local rank of rank {rank}")
    yield from votes.pid_of.conflicts(lambda rank: f"pid of rank {rank}")
    yield from votes.gpu_of.conflicts(lambda rank: f"GPU of rank {rank}")
    yield from votes.rank_at.conflicts(lambda slot: f"rank at local rank {slot[1]} of {slot[0]}")
    yield from votes.node_rank.conflicts(lambda node: f"node rank of {node}")


def shared_pids(node_of: dict[int, str], pid_of: dict[int, int]) -> dict[tuple[str, int], int]:
    """(node, pid) -> rank, without pids that two ranks of a node claim."""
    owners: dict[tuple[str, int], set[int]] = defaultdict(set)
    for rank, pid in pid_of.items():
        if rank in node_of:
            owners[node_of[rank], pid].add(rank)
    return {key: next(iter(ranks)) for key, ranks in owners.items() if len(ranks) == 1}
