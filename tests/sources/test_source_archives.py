"""Archives are folders; hostile ones can neither write outside nor expand without bound."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from correlator.core.errors import CorrelatorError, UnsafeArchiveError
from correlator.core.files import Compression
from correlator.sources import Limits, RunFiles, discover, open_stream

LINE = b"2026-03-01 10:00:00,123 [INFO] [rank 3] step 1 loss 2.0\n"


def tar_bytes(members: dict[str, bytes], extra: list[tarfile.TarInfo] = []) -> bytes:  # noqa: B006 - never changed
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info in extra:
            tar.addfile(info)
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_772_359_200
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def zip_bytes(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in members.items():
            bundle.writestr(name, data)
    return buffer.getvalue()


def look(path: Path, limits: Limits | None = None) -> RunFiles:
    with discover([path], limits=limits) as run:
        return run


def contents(path: Path) -> dict[str, bytes]:
    with discover([path]) as run:
        found = {}
        for file in run.files:
            with open_stream(file) as stream:
                found[file.path] = stream.read()
        return found


MEMBERS = {"run/node03/rank_3.log": LINE, "run/rank_4.log.gz": gzip.compress(LINE, mtime=0)}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("run.tar", tar_bytes(MEMBERS)),
        ("run.tar.gz", gzip.compress(tar_bytes(MEMBERS), mtime=0)),
        ("run.tgz", gzip.compress(tar_bytes(MEMBERS), mtime=0)),
        ("run.tar.zst", zstandard.ZstdCompressor().compress(tar_bytes(MEMBERS))),
        ("run.zip", zip_bytes(MEMBERS)),
        ("no_suffix", gzip.compress(tar_bytes(MEMBERS), mtime=0)),
    ],
)
def test_each_archive_is_read_like_the_folder_it_holds(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert contents(tmp_path / name) == {"run/node03/rank_3.log": LINE, "run/rank_4.log.gz": LINE}
    run = look(tmp_path / name)
    assert [(file.hints.rank, file.hints.node) for file in run.files] == [(3, "node03"), (4, None)]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_readable_part_of_half_an_archive_is_used(tmp_path: Path, share: float) -> None:
    """A member in which the archive ends gives its first lines, as a cut gzip does."""
    lines = b"".join(LINE.replace(b"step 1", b"step %d" % (n * n * 7919)) for n in range(3000))
    packed = gzip.compress(tar_bytes({"a_rank_0.log": LINE, "b_rank_1.log": lines}), mtime=0)
    (tmp_path / "run.tar.gz").write_bytes(packed[: int(len(packed) * share)])
    found = contents(tmp_path / "run.tar.gz")
    assert found["a_rank_0.log"] == LINE
    assert lines.startswith(found["b_rank_1.log"])
    assert len(found["b_rank_1.log"]) > (share - 0.15) * len(lines)
    (reason,) = {row.reason for row in look(tmp_path / "run.tar.gz").skipped if row.path == "b_rank_1.log"}
    assert reason == f"only its first {len(found['b_rank_1.log'])} bytes were read: damaged: the archive ends in it"


def test_a_member_of_which_nothing_is_there_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "run.tar").write_bytes(tar_bytes({"a.log": LINE, "b.log": LINE})[: 512 * 3])
    run = look(tmp_path / "run.tar")
    assert [file.path for file in run.files] == ["a.log"]
    assert {row.path: row.reason for row in run.skipped}["b.log"].startswith("nothing of it can be read: ")


def test_an_archive_in_a_folder_is_a_folder_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "node07.tar.gz").write_bytes(gzip.compress(tar_bytes({"rank_3.log": LINE})))
    (tmp_path / "rank_4.log").write_bytes(LINE)
    run = look(tmp_path)
    assert [file.path for file in run.files] == ["node07.tar.gz/rank_3.log", "rank_4.log"]
    assert run.files[0].hints.node == "node07"
    assert run.files[0].modified_ns == 1_772_359_200 * 10**9


def test_an_archive_in_an_archive_is_skipped(tmp_path: Path) -> None:
    inner = tar_bytes({"rank_0.log": LINE})
    (tmp_path / "run.tar").write_bytes(tar_bytes({"inner.tar": inner, "rank_1.log": LINE}))
    run = look(tmp_path / "run.tar")
    assert [file.path for file in run.files] == ["rank_1.log"]
    assert run.skipped[0].path == "inner.tar"
    assert "archive inside an archive" in run.skipped[0].reason


def test_unpacked_files_are_gone_afterwards(tmp_path: Path) -> None:
    (tmp_path / "run.tar").write_bytes(tar_bytes({"rank_1.log": LINE}))
    with discover([tmp_path / "run.tar"]) as run:
        location = run.files[0].location
        assert os.path.exists(location)
        assert os.stat(os.path.dirname(location)).st_mode & 0o077 == 0
    assert not os.path.exists(location)


@pytest.mark.parametrize("name", ["../evil.log", "/etc/evil.log", "a/../../evil.log", "..\\evil.log", "C:/evil.log"])
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_members_that_reach_outside_are_skipped(tmp_path: Path, name: str, kind: str) -> None:
    members = {name: LINE, "rank_1.log": LINE}
    (tmp_path / f"run.{kind}").write_bytes(tar_bytes(members) if kind == "tar" else zip_bytes(members))
    run = look(tmp_path / f"run.{kind}")
    outside = kind == "zip" or "\\" not in name  # a backslash is an ordinary letter in a tar
    if outside:
        assert [file.path for file in run.files] == ["rank_1.log"]
        assert "reaches out of the archive" in run.skipped[0].reason
    assert not list(tmp_path.parent.glob("evil.log"))


def test_links_devices_and_fifos_in_a_tar_are_skipped(tmp_path: Path) -> None:
    extra = []
    for name, kind in [("a", tarfile.SYMTYPE), ("b", tarfile.LNKTYPE), ("c", tarfile.FIFOTYPE), ("d", tarfile.CHRTYPE)]:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "/etc/passwd"
        extra.append(info)
    (tmp_path / "run.tar").write_bytes(tar_bytes({"rank_1.log": LINE}, extra))
    run = look(tmp_path / "run.tar")
    assert [file.path for file in run.files] == ["rank_1.log"]
    assert [(row.path, row.reason) for row in run.skipped] == [
        ("a", "a link"),
        ("b", "a link"),
        ("c", "a device or FIFO"),
        ("d", "a device or FIFO"),
    ]


BOUNDS = Limits(ratio=50, ratio_from_bytes=1_000_000)


@pytest.mark.parametrize("name", ["bomb.zip", "bomb.tar.gz"])
def test_a_bomb_is_an_error_where_it_is_the_target(tmp_path: Path, name: str) -> None:
    members = {"rank_0.log": bytes(10_000_000)}
    data = zip_bytes(members) if name.endswith("zip") else gzip.compress(tar_bytes(members))
    (tmp_path / name).write_bytes(data)
    with (
        pytest.raises(UnsafeArchiveError, match="expands more than 50 times"),
        discover([tmp_path / name], limits=BOUNDS),
    ):
        pass


def test_a_bomb_in_a_folder_is_a_skipped_row(tmp_path: Path) -> None:
    (tmp_path / "bomb.zip").write_bytes(zip_bytes({"x.log": bytes(10_000_000)}))
    (tmp_path / "rank_1.log").write_bytes(LINE)
    run = look(tmp_path, BOUNDS)
    assert [file.path for file in run.files] == ["rank_1.log"]
    assert run.skipped[0].reason == "not unpacked: expands more than 50 times"


def test_total_bytes_and_members_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "run.tar").write_bytes(tar_bytes({f"rank_{number}.log": LINE for number in range(20)}))
    for limits in (Limits(expanded_bytes=300), Limits(members=5)):
        with pytest.raises(UnsafeArchiveError), discover([tmp_path / "run.tar"], limits=limits):
            pass


def test_a_truncated_archive_gives_what_it_has(tmp_path: Path) -> None:
    noise = {f"rank_{number}.log": LINE + os.urandom(30_000).hex().encode() for number in range(20)}
    packed = gzip.compress(tar_bytes(noise))
    (tmp_path / "run.tar.gz").write_bytes(packed[: len(packed) // 2])
    run = look(tmp_path / "run.tar.gz")
    assert 5 < len(run.files) < 15
    assert any("early" in row.reason or "only its first" in row.reason for row in run.skipped)


def test_checkpoints_that_are_zip_files_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(zip_bytes({"archive/data.pkl": b"\x80\x02}."}))
    (tmp_path / "rank_1.log").write_bytes(LINE)
    run = look(tmp_path)
    assert [file.path for file in run.files] == ["rank_1.log"]
    assert "checkpoint" in run.skipped[0].reason


def test_a_gz_that_is_called_tar_is_read_as_the_log_it_is(tmp_path: Path) -> None:
    (tmp_path / "rank_2.tar.gz").write_bytes(gzip.compress(LINE, mtime=0))
    run = look(tmp_path)
    assert run.files[0].compression is Compression.GZIP
    assert run.files[0].hints.rank == 2


@given(data=st.data(), kind=st.sampled_from(["tar", "zip", "tar.gz"]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_damaged_archives_end_in_rows_or_one_clear_error(tmp_path: Path, data: st.DataObject, kind: str) -> None:
    """Flipping and cutting bytes of an archive never gives anything but a run or an error of ours."""
    members = {"rank_1.log": LINE * 3, "dir/rank_2.log": LINE}
    whole = zip_bytes(members) if kind == "zip" else tar_bytes(members)
    packed = bytearray(gzip.compress(whole) if kind == "tar.gz" else whole)
    for _ in range(data.draw(st.integers(1, 8))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / f"run.{kind}"
    path.write_bytes(bytes(packed[: data.draw(st.integers(1, len(packed)))]))
    with suppress(CorrelatorError):
        assert look(path).files
