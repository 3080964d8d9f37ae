"""At least 99 % of the error-looking lines of the sample runs are in the event table, and nearly all of them by name."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNS = sorted((ROOT / "sample_runs").glob("*/run"))


@cache
def measure() -> Any:
    """The measuring program of benchmarks/, with its engine."""
    path = ROOT / "benchmarks" / "coverage_of_errors.py"
    spec = importlib.util.spec_from_file_location("coverage_of_errors", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Measure()


@cache
def coverage_of(run: Path) -> Any:
    """Counts of one run, for both tests."""
    return measure().run(run)


@pytest.mark.parametrize("run", RUNS, ids=[run.parent.name for run in RUNS])
def test_no_error_is_lost(run: Path) -> None:
    """As an event, or folded into the record that it belongs to."""
    found = coverage_of(run)
    assert found.share >= 0.99, found.kinds.most_common(10)


def test_few_of_them_are_kept_for_their_words_alone() -> None:
    """A kind of line that a known program prints has a name (healthy noise may be anything)."""
    counted = [coverage_of(run) for run in RUNS if "noisy" not in run.parent.name]
    looking, unknown = sum(one.looking for one in counted), sum(one.unclassified for one in counted)
    assert looking > 1_000
    assert unknown <= 0.01 * looking
