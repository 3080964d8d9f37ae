"""Every pattern recognises its samples and no lookalike, through the real peeler."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from correlator.core.event import Event
from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import FileKind, Role
from correlator.parsers.base import Anchor, Dialect, FileContext, LinePattern
from correlator.parsers.dialects import (
    batch_systems,
    checkpoints,
    clock_lines,
    composer_mlperf,
    deepspeed,
    deepspeed_engine,
    gpu_fabric,
    inference_engines,
    jax_horovod,
    kernel,
    kubernetes,
    lightning,
    mpi,
    process_ends,
    ray,
    slurm,
    slurm_control,
    torchtitan,
    tqdm_bars,
    trainers_generic,
    trainers_hf,
    trainers_megatron,
)
from correlator.parsers.interpret import NOTE
from correlator.parsers.peel import peel

_MODULES = (
    batch_systems,
    checkpoints,
    clock_lines,
    composer_mlperf,
    deepspeed,
    deepspeed_engine,
    gpu_fabric,
    inference_engines,
    jax_horovod,
    kernel,
    kubernetes,
    lightning,
    mpi,
    process_ends,
    ray,
    slurm,
    slurm_control,
    torchtitan,
    tqdm_bars,
    trainers_generic,
    trainers_hf,
    trainers_megatron,
)
_DIALECTS: tuple[Dialect, ...] = tuple(module.DIALECT for module in _MODULES)
_PATTERNS = [pattern for dialect in _DIALECTS for pattern in dialect.patterns]
_KINDS = (FileKind.NODE_LOG, FileKind.KERNEL_LOG, FileKind.SCHEDULER_LOG)


def _matches(pattern: LinePattern, text: str) -> bool:
    return any(_matches_in(pattern, text, kind) for kind in _KINDS)


def _matches_in(pattern: LinePattern, text: str, kind: FileKind) -> bool:
    context = FileContext(path="run.log", kind=kind, hints=FileHints(), run=RunHints())
    prefix, message = peel(text, context)
    if pattern.requires and not pattern.requires & set(prefix.layers):
        return False
    regex = re.compile(pattern.regex)
    return bool(regex.match(message) if pattern.anchor is Anchor.START else regex.search(message))


@pytest.mark.parametrize("pattern", _PATTERNS, ids=lambda pattern: pattern.id)
def test_samples_match_and_lookalikes_do_not(pattern: LinePattern) -> None:
    """Both lists are filled and hold."""
    assert pattern.samples
    assert pattern.lookalikes
    for sample in pattern.samples:
        assert _matches(pattern, sample), sample
    for lookalike in pattern.lookalikes:
        assert not _matches(pattern, lookalike), lookalike


@pytest.mark.parametrize("pattern", _PATTERNS, ids=lambda pattern: pattern.id)
def test_the_scan_finds_each_sample_in_its_raw_line(pattern: LinePattern) -> None:
    """The scan engine sees unpeeled bytes: the regex, unanchored, must hit there too."""
    for sample in pattern.samples:
        assert re.search(pattern.regex.encode(), sample.encode()), sample


@pytest.mark.parametrize("pattern", [p for p in _PATTERNS if p.bulk], ids=lambda pattern: pattern.id)
def test_a_bulk_pattern_ends_at_the_step(pattern: LinePattern) -> None:
    """Thinning reads the step from the end of the match."""
    for sample in pattern.samples:
        match = re.search(pattern.regex, sample)
        assert match is not None
        assert match.end() == match.end("step")
        assert not sample[match.end() : match.end() + 1].isdigit()


def test_only_context_patterns_are_bulk_and_faults_outrank_progress() -> None:
    """A progress bar without newline may stand in front of an error: the error must win."""
    for pattern in _PATTERNS:
        if pattern.bulk:
            assert pattern.role is Role.CONTEXT
            assert pattern.priority < min(other.priority for other in _PATTERNS if other.role is Role.INITIATING)


_HUGE = "9" * 25


@pytest.mark.parametrize("pattern", _PATTERNS, ids=lambda pattern: pattern.id)
def test_no_builder_fails_on_hostile_numbers_or_cut_lines(
    pattern: LinePattern, parse: Callable[..., list[Event]]
) -> None:
    """Absurd numbers and lines that stop anywhere are read as far as they go."""
    for sample in pattern.samples:
        cuts = [sample[: len(sample) * part // 8] for part in range(1, 8)]
        for text in (re.sub(r"\d+", _HUGE, sample), re.sub(r"\d+", "0", sample), sample + "\x00\ud7ff", *cuts):
            assert not [event for event in parse(text) if event.attribute(NOTE)], text
