"""What a group says of itself: which global ranks its members are, and whom its own report names as absent (formats.md A6)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from correlator.core.vocabulary import CollateralKind, Context
from correlator.graphs.facts import Fact

_ABSENT = ("did not join", "never joined any collective", "did not reach monitoredBarrier")
_OF_A_GROUP = frozenset(
    {
        CollateralKind.COLLECTIVE_TIMEOUT,
        CollateralKind.REMOTE_PEER_LOST,
        Context.WORK_STATUS,
        Context.DUMP_SIGNAL,
        Context.NAMED_MISSING_RANKS,
    }
)
"""Lines whose `group_rank` is the writer's place in a process group; agents use the word for their node's place."""


def reports_of_absence(facts: Iterable[Fact]) -> list[Fact]:
    """Desync reports and monitoredBarrier errors that name members who did not come."""
    return [f for f in facts if f.name == Context.NAMED_MISSING_RANKS and f.attribute("reason") in _ABSENT]


def places_in_group(facts: Iterable[Fact], waiting: Collection[int], group: str | None) -> dict[int, int]:
    """Rank in the group -> global rank, of the waiters whose own lines about this group print it; None = it has no name."""
    return {
        f.group_rank: f.rank
        for f in facts
        if f.rank in waiting and f.group_rank is not None and f.rank is not None and f.group == group and _speaks(f)
    }


def _speaks(fact: Fact) -> bool:
    return fact.name in _OF_A_GROUP


def named_absent(
    reports: Sequence[Fact],
    waiting: Collection[int],
    seq: int | None,
    places: dict[int, int],
    members: Sequence[int],
) -> frozenset[int]:
    """Global ranks that reports of this hub's waiters name as absent; those that nothing tells the place of are left out."""
    named: set[int] = set()
    for report in reports:
        if report.rank in waiting and report.seq in (None, seq):
            for group_rank in report.integers("ranks"):
                rank = _global(group_rank, places, members)
                if rank is not None and rank not in waiting:
                    named.add(rank)
    return frozenset(named)


def _global(group_rank: int, places: dict[int, int], members: Sequence[int]) -> int | None:
    """Groups of a mesh lie at equal distances: two members tell where the others are."""
    if members:
        return members[group_rank] if group_rank < len(members) else None
    known = sorted(places.items())
    if len(known) < 2:
        return None
    (first, origin), (last, end) = known[0], known[-1]
    stride, rest = divmod(end - origin, last - first)
    if rest or stride < 1 or any(rank != origin + (place - first) * stride for place, rank in known):
        return None
    rank = origin + (group_rank - first) * stride
    return rank if rank >= 0 else None
