"""Over the sample runs: advice is there, agrees with the verdict, and names nothing that the input does not hold."""

from __future__ import annotations

import functools
import gzip
import re
from pathlib import Path

import pytest

import correlator
from correlator.core.model import Diagnosis
from correlator.core.ranges import unfold_hosts, unfold_numbers
from correlator.core.vocabulary import VerdictStatus

ROOT = Path(__file__).parent.parent.parent
SAMPLES = sorted(path.parent for path in (ROOT / "sample_runs").glob("*/expected.json"))
PLACE = re.compile(r"(?<![\w/])([\w.-]+(?:/[\w.-]+)*\.(?:log|out|err|txt|json)(?:\.gz)?):(\d+)")
RANKS = re.compile(r"\branks? (\d[\d,-]*)")
SSH = re.compile(r'(?:ssh |NodeName="|--exclude="|cordon |describe node )([\w.,\[\]-]+)')
ON = re.compile(r"\brank \d+ on (?!another\b)([\w.-]+)")
GPU = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?\b")
PID = re.compile(r"(?:--pid |/proc/|\binfo |\bpid )(\d+)")
ABSOLUTE = re.compile(r"(?<![\w.~<$])(/(?!dev/|proc/|etc/|tmp|var/)[\w.+@%=:,-]+(?:/[\w.+@%=:,-]+)+)")


@functools.cache
def diagnosed(sample: str) -> Diagnosis:
    return correlator.open_run(ROOT / "sample_runs" / sample / "run", workers=1).diagnosis


@functools.cache
def raw(sample: str) -> str:
    """All that was given: the names of the files and what is in them."""
    parts = []
    folder = ROOT / "sample_runs" / sample / "run"
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            parts += [path.relative_to(folder).as_posix(), data.decode("utf-8", "replace")]
    return "\n".join(parts)


def words_of(diagnosis: Diagnosis) -> str:
    """Every sentence and command of the answer that is ours."""
    actions, checkpoint = diagnosis.actions, diagnosis.checkpoint
    parts = [
        diagnosis.verdict.summary,
        actions.first,
        *actions.commands,
        actions.verify,
        actions.resume,
        checkpoint.why,
    ]
    for hypothesis in diagnosis.hypotheses:
        parts += [*hypothesis.initiators, *hypothesis.contradicts, hypothesis.control]
        parts += [words for words in hypothesis.supports if not PLACE.match(words)]
    return "\n".join(parts)


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
    diagnosis, given = diagnosed(sample.name), raw(sample.name)
    words = words_of(diagnosis)
    folder = sample / "run"
    assert "{" not in re.sub(r"\$\{|\{\d", "", words)
    for name, number in PLACE.findall(words):
        path = folder / name
        assert path.is_file(), name
        if path.suffix != ".gz":
            assert int(number) <= path.read_bytes().count(b"\n") + 1
    world = diagnosis.run.world_size
    for listed in RANKS.findall(words):
        ranks = unfold_numbers(listed.rstrip(",-"))
        assert world is None or max(ranks) < world, listed
    nodes = [node for match in SSH.findall(words) for node in unfold_hosts(match)] + ON.findall(words)
    assert not [node for node in nodes if node.rstrip(".") not in given]
    lowered = given.lower()
    assert not [gpu for gpu in GPU.findall(words) if gpu.partition(".")[0] not in lowered]
    assert not [pid for pid in PID.findall(words) if pid not in given]
    assert not [path for path in ABSOLUTE.findall(words) if path.rstrip(".,:;") not in given and not _ours(path)]
    safe = diagnosis.checkpoint.safe_to_resume_from
    inferred = "resumed after it" in diagnosis.checkpoint.why or "saves run every" in diagnosis.checkpoint.why
    assert safe is None or safe in given or inferred or re.findall(r"\d+", safe)[-1].lstrip("0") in given


def _ours(path: str) -> bool:
    """Ways of speaking, not places: `and/or` between two words of prose."""
    return path.startswith(("/dev", "/proc"))
