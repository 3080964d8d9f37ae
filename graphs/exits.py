"""How processes ended, by the word of a launcher or scheduler, as episodes.

A signal that nobody sent on purpose is a fault; every other end is only how a failure reached a rank (formats.md B3, E1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from correlator.core.vocabulary import CollateralKind, Context, FaultCode, Role
from correlator.graphs.episodes import Episode
from correlator.graphs.facts import Fact


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How one rank's process ended, by a launcher's word. `told` = an agent had signalled it first."""

    attempt: int
    rank: int
    node: str | None
    exit_code: int
    told: bool
    facts: tuple[Fact, ...]


SIGNAL_FAULTS: dict[int, FaultCode] = {
    -11: FaultCode.NATIVE_SEGFAULT,
    -7: FaultCode.NATIVE_BUS_ERROR,
    -4: FaultCode.ILLEGAL_INSTRUCTION,
    -9: FaultCode.PROCESS_KILLED,
    -6: FaultCode.NATIVE_ABORT,
    -8: FaultCode.NATIVE_ABORT,
}


TELLING_SIGNALS = frozenset({-11, -7, -4, -9})
"""Signals that say what happened; SIGABRT and SIGFPE by exit code alone are mostly a watchdog's or library's last step."""


def normal_exit(code: int) -> int:
    """128+n of a shell wrapper is signal n (formats.md B3)."""
    return 128 - code if 128 < code < 160 else code


def process_ends(facts: Sequence[Fact], *, tasks_are_ranks: bool) -> list[ProcessEnd]:
    """Exit reports of single ranks, merged over the launchers that repeat them."""
    told = {
        (f.attempt, f.rank)
        for f in facts
        if f.name == Context.WORKER_SIGNALLED and f.rank is not None and f.attribute("unreliable") != "true"
    }
    by_rank: dict[tuple[int, int], list[Fact]] = {}
    teardown = _teardown_lines(facts)
    for fact in facts:
        if fact.exit_code is None or fact.attribute("unreliable") == "true":
            continue
        if fact.name in (Context.WORKER_FAILED, Context.CHILD_FAILED_ROW) and fact.rank is not None:
            by_rank.setdefault((fact.attempt, fact.rank), []).append(fact)
        elif fact.name == Context.TASK_EXIT and tasks_are_ranks:
            aborted = teardown.get(fact.file, fact.line) < fact.line
            for rank in fact.integers("tasks"):
                by_rank.setdefault((fact.attempt, rank), []).append(fact)
                if aborted:
                    told.add((fact.attempt, rank))
    ends = []
    for (attempt, rank), reports in sorted(by_rank.items()):
        reports.sort(key=lambda f: (f.name != Context.CHILD_FAILED_ROW, f.file, f.line))
        code = normal_exit(reports[0].exit_code or 0)
        if code != 0:
            node = next((f.node for f in reports if f.node), None)
            ends.append(ProcessEnd(attempt, rank, node, code, (attempt, rank) in told, tuple(reports)))
    return ends


def _teardown_lines(facts: Sequence[Fact]) -> dict[str, int]:
    """File -> the first line that says that the step is being taken down: who ends below it was told to."""
    first: dict[str, int] = {}
    for fact in facts:
        if fact.name == Context.SCHEDULER_CANCELLED or (
            fact.name == Context.PHASE and fact.attribute("phase") == "teardown"
        ):
            first[fact.file] = min(fact.line, first.get(fact.file, fact.line))
    return first


def place_memory_kills(episodes: Sequence[Episode]) -> list[Episode]:
    """Give a scheduler's "some task was OOM killed" a place.

    It belongs to the rank that the kernel's line or a SIGKILL names, and stands alone only where neither is there.
    """
    placeless = [e for e in episodes if e.code == FaultCode.HOST_OOM_KILL and e.rank is None and e.node is None]
    if not placeless:
        return list(episodes)
    rest = [e for e in episodes if e.code != FaultCode.HOST_OOM_KILL or e.rank is not None or e.node is not None]
    reports = tuple(fact for e in placeless for fact in e.facts)
    if any(e.code == FaultCode.HOST_OOM_KILL for e in rest):
        return rest
    killed = [e for e in rest if e.code == FaultCode.PROCESS_KILLED]
    if not killed:
        return list(episodes)
    named = {id(e) for e in killed}
    return [
        replace(e, code=FaultCode.HOST_OOM_KILL, facts=(*e.facts, *reports), specificity=0.9) if id(e) in named else e
        for e in rest
    ]


def exit_episodes(ends: Sequence[ProcessEnd], start: int) -> list[Episode]:
    """Process ends as episodes: a signal that nobody sent on purpose is a fault, all others are collateral by nature."""
    episodes = []
    for number, end in enumerate(ends, start):
        code: str
        role = Role.COLLATERAL
        if end.told or end.exit_code in (-15, -2, -1):
            by_scheduler = end.facts[0].name == Context.TASK_EXIT
            code = CollateralKind.SCHEDULER_CANCEL if by_scheduler else CollateralKind.TERMINATED_BY_LAUNCHER
        elif end.exit_code in SIGNAL_FAULTS:
            code, role = SIGNAL_FAULTS[end.exit_code], Role.INITIATING
        else:
            code, role = FaultCode.SILENT_EXIT, Role.INITIATING
        episodes.append(
            Episode(
                id=f"x{number}",
                code=code,
                role=role,
                attempt=end.attempt,
                rank=end.rank,
                node=end.node,
                gpu=None,
                pid=end.facts[0].pid,
                facts=end.facts,
                inferred=f"exit code {end.exit_code}",
                specificity=0.8 if end.exit_code in TELLING_SIGNALS else 0.4,
            )
        )
    return episodes
