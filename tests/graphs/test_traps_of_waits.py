"""Traps of waiting, of hardware and of launchers: who speaks loudest, last or best is not who began."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from correlator.core.model import ProcessGroup
from correlator.core.vocabulary import FaultCode, FileKind, Severity, VerdictStatus
from correlator.graphs import Findings
from tests.graphs.conftest import RunBuilder

Builder = Callable[..., RunBuilder]
KERNEL = {"node": "node00", "file": "kern.log", "kind": FileKind.KERNEL_LOG}
AGENT = {"file": "agent.log", "kind": FileKind.LAUNCHER_LOG}
SLURM = {"file": "slurm.out", "kind": FileKind.SCHEDULER_LOG}


def accused(found: Findings) -> list[tuple[int | None, str]]:
    return [(one.rank, str(one.fault)) for one in found.verdict.initiators]


def call(r: RunBuilder, rank: int, group: str, seq: int, op: str = "ALLREDUCE", **told: object) -> RunBuilder:
    """An open collective of a flight-recorder dump."""
    return r.add(
        "collective_entry", 10.0 + seq, rank=rank, process_group=group, collective_seq=seq, collective_op=op,
        kind=FileKind.FLIGHT_RECORDER, file=f"dump_{rank}", attributes={"state": "started", **told},
    )  # fmt: skip


def test_a_pipeline_stall_is_followed_over_groups_to_its_end(run: Builder) -> None:
    """Stage 0 waits for stage 1, stage 1 for stage 2, stage 2 for stage 3, which never came; all wait for all."""
    stages = tuple(ProcessGroup(str(10 + n), f"pp{n}", (2 * n, 2 * n + 1, 2 * n + 2)) for n in range(3))
    r = run(groups=stages).steps(5)
    for number, stage in enumerate(stages):
        for rank in stage.members[:2]:
            r.add(
                "collective_timeout", 600 + number, rank=rank, collective_seq=9, collective_op="ALLREDUCE",
                process_group=stage.name,
            )  # fmt: skip
    r.timeouts([7], 603)
    found = r.judge()
    assert accused(found) == [(6, FaultCode.RANK_STALLED)]
    assert all(member.explained_by for member in found.collateral)


@pytest.mark.parametrize(
    "odd",
    [
        {"input_sizes": "[[4096]]", "output_sizes": "[[4096]]"},
        {"input_sizes": "[[8192]]", "output_sizes": "[[8192]]", "dtypes": "Half"},
    ],
    ids=["size", "dtype"],
)
def test_another_size_or_type_hangs_the_group(run: Builder, odd: dict[str, str]) -> None:
    r = run().steps(5)
    usual = {"input_sizes": "[[8192]]", "output_sizes": "[[8192]]", "dtypes": "Float"}
    for rank in range(8):
        call(r, rank, "0", 40, **(odd if rank == 3 else usual))
    assert accused(r.judge()) == [(3, FaultCode.COLLECTIVE_MISMATCH)]


def test_another_order_of_calls_shows_as_another_operation_at_one_number(run: Builder) -> None:
    """Rank 3 reduces first and gathers then; at number 40 its peers gather."""
    r = run().steps(5)
    for rank in range(8):
        call(r, rank, "0", 40, op="ALLREDUCE" if rank == 3 else "_ALLGATHER_BASE")
        call(r, rank, "0", 41, op="_ALLGATHER_BASE" if rank == 3 else "ALLREDUCE")
    assert accused(r.judge()) == [(3, FaultCode.COLLECTIVE_MISMATCH)]


def test_what_follows_in_a_poisoned_context_is_the_same_fault(run: Builder) -> None:
    """E2: rank 2's illegal access comes back from every later call of CUDA and NCCL, without times of their own."""
    r = run().steps(5).add("cuda_illegal_address", 6.0, rank=2, exception_type="RuntimeError")
    r.add("nccl_internal_error", None, rank=2, exception_type="DistBackendError", file="rank_2.err")
    r.add("context_poisoned", 6.5, rank=2)
    assert accused(r.judge()) == [(2, FaultCode.CUDA_ILLEGAL_ADDRESS)]


def test_agents_of_other_nodes_that_die_of_the_rendezvous_are_victims(run: Builder) -> None:
    """Rank 6 failed; the agent of node00 then could not rejoin and gave up."""
    r = run().steps(5).add("cuda_oom", 6.0, rank=6, exception_type="torch.OutOfMemoryError")
    r.add("rendezvous_timeout", 66.0, node="node00", exception_type="RendezvousTimeoutError", **AGENT)
    assert accused(r.judge()) == [(6, FaultCode.CUDA_OOM)]


def test_errors_after_the_schedulers_order_are_of_its_making(run: Builder) -> None:
    """E15: the time limit came first; ranks that then fail in their own ways were being stopped."""
    r = run().steps(5).add("scheduler_cancelled", 6.0, attributes={"reason": "time_limit"}, **SLURM)
    r.add("python_exception", 9.0, rank=3, exception_type="RuntimeError")
    r.add("remote_peer_lost", 9.0, rank=5, exception_type="RuntimeError")
    assert accused(r.judge()) == [(None, FaultCode.PREEMPTED)]


def test_a_page_fault_that_no_process_suffers_from_yields_to_a_raised_error(run: Builder) -> None:
    """Xid 13 and 31 come of applications, and often of others on the machine."""
    r = run().steps(5).add("gpu_mmu_fault", 5.5, rank=2, gpu="0000:3b:00", **KERNEL)
    r.add("data_error", 6.0, rank=6, exception_type="KeyError")
    assert accused(r.judge()) == [(6, FaultCode.DATA_ERROR)]


def test_an_xid_of_the_cleanup_changes_nothing(run: Builder) -> None:
    """Half a minute after the illegal access, when the process was torn down."""
    r = run().steps(5).add("cuda_illegal_address", 6.0, rank=2, exception_type="RuntimeError")
    r.add("gpu_mmu_fault", 36.0, rank=2, gpu="0000:3b:00", **KERNEL)
    assert accused(r.judge()) == [(2, FaultCode.CUDA_ILLEGAL_ADDRESS)]


def test_the_oom_killer_of_a_cgroup_names_no_pid_and_still_the_rank(run: Builder) -> None:
    """One rank of the node died by SIGKILL when the kernel killed for its memory group."""
    r = run().steps(5).add("host_oom_kill", 6.0, **KERNEL)
    r.add("worker_failed", 7.0, rank=3, exit_code=-9, **AGENT)
    assert accused(r.judge()) == [(3, FaultCode.HOST_OOM_KILL)]


def test_a_loader_worker_and_its_parent_are_one_fault(run: Builder) -> None:
    """E18: the parent's exception only says that the worker died."""
    r = run().steps(5).add("dataloader_worker_died", 6.0, rank=1, exception_type="RuntimeError")
    r.add("python_exception", 6.2, rank=1, exception_type="RuntimeError")
    assert accused(r.judge()) == [(1, FaultCode.DATALOADER_WORKER_DIED)]


def test_words_of_the_application_that_mention_a_fault_are_not_it(run: Builder) -> None:
    """`circuit breaker: cuda_oom?` as a warning on rank 0, long before rank 6 raises."""
    r = run().steps(5)
    r.add(
        "cuda_oom",
        5.5,
        rank=0,
        severity_text=Severity.WARN,
        body="circuit breaker tripped: possible CUDA out of memory",
    )
    r.add("data_error", 6.0, rank=6, exception_type="KeyError")
    assert accused(r.judge()) == [(6, FaultCode.DATA_ERROR)]


def test_a_folded_line_that_hides_ranks_accuses_none_of_them(run: Builder) -> None:
    """Ray prints one of eight equal lines: that rank 2 alone shows the lost peer says nothing about it."""
    r = run(silent_ranks=frozenset({5, 6})).steps(5)
    text = "NCCL error: remote process exited [repeated 7x across cluster]"
    r.add("remote_peer_lost", 8.0, rank=2, exception_type="RuntimeError", body=text)
    found = r.judge()
    assert found.verdict.status is VerdictStatus.UNDETERMINED
    assert found.missing_evidence
