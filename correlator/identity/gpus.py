"""Which GPU each rank drives: what lines say, else the order of the node's PCI addresses.

Devices are numbered in PCI order on common servers, so local rank i drives the i-th address (general knowledge;
CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES can change it). Such a guess is marked `gpu_by_order` and must weigh less
than NCCL's busId.
"""

from __future__ import annotations

from dataclasses import dataclass

from correlator.identity.places import Seating
from correlator.identity.votes import Votes

BOARDS: tuple[tuple[str, ...], ...] = (
    ("1b", "43", "52", "61", "9d", "c3", "d1", "df"),  # HGX H100 / H200 in common eight-GPU servers
    ("07", "0f", "47", "4e", "87", "90", "b7", "bd"),  # DGX / HGX A100
    ("53", "64", "75", "86", "97", "a8", "b9", "ca"),  # AWS p5
)
"""Bus numbers of common eight-GPU boards, used only where every address that the run names lies on the board."""


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPU of each rank; `by_order` are the ranks whose GPU is only inferred from the order of addresses."""

    gpu_of: dict[int, str]
    by_order: frozenset[int]


def gpus(votes: Votes, seating: Seating) -> Gpus:
    """Decides the GPU of each rank of one attempt."""
    said = votes.gpu_of.winners()
    known = {
        (seating.node_of[rank], seating.local_of[rank]): gpu for rank, gpu in said.items() if _seated(seating, rank)
    }
    guessed: dict[int, str] = {}
    for node in sorted({node for node, _ in seating.rank_at}):
        locals_of = {local: rank for (where, local), rank in seating.rank_at.items() if where == node}
        table = _order(node, locals_of, known, votes)
        for local, rank in locals_of.items():
            if rank not in said and local in table:
                guessed[rank] = table[local]
    return Gpus(gpu_of=guessed | said, by_order=frozenset(guessed))


def _seated(seating: Seating, rank: int) -> bool:
    return rank in seating.node_of and rank in seating.local_of


def _order(node: str, locals_of: dict[int, int], known: dict[tuple[str, int], str], votes: Votes) -> dict[int, str]:
    """Local rank -> address of one node, or empty where nothing consistent is known."""
    own = {local: gpu for (where, local), gpu in known.items() if where == node}
    named = votes.addresses.get(node, set()) | set(own.values())
    like_others = _template(known)
    size = len(locals_of)
    candidates = [like_others] if like_others else []
    if len(named) == size:
        candidates.append(dict(enumerate(sorted(named))))
    everywhere = set().union(*votes.addresses.values()) if votes.addresses else set()
    boards = [dict(enumerate(map(_address, board))) for board in BOARDS if len(board) == size]
    candidates += [board for board in boards if everywhere and everywhere <= set(board.values())]
    for table in candidates:
        agrees = all(table.get(local) == gpu for local, gpu in own.items())
        if agrees and named <= set(table.values()):
            return table
    return {}


def _template(known: dict[tuple[str, int], str]) -> dict[int, str]:
    """Local rank -> address where all nodes that say it agree: nodes of one cluster are built alike."""
    values: dict[int, set[str]] = {}
    for (_, local), gpu in known.items():
        values.setdefault(local, set()).add(gpu)
    if any(len(gpus_seen) > 1 for gpus_seen in values.values()):
        return {}
    return {local: next(iter(gpus_seen)) for local, gpus_seen in values.items()}


def _address(bus: str) -> str:
    return f"0000:{bus}:00"
