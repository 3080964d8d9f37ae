"""Over the sample runs: advice is there, agrees with the verdict, and names nothing that the input does not hold."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import pytest

import correlator
from benchmarks.named_values import read_given, unfounded
from correlator.core.model import Actions, Checkpoint, Diagnosis, Verdict
from correlator.core.reasons import ContextLine
from correlator.core.vocabulary import VerdictStatus

ROOT = Path(__file__).parent.parent.parent
SAMPLES = sorted(path.parent for path in (ROOT / "sample_runs").glob("*/expected.json"))


@functools.cache
def diagnosed(sample: str) -> Diagnosis:
    return correlator.open_run(ROOT / "sample_runs" / sample / "run", workers=1).diagnosis


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_advice_is_there_and_agrees_with_the_verdict(sample: Path) -> None:
    """Actions, hypotheses with a control each, context and checkpoint; the first hypothesis is the verdict's own."""
    diagnosis = diagnosed(sample.name)
    status = diagnosis.verdict.status
    assert diagnosis.actions.first
    assert diagnosis.checkpoint.why
    if status is VerdictStatus.NO_FAILURE:
        assert diagnosis.hypotheses == ()
        return
    assert len(diagnosis.hypotheses) >= 2
    assert all(hypothesis.control for hypothesis in diagnosis.hypotheses)
    assert sum(hypothesis.probability for hypothesis in diagnosis.hypotheses) <= 1 + 1e-9
    assert diagnosis.actions.resume
    if status in {VerdictStatus.IDENTIFIED, VerdictStatus.TIED}:
        first = diagnosis.verdict.initiators[0]
        assert diagnosis.hypotheses[0].fault is first.fault
        assert diagnosis.hypotheses[0].probability == max(h.probability for h in diagnosis.hypotheses)
        assert diagnosis.actions.verify
        assert diagnosis.context
        if first.node is not None:
            assert diagnosis.actions.commands
    safe = diagnosis.checkpoint.safe_to_resume_from
    assert safe is None or safe in diagnosis.actions.resume


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_nothing_is_invented(sample: Path) -> None:
    """Every file, line, rank, node, GPU, pid, path and checkpoint that is named occurs in the input."""
    assert unfounded(diagnosed(sample.name), read_given(sample / "run")) == []


CASES = ROOT.parent / "shared" / "cases"
QUICK = ("pub-ecc-two-gpu", "pub-sigbus-small-shm", "real-ckpt-disk-full-009", "real-elastic-shape-012")


@pytest.mark.parametrize("case", QUICK)
def test_nothing_is_invented_for_labelled_cases(case: str) -> None:
    """The same for some small cases, where they lie beside the checkout; benchmarks.named_values does them all."""
    folder = CASES / case / "run"
    if not folder.is_dir():
        pytest.skip("no labelled cases beside this checkout")
    assert unfounded(correlator.open_run(folder, workers=1).diagnosis, read_given(folder)) == []


def test_an_invented_value_is_found(tmp_path: Path) -> None:
    """The check itself can fail: each kind of value, one at a time."""
    (tmp_path / "rank_3.log").write_text("node03 step 10 saved step_10 pid 4245 GPU 0000:3b:00 /ckpt/step_10\n")
    sample = diagnosed(SAMPLES[0].name)
    run = dataclasses.replace(sample.run, world_size=4)
    plain = dataclasses.replace(
        sample, run=run, verdict=Verdict(VerdictStatus.UNDETERMINED, 0.5, ""), hypotheses=(), context=(),
        actions=Actions(), checkpoint=Checkpoint(),
    )  # fmt: skip
    given = read_given(tmp_path)
    assert unfounded(plain, given) == []
    for first in (
        "rank 5",
        "ssh node04 true",
        "rank_9.log:1",
        "rank_3.log:7",
        "0000:5d:00",
        "pid 17",
        "/ckpt/step_20",
        "{rank}",
    ):
        told = dataclasses.replace(plain, actions=Actions(first=first))
        assert unfounded(told, given), first
    for lie in (
        {"checkpoint": Checkpoint(safe_to_resume_from="step_20")},
        {"context": (ContextLine("rank_3.log", 1, "never printed"),)},
    ):
        assert unfounded(dataclasses.replace(plain, **lie), given), lie
