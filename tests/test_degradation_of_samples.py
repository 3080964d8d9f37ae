"""Sample runs with the initiator's own files gone, or a clock moved: the least that verdicts must still reach.

`python -m benchmarks.degradation` has the whole table, over all labelled cases and every loss.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.degradation import Outcome, degrade
from benchmarks.scenarios import from_json
from benchmarks.scenarios.judging import Grade
from benchmarks.scenarios.mutations import CHANGES

ROOT = Path(__file__).parent.parent / "sample_runs"
SAMPLES = (
    "real-dataset-keyerror-003",
    "real-hang-pyspy-006",
    "real-nan-assert-011",
    "real-sigkill-005",
    "sim-xid79-hang-flat-5s-301",
)
LOSS = "initiator's files removed"
CLOCKS = ("guilty clock +300 s", "guilty clock -9 h")
LEAST_GOOD = 0.85
"""Share that ends right, or open with a file of the initiator asked for."""
MOST_SURE_AND_WRONG = 0.02
SURE = 0.7


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """Each sample whole, then with each mutation that applies to it."""
    done: list[Outcome] = []
    for name in SAMPLES:
        expected = from_json(json.loads((ROOT / name / "expected.json").read_text()))
        done += degrade(name, ROOT / name / "run", expected, (LOSS, *CLOCKS))
    return done


def test_without_the_initiators_files_the_verdict_is_right_or_rightly_open(outcomes: list[Outcome]) -> None:
    lost = [one for one in outcomes if one.mutation == LOSS]
    assert len(lost) >= len(SAMPLES) - 2  # a run of one file keeps it
    assert sum(one.good for one in lost) >= LEAST_GOOD * len(lost), [one.note for one in lost if not one.good]
    wrong = [one for one in lost if one.grade is Grade.WRONG and one.confidence >= SURE]
    assert len(wrong) <= MOST_SURE_AND_WRONG * len(lost), [one.note for one in wrong]


def test_a_moved_clock_changes_no_verdict(outcomes: list[Outcome]) -> None:
    assert set(CLOCKS) <= set(CHANGES)
    moved = [one for one in outcomes if one.mutation in CLOCKS]
    assert moved
    assert not [f"{one.run} [{one.mutation}]: {one.note}" for one in moved if one.changed]
