"""Traps that lie in the files: dumps of another run, tracebacks that were survived, logs that end without a word."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from correlator.core.files import FileReport
from correlator.core.vocabulary import FaultCode, FileKind, VerdictStatus
from correlator.graphs import Findings

DAYS_S = 86_400.0


def accused(found: Findings) -> list[tuple[int | None, str | None, str]]:
    return [(i.rank, i.node if i.rank is None else None, i.fault) for i in found.verdict.initiators]


def dumps(r: object, at_s: float, absent: int) -> None:
    """Dumps of all ranks: everyone waits in #4000 but `absent`, whose last entry is #3999."""
    for rank in range(8):
        seq, state = (3_999, "completed") if rank == absent else (4_000, "scheduled")
        entry = {"collective_seq": seq, "collective_op": "ALLREDUCE", "process_group": "0"}
        place = {"file": f"trace_{rank}", "kind": FileKind.FLIGHT_RECORDER, "attributes": {"state": state}}
        r.add("collective_entry", at_s, rank=rank, **entry, **place)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("at_s", "expected"),
    [
        (5.1, [(4, None, FaultCode.RANK_STALLED)]),  # as new as the last step: this failure's
        (-3 * DAYS_S, []),
        (-2 * 3_600.0, []),
    ],
)
def test_dumps_older_than_the_run_accuse_nobody(
    run: Callable[..., object], at_s: float, expected: list[tuple[int, None, FaultCode]]
) -> None:
    r = run().steps(5)
    dumps(r, at_s, absent=4)
    r.add("remote_peer_lost", 9.0, rank=1)
    found = r.judge()
    assert accused(found) == expected
    asked = any("8 at hand are of an older run" in text for text in found.missing_evidence)
    assert asked is (not expected)


def test_old_dumps_do_not_shield_the_rank_that_failed(run: Callable[..., object]) -> None:
    """In the dumps of three days ago rank 2 waits; today it raised the exception."""
    r = run().steps(5)
    dumps(r, -3 * DAYS_S, absent=4)
    r.add("python_exception", None, rank=2, exception_type="TypeError")
    assert accused(r.judge()) == [(2, None, FaultCode.PYTHON_EXCEPTION)]


@pytest.mark.parametrize(
    ("ended", "hook", "expected"),
    [
        ("signalled", False, {5}),  # its agent had to stop it: it had lived on
        ("nothing", True, {5}),  # torch's hook printed the other one and not this
        ("nothing", False, {2, 5}),  # nothing tells them apart
        ("exit code", True, {2, 5}),  # it did end by itself
    ],
)
def test_an_exception_that_its_process_survived_is_no_cause(
    run: Callable[..., object], ended: str, *, hook: bool, expected: set[int]
) -> None:
    r = run().steps(5)
    r.add("storage_io", None, rank=2, file="rank_2.err", exception_type="OSError")
    attributes = {"excepthook": "torch"} if hook else {}
    r.add("python_exception", None, rank=5, file="rank_5.err", exception_type="TypeError", attributes=attributes)
    agent = {"file": "agent.log", "kind": FileKind.LAUNCHER_LOG}
    if not hook:
        r.add("worker_failed", None, rank=5, exit_code=1, **agent)
    if ended == "signalled":
        r.add("worker_signalled", None, rank=2, attributes={"signal": "SIGTERM"}, **agent)
    if ended == "exit code" or expected == {2, 5}:
        r.add("worker_failed", None, rank=2, exit_code=1, **agent)
    assert {rank for rank, _, _ in accused(r.judge())} == expected


def test_a_node_that_its_peers_lost_and_whose_agent_is_mute_was_lost(run: Callable[..., object]) -> None:
    """Ranks of two nodes name node02; its agent's log is there and reports nothing."""
    r = run(world=12).steps(5)
    for node in ("node00", "node01", "node02"):
        agent = {"node": node, "file": f"{node}/torchrun.log", "kind": FileKind.LAUNCHER_LOG}
        r.add("rendezvous_complete", 0.1, **agent)
    for rank in (1, 6):
        r.add("remote_peer_lost", 25.0, rank=rank, attributes={"peer": "node02.cluster.local"})
    assert accused(r.judge()) == [(None, "node02", FaultCode.NODE_LOST)]


@pytest.mark.parametrize("known", ["its agent reports an end", "its agent's log is not there", "one witness"])
def test_a_node_that_one_peer_names_or_that_speaks_is_not_called_lost(run: Callable[..., object], known: str) -> None:
    r = run(world=12).steps(5)
    for node in ("node00", "node01", "node02"):
        agent = {"node": node, "file": f"{node}/torchrun.log", "kind": FileKind.LAUNCHER_LOG}
        if node != "node02" or known != "its agent's log is not there":
            r.add("rendezvous_complete", 0.1, **agent)
        if node == "node02" and known == "its agent reports an end":
            r.add("agent_signalled", 30.0, attributes={"signal": "SIGTERM"}, **agent)
    for rank in (1,) if known == "one witness" else (1, 6):
        r.add("remote_peer_lost", 25.0, rank=rank, attributes={"peer": "node02.cluster.local"})
    assert FaultCode.NODE_LOST not in {fault for _, _, fault in accused(r.judge())}


def test_an_error_file_without_a_line_end_is_whole(run: Callable[..., object]) -> None:
    """error.json has no newline at its end, which for a log would mean that it was cut off."""
    r = run().steps(5)
    r.add("python_exception", None, rank=3, file="3/error.json", kind=FileKind.ERROR_FILE, exception_type="TypeError")
    r.reports = (FileReport("3/error.json", FileKind.ERROR_FILE, lines=len(r.rows), cut_off=True),)
    assert accused(r.judge()) == [(3, None, FaultCode.PYTHON_EXCEPTION)]


@pytest.mark.parametrize("at_s", [6.0, 120.0, 590.0])
def test_the_driver_may_note_a_lost_gpu_until_the_peers_gave_up(run: Callable[..., object], at_s: float) -> None:
    """The peers waited from 5 s to 605 s for rank 5; the kernel of its node declares a GPU gone some time after it stopped."""
    r = run().steps(5)
    r.timeouts([0, 1, 2, 3, 4, 6, 7], 605, attributes={"ran_ms": 600_000})
    r.add("gpu_off_bus", at_s, gpu="0000:9b:00", node="node01", file="node01.kern", kind=FileKind.KERNEL_LOG)
    found = r.judge()
    assert accused(found) == [(5, None, FaultCode.GPU_OFF_BUS)]
    assert found.verdict.status is VerdictStatus.IDENTIFIED


@pytest.mark.parametrize(
    ("exit_code", "logged", "expected"),
    [
        (-6, True, set()),  # how a watchdog ends the innocent too
        (1, True, {5}),
        (1, False, set()),  # its own log would say why, and is asked for
        (-9, False, {5}),  # somebody killed it: that is a fault by itself
    ],
)
def test_a_bare_end_is_a_last_resort(
    run: Callable[..., object], exit_code: int, *, logged: bool, expected: set[int]
) -> None:
    """Rank 5 ended first, says its agent; nothing else is known of it."""
    r = run(silent_ranks=frozenset() if logged else frozenset({5})).steps(5)
    r.add("worker_failed", 9.0, rank=5, exit_code=exit_code, file="agent.log", kind=FileKind.LAUNCHER_LOG)
    found = r.judge()
    assert {rank for rank, _, _ in accused(found)} == expected
    if not logged and not expected:
        assert "log of rank 5" in found.missing_evidence


@pytest.mark.parametrize(("silent", "expected"), [(frozenset(), {5}), (frozenset({6}), set())])
def test_absence_accuses_nobody_while_another_member_left_no_file(
    run: Callable[..., object], silent: frozenset[int], expected: set[int]
) -> None:
    """Rank 5 was not seen in the collective; nor was rank 6, of whom there is no file at all."""
    r = run(silent_ranks=silent).steps(5)
    r.timeouts([rank for rank in range(8) if rank not in {5, *silent}], 600)
    assert {rank for rank, _, _ in accused(r.judge())} == expected


@pytest.mark.parametrize(("absent", "expected"), [({5}, {5}), ({5, 6}, set()), ({1, 5}, set())])
def test_absence_of_several_at_once_accuses_nobody(
    run: Callable[..., object], absent: set[int], expected: set[int]
) -> None:
    """Logs that were cut off before the watchdogs fired look like ranks that never came (decision 0010: wrong in 87 of 89)."""
    r = run().steps(5)
    r.timeouts([rank for rank in range(8) if rank not in absent], 600)
    assert {rank for rank, _, _ in accused(r.judge())} == expected


@pytest.mark.parametrize(
    ("hook", "exit_code", "expected"),
    [(False, None, set()), (True, None, {3}), (False, 1, {3})],
)
def test_a_traceback_that_a_logger_printed_was_survived_where_training_went_on(
    run: Callable[..., object], *, hook: bool, exit_code: int | None, expected: set[int]
) -> None:
    """Rank 3 logs a caught OOM at 5.2 s and prints no step; rank 0 goes on for ten more. Only a later end is a failure."""
    r = run()
    for step in range(1, 16):
        r.add("progress", float(step), rank=0, step=step)
    r.add("message", 5.2, rank=3, severity_text="ERROR", body="caught, halving the batch and retrying")
    r.add(
        "cuda_oom", 5.2, rank=3, exception_type="torch.OutOfMemoryError", attributes={"excepthook": 1} if hook else {}
    )
    r.rows[-1] |= {"time_source": "inherited"}
    if exit_code is not None:
        r.add("worker_failed", 20.0, rank=3, exit_code=1, file="agent.log", kind=FileKind.LAUNCHER_LOG)
    assert {rank for rank, _, _ in accused(r.judge())} == expected
