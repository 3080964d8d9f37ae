"""Each sample run in each format: none fails, none is too long or too large; `benchmarks.renders` does the same for any runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.renders import REPORTS, render_all, timelines
from tests.helpers_reports import SAMPLES

FOLDER = Path(__file__).resolve().parents[2] / "sample_runs"
RUNS = sorted(run for run in FOLDER.glob("*/run") if run.parent.name not in SAMPLES)
"""Those of SAMPLES are rendered by the tests of each format."""
ELSEWHERE = {timelines}
"""Timelines of sample runs are read back in test_timeline_files."""


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.parent.name)
def test_a_sample_run_has_every_report(run: Path, tmp_path: Path) -> None:
    rendered = render_all(run, tmp_path, [report for report in REPORTS if report not in ELSEWHERE])
    assert rendered.failures == []
    assert len(rendered.sizes) == 4 + 3 + 4 + 1 + 2 + 2
