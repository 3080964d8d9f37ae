"""Laws of the verdict: what must not change it does not, whatever is done to the files (design section 6)."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import correlator

ROOT = Path(__file__).parent.parent / "sample_runs"
RUNS = (
    "pub-oom-rank11-slurm",
    "real-nan-assert-011",
    "real-sigkill-005",
    "sim-python-data-error-merged-30s-340",
)
Answer = tuple[str, frozenset[tuple[int | None, str | None, str]]]


def answer(run: Path) -> Answer:
    verdict = correlator.diagnose(run, workers=1).verdict
    return str(verdict.status), frozenset((i.rank, i.node, str(i.fault)) for i in verdict.initiators)


@cache
def untouched(name: str) -> Answer:
    return answer(ROOT / name / "run")


def texts(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file() and path.suffix in (".log", ".out", ".err", ".txt"))


def gzipped(run: Path) -> None:
    for path in texts(run):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()


def carriage_returns(run: Path) -> None:
    for path in texts(run):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def bad_bytes_added(run: Path) -> None:
    for path in texts(run):
        path.write_bytes(b"\xc3\x28\x00\xfe torn write \xc3\n" + path.read_bytes())


def healthy_lines_added(run: Path) -> None:
    for path in texts(run):
        lines = path.read_bytes().split(b"\n")
        chatter = [b"compiling kernels for the next hour", b"dataset cache is warm"]
        path.write_bytes(b"\n".join([*chatter, *lines]))


def half_of_the_steps_dropped(run: Path) -> None:
    for path in texts(run):
        kept = []
        for number, line in enumerate(path.read_bytes().split(b"\n")):
            if number % 2 and re.search(rb"\bstep \d+/\d+ loss|iteration +\d+/", line):
                continue
            kept.append(line)
        path.write_bytes(b"\n".join(kept))


def other_files_added(run: Path) -> None:
    (run / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    (run / "empty.log").write_bytes(b"")
    (run / "config.yaml").write_text("lr: 0.1\nworkers: 8\n")
    (run / "loop").symlink_to(run)


MUTATIONS: tuple[Callable[[Path], None], ...] = (
    gzipped,
    carriage_returns,
    bad_bytes_added,
    healthy_lines_added,
    half_of_the_steps_dropped,
    other_files_added,
)


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
@pytest.mark.parametrize("name", RUNS)
def test_the_verdict_stays(name: str, mutate: Callable[[Path], None], tmp_path: Path) -> None:
    """Packing, line endings, torn bytes, chatter, fewer steps and foreign files change nothing."""
    run = tmp_path / "run"
    shutil.copytree(ROOT / name / "run", run)
    mutate(run)
    assert answer(run) == untouched(name)


def test_ranks_relabelled_in_the_input_are_relabelled_in_the_verdict(tmp_path: Path) -> None:
    """Nothing knows a rank by its number: swap 2 and 3 in names and lines, and the verdict names 3."""
    run = tmp_path / "run"
    shutil.copytree(ROOT / "real-nan-assert-011" / "run", run)
    first, second = (next(p for p in run.iterdir() if re.search(rf"\D0*{rank}\.log$", p.name)) for rank in (2, 3))
    swapped = {}
    for path in run.iterdir():
        name = {first.name: second.name, second.name: first.name}.get(path.name, path.name)
        text = re.sub(rb"(\brank ?|\[rank|\[Rank |\()([23])\b", _swap, path.read_bytes())
        swapped[name] = text
    for name, text in swapped.items():
        (run / name).write_bytes(text)
    status, initiators = answer(run)
    before_status, before = untouched("real-nan-assert-011")
    assert status == before_status
    assert {(rank, fault) for rank, _, fault in initiators} == {(5 - (rank or 0), fault) for rank, _, fault in before}


def _swap(match: re.Match[bytes]) -> bytes:
    return match[1] + (b"3" if match[2] == b"2" else b"2")


def test_two_runs_give_the_same_bytes() -> None:
    """Same files, same answer, in every detail."""
    run = ROOT / "real-sigkill-005" / "run"
    assert correlator.diagnose(run, workers=1) == correlator.diagnose(run, workers=1)
