"""Evidence that is lost, moved or packed: the mutations do what they say, and verdicts hold as far as they must."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import correlator
from benchmarks.degradation import Outcome, degrade
from benchmarks.scenarios import Expected, Layout, build
from benchmarks.scenarios.dumps import Recorded, dump
from benchmarks.scenarios.judging import Grade
from benchmarks.scenarios.mutations import CHANGES, LOSSES, TEARS, packed, split_in_two
from benchmarks.scenarios.simulation import VERSIONS
from benchmarks.scenarios.specimen import Specimen
from benchmarks.scenarios.stamps import shifted, shifted_dump
from benchmarks.scenarios.torch_text import Group
from correlator.parsers.dumps.plain_pickle import load

STAMPED = (
    "2025-11-30 23:59:59,123 - trainer - INFO - step 3 loss 2.1",
    "[rank3]:[E1130 23:59:59.123456789 ProcessGroupNCCL.cpp:632] text",
    "W1130 23:59:59.123000 4242 torch/distributed/x.py:7] text",
    "Nov 30 23:59:59 node03 kernel: [12345.678901] NVRM: text",
    "[Sun Nov 30 23:59:59 2025] NVRM: text",
    "2025-11-30T23:59:59.123456789Z stderr F text",
    "  time      : 2025-11-30_23:59:59",
    '{"message": {"message": "x", "extraInfo": {"timestamp": "1764547199"}}}',
    "[default1]:11/30/2025 23:59:59 - INFO - train -   step 3",
    "25-11-30 23:59:59.123 : epoch 3",
    "[23:59:59] (1) step 3 loss 2.1",
    "[    2.310005] rtc_cmos 00:01: setting system clock to 2025-11-30T23:59:59 UTC (1764547199)",
)
LATER = (
    "2025-12-01 00:04:59,123 - trainer - INFO - step 3 loss 2.1",
    "[rank3]:[E1201 00:04:59.123456789 ProcessGroupNCCL.cpp:632] text",
    "W1201 00:04:59.123000 4242 torch/distributed/x.py:7] text",
    "Dec  1 00:04:59 node03 kernel: [12345.678901] NVRM: text",
    "[Mon Dec  1 00:04:59 2025] NVRM: text",
    "2025-12-01T00:04:59.123456789Z stderr F text",
    "  time      : 2025-12-01_00:04:59",
    '{"message": {"message": "x", "extraInfo": {"timestamp": "1764547499"}}}',
    "[default1]:12/01/2025 00:04:59 - INFO - train -   step 3",
    "25-12-01 00:04:59.123 : epoch 3",
    "[00:04:59] (1) step 3 loss 2.1",
    "[    2.310005] rtc_cmos 00:01: setting system clock to 2025-12-01T00:04:59 UTC (1764547499)",
)
RUNS = (("cuda_oom", Layout.FLAT, (*CHANGES, *TEARS)), ("stalled_rank", Layout.FLAT, tuple(LOSSES)))
LEAST_GOOD = 0.85
"""Share of runs with lost evidence that end right, or open with the right file asked for."""


@pytest.mark.parametrize(("line", "later"), list(zip(STAMPED, LATER, strict=True)))
def test_a_clock_moves_every_stamp_of_a_line(line: str, later: str) -> None:
    assert shifted(line.encode(), 300) == later.encode()
    assert shifted(later.encode(), -300) == line.encode()
    both = f"one\n{line}\n{line}\n", f"one\n{later}\n{later}\n"
    assert shifted(both[0].encode(), 300) == both[1].encode(), "in the middle of a file as well"


@given(st.binary(max_size=200), st.integers(-(10**6), 10**6))
def test_any_bytes_can_be_moved(data: bytes, seconds: int) -> None:
    """Bytes without a stamp stay as they are, whatever they are."""
    moved = shifted(data, seconds)
    assert moved == data or b":" in data or b'"' in data


def test_a_dump_moves_with_its_clock() -> None:
    group = Group(0, "0", "default_pg", (0, 1))
    entry = Recorded(group, 7, "ALLREDUCE", 8, 8, 1_764_547_199_000_000_000, completed=True)
    data = dump(VERSIONS[-1], [entry], [group], 600_000)
    moved = load(shifted_dump(data, -60)).value
    assert moved["entries"][0]["time_created_ns"] == 1_764_547_139_000_000_000
    assert moved["pg_status"] == {
        "0": {"last_enqueued_collective": 7, "last_started_collective": -1, "last_completed_collective": 7}
    }
    assert shifted_dump(b"no pickle", 5) == b"no pickle"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """Each mutation of one run."""
    done: list[Outcome] = []
    for name, layout, mutations in RUNS:
        folder = tmp_path_factory.mktemp(name)
        expected: Expected = build(name, layout, 11, folder)
        before = {path: path.read_bytes() for path in files(folder)}
        done += degrade(name, folder, expected, mutations)
        assert {path: path.read_bytes() for path in files(folder)} == before
    return done


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def test_another_form_of_the_same_evidence_changes_no_verdict(outcomes: list[Outcome]) -> None:
    """Clocks, packing, joining, splitting and plain lines say nothing about who did it."""
    changed = [outcome for outcome in outcomes if outcome.mutation in CHANGES]
    assert {outcome.mutation for outcome in changed} == set(CHANGES)
    assert not [f"{outcome.run} [{outcome.mutation}]: {outcome.note}" for outcome in changed if outcome.changed]


def test_torn_evidence_accuses_nobody_else(outcomes: list[Outcome]) -> None:
    torn = [outcome for outcome in outcomes if outcome.mutation in TEARS]
    assert {outcome.mutation for outcome in torn} == set(TEARS)
    assert not [f"[{outcome.mutation}]: {outcome.note}" for outcome in torn if outcome.grade is Grade.WRONG]


def test_lost_evidence_accuses_nobody_else(outcomes: list[Outcome]) -> None:
    lost = [outcome for outcome in outcomes if outcome.mutation in LOSSES]
    assert {outcome.mutation for outcome in lost} >= set(LOSSES) - {"initiator's dump removed"}
    assert not [outcome.note for outcome in lost if outcome.grade is Grade.WRONG]
    good = sum(outcome.good for outcome in lost)
    assert good >= LEAST_GOOD * len(lost), [outcome.note for outcome in lost if not outcome.good]


def test_packed_files_hold_what_the_plain_ones_held(tmp_path: Path) -> None:
    """The harness itself loses nothing."""
    expected = build("cuda_oom", Layout.FLAT, 11, tmp_path)
    whole = {path.name: path.read_bytes() for path in files(tmp_path)}
    specimen = Specimen(tmp_path, correlator.open_run(tmp_path, workers=1), expected, random.Random(1))
    assert split_in_two(specimen)
    joined = {
        path.name: (path.with_name(path.name + ".1").read_bytes() if path.with_name(path.name + ".1").exists() else b"")
        + path.read_bytes()
        for path in files(tmp_path)
        if path.suffix != ".1"
    }
    assert joined == whole
    assert packed(specimen)
    assert all(gzip.decompress(path.read_bytes()) for path in files(tmp_path) if path.suffix == ".gz")
