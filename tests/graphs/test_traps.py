"""The traps of post-mortems: in each of them the loudest or the first to speak is innocent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from correlator.core.vocabulary import CollateralKind, FaultCode, FileKind, VerdictStatus
from correlator.graphs import Findings
from tests.graphs.conftest import RunBuilder


def accused(found: Findings) -> list[tuple[int | None, str | None, str]]:
    return [(i.rank, i.node if i.rank is None else None, i.fault) for i in found.verdict.initiators]


def test_the_first_watchdog_to_fire_is_innocent(run: Callable[..., object]) -> None:
    """Seven ranks time out, rank 3 first; rank 5 stayed behind with equal counters and says nothing."""
    r = run().steps(5).timeouts([3, 0, 1, 2, 4, 6, 7], 600)
    r.add(
        "dump_signal",
        601,
        rank=5,
        process_group="0",
        attributes={"from_rank": 3, "last_enqueued": 76, "last_completed": 76},
    )
    assert accused(r.judge()) == [(5, None, FaultCode.RANK_STALLED)]


def test_a_fault_on_a_node_with_a_late_clock_still_came_first(run: Callable[..., object]) -> None:
    """node01's clock is 30 s ahead: by print its OOM comes after the peers' errors, on the aligned clock before."""
    r = run(offsets_ms={"node01": 30_000.0}).steps(5)
    r.add("cuda_oom", 6.0, rank=6, exception_type="torch.OutOfMemoryError", body="CUDA out of memory")
    for rank in (0, 1, 2, 3):
        r.add("remote_peer_lost", 8.0, rank=rank, exception_type="torch.distributed.DistBackendError")
    found = r.judge()
    assert accused(found) == [(6, None, FaultCode.CUDA_OOM)]
    assert {c.rank: c.kind for c in found.collateral}[2] == "remote_peer_lost"


def test_two_faults_that_no_clock_can_order_are_tied(run: Callable[..., object]) -> None:
    """An illegal access and a segfault on two nodes, half a millisecond apart: neither explains the other."""
    r = run(uncertainty_ms=50.0).steps(5)
    r.add("cuda_illegal_address", 6.0000, rank=1, exception_type="RuntimeError")
    r.add("native_segfault", 6.0005, rank=6)
    found = r.judge()
    assert found.verdict.status is VerdictStatus.TIED
    assert {rank for rank, _, _ in accused(found)} == {1, 6}


def test_of_two_faults_the_certainly_earlier_one_started_it(run: Callable[..., object]) -> None:
    """Ten seconds apart with clocks good to 50 ms: the later one is an independent second fault."""
    r = run(uncertainty_ms=50.0).steps(5)
    r.add("cuda_illegal_address", 6.0, rank=1, exception_type="RuntimeError")
    r.add("native_segfault", 16.0, rank=6)
    assert accused(r.judge()) == [(1, None, FaultCode.CUDA_ILLEGAL_ADDRESS)]


def test_an_xid_on_the_ranks_gpu_makes_it_hardware(run: Callable[..., object]) -> None:
    """E10: the CUDA error is the symptom, the GPU off the bus is the fault; the rank stays the same."""
    r = run().steps(5)
    r.add("gpu_off_bus", 5.9, rank=2, node="node00", file="dmesg_node00", kind=FileKind.KERNEL_LOG, gpu="0000:3b:00")
    r.add("cuda_launch_failure", 6.5, rank=2)
    assert accused(r.judge()) == [(2, None, FaultCode.GPU_OFF_BUS)]


def test_the_oom_killer_explains_a_bare_sigkill(run: Callable[..., object]) -> None:
    """E12: exit -9 alone is "killed by somebody"; the kernel's line says by whom."""
    r = run().steps(5)
    r.add("worker_failed", 7.0, rank=3, file="agent.log", kind=FileKind.LAUNCHER_LOG, exit_code=-9)
    assert accused(r.judge()) == [(3, None, FaultCode.PROCESS_KILLED)]
    r.add("host_oom_kill", 6.0, rank=3, node="node00", file="kern.log", kind=FileKind.KERNEL_LOG)
    assert accused(r.judge()) == [(3, None, FaultCode.HOST_OOM_KILL)]


def test_a_sigkill_by_the_agent_is_no_fault(run: Callable[..., object]) -> None:
    """E8: rank 1 was stopped by its agent after rank 0's exception; its exit -9 is not a second cause."""
    r = run().steps(5)
    r.add("data_error", 6.0, rank=0, exception_type="KeyError")
    r.add(
        "worker_signalled", 6.5, rank=1, file="agent.log", kind=FileKind.LAUNCHER_LOG, attributes={"signal": "SIGTERM"}
    )
    r.add("worker_failed", 36.5, rank=1, file="agent.log", kind=FileKind.LAUNCHER_LOG, exit_code=-9)
    found = r.judge()
    assert accused(found) == [(0, None, FaultCode.DATA_ERROR)]
    assert {c.rank: c.kind for c in found.collateral}[1] == "terminated_by_launcher"


def test_torchruns_root_cause_may_name_a_victim(run: Callable[..., object]) -> None:
    """E9: the agent of node01 reports rank 5 first; rank 5 had only lost its peer."""
    r = run().steps(5)
    r.add("python_exception", 6.0, rank=0, exception_type="ValueError")
    r.add("remote_peer_lost", 7.0, rank=5, exception_type="RuntimeError")
    r.add(
        "child_failed_row", 8.0, rank=5, file="agent.log", kind=FileKind.LAUNCHER_LOG, exit_code=1,
        attributes={"root": "true"},
    )  # fmt: skip
    assert accused(r.judge()) == [(0, None, FaultCode.PYTHON_EXCEPTION)]


def test_errors_that_training_survived_are_no_cause(run: Callable[..., object]) -> None:
    """Rank 4's exception was caught: two more steps follow. The run ends well."""
    r = run().steps(3)
    r.add("python_exception", 3.5, rank=4, exception_type="TimeoutError")
    for step in (4, 5):
        for rank in range(8):
            r.add("progress", step, rank=rank, step=step)
    r.add("training_finished", 6.0, rank=0)
    assert r.judge().verdict.status is VerdictStatus.NO_FAILURE


def test_a_stop_from_outside_accuses_no_rank(run: Callable[..., object]) -> None:
    """Both agents get SIGTERM while everything is healthy; all ranks are collateral."""
    r = run().steps(5)
    for node in ("node00", "node01"):
        r.add("agent_signalled", 6.0, node=node, kind=FileKind.LAUNCHER_LOG, attributes={"signal": "SIGTERM"})
    found = r.judge()
    assert accused(found) == [(None, None, FaultCode.PREEMPTED)]
    assert len(found.collateral) == 8


def test_a_time_limit_after_a_real_fault_is_not_the_cause(run: Callable[..., object]) -> None:
    """E15: the fault certainly came before the scheduler's cancel."""
    r = run().steps(5)
    r.add("cuda_oom", 6.0, rank=6, exception_type="torch.OutOfMemoryError")
    r.add("scheduler_cancelled", 600.0, kind=FileKind.SCHEDULER_LOG, attributes={"reason": "time_limit"})
    assert accused(r.judge()) == [(6, None, FaultCode.CUDA_OOM)]


def test_who_waits_behind_a_smaller_group_is_innocent(run: Callable[..., object]) -> None:
    """E3b: ranks 4-6 wait for 7 in their own group; 0-3 wait for all of 4-7 in the default group."""
    r = run().steps(5)
    for rank in (4, 5, 6):
        r.add("process_group", None, rank=rank, process_group="20", attributes={"members": "[4, 5, 6, 7]"})
        r.add("collective_timeout", 600, rank=rank, collective_seq=9, collective_op="ALLREDUCE", process_group="20")
    r.timeouts([0, 1, 2, 3], 601)
    assert accused(r.judge()) == [(7, None, FaultCode.RANK_STALLED)]


@pytest.mark.parametrize(("deviating", "expected"), [([2], {2}), ([2, 3], {2, 3})])
def test_a_mismatch_names_the_minority(run: Callable[..., object], deviating: list[int], expected: set[int]) -> None:
    """E4: who brings another operation hangs the group."""
    r = run().steps(5)
    r.timeouts([rank for rank in range(8) if rank not in deviating], 600, op="_ALLGATHER_BASE")
    r.timeouts(deviating, 600.5, op="ALLREDUCE")
    assert {rank for rank, _, fault in accused(r.judge()) if fault == FaultCode.COLLECTIVE_MISMATCH} == expected


def test_two_against_two_accuses_both_sides(run: Callable[..., object]) -> None:
    """A mismatch without a majority is tied."""
    r = run(world=4).steps(5).timeouts([0, 1], 600, op="ALLREDUCE").timeouts([2, 3], 600, op="BROADCAST")
    found = r.judge()
    assert found.verdict.status is VerdictStatus.TIED
    assert {rank for rank, _, _ in accused(found)} == {0, 1, 2, 3}


def test_all_waiting_and_nobody_missing_is_left_open(run: Callable[..., object]) -> None:
    """Fabric or library: nobody is to blame on this evidence, and the dumps are asked for."""
    found = run().steps(5).timeouts(list(range(8)), 600).judge()
    assert found.verdict.status is VerdictStatus.UNDETERMINED
    assert any("flight recorder" in asked for asked in found.missing_evidence)


def test_a_node_without_logs_is_asked_for_not_accused(run: Callable[..., object]) -> None:
    """Ranks 4-7 left no log; the others only waited: undetermined, and node01's logs are the ones to get."""
    found = run(silent_ranks=frozenset({4, 5, 6, 7})).timeouts([0, 1, 2, 3], 600).judge()
    assert found.verdict.status is VerdictStatus.UNDETERMINED
    assert found.missing_evidence[0] == "all logs of node01 (ranks 4-7)"


def test_only_timeouts_of_a_few_ranks_accuse_nobody(run: Callable[..., object]) -> None:
    """Three logs of eight, all waiting: nothing says who did not come."""
    found = run(silent_ranks=frozenset({0, 1, 4, 6, 7})).timeouts([2, 3, 5], 600).judge()
    assert found.verdict.status is VerdictStatus.UNDETERMINED


def test_the_last_attempt_is_judged(run: Callable[..., object]) -> None:
    """An earlier attempt's fault on another rank does not carry over."""
    r = run().steps(3)
    r.add("cuda_oom", 4.0, rank=1, exception_type="torch.OutOfMemoryError")
    r.add("progress", 100.0, rank=0, step=4, attempt=1)
    r.add("progress", 101.0, rank=0, step=5, attempt=1)
    r.add("data_error", 102.0, rank=6, exception_type="KeyError", attempt=1)
    assert accused(r.judge()) == [(6, None, FaultCode.DATA_ERROR)]


def test_restarts_that_never_came_up_point_back(run: Callable[..., object]) -> None:
    """Attempt 1 dies in the rendezvous of the fault in attempt 0."""
    r = run().steps(3)
    r.add("data_error", 4.0, rank=1, exception_type="RuntimeError")
    for rank in range(8):
        r.add("remote_peer_lost", 60.0, rank=rank, exception_type="RuntimeError", attempt=1)
    assert accused(r.judge()) == [(1, None, FaultCode.DATA_ERROR)]


def test_one_fault_on_every_rank_of_a_node_is_one_wave(run: Callable[..., object]) -> None:
    """A full local disk: four ranks raise within 50 ms; none of them led the others."""
    r = run().steps(5)
    for rank in (4, 5, 6, 7):
        r.add("disk_full", 6.0 + rank * 0.01, rank=rank, exception_type="OSError")
    for rank in (0, 1, 2, 3):
        r.add("remote_peer_lost", 8.0, rank=rank, exception_type="RuntimeError")
    found = r.judge()
    assert found.verdict.status is VerdictStatus.TIED
    assert {rank for rank, _, _ in accused(found)} == {4, 5, 6, 7}


def test_all_ranks_crashing_at_once_are_tied(run: Callable[..., object]) -> None:
    """One bad input on every rank: no rank led the others."""
    r = run(uncertainty_ms=50.0).steps(5)
    for rank in range(8):
        r.add("native_segfault", 6.0 + rank * 0.001, rank=rank)
    found = r.judge()
    assert found.verdict.status is VerdictStatus.TIED
    assert {rank for rank, _, _ in accused(found)} == set(range(8))


def test_a_benign_xid_accuses_nobody(run: Callable[..., object]) -> None:
    """Xid 31 of a process that then trained on for steps is history."""
    r = run().steps(3)
    r.add("gpu_mmu_fault", 3.5, rank=2, node="node00", file="dmesg", kind=FileKind.KERNEL_LOG, gpu="0000:3b:00")
    for step in range(4, 8):
        for rank in range(8):
            r.add("progress", float(step), rank=rank, step=step)
    r.add("data_error", 8.0, rank=6, exception_type="KeyError")
    assert accused(r.judge()) == [(6, None, FaultCode.DATA_ERROR)]


def test_an_xid_on_a_gpu_of_no_rank_does_not_shadow_the_raised_fault(run: Callable[..., object]) -> None:
    """The Xid names another GPU of the node, minutes before; the rank that raised is the one to look at."""
    r = run().steps(5)
    r.add("gpu_mmu_fault", 5.5, node="node00", file="dmesg", kind=FileKind.KERNEL_LOG, gpu="0000:ff:00")
    r.add("cuda_oom", 6.0, rank=1, exception_type="torch.OutOfMemoryError")
    assert accused(r.judge()) == [(1, None, FaultCode.CUDA_OOM)]


def test_a_rank_that_left_with_exit_code_0_is_the_one_that_is_missing(run: Callable[..., object]) -> None:
    """Uneven data: rank 0 ends well, its peers wait for it for ever."""
    r = run().steps(5)
    r.add("process_exit_clean", 6.0, rank=0)
    r.timeouts([1, 2, 3, 4, 5, 6, 7], 606)
    assert accused(r.judge()) == [(0, None, FaultCode.RANK_STALLED)]


def test_level_with_all_but_finished_less_is_the_gpu_that_stopped(run: Callable[..., object]) -> None:
    """Everybody enqueued the same; rank 4's GPU completed one collective less than the others (peers.md 7c)."""
    r = run().steps(5)
    for rank in range(8):
        done = 75 if rank == 4 else 76
        r.timeouts([rank], 600, seq=done + 1)
        r.add(
            "work_status", 600.1, rank=rank, process_group="0", collective_seq=done + 1,
            attributes={"last_enqueued": 80, "last_completed": done},
        )  # fmt: skip
    assert accused(r.judge()) == [(4, None, FaultCode.RANK_STALLED)]


def test_a_watchdogs_abort_is_never_the_cause(run: Callable[..., object]) -> None:
    """SIGABRT after a timeout is how the watchdog ends a process (exit -6)."""
    r = run().steps(5).timeouts([0, 1, 2, 3, 4, 6, 7], 600)
    r.add("worker_failed", 660, rank=0, file="agent.log", kind=FileKind.LAUNCHER_LOG, exit_code=-6)
    assert accused(r.judge()) == [(5, None, FaultCode.RANK_STALLED)]


def test_rank_zero_takes_the_store_with_it(run: Callable[..., object]) -> None:
    """E6: all others lose the store; the exception of rank 0 explains them."""
    r = run().steps(5)
    r.add("python_exception", 6.0, rank=0, exception_type="ValueError")
    for rank in range(1, 8):
        r.add("store_lost", 7.0, rank=rank)
    found = r.judge()
    assert accused(found) == [(0, None, FaultCode.PYTHON_EXCEPTION)]
    assert {c.kind for c in found.collateral} == {"store_lost"}
    assert all(c.explained_by for c in found.collateral)


def test_files_that_only_show_no_failure_prove_none(run: Callable[..., object]) -> None:
    """Steps and then nothing: cut off, still running or killed; it is no failure only where an end is shown."""
    assert run().steps(5).judge().verdict.status is VerdictStatus.UNDETERMINED
    assert run().steps(5).add("training_finished", 6.0, rank=0).judge().verdict.status is VerdictStatus.NO_FAILURE


def test_a_loader_worker_that_the_kernel_killed_is_told_at_its_rank(run: Callable[..., object]) -> None:
    """The OOM killer names the worker's pid, the rank's message repeats it: the rank, not the node."""
    r = run().steps(5)
    r.add("host_oom_kill", 6.0, node="node01", file="kern.log", kind=FileKind.KERNEL_LOG, process_pid=5123)
    r.add(
        "dataloader_worker_died", 6.5, rank=6, exception_type="RuntimeError",
        body="RuntimeError: DataLoader worker (pid 5123) is killed by signal: Killed.",
    )  # fmt: skip
    assert [rank for rank, _, _ in accused(r.judge())] == [6]


def test_both_ends_of_an_nvlink_report_and_the_first_is_to_blame(run: Callable[..., object]) -> None:
    """Xid 74 on two GPUs of one node, three seconds apart on one clock."""
    r = run().steps(5)
    kernel = {"node": "node00", "file": "kern.log", "kind": FileKind.KERNEL_LOG}
    r.add("gpu_nvlink", 6.0, rank=1, gpu="0000:3b:00", **kernel)
    r.add("gpu_nvlink", 9.0, rank=2, gpu="0000:5e:00", **kernel)
    assert accused(r.judge()) == [(1, None, FaultCode.GPU_NVLINK)]


def test_ranks_that_their_agent_stopped_before_they_could_time_out_are_not_missing(run: Callable[..., object]) -> None:
    """One rank of each node times out first and its siblings are sent SIGTERM: nobody is missing, nothing is proven."""
    r = run().steps(5).timeouts([0, 4], 600)
    for rank in (1, 2, 3, 5, 6, 7):
        stop = {"file": "agent.log", "kind": FileKind.LAUNCHER_LOG, "attributes": {"signal": "SIGTERM"}}
        r.add("worker_signalled", 600.1, rank=rank, **stop)
    assert r.judge().verdict.status is VerdictStatus.UNDETERMINED


def test_a_node_of_which_everything_falls_silent_was_lost(run: Callable[..., object]) -> None:
    """All four ranks of node01 stop, and its launcher never reports an end: the node, not its ranks."""
    r = run().steps(5).timeouts([0, 1, 2, 3], 600)
    r.add("rendezvous_complete", 0.1, node="node01", file="agent1.log", kind=FileKind.LAUNCHER_LOG)
    for rank in range(4):
        r.add("worker_failed", 661, rank=rank, file="agent0.log", kind=FileKind.LAUNCHER_LOG, exit_code=-6)
    assert accused(r.judge()) == [(None, "node01", FaultCode.NODE_LOST)]


def test_slurm_task_lines_are_process_ends_where_a_task_is_a_rank(run: Callable[..., object]) -> None:
    """`task 5: Killed` first, then the rest is taken down: only the first was killed by somebody else."""
    r = run()
    r.tasks_are_ranks = True
    r.steps(5)
    slurm = {"file": "slurm.out", "kind": FileKind.SCHEDULER_LOG}
    r.add("task_exit", None, exit_code=-9, attributes={"tasks": "[5]", "nodes": '["node01"]'}, **slurm)
    r.add("phase", None, attributes={"phase": "teardown"}, **slurm)
    r.add("task_exit", None, exit_code=-9, attributes={"tasks": "[0, 1, 2, 3]", "nodes": '["node00"]'}, **slurm)
    assert accused(r.judge()) == [(5, None, FaultCode.PROCESS_KILLED)]


def test_the_one_rank_that_waits_nowhere_stands_out(run: Callable[..., object]) -> None:
    """Groups whose members nobody prints: seven of eight ranks time out in some group, rank 5 in none."""
    r = run().steps(5)
    for rank in (0, 1, 2, 3, 4, 6, 7):
        wait = {"collective_seq": 9, "collective_op": "ALLREDUCE", "process_group": str(10 + rank % 2)}
        r.add("collective_timeout", 600 + rank * 0.01, rank=rank, **wait)
    assert accused(r.judge()) == [(5, None, FaultCode.RANK_STALLED)]


def test_an_untimed_traceback_came_after_the_last_step_of_its_rank(run: Callable[..., object]) -> None:
    """stderr has no times, stdout has: rank 6's exception fell between its last step and its end, rank 1's long before."""
    r = run(uncertainty_ms=50.0).steps(5)
    r.add("cuda_illegal_address", 5.2, rank=1, exception_type="RuntimeError")
    r.rows.append({**r.rows[-1], "event_id": 10_001, "event_name": "progress", "role": "context", "step": 6, "rank": 6})
    late = r.rows[-1]
    late |= {"host_name": "node01", "clock_domain": "node01", "log_file_path": "rank_6.out", "time_source": "explicit"}
    late |= {"timestamp": late["timestamp"] + 9_000_000_000, "time_aligned": late["time_aligned"] + 9_000_000_000}
    r.add("python_exception", None, rank=6, file="rank_6.err", exception_type="ValueError")
    assert accused(r.judge()) == [(1, None, FaultCode.CUDA_ILLEGAL_ADDRESS)]


def test_a_fault_of_nobody_is_that_of_the_rank_that_tells_the_same(run: Callable[..., object]) -> None:
    """A renamed file repeats what the agent reports of rank 5; nobody else is accused for it."""
    r = run().steps(3)
    r.add("data_error", 3.5, rank=5, body="KeyError: 'mixed'")
    r.add("data_error", 3.5, node=None, file="f00016.log", body="KeyError: 'mixed'")
    assert accused(r.judge()) == [(5, None, FaultCode.DATA_ERROR)]


def test_a_kernel_log_of_no_known_node_is_told_at_the_one_rank_that_suffers(run: Callable[..., object]) -> None:
    """A kernel log that was renamed: its Xid and rank 5's CUDA error are one story."""
    r = run().steps(3)
    r.add("cuda_ecc_uncorrectable", 3.6, rank=5, exception_type="RuntimeError")
    r.add("gpu_ecc_dbe", 3.5, file="f00000.log", kind=FileKind.KERNEL_LOG, gpu="0000:1b:00", attributes={"xid": "95"})
    assert accused(r.judge()) == [(5, None, FaultCode.GPU_ECC_DBE)]


def test_logs_of_ranks_put_one_after_the_other_keep_their_own_steps(run: Callable[..., object]) -> None:
    """cat rank_*.log: rank 1's early error was survived, though rank 0's whole log with later steps stands above it."""
    r = run(world=2, per_node=2)
    for rank in (0, 1):
        if rank == 1:
            r.add("python_exception", rank=1, file="node00.log", exception_type="TimeoutError")
        for step in range(1, 9):
            r.add("progress", step, rank=rank, step=step, file="node00.log")
    r.add("training_finished", 9.0, rank=0)
    assert r.judge().verdict.status is VerdictStatus.NO_FAILURE


def test_an_agents_dated_report_above_a_ranks_log_was_not_survived(run: Callable[..., object]) -> None:
    """cat agent.log rank_*.log: the steps below the report were printed before it."""
    r = run(world=2, per_node=2)
    r.add("data_error", 9.5, rank=1, file="all.log", exception_type="KeyError", body="KeyError: 'mixed'")
    for rank in (0, 1):
        for step in range(1, 9):
            r.add("progress", step, rank=rank, step=step, file="all.log")
    assert accused(r.judge()) == [(1, None, FaultCode.DATA_ERROR)]


@pytest.mark.parametrize(
    ("order", "kinds"),
    [
        (None, {}),
        ("scheduler_cancelled", dict.fromkeys((0, 1, 2), CollateralKind.SCHEDULER_CANCEL)),
    ],
)
def test_cancelled_needs_the_schedulers_word(
    run: Callable[..., RunBuilder], order: str | None, kinds: dict[int, CollateralKind]
) -> None:
    """Task 3 ended; that the others were ended too is said by the order to end them, not by task 3."""
    slurm: dict[str, object] = {"file": "slurm.out", "kind": FileKind.SCHEDULER_LOG}
    r = run(world=4, tasks_are_ranks=True).steps(5)
    r.add("task_exit", None, exit_code=1, node="node00", attributes={"tasks": "[3]", "nodes": '["node00"]'}, **slurm)
    if order:
        r.add(order, 7.0, attributes={"reason": "cancelled"}, **slurm)
    found = r.judge()
    assert [i.rank for i in found.verdict.initiators] == [3]
    assert {c.rank: c.kind for c in found.collateral} == kinds
