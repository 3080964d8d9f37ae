"""Attempts of a job that the scheduler ended and started again: its lines are appended to the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

import correlator
from correlator.core.event import Event
from correlator.core.vocabulary import FaultCode, FileKind, VerdictStatus
from tests.helpers_events import event, log
from tests.identity.test_attempts import run

RANKS = 2
CONSOLE = FileKind.CONSOLE_LOG


def life(line: int, at_s: float | None, steps: range, *, rank: int, printing: bool = True, **said: int) -> list[Event]:
    """A rank says who it is and comes to its steps, 5 s each; one line an event."""

    def seconds(number: int) -> float | None:
        return None if at_s is None else at_s + 5 * number

    told = [event("rank_identity", line, seconds=seconds(0), rank=rank, process_pid=40 + rank, **said)]
    if printing:
        told += [
            event("progress", line + n, seconds=seconds(n), rank=rank, step=step, **said)
            for n, step in enumerate(steps, 1)
        ]
    return told


def stop(line: int, seconds: float, name: str = "scheduler_cancelled") -> Event:
    return event(name, line, seconds=seconds, host_name="node00", attributes={"reason": "preemption"})


def console(second: range, *, restart_s: float | None = 1900.0, first_s: float | None = 0.0) -> list[Event]:
    """Two labelled tasks, the order to stop, and the same two again."""
    return [
        *life(1, first_s, range(1, 9), rank=0, task_id=0),
        *life(11, first_s, range(1, 9), rank=1, task_id=1),
        stop(21, 50.0),
        *life(31, restart_s, second, rank=0, task_id=0),
        *life(41, restart_s, second, rank=1, task_id=1),
        event("task_exit", 51, exit_code=1, attributes={"tasks": "[1]"}),
    ]


def attempts(events: list[Event]) -> list[int]:
    return run([(log("slurm-77.out", CONSOLE), events)]).events["attempt"].to_list()


@pytest.mark.parametrize("second", [range(4, 8), range(9, 12), range(20, 22), range(1, 1)])
def test_a_second_start_behind_the_order_is_the_next_attempt(second: range) -> None:
    """From an older checkpoint, from the last step, from one that was saved unseen; or it came to no step."""
    events = console(second)
    before = next(n for n, e in enumerate(events) if e.line_number == 31)
    assert attempts(events) == [0] * before + [1] * (len(events) - before)


def test_the_order_counts_in_its_place_whatever_the_clocks_say() -> None:
    """Stamps of ranks an hour ahead of the scheduler's, and none at all where the steps fall back."""
    assert set(attempts(console(range(4, 8), first_s=3600.0, restart_s=5500.0))) == {0, 1}
    assert set(attempts(console(range(4, 8), first_s=None, restart_s=None))) == {0, 1}


def test_older_or_undated_pieces_behind_the_order_are_no_restart() -> None:
    """Logs put one after the other: the start is from before the steps, or nothing tells that it is later."""
    assert set(attempts(console(range(1, 1), restart_s=-20.0))) == {0}
    assert set(attempts(console(range(9, 12), first_s=None, restart_s=None))) == {0}


def test_another_nodes_ranks_behind_the_order_are_no_restart() -> None:
    """cat node00.log node01.log, where the first ends with the order."""
    events = [*life(1, 0.0, range(1, 9), rank=0), stop(21, 50.0), *life(31, 60.0, range(1, 9), rank=1), stop(51, 120.0)]
    assert set(attempts(events)) == {0}


def test_going_on_after_the_order_is_no_restart() -> None:
    """A job has seconds to save and end; an epoch may begin in them."""
    events = [
        *life(1, 0.0, range(1, 9), rank=0),
        stop(21, 41.0),
        event("progress", 22, seconds=45.0, rank=0, step=1),
        event("checkpoint_saved", 23, seconds=46.0, rank=0, step=9),
    ]
    assert set(attempts(events)) == {0}


def own_files(second: range, stops_s: list[float], shift_s: float = 0.0) -> tuple[list[int], list[int], int]:
    """Attempts of rank 0's lines and of the scheduler's, and how many there are; rank 1 prints no steps."""
    parts = [(log("slurm-77.out", FileKind.SCHEDULER_LOG), [stop(n, s) for n, s in enumerate(stops_s, 1)])]
    for rank in range(RANKS):
        lives = [
            *life(1, shift_s, range(1, 9), rank=rank, printing=rank == 0),
            *life(21, 1900.0 + shift_s, second, rank=rank, printing=rank == 0),
        ]
        parts.append((log(f"rank_{rank}.log", FileKind.RANK_LOG, rank=rank), lives))
    found = run(parts)
    told = found.events["attempt"].to_list()
    orders, rest = told[: len(stops_s)], told[len(stops_s) :]
    assert rest[-2:] == [0, found.topology.attempts - 1]
    return rest[:-2], orders, found.topology.attempts


def test_ranks_own_files_with_the_order_elsewhere() -> None:
    """The first order belongs to the first attempt, a second one to that which it ended."""
    fell_back = ([0] * 9 + [1] * 5, [0, 1], 2)
    assert own_files(range(4, 8), [50.0, 2000.0]) == fell_back
    assert own_files(range(9, 13), [50.0, 2000.0]) == fell_back, "it went on where it had been"
    ahead = own_files(range(4, 8), [50.0], shift_s=3600.0)
    assert ahead == ([0] * 9 + [1] * 5, [0], 2), "the ranks' clocks are an hour ahead"


def test_saying_again_who_one_is_without_an_order_before_is_no_restart() -> None:
    """A second set-up, say for evaluation; the job is ended long after it, or before it had begun."""
    assert own_files(range(9, 13), [5000.0])[2] == 1
    assert own_files(range(9, 13), [-60.0])[2] == 1


@pytest.mark.parametrize("name", ["scheduler_cancelled", "node_failure_reported"])
def test_each_order_with_a_start_behind_it_ends_one_attempt(name: str) -> None:
    """Ended twice, and every node's daemon says it."""
    events = [
        *life(1, 0.0, range(1, 9), rank=0),
        stop(21, 50.0, name),
        stop(22, 50.0, name),
        *life(31, 900.0, range(4, 9), rank=0),
        stop(41, 950.0, name),
        *life(51, 1900.0, range(6, 9), rank=0),
        stop(61, 1950.0, name),
    ]
    assert attempts(events) == [0] * 11 + [1] * 7 + [2] * 5


@pytest.mark.parametrize("why", ["DUE TO PREEMPTION ", "DUE TO TIME LIMIT ", "DUE TO JOB REQUEUE ", ""])
@pytest.mark.parametrize("own", [False, True], ids=["one file", "a file for each rank"])
def test_the_verdict_is_on_the_job_that_was_started_again(tmp_path: Path, why: str, own: bool) -> None:
    """Not preempted: that was the attempt before. Rank 2 failed in this one."""
    files: dict[str, list[str]] = {}

    def say(rank: int, text: str) -> None:
        file, label = (f"rank_{rank}.log", "") if own else ("slurm-77.out", f"{rank}: ")
        files.setdefault(file, []).append(label + text)

    def live(hour: int, first: int) -> None:
        for rank in range(4):
            host = f"rank {rank} of 4, host node00, pid {4000 + rank}"
            say(rank, f"2025-11-30 {hour:02d}:00:00,000 INFO train: initializing process group: {host}")
            for second in range(1, 10):
                step = f"step {first + second}/1000 loss 1.9"
                say(rank, f"2025-11-30 {hour:02d}:00:{5 * second:02d},000 INFO train: {step}")

    live(1, 0)
    order = f"slurmstepd: error: *** STEP 77.0 ON node00 CANCELLED AT 2025-11-30T01:01:50 {why}***"
    files.setdefault("slurm-77.out", []).append(order)
    live(2, 4)
    lost = "RuntimeError: Connection closed by peer [10.0.0.1]:43210"
    for rank, error in ((2, "KeyError: 'tokens'"), (0, lost), (1, lost), (3, lost)):
        second = 50 if rank == 2 else 52
        say(rank, f"2025-11-30 02:00:{second},000 ERROR train: stopped")
        frame = '  File "/workspace/train.py", line 61, in forward'
        for text in ("Traceback (most recent call last):", frame, error):
            say(rank, f"[rank{rank}]: {text}")
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    found = correlator.diagnose(tmp_path)
    assert found.run.attempts == 2
    assert found.verdict.status is VerdictStatus.IDENTIFIED
    assert [(i.rank, i.fault) for i in found.verdict.initiators] == [(2, FaultCode.PYTHON_EXCEPTION)]
