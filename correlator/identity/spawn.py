"""Which local rank has which pid, from the order in which an agent spawned its workers (formats.md B2).

An agent starts its workers one after the other, local rank 0 first, so their pids ascend with the local rank unless the
counter wrapped in between. Used only where the agent names as many pids as the node has ranks, and a known pair agrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from correlator.identity.votes import Slot


def pids_by_spawn_order(
    told: Mapping[str, Iterable[int]], known: Mapping[Slot, int], size_of: Mapping[str, int], per_node: int | None
) -> dict[Slot, int]:
    """(node, local rank) -> pid for nodes whose agent named all its workers; `told` has the pids that it named.

    `known` are pairs that lines state; one of them must agree with the order, and none may contradict it.
    """
    found: dict[Slot, int] = {}
    for node, pids in told.items():
        ordered = sorted(set(pids))
        size = size_of.get(node, per_node)
        if size is None or len(ordered) != size:
            continue
        here = {local: pid for (place, local), pid in known.items() if place == node}
        if here and all(local < size and ordered[local] == pid for local, pid in here.items()):
            found |= {(node, local): pid for local, pid in enumerate(ordered)}
    return found
