"""Errors that no signature knows: the one that a single rank printed before it ended stands; noise and echoes do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from correlator.core.vocabulary import FaultCode, VerdictStatus
from correlator.graphs import Findings
from tests.graphs.conftest import RunBuilder

Make = Callable[..., RunBuilder]


def accused(found: Findings) -> dict[int | None, FaultCode]:
    return {initiator.rank: initiator.fault for initiator in found.verdict.initiators}


def ended(run: RunBuilder, rank: int, at_s: float, code: int = 1) -> RunBuilder:
    """The agent of the rank's node saw it end, and stopped the others."""
    node = run.node_of(rank)
    run.add("worker_failed", at_s, rank=rank, node=node, file=f"{node}.log", kind="launcher_log", exit_code=code)
    for other in range(run.world):
        if other != rank and run.node_of(other) == node:
            run.add("worker_signalled", at_s + 0.1, rank=other, node=node, file=f"{node}.log", kind="launcher_log")
    return run


def message(run: RunBuilder, rank: int, at_s: float, mould: str, severity: str | None = "ERROR") -> RunBuilder:
    return run.add("message", at_s, rank=rank, body=mould, template=mould, severity_text=severity)


@pytest.mark.parametrize(("code", "fault"), [(1, FaultCode.PYTHON_EXCEPTION), (-6, FaultCode.NATIVE_ABORT)])
def test_the_last_words_of_a_rank_stand_for_its_fault(run: Make, code: int, fault: FaultCode) -> None:
    """An error line that only the rank which ended printed says more than its exit code."""
    built = message(run().steps(5), 3, 5.5, "shard <n> is short")
    found = ended(built, 3, 6.0, code).judge()
    assert accused(found) == {3: fault}
    assert found.verdict.initiators[0].evidence[0].text == "shard <n> is short"
    assert any("no other rank printed" in words for words in found.hypotheses[0].supports)


@pytest.mark.parametrize("severity", ["INFO", "WARN", "DEBUG"])
def test_a_line_that_reports_no_error_is_no_last_word(run: Make, severity: str) -> None:
    """A level below an error is not made into one."""
    built = message(run().steps(5), 3, 5.5, "nothing of note failed", severity)
    assert accused(ended(built, 3, 6.0).judge()) == {3: FaultCode.SILENT_EXIT}


def test_what_healthy_ranks_print_too_is_noise(run: Make) -> None:
    """A line that another rank printed and survived says nothing about the end of this one."""
    built = message(message(run().steps(5), 3, 5.5, "uploader failed"), 6, 5.4, "uploader failed")
    assert accused(ended(built, 3, 6.0).judge()) == {3: FaultCode.SILENT_EXIT}


def test_what_a_healthy_run_prints_too_is_noise(run: Make) -> None:
    """The same by comparison with a run that was given as healthy."""
    built = ended(message(run().steps(5), 3, 5.5, "uploader failed"), 3, 6.0)
    assert accused(built.judge()) == {3: FaultCode.PYTHON_EXCEPTION}
    assert accused(built.judge(healthy=frozenset({"uploader failed"}))) == {3: FaultCode.SILENT_EXIT}


def test_the_first_of_several_is_taken(run: Make) -> None:
    """What is printed after it is its wake."""
    built = message(message(run().steps(5), 3, 5.5, "shard <n> is short"), 3, 5.6, "loader failed")
    found = ended(built, 3, 6.0).judge()
    assert found.verdict.initiators[0].evidence[0].text == "shard <n> is short"


def test_training_that_went_on_makes_it_harmless(run: Make) -> None:
    """An error that two more steps followed was survived."""
    built = message(run(), 3, 0.5, "shard <n> is short").steps(5)
    assert accused(ended(built, 3, 6.0).judge()) == {3: FaultCode.SILENT_EXIT}


def test_a_known_fault_needs_no_last_words(run: Make) -> None:
    """What a signature knows of the rank is better than a line that nothing knows."""
    built = message(run().steps(5), 3, 5.4, "shard <n> is short").add("cuda_oom", 5.5, rank=3)
    assert accused(ended(built, 3, 6.0).judge()) == {3: FaultCode.CUDA_OOM}


def test_last_words_yield_to_a_plain_fault_elsewhere(run: Make) -> None:
    """An error that nothing knows accuses nobody while another rank states its fault."""
    built = message(run().steps(5), 3, 5.5, "peer went away").add("gpu_off_bus", 5.3, rank=6, kind="kernel_log")
    assert accused(ended(built, 3, 6.0).judge()) == {6: FaultCode.GPU_OFF_BUS}


def test_one_odd_exception_goes_before_one_that_many_raise(run: Make) -> None:
    """Untimed tracebacks: seven ranks raise the same, one another: that one is the suspect."""
    built = run().steps(5)
    for rank in range(8):
        mould = "KeyError: <text>" if rank == 5 else "RuntimeError: lost rank <n>"
        built.add("python_exception", None, rank=rank, template=mould, exception_type="X", body=mould)
    found = built.judge()
    assert accused(found) == {5: FaultCode.PYTHON_EXCEPTION}
    assert any("7 ranks printed it" in words for h in found.hypotheses for words in h.contradicts)


def test_an_exception_of_all_ranks_accuses_none_of_them_alone(run: Make) -> None:
    """Nothing tells them apart: all of them, or nobody."""
    built = run().steps(5)
    for rank in range(8):
        built.add("python_exception", None, rank=rank, template="KeyError: <text>", exception_type="X")
    found = built.judge()
    assert found.verdict.status is not VerdictStatus.IDENTIFIED
    assert len(accused(found)) in {0, 8}
