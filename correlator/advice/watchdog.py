"""Reads the watchdogs' numbers: who enqueued and completed what in a process group (formats.md A3, A4, D)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from correlator.advice.lines import Line
from correlator.core.ranges import fold_numbers
from correlator.core.vocabulary import CollateralKind, Context

_STATUS = (Context.WORK_STATUS, Context.DUMP_SIGNAL, CollateralKind.COLLECTIVE_TIMEOUT)


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far the members of one group had come, by their own watchdogs. Numbers are sequence numbers."""

    group: str
    enqueued: dict[int, int]
    completed: dict[int, int]

    @property
    def behind(self) -> tuple[int, ...]:
        """Ranks that had enqueued less than the foremost; empty where all had issued the same."""
        most = max(self.enqueued.values(), default=0)
        return tuple(sorted(rank for rank, seq in self.enqueued.items() if seq < most))


def progress_of(lines: Sequence[Line]) -> list[GroupProgress]:
    """The progress of every group of which at least two members told theirs, in the last attempt that told any."""
    told = [line for line in lines if line.name in _STATUS and line.rank is not None and line.group is not None]
    last = max((line.attempt for line in told), default=0)
    groups: dict[str, GroupProgress] = {}
    for line in told:
        if line.attempt == last and line.group is not None and line.rank is not None:
            group = groups.setdefault(line.group, GroupProgress(line.group, {}, {}))
            _add(group, line.rank, line)
    return [group for group in groups.values() if len(group.enqueued) > 1]


def _add(group: GroupProgress, rank: int, line: Line) -> None:
    foreign = line.name == Context.DUMP_SIGNAL and line.attributes.get("local") != "true"
    if foreign:
        return  # numbers of the rank that sent the signal, not of the one that printed it
    told = [_number(line, "last_enqueued"), line.seq if line.name == CollateralKind.COLLECTIVE_TIMEOUT else None]
    for seq in told:
        if seq is not None:
            group.enqueued[rank] = max(group.enqueued.get(rank, -1), seq)
    completed = _number(line, "last_completed")
    if completed is not None:
        group.completed[rank] = max(group.completed.get(rank, -1), completed)


def _number(line: Line, name: str) -> int | None:
    text = line.attributes.get(name, "")
    return int(text) if text.isdigit() and len(text) < 19 else None


def describe_progress(rank: int | None, lines: Sequence[Line]) -> str:
    """What the numbers say about one rank: behind its peers, or (no rank behind) that all had issued the same; else empty."""
    groups = progress_of(lines)
    for group in groups:
        if rank in group.behind and rank is not None:
            own, most = group.enqueued[rank], max(group.enqueued.values())
            ahead = sum(seq == most for seq in group.enqueued.values())
            ranks = "rank" if ahead == 1 else "ranks"
            return f"in group {group.group} rank {rank} had issued {own} operations, {ahead} other {ranks} {most}"
    stuck = [group for group in groups if not group.behind and _waits(group)]
    if stuck and rank is None:
        members = fold_numbers(stuck[0].enqueued)
        return f"in group {stuck[0].group} ranks {members} had all issued the same operation: the transport, not a rank"
    return ""


def _waits(group: GroupProgress) -> bool:
    most = max(group.enqueued.values())
    return any(group.completed.get(rank, most) < most for rank in group.enqueued)
