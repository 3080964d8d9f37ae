"""Dumps and archives that expand, nest, repeat or refer to themselves; files that change while they are read."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import correlator
from correlator.core.errors import UnsafeArchiveError
from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import FileKind
from correlator.parsers.base import FileContext
from correlator.parsers.dumps import WHOLE_FILE
from correlator.sources import Limits, discover, open_stream

LINE = b"[rank%d]: 2026-03-02 17:05:01,000 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
BOUNDS = Limits(ratio=50, ratio_from_bytes=1_000_000)


@contextmanager
def cpu_within(seconds: float) -> Iterator[None]:
    """CPU and not wall time: the machine may be busy."""
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


def _laughs(levels: int = 60) -> bytes:
    """Lists of ten references to the list before: ten to the power of `levels` values, in some hundred bytes."""
    data = b"\x80\x02]q\x00"
    for level in range(levels):
        data += b"](" + b"h" + bytes([level]) + (b"h" + bytes([level])) * 9 + b"eq" + bytes([level + 1])
    return data + b"."


def _around(value: bytes) -> bytes:
    """A value in the place of a dump's entries."""
    return b"\x80\x02}(X\x07\x00\x00\x00entries" + value.removeprefix(b"\x80\x02").removesuffix(b".") + b"u."


DUMPS = {
    "a list of lists of lists": _laughs(),
    "entries that are one another": _around(_laughs()),
    "a list that holds itself": b"\x80\x02]q\x00h\x00ah\x00a.",
    "entries that hold themselves": _around(b"]q\x00h\x00a"),
    "a dict that holds itself": b"\x80\x02}q\x00X\x07\x00\x00\x00entriesh\x00s.",
    "a million empty lists": b"\x80\x02(" + b"]" * 1_000_000 + b"l.",
    "a million marks": b"\x80\x02" + b"(" * 1_000_000 + b".",
    "a string that claims 4 GB": b"\x80\x02T\xff\xff\xff\x7fabc.",
    "a deep list": b"\x80\x02" + b"](" * 200_000 + b"e" * 200_000 + b".",
    "a deep JSON": b'{"entries":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a deep JSON of objects": b'{"entries":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    "a number without end": b'{"version": "2.4", "entries": [{"record_id": ' + b"9" * 100_000 + b"}]}",
    "a key a million times": b'{"version": "2.4", "entries": [' + b'{"record_id": 1},' * 60_000 + b'{"record_id": 1}]}',
    "calls": pickle.dumps(os.getcwd, 2).replace(b"getcwd", b"system") + b"X\x02\x00\x00\x00id\x85R.",
}


@pytest.mark.parametrize("data", DUMPS.values(), ids=DUMPS)
def test_a_hostile_dump_ends_soon_and_in_few_events(data: bytes) -> None:
    context = FileContext("nccl_trace_rank_3", FileKind.FLIGHT_RECORDER, FileHints(rank=3), RunHints())
    with cpu_within(10):
        events = WHOLE_FILE[FileKind.FLIGHT_RECORDER](data, context)
    assert len(events) <= 2_000
    assert sum(len(event.body) + len(str(event.attributes)) for event in events) < 4_000_000


def _overlapping(members: int, size: int) -> bytes:
    """A zip whose directory names one packed member again and again: small, and large when it is unpacked."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("a.log", b"step 1\n" * (size // 7))
    whole = packed.getvalue()
    start = whole.rindex(b"PK\x01\x02")
    end = whole.rindex(b"PK\x05\x06")
    directory = whole[start:end] * members
    return (
        whole[:start]
        + directory
        + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, members, members, len(directory), start, 0)
    )


def test_members_that_overlap_are_bounded_together(tmp_path: Path) -> None:
    """Python's zipfile would unpack the same bytes as often as they are named."""
    path = tmp_path / "bomb.zip"
    path.write_bytes(_overlapping(2000, 400_000))
    with (
        cpu_within(20),
        pytest.raises(UnsafeArchiveError, match="expands more than 50 times"),
        discover([path], limits=BOUNDS),
    ):
        pass


def test_a_sparse_file_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """A hole of 200 MB between two lines, as a node leaves it that goes down while it writes."""
    path = tmp_path / "rank_0.log"
    path.write_bytes(LINE % 0)
    with path.open("r+b") as file:
        file.seek(200 << 20)
        file.write(b"\n" + LINE % 0)
    with cpu_within(30):
        run = correlator.open_run(tmp_path, workers=1)
    assert run.events.height == 2
    assert run.reports[0].bytes_read == path.stat().st_size


class _Meddler:
    """A watcher of the progress that changes the files once they are found and before they are read."""

    def __init__(self, meddle: Callable[[], None]) -> None:
        self._meddle: Callable[[], None] | None = meddle

    def start(self, _total: int) -> None:
        """Found; about to be read."""
        if self._meddle is not None:
            self._meddle()
            self._meddle = None

    def advance(self, _count: int) -> None:
        """Nothing."""

    def step(self, _name: str) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""


def _vanish(path: Path) -> None:
    path.unlink()


def _shrink(path: Path) -> None:
    os.truncate(path, 30)


def _grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"step 7\n" * 1000)


def _become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _become_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _become_a_link_outside(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _become_a_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/full")


@pytest.mark.parametrize(
    ("meddle", "word"),
    [
        (_vanish, "no such file"),
        (_shrink, ""),
        (_grow, ""),
        (_become_a_folder, ""),
        (_become_a_fifo, "not a regular file"),
        (_become_a_link_outside, "not a regular file"),
        (_become_a_device, "not a regular file"),
    ],
)
@pytest.mark.parametrize("workers", [1])
def test_a_file_that_changes_between_look_and_reading_is_a_row(
    meddle: Callable[[Path], None], word: str, workers: int, tmp_path: Path
) -> None:
    """The others are read, and nothing waits for a FIFO or fills memory from a device."""
    for rank in range(3):
        (tmp_path / f"rank_{rank}.log").write_bytes((LINE % rank) * 3)
    with cpu_within(20):
        run = correlator.open_run(tmp_path, workers=workers, progress=_Meddler(lambda: meddle(tmp_path / "rank_1.log")))
    read = {report.path: report for report in run.reports}
    assert {"rank_0.log", "rank_2.log"} <= set(read)
    rows = [row.reason for row in run.skipped if row.path == "rank_1.log"]
    if "rank_1.log" in read:
        assert "while it was read" in (read["rank_1.log"].note or "")
    else:
        assert rows, "never a silent gap"
        assert word in rows[0].lower()


def test_many_files_take_time_and_memory_in_proportion(tmp_path: Path) -> None:
    """Ten times as many files take no more than about ten times as long."""

    def look(count: int) -> float:
        folder = tmp_path / str(count)
        folder.mkdir()
        for number in range(count):
            (folder / f"rank_{number}.log").write_bytes(LINE % number)
        began = time.process_time()
        with discover([folder]) as run:
            assert len(run.files) == count
        return time.process_time() - began

    few = max(look(300), 0.02)
    assert look(3000) < 30 * few


def test_a_bomb_within_a_document_is_cut_with_a_row(tmp_path: Path) -> None:
    entries = [{"record_id": n, "frames": []} for n in range(2000)]
    (tmp_path / "nccl_trace_rank_1").write_bytes(
        json.dumps({"version": "2.4", "entries": entries}).encode() + b" " * 100_000
    )
    (tmp_path / "rank_0.log").write_bytes(LINE % 0)
    run = correlator.open_run(tmp_path, workers=1, limits=Limits(document_bytes=1000))
    assert any(row.path == "nccl_trace_rank_1" and "longer than expected" in row.reason for row in run.skipped)
    assert any(report.path == "rank_0.log" for report in run.reports)


def test_a_hostile_stream_is_closed_again(tmp_path: Path) -> None:
    """No descriptor stays open for a file that was refused."""
    (tmp_path / "rank_0.log").write_bytes(LINE % 0)
    before = len(os.listdir("/proc/self/fd"))
    with discover([tmp_path]) as run:
        (tmp_path / "rank_0.log").unlink()
        os.mkfifo(tmp_path / "rank_0.log")
        for file in run.files:
            with pytest.raises(OSError, match="not a regular file"):
                open_stream(file)
    assert len(os.listdir("/proc/self/fd")) == before
