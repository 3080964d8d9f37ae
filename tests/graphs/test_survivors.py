"""Words that started nothing: said after a stop, outlived by their process, or a kernel's about somebody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from correlator.core.vocabulary import FaultCode, FileKind
from correlator.graphs import Findings

AGENT = {"file": "agent.log", "kind": FileKind.LAUNCHER_LOG}
KERNEL = {"kind": FileKind.KERNEL_LOG}


def accused(found: Findings) -> set[tuple[int | None, str]]:
    return {(i.rank, str(i.fault)) for i in found.verdict.initiators}


@pytest.mark.parametrize(("exit_code", "expected"), [(-9, (1, "process_killed")), (None, (3, "import_error"))])
def test_an_old_traceback_gives_way_to_a_death_by_signal(
    run: Callable[..., object], exit_code: int | None, expected: tuple[int, str]
) -> None:
    """Rank 3's stderr holds a traceback without a time; its agent lists only rank 1, killed, among the failed."""
    r = run().steps(5)
    r.add("import_error", None, rank=3, file="3/stderr.log", exception_type="ImportError")
    if exit_code is not None:
        r.add("child_failed_row", 9.0, rank=1, node="node00", exit_code=exit_code, **AGENT)
    assert accused(r.judge()) == {expected}


def test_a_rank_that_says_it_finished_had_survived(run: Callable[..., object]) -> None:
    r = run().steps(5)
    r.add("import_error", None, rank=3, file="3/stderr.log", exception_type="ImportError")
    for rank in range(8):
        r.add("training_finished", 9.0, rank=rank)
    assert r.judge().verdict.status == "no_failure"


def test_what_a_process_says_while_it_is_stopped_brought_nobody_down(run: Callable[..., object]) -> None:
    """Rank 1 is killed; the agent stops its node; the handler of rank 2 raises 0.3 s later."""
    r = run().steps(5)
    r.add("worker_signalled", 9.0, node="node00", attributes={"signal": "SIGTERM"}, **AGENT)
    r.add("python_exception", 9.3, rank=2, exception_type="KeyError")
    r.add("worker_failed", 10.0, rank=1, exit_code=-9, **AGENT)
    assert accused(r.judge()) == {(1, "process_killed")}


@pytest.mark.parametrize(("node", "expected"), [("node01", True), ("node09", False), ("head-0", True)])
def test_a_fault_on_a_node_without_any_rank_is_not_the_jobs(
    run: Callable[..., object], node: str, *, expected: bool
) -> None:
    """Names of another pattern may be another spelling: pods and nodes do not compare."""
    r = run().steps(5)
    r.add("gpu_off_bus", 6.0, node=node, gpu="0000:9b:00", file=f"{node}.kern", **KERNEL)
    r.timeouts(list(range(8)), 605)
    found = {i.fault for i in r.judge().verdict.initiators}
    assert (FaultCode.GPU_OFF_BUS in found) is expected


@pytest.mark.parametrize("lived", [True, False])
def test_a_kill_for_memory_on_a_node_whose_ranks_all_wrote_on_hit_a_stranger(
    run: Callable[..., object], *, lived: bool
) -> None:
    r = run().steps(5)
    r.add("host_oom_kill", 6.0, node="node00", file="node00.kern", process_pid=99_123, **KERNEL)
    for rank in range(4 if lived else 3):
        r.add("remote_peer_lost", 20.0, rank=rank)
    found = {i.fault for i in r.judge().verdict.initiators}
    assert (FaultCode.HOST_OOM_KILL in found) is not lived


def test_a_port_that_the_attempt_before_holds_is_not_the_cause(run: Callable[..., object]) -> None:
    r = run().steps(5)
    r.add("python_exception", 6.0, rank=1, exception_type="KeyError")
    port = {"exception_type": "torch.distributed.DistNetworkError", "attempt": 1}
    r.add("config_error", 20.0, rank=0, **port)
    r.rows[-1] |= {"signature": "config_error.port"}
    assert accused(r.judge()) == {(1, "python_exception")}


@pytest.mark.parametrize(("more", "expected"), [(1, set()), (10, {(6, "cuda_oom")})])
def test_a_lost_peer_long_before_did_not_drag_the_rank_in(
    run: Callable[..., object], more: int, expected: set[tuple[int, str]]
) -> None:
    """Rank 6 complains of a peer at step 5 and trains on; buffered steps may follow the complaint, ten do not."""
    r = run().steps(5)
    r.add("remote_peer_lost", None, rank=6)
    for step in range(6, 6 + more):
        for rank in range(8):
            r.add("progress", float(step), rank=rank, step=step)
    r.add("cuda_oom", None, rank=6, exception_type="torch.OutOfMemoryError")
    assert accused(r.judge()) == expected


@pytest.mark.parametrize("ended", [True, False])
def test_a_fault_of_nobody_beside_an_end_without_a_word_is_left_open(
    run: Callable[..., object], *, ended: bool
) -> None:
    """Files lost their names: one of them holds an exception, and an agent reports that some rank ended by itself."""
    r = run().steps(5)
    r.add("cuda_oom", 6.0, file="f7.txt", exception_type="torch.OutOfMemoryError")
    if ended:
        for rank in (2, 6):
            r.add("worker_failed", 9.0, rank=rank, exit_code=1, **AGENT)
    found = r.judge()
    assert (found.verdict.status == "undetermined") is ended
