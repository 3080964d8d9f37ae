"""Values in words: who, when, how sure, how far apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import assert_never

from correlator.core.model import Collateral, Initiator
from correlator.core.ranges import fold_hosts, fold_numbers
from correlator.core.vocabulary import FaultClass, Phase

_SECOND_MS = 1000.0
_TWO_MINUTES_S = 120.0


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 file`, `1,204 files`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def culprit(initiator: Initiator) -> str:
    """`rank 17 on node02`, `node02`, or who else it was."""
    if initiator.rank is not None:
        return f"rank {initiator.rank} on {initiator.node}" if initiator.node else f"rank {initiator.rank}"
    if initiator.node:
        return initiator.node
    match initiator.fault_class:
        case FaultClass.EXTERNAL:
            return "the scheduler, or someone outside the job"
        case FaultClass.NETWORK:
            return "the network, no single node"
        case FaultClass.STORAGE:
            return "the storage, no single node"
        case FaultClass.SOFTWARE | FaultClass.HARDWARE | FaultClass.CONFIGURATION | FaultClass.UNKNOWN:
            return "the job as a whole, no single rank"
        case _:
            assert_never(initiator.fault_class)


def place_details(initiator: Initiator) -> str:
    """`local rank 1, GPU 0000:3b:00, pid 4245`: as much as is known."""
    details = (("local rank", initiator.local_rank), ("GPU", initiator.gpu), ("pid", initiator.pid))
    return ", ".join(f"{name} {value}" for name, value in details if value is not None)


def fold_places(places: Iterable[tuple[int | None, str | None]]) -> str:
    """Ranks and nodes of many: `ranks 0-7,9 on node[01-02]`; those without a rank by their nodes alone."""
    places = list(places)
    ranks = {rank for rank, _ in places if rank is not None}
    nodes_of_ranks = {node for rank, node in places if rank is not None and node}
    other_nodes = {node for rank, node in places if rank is None and node}
    parts = []
    if ranks:
        where = f" on {fold_hosts(nodes_of_ranks)}" if nodes_of_ranks else ""
        parts.append(f"{'rank' if len(ranks) == 1 else 'ranks'} {fold_numbers(ranks)}{where}")
    if other_nodes:
        parts.append(fold_hosts(other_nodes))
    return "; ".join(parts)


def count_places(members: Sequence[Collateral]) -> str:
    """`48 ranks`, `2 nodes`, `48 ranks, 1 node`."""
    ranks = {member.rank for member in members if member.rank is not None}
    nodes = {member.node for member in members if member.rank is None and member.node}
    parts = [count(len(ranks), "rank")] if ranks else []
    if nodes:
        parts.append(count(len(nodes), "node"))
    return ", ".join(parts) or count(len(members), "report")


def moment(time: str | None) -> str:
    """An ISO time with its date, to the millisecond; what is no ISO time is shown as it stands."""
    if time is None:
        return "unknown"
    parsed = _parse(time)
    if parsed is None:
        return time
    zone = parsed.strftime("%z")
    named = " UTC" if zone == "+0000" else (f" {zone[:3]}:{zone[3:]}" if zone else "")
    return f"{parsed:%Y-%m-%d} {clock_time(time)}{named}"


def clock_time(time: str | None) -> str:
    """Only the time of day of an ISO time, to the millisecond: `01:02:03.123`."""
    parsed = None if time is None else _parse(time)
    if parsed is None:
        return time or ""
    return parsed.strftime("%H:%M:%S") + (f".{parsed.microsecond // 1000:03d}" if parsed.microsecond else "")


def _parse(time: str) -> datetime | None:
    try:
        return datetime.fromisoformat(time)
    except ValueError:
        return None


def duration(milliseconds: float) -> str:
    """A length of time for people: `12 ms`, `30.1 s`, `2 h 00 min 03 s`."""
    if not math.isfinite(milliseconds):
        return "an unknown time"
    seconds = abs(milliseconds) / _SECOND_MS
    if abs(milliseconds) < 1:
        return "<1 ms"
    if abs(milliseconds) < _SECOND_MS:
        return f"{abs(milliseconds):.0f} ms"
    if seconds < _TWO_MINUTES_S:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02d} min {rest:02d} s" if hours else f"{minutes} min {rest:02d} s"


def offset(milliseconds: float) -> str:
    """How a clock stands to the reference: `30.1 s ahead`, `12 ms behind`, `equal`."""
    if abs(milliseconds) < 1:
        return "equal"
    return f"{duration(milliseconds)} {'behind' if milliseconds < 0 else 'ahead'}"


def confidence(value: float) -> str:
    """A probability with the word for it. Never rounded up to certainty."""
    percent = min(0.99, max(0.0, value)) * 100
    words = ((90, "very sure"), (75, "fairly sure"), (50, "more likely than not"), (0, "a weak lead"))
    return f"{percent:.0f} %, {next(word for floor, word in words if percent >= floor)}"


def doing(initiator: Initiator) -> str:
    """Where in its life the run was: `in the first backward after evaluation at step 100`, `at step 1240`."""
    return initiator.during or phase(initiator.phase, initiator.step)


def phase(value: Phase | None, step: int | None) -> str:
    """Where in its life the run was: `at step 1240`, `while it saved a checkpoint, at step 1200`."""
    match value:
        case Phase.INIT:
            words = "during start-up"
        case Phase.CHECKPOINT_SAVE:
            words = "while it saved a checkpoint"
        case Phase.CHECKPOINT_LOAD:
            words = "while it loaded a checkpoint"
        case Phase.EVALUATION:
            words = "during evaluation"
        case Phase.TEARDOWN:
            words = "while it shut down"
        case Phase.STEP | None:
            words = ""
    at = "" if step is None else f"at step {step}"
    return ", ".join(part for part in (words, at) if part)
