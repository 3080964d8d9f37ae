"""Bare numbers in file names: ranks only as a series that no line contradicts, and counters are no hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from correlator.sources import discover

STEP = "2026-03-01 10:00:00,123 [INFO] trainer: step 12 loss 2.5\n"
AGENT = "W1130 01:02:03.123000 12345 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4243 closing signal SIGTERM\n"
KERNEL = "[12345.678901] NVRM: Xid (PCI:0000:5d:00): 79, pid=4245, GPU has fallen off the bus.\n"


def ranks_of(folder: Path, files: dict[str, str]) -> dict[str, int | None]:
    """The rank that each file's name is taken to say."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text * 6)
    with discover([folder]) as run:
        return {file.path: file.hints.rank for file in run.files}


@pytest.mark.parametrize("name", ["{}.log", "log{}.txt", "r{}.out", "stderr_{}"])
def test_a_series_from_zero_is_the_ranks(name: str, tmp_path: Path) -> None:
    """Files 0 to 3 whose lines name no rank."""
    found = ranks_of(tmp_path, {name.format(number): STEP for number in range(4)})
    assert sorted(found.values(), key=str) == [0, 1, 2, 3]


def test_a_series_that_lines_confirm_need_not_begin_at_zero(tmp_path: Path) -> None:
    """One file that prints its number as its rank speaks for the others."""
    found = ranks_of(tmp_path, {"5.log": f"[rank5]: {STEP}", "6.log": STEP})
    assert found == {"5.log": 5, "6.log": 6}


@pytest.mark.parametrize(
    "other", [f"[rank7]: {STEP}", KERNEL, AGENT, "".join(f"[rank{rank}]: {STEP}" for rank in range(4))]
)
def test_one_file_of_another_writer_spoils_the_series(other: str, tmp_path: Path) -> None:
    """Numbered copies of anything: the number counts files, and no rank may be blamed by it."""
    found = ranks_of(tmp_path, {"log0.txt": STEP, "log1.txt": other, "log2.txt": STEP})
    assert set(found.values()) == {None}


@pytest.mark.parametrize("name", ["3.log", "log3.txt", "part-3.out"])
def test_a_number_alone_proves_nothing(name: str, tmp_path: Path) -> None:
    """A single file with a number may be the third of anything."""
    assert ranks_of(tmp_path, {name: STEP}) == {name: None}


def test_a_word_for_a_process_is_enough(tmp_path: Path) -> None:
    """`worker3.log` and `rank_3.log` say what they count."""
    assert ranks_of(tmp_path, {"worker3.log": STEP}) == {"worker3.log": 3}


@pytest.mark.parametrize("name", ["f00016.log", "file0003.log", "x1001.txt"])
def test_a_counter_is_a_host_only_where_lines_say_so(name: str, tmp_path: Path) -> None:
    """Files are numbered like that more often than nodes are named so."""
    (tmp_path / name).write_text(KERNEL * 6)
    with discover([tmp_path]) as run:
        assert run.files[0].hints.node is None
    host = name.split(".", maxsplit=1)[0]
    (tmp_path / "agent.log").write_text(f"{host}:4245:4311 [2] NCCL INFO Bootstrap: Using eth0:10.0.0.3<0>\n" * 6)
    with discover([tmp_path]) as run:
        assert {file.hints.node for file in run.files if file.path == name} == {host}


def test_a_folder_named_like_a_counter_may_be_a_node(tmp_path: Path) -> None:
    """c101/rank_0.log: the ranks' files lie in folders of nodes."""
    (tmp_path / "c101").mkdir()
    (tmp_path / "c101" / "rank_0.log").write_text(STEP * 6)
    with discover([tmp_path]) as run:
        assert run.files[0].hints.node == "c101"
