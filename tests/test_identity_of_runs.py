"""Every event of whole runs is given to the rank and node that wrote it, in every layout.

What must be is worked out by benchmarks/identity.py from the documentation of the layouts, with nothing of the product. All
runs: `python -m benchmarks.identity sample_runs ../shared/cases`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.identity import Writer, check, layout_of, writer_of

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = (
    ("real-dataset-keyerror-003", 100),  # torchrun's folders of two nodes
    ("real-hang-pyspy-006", 490),  # stack dumps and flight-recorder dumps beside them
    ("sim-cuda-oom-k8s-5s-313", 340),  # pods, and a listing
    ("sim-segfault-so-label-none-311", 560),  # srun --label, one task a node
    ("sim-xid79-cuda-error-slurm-task-zone-302", 1000),  # one file a task, one task a rank
    ("sim-dataloader-stall-merged-5s-319", 980),  # one file a node, --tee
)
CASES = ROOT.parent / "shared" / "cases"
HELD = ("real-elastic-shape-012", "sim-ecc-dbe-slurm-node-ntp-303", "sim-restart-same-node-merged-30s-352")


def must_be_right(run: Path) -> int:
    """Nothing wrong, nothing left open; how many ranks of events the layout determined."""
    figures = check(run)
    assert not figures.examples, {what: places[:3] for what, places in figures.examples.items()}
    return figures.counts["rank right"]


@pytest.mark.parametrize(("name", "least"), SAMPLES, ids=[name for name, _ in SAMPLES])
def test_events_of_the_sample_runs_have_their_writers(name: str, least: int) -> None:
    """Rank, node and attempt, as far as path, prefix and tables determine them."""
    assert must_be_right(ROOT / "sample_runs" / name) >= least


@pytest.mark.parametrize("name", HELD)
def test_events_of_other_labelled_runs_have_their_writers(name: str) -> None:
    """Where the labelled runs lie beside the repository: restarts, and tasks that are nodes."""
    if not (CASES / name).is_dir():
        pytest.skip("the labelled runs are not here")
    assert must_be_right(CASES / name) > 0


LAYOUTS = {
    "node01.log": "[default1]:[rank1]:[E1130 01:02:03.1 a.cpp:1] x\n[default0]:y\n  global_ranks=[0, 1]\n  local_ranks=[0, 1]\n",
    "agent_node02.log": "x\n",
    "node02/none_ab12cd34/attempt_1/1/stderr.log": "boom\n",
    "rank_3.log": "boom\n",
}


@pytest.mark.parametrize(
    ("path", "line", "writer"),
    [
        ("node01.log", "[default1]:[rank1]:[E1130 01:02:03.1 a.cpp:1] x", Writer(1, "node01")),
        ("node01.log", "[default0]:y", Writer(0, "node01")),
        ("node01.log", "no prefix", Writer(None, "node01")),
        ("node02/none_ab12cd34/attempt_1/1/stderr.log", "boom", Writer(3, "node02", 1)),
        ("rank_3.log", "boom", Writer(3, "node02")),
    ],
)
def test_the_second_opinion_knows_the_layouts(path: str, line: str, writer: Writer, tmp_path: Path) -> None:
    """It would find nothing wrong if it determined nothing."""
    for name, text in LAYOUTS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    expected = {"world_size": 4, "nodes": 2, "clock_offset_ms": {"node01": 0.0, "node02": 5.0}}
    assert writer_of(layout_of(tmp_path, expected)[0], path, line) == writer
