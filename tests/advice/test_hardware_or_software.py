"""Whole small runs: hardware or software by the kernel log, unknown errors by who printed them, a healthy run beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import correlator
from correlator.cli.app import main
from correlator.core.model import Diagnosis
from correlator.core.vocabulary import FaultClass, FaultCode

PIDS = {rank: 4240 + rank for rank in range(4)}
XID_94 = "NVRM: Xid (PCI:0000:5d:00): 94, pid=4242, name=python3, Contained: SM (0x1). RST: No, D-RST: No"
ASSERT = (
    "../aten/src/ATen/native/cuda/Loss.cu:240: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [3,0,0] "
    "Assertion `t >= 0 && t < n_classes` failed.\n"
)
ILLEGAL = (
    'Traceback (most recent call last):\n  File "/workspace/train.py", line 61, in main\n    loss.backward()\n'
    "RuntimeError: CUDA error: {text}\n"
)


def stamp(second: int) -> str:
    return f"2025-11-30 01:{second // 60:02}:{second % 60:02},000"


def job(folder: Path, words: str, kernel: list[tuple[int, str]] | None = None, code: int = 1) -> Path:
    """Four ranks of node03 train; rank 2 says `words` after step 9 and ends; its agent stops the others."""
    run = folder / "run"
    (run / "node03").mkdir(parents=True)
    for rank in range(4):
        bus = ("1b", "3d", "5d", "9d")[rank]
        lines = [
            f"node03:{PIDS[rank]}:{PIDS[rank]} [{rank}] NCCL INFO ncclCommInitRankConfig comm 0x55d2c12f4890 rank {rank} nranks 4 "
            f"cudaDev {rank} nvmlDev {rank} busId {bus}000 commId 0xd74852d12c2a1bba - Init COMPLETE"
        ]
        lines += [f"{stamp(10 * step)} [INFO] step {step} loss 1.5" for step in range(1, 10)]
        text = "\n".join(lines) + "\n" + (words if rank == 2 else "")
        (run / "node03" / f"rank_{rank}.log").write_text(text)
    elastic = "torch/distributed/elastic/multiprocessing/api.py"
    agent = [
        f"W1130 01:01:3{5 + place}.000000 4200 {elastic}:891] Sending process {PIDS[rank]} closing signal SIGTERM"
        for place, rank in enumerate((0, 1, 3))
    ]
    agent.append(
        f"E1130 01:01:39.000000 4200 {elastic}:863] failed (exitcode: {code}) local_rank: 2 (pid: {PIDS[2]}) of binary: /usr/bin/python3"
    )
    (run / "node03" / "agent.log").write_text("\n".join(agent) + "\n")
    if kernel is not None:
        said = [f"2025-11-30T01:{s // 60:02}:{s % 60:02}.000000+00:00 node03 kernel: {line}" for s, line in kernel]
        (run / "node03" / "kern.log").write_text("\n".join(said) + "\n")
    return run


QUIET = [
    (5, "nvidia-uvm: Loaded the UVM driver, major device number 508."),
    (300, "docker0: port 1 entered disabled state"),
]


def diagnosed(run: Path, **more: object) -> Diagnosis:
    return correlator.open_run(run, workers=1, **more).diagnosis  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    [
        ASSERT + ILLEGAL.format(text="device-side assert triggered"),
        ILLEGAL.format(text="an illegal memory access was encountered"),
        ILLEGAL.format(text="unspecified launch failure"),
    ],
)
def test_an_ecc_xid_of_the_same_gpu_makes_it_hardware(words: str, tmp_path: Path) -> None:
    """Also a label out of range: the value was damaged before the check saw it."""
    verdict = diagnosed(job(tmp_path, words, [QUIET[0], (94, XID_94), QUIET[1]])).verdict
    assert [(i.rank, i.fault, i.fault_class) for i in verdict.initiators] == [
        (2, FaultCode.GPU_ECC_DBE, FaultClass.HARDWARE)
    ]


def test_an_ecc_xid_of_another_gpu_does_not(tmp_path: Path) -> None:
    """The neighbour's card is not this rank's."""
    words = ILLEGAL.format(text="an illegal memory access was encountered")
    other = XID_94.replace("5d", "9d").replace("pid=4242", "pid=9999")
    found = diagnosed(job(tmp_path, words, [QUIET[0], (94, other), QUIET[1]])).verdict
    assert FaultCode.CUDA_ILLEGAL_ADDRESS in {initiator.fault for initiator in found.initiators if initiator.rank == 2}


def test_a_clean_kernel_log_that_covers_the_time_makes_it_software(tmp_path: Path) -> None:
    """It is said, with the file and the span of its lines."""
    words = ILLEGAL.format(text="an illegal memory access was encountered")
    diagnosis = diagnosed(job(tmp_path, words, QUIET))
    initiator = diagnosis.verdict.initiators[0]
    assert (initiator.fault, initiator.fault_class) == (FaultCode.CUDA_ILLEGAL_ADDRESS, FaultClass.SOFTWARE)
    said = [words for words in diagnosis.hypotheses[0].supports if "kern.log" in words]
    assert len(said) == 1
    assert "covers that time (lines of 01:00:05 to 01:05:00)" in said[0]
    assert said[0].endswith("software")


def test_a_kernel_log_that_ends_before_leaves_it_open(tmp_path: Path) -> None:
    """Silence after its last line is no word."""
    words = ILLEGAL.format(text="an illegal memory access was encountered")
    diagnosis = diagnosed(job(tmp_path, words, [QUIET[0], (60, "docker0: port 1 entered disabled state")]))
    assert not [words for words in diagnosis.hypotheses[0].supports if "kern.log" in words]
    assert any("kern.log does not cover that time" in words for words in diagnosis.hypotheses[0].contradicts)


def test_without_a_kernel_log_the_file_that_would_decide_is_named(tmp_path: Path) -> None:
    """And for a launch failure it is asked for."""
    diagnosis = diagnosed(job(tmp_path, ILLEGAL.format(text="unspecified launch failure")))
    assert any("no kernel log of node03" in words for words in diagnosis.hypotheses[0].contradicts)
    assert "kernel log of node03" in diagnosis.missing_evidence
    assert "kernel log of node03" in diagnosis.actions.first


SHORT = "2025-11-30 01:01:33,000 [ERROR] shard 17 of /data/c.bin is short: 12 of 4096 bytes\n"


def test_an_error_that_nothing_knows_still_gets_a_place(tmp_path: Path) -> None:
    """The rank that ended printed it, no other rank did: its own words stand for its fault."""
    diagnosis = diagnosed(job(tmp_path, SHORT))
    initiator = diagnosis.verdict.initiators[0]
    assert (initiator.rank, initiator.fault) == (2, FaultCode.PYTHON_EXCEPTION)
    assert "shard 17" in initiator.evidence[0].text
    assert diagnosis.context[-1].text == SHORT.strip()
    assert any("no other rank printed" in words for words in diagnosis.hypotheses[0].supports)
    assert "an error that nothing knows" in diagnosis.verdict.summary
    assert diagnosis.actions.first.startswith("Search the code for the words of node03/rank_2.log:11")


def test_a_traceback_that_was_cut_off_names_the_frame(tmp_path: Path) -> None:
    """The type of the exception is lost, the innermost frame of the user's code is not."""
    cut = ILLEGAL.format(text="x").rpartition("RuntimeError")[0]
    diagnosis = diagnosed(job(tmp_path, cut))
    assert diagnosis.verdict.initiators[0].fault is FaultCode.PYTHON_EXCEPTION
    assert "/workspace/train.py:61" in diagnosis.actions.first
    assert "at /workspace/train.py:61" in diagnosis.verdict.summary


def test_an_exception_of_the_own_code_is_told_by_type_and_line(tmp_path: Path) -> None:
    """What a colleague would say: what was raised, and where."""
    raised = ILLEGAL.format(text="x").replace(
        "RuntimeError: CUDA error: x", "mylib.errors.ShardError: shard 7 is short"
    )
    verdict = diagnosed(job(tmp_path, raised)).verdict
    assert verdict.initiators[0].fault is FaultCode.PYTHON_EXCEPTION
    assert "raised ShardError at /workspace/train.py:61" in verdict.summary


def healthy(folder: Path) -> Path:
    """A run of the same job that ended well, and printed the same error."""
    run = folder / "healthy"
    run.mkdir()
    for rank in range(4):
        lines = [f"{stamp(10 * step)} [INFO] step {step} loss 1.5" for step in range(1, 10)]
        lines.insert(8, SHORT.strip().replace("17", str(rank)))
        lines.append(f"{stamp(100)} [INFO] Training finished")
        (run / f"rank_{rank}.log").write_text("\n".join(lines) + "\n")
    return run


def test_what_a_healthy_run_prints_too_is_no_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`diagnose RUN --healthy RUN`: the same line of a run that went well takes its weight away."""
    run, well = job(tmp_path, SHORT), healthy(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["diagnose", os.fspath(run), "--healthy", os.fspath(well), "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert [initiator["fault"] for initiator in answer["verdict"]["initiators"]] == ["silent_exit"]
    assert not answer["warnings"] or "healthy" not in " ".join(answer["warnings"])


def test_a_healthy_run_that_failed_is_said_to_have(tmp_path: Path) -> None:
    """What it prints is compared all the same, with a warning."""
    run = job(tmp_path, SHORT)
    diagnosis = diagnosed(run, healthy=run)
    assert any(words.startswith("the run given as healthy failed too") for words in diagnosis.warnings)


def test_more_context_is_kept_on_demand(tmp_path: Path) -> None:
    """A hundred lines are always there; more where they are asked for."""
    many = "".join(f"{stamp(91)} [INFO] detail {number}\n" for number in range(300))
    run = job(tmp_path, many + ILLEGAL.format(text="misaligned address"))
    assert len(diagnosed(run).context) == 100
    assert len(diagnosed(run, context_lines=250).context) == 250


def test_a_file_given_twice_is_read_once(tmp_path: Path) -> None:
    """Neither the same name twice nor another name of it doubles the evidence."""
    file = tmp_path / "rank_2.log"
    file.write_text(ILLEGAL.format(text="misaligned address"))
    (tmp_path / "again.log").symlink_to(file)
    run = correlator.open_run([file, file, tmp_path / "again.log"], workers=1)
    assert [report.path for report in run.reports] == ["rank_2.log"]
