"""Groups that name their own absentees: the numbers are places in the group, and others are not its members."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from correlator.core.vocabulary import FaultCode
from correlator.graphs import Findings


def accused(found: Findings) -> set[int | None]:
    return {i.rank for i in found.verdict.initiators}


def waits(r: object, places: dict[int, int], group: str | None) -> None:
    """Waiters (rank -> place in the group) of one collective of a group, with or without a name."""
    for rank, place in places.items():
        where = {"collective_seq": 511, "process_group": group} if group else {}
        r.add("collective_timeout", 605.0, rank=rank, group_rank=place, **where)  # type: ignore[attr-defined]


def report(r: object, rank: int, place: int, absent: str, group: str | None, reason: str = "did not join") -> None:
    """The report that one waiter prints."""
    where = {"collective_seq": 511, "process_group": group} if group else {}
    attributes = {"ranks": absent, "scope": "group", "reason": reason}
    r.add("named_missing_ranks", 605.5, rank=rank, group_rank=place, attributes=attributes, **where)  # type: ignore[attr-defined]


@pytest.mark.parametrize("group", ["3", None])
@pytest.mark.parametrize(
    ("places", "absent", "expected"),
    [
        ({4: 0, 6: 2, 7: 3}, "[1]", {5}),  # neighbours
        ({1: 0, 5: 2, 7: 3}, "[1]", {3}),  # every second rank
        ({0: 0, 1: 1, 2: 2}, "[3]", {3}),
        ({4: 0}, "[1]", set()),  # one member alone tells nobody's place
        ({4: 0, 5: 2, 7: 3}, "[1]", set()),  # no regular group: its members are not known
    ],
)
def test_a_report_names_places_in_its_group(
    run: Callable[..., object], places: dict[int, int], absent: str, expected: set[int], group: str | None
) -> None:
    r = run().steps(5)
    waits(r, places, group)
    report(r, *next(iter(places.items())), absent, group)
    found = r.judge()
    assert accused(found) == expected
    assert all(i.fault == FaultCode.RANK_STALLED for i in found.verdict.initiators)


@pytest.mark.parametrize("reason", ["did not finish", "whatever comes next"])
def test_whoever_joined_and_did_not_finish_is_not_absent(run: Callable[..., object], reason: str) -> None:
    r = run().steps(5)
    waits(r, {4: 0, 6: 2, 7: 3}, "3")
    report(r, 4, 0, "[1]", "3", reason)
    assert accused(r.judge()) == set()


def test_a_named_rank_that_failed_by_itself_is_told_by_its_fault(run: Callable[..., object]) -> None:
    r = run().steps(5)
    r.add("cuda_oom", 5.5, rank=5, exception_type="torch.OutOfMemoryError")
    waits(r, {4: 0, 6: 2, 7: 3}, "3")
    report(r, 4, 0, "[1]", "3")
    assert [(i.rank, i.fault) for i in r.judge().verdict.initiators] == [(5, FaultCode.CUDA_OOM)]


def test_a_log_that_ends_long_before_the_others_says_nothing_of_its_rank(run: Callable[..., object]) -> None:
    """All but two time out; the log of rank 4 breaks off ten steps before the rest, that of rank 6 does not."""
    r = run()
    for step in range(1, 21):
        for rank in range(8):
            if rank != 4 or step <= 10:
                r.add("progress", float(step), rank=rank, step=step)
    r.timeouts([0, 1, 2, 3, 5, 7], 620)
    assert accused(r.judge()) <= {6}
