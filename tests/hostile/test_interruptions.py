"""Ctrl-C and SIGKILL: nothing stays behind, and no file is missing without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import correlator
from correlator.ingest import collect
from tests.hostile import deadly

pytestmark = pytest.mark.timeout(300)  # processes of their own, on machines that may be busy
ROOT = Path(__file__).parent.parent.parent
LINE = b"[rank%d]: 2026-03-02 17:05:%02d,000 torch.OutOfMemoryError: CUDA out of memory\n"


def marked(mark: str) -> list[int]:
    """Processes that inherited a mark in their environment and still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            alive = "\nState:\tZ" not in (path / "status").read_text()
            if alive and mark.encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def wait_for(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(condition())


@pytest.fixture
def long_run(tmp_path: Path) -> Path:
    """Files that keep two readers busy for some seconds, as FIFOs cannot: each line is an event."""
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in range(2):
        (folder / f"rank_{rank}.log").write_bytes(b"".join(LINE % (rank, n % 60) for n in range(60)) * 2500)
    return folder


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_end_takes_everything_with_it(long_run: Path, tmp_path: Path, number: signal.Signals, code: int) -> None:
    """As a terminal sends it: to every process of the group."""
    # A socket's path holds about a hundred characters; in a longer TMPDIR one process reads alone.
    mark, room = f"mark-{uuid.uuid4()}", Path(tempfile.mkdtemp(prefix="c-"))
    words = [
        sys.executable,
        "-m",
        "correlator",
        "diagnose",
        str(long_run),
        "--workers",
        "2",
        "-o",
        str(tmp_path / "o.txt"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(room), "CORRELATOR_TEST_MARK": mark}
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert wait_for(lambda: len(marked(mark)) >= 4), "itself, the server, two readers"
        time.sleep(0.5)
        os.killpg(process.pid, number)
        assert process.wait(60) == code
        said = process.stderr.read() if process.stderr else b""
    assert b"Traceback" not in said, said
    assert wait_for(lambda: not marked(mark)), marked(mark)
    assert not list(room.iterdir())
    room.rmdir()
    assert not (tmp_path / "o.txt").exists()


@pytest.fixture
def eight_ranks(tmp_path: Path) -> Path:
    folder = tmp_path / "eight"
    folder.mkdir()
    for rank in range(8):
        (folder / f"rank_{rank}.log").write_bytes(LINE % (rank, rank))
    return folder


def test_the_file_of_a_killed_reader_is_a_row_with_the_reason(
    eight_ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all others are read."""
    monkeypatch.setattr(collect, "ReadTask", deadly.DeadlyTask)
    run = correlator.open_run(eight_ranks, workers=2)
    assert sorted(report.path for report in run.reports) == [f"rank_{rank}.log" for rank in range(8) if rank != 3]
    assert [(row.path, "killed" in row.reason) for row in run.skipped] == [("rank_3.log", True)]
    assert {skipped.file for skipped in run.diagnosis.skipped} == {"rank_3.log"}


def test_a_file_whose_reader_was_killed_once_is_read_by_another(
    eight_ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (eight_ranks / deadly.ONCE).touch()
    monkeypatch.setattr(collect, "ReadTask", deadly.DeadlyTask)
    run = correlator.open_run(eight_ranks, workers=2)
    assert {report.path for report in run.reports} >= {f"rank_{rank}.log" for rank in range(8)}
    assert not [row for row in run.skipped if row.path.endswith(".log")]
