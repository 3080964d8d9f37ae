"""Generated runs of known cause: what they are made of, and the least that verdicts on a few of them must reach."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from benchmarks.scenarios import SCENARIOS, Expected, Layout, Skew, build, from_json
from benchmarks.scenarios.judging import Grade, Judgement, calibration, diagnose
from benchmarks.scenarios.kernel_text import Transport, stamped
from benchmarks.scenarios.simulation import VERSIONS, Launcher, new_simulation
from correlator.core.vocabulary import CollateralKind, FaultCode, VerdictStatus

PAIRS = [(name, one.layouts[number % len(one.layouts)]) for number, (name, one) in enumerate(SCENARIOS.items())]
"""Every story in one of its layouts, in turn."""
NOT_TOLD = {
    FaultCode.CUDA_STREAM_CAPTURE,  # a bug of the program that shows on every rank alike, as config_error does
    FaultCode.CUDA_INVALID_CONFIGURATION,
}
WORLD = 16

SAMPLE = (
    ("cuda_oom", Layout.K8S),
    ("illegal_address_with_xid31", Layout.MERGED),
    ("off_bus_silent", Layout.FLAT),
    ("memory_kill", Layout.LABEL),
    ("disk_full_on_a_node", Layout.TREE),
    ("stalled_rank", Layout.TASK),
    ("mismatch_of_operation", Layout.FLAT),
    ("time_limit", Layout.LABEL),
    ("rank_zero_dies", Layout.MERGED),
    ("root_cause_is_a_victim", Layout.K8S),
    ("healthy_after_errors", Layout.TREE),
    ("third_of_the_logs", Layout.FLAT),
)
"""One of each family, in all layouts."""
LEAST_RIGHT = 11
"""Of the sample; none of it may accuse an innocent."""


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("name", "layout"), [("stalled_rank_with_dumps", Layout.K8S), ("link_down", Layout.LABEL)])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(name: str, layout: Layout, tmp_path: Path) -> None:
    told = [build(name, layout, seed, tmp_path / place) for seed, place in ((7, "a"), (7, "b"), (8, "c"))]
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert told[0] == told[1]
    assert files(tmp_path / "a") != files(tmp_path / "c")


def test_every_story_can_be_told(tmp_path: Path) -> None:
    """The truth speaks of ranks and nodes of the run, and there is something to read."""
    told: set[FaultCode] = set()
    assert {layout for _, layout in PAIRS} == set(Layout)
    for number, (name, layout) in enumerate(PAIRS):
        folder = tmp_path / str(number)
        folder.mkdir()
        expected = build(name, layout, 3, folder)
        assert any(content for content in files(folder).values()), name
        accused = [one for some in (expected.initiators, *expected.also) for one in some]
        told |= {one.fault for one in accused}
        assert {one.rank for one in accused if one.rank is not None} <= set(range(WORLD)), name
        assert set(expected.collateral) <= set(range(WORLD)), name
        kinds = {kind for kinds in expected.collateral.values() for kind in kinds.split("|")}
        assert kinds <= set(CollateralKind), name
        assert not {one.rank for one in expected.initiators} & set(expected.collateral), name
        assert bool(expected.initiators) == (expected.status in (VerdictStatus.IDENTIFIED, VerdictStatus.TIED)), name
    assert set(FaultCode) - told == NOT_TOLD


def test_the_truth_survives_its_file(tmp_path: Path) -> None:
    """expected.json is read as it was written, and as the labelled cases write it."""
    expected = build("disk_full_on_a_node", Layout.FLAT, 1, tmp_path)
    again = from_json(json.loads(json.dumps(expected.as_json())))
    assert again == Expected(
        expected.status,
        expected.initiators,
        expected.also,
        expected.also_status,
        dict(expected.collateral),
        expected.why,
    )


def test_clocks_are_as_far_apart_as_the_skew_says() -> None:
    """Zones move what is printed locally, never an instant."""
    for skew, limit in ((Skew.NONE, 0.0), (Skew.NTP, 0.02), (Skew.HALF_MINUTE, 30.0), (Skew.ZONE, 5.0)):
        nodes = new_simulation(random.Random(5), Launcher.SRUN, skew, console=True).cluster.nodes
        assert all(abs(node.offset_s) <= limit for node in nodes)
        assert sum(node.zone_s != 0 for node in nodes) == (skew is Skew.ZONE)
        assert all((node.local(1e9) - node.utc(1e9)).total_seconds() == node.zone_s for node in nodes)


def test_lines_have_the_shapes_of_the_dossier() -> None:
    """Unpadded months in c10d lines, none of a time before 2.4, padded ones in Python's (formats.md A1, B1, H4)."""
    node = new_simulation(random.Random(1), Launcher.SRUN, Skew.NONE, console=True).cluster.nodes[0]
    now = node.local(1_736_038_923.123)  # 5 January 2025, 01:02:03
    old, new = VERSIONS[0], VERSIONS[-1]
    place = ("ProcessGroupNCCL.cpp", 632)
    assert old.c10d("E", now, 3, place, "text") == "[E ProcessGroupNCCL.cpp:632] text"
    assert new.c10d("E", now, 3, place, "text").startswith("[rank3]:[E105 01:02:03.")
    assert (
        new.agent("W", now, 4242, ("distributed/x.py", 7), "text")
        == "W0105 01:02:03.123000 4242 torch/distributed/x.py:7] text"
    )
    assert stamped(Transport.DMESG, node, 1_736_038_923.0, ["x"]) == ["[Sun Jan  5 01:02:03 2025] x"]


def test_reliability_counts_what_was_said() -> None:
    """Two verdicts at 0.9, one of them wrong: an error of 0.4."""
    said = [
        Judgement(grade, 0.9, named=True, fault_right=None, kinds=(0, 0, 0), said="")
        for grade in (Grade.RIGHT, Grade.WRONG)
    ]
    rows, error, brier = calibration(said)
    assert rows == [(0.9, 0.5, 2)]
    assert error == pytest.approx(0.4)
    assert brier == pytest.approx((0.01 + 0.81) / 2)


def test_verdicts_on_a_sample(tmp_path: Path) -> None:
    """The least that holds at any time; `python -m benchmarks.verdicts` has the whole picture."""
    found = {}
    for name, layout in SAMPLE:
        folder = tmp_path / name
        folder.mkdir()
        found[name] = diagnose(folder, build(name, layout, 11, folder))
    wrong = {name: judgement.said for name, judgement in found.items() if judgement.grade is Grade.WRONG}
    assert not wrong
    right = [name for name, judgement in found.items() if judgement.grade is Grade.RIGHT]
    assert len(right) >= LEAST_RIGHT, {name: judgement.why for name, judgement in found.items() if name not in right}


@pytest.mark.parametrize(
    ("name", "layout", "seed"),
    [
        ("heap_corruption", Layout.FLAT, 3),
        ("heap_corruption", Layout.TASK, 1),
        ("link_down", Layout.TREE, 3),
        ("link_down", Layout.TASK, 2),
        ("stalled_rank", Layout.TREE, 3),
    ],
)
def test_silence_is_blamed_only_where_nothing_else_explains_it(
    name: str, layout: Layout, seed: int, tmp_path: Path
) -> None:
    """Ranks that aborted with a message, lost their link or were stopped with a sibling are not silent; a stalled one is."""
    judgement = diagnose(tmp_path, build(name, layout, seed, tmp_path))
    assert judgement.grade is Grade.RIGHT, judgement.why
    assert judgement.fault_right, judgement.why
