"""Targets of every kind, and the trees that a cluster leaves behind."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import socket
import sys
import tarfile
import threading
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from correlator.core.errors import InputError, NoLogsError
from correlator.core.files import Compression
from correlator.core.vocabulary import FileKind
from correlator.sources import Limits, RunFiles, discover, open_stream
from correlator.sources import sample as sample_module

LINE = b"2026-03-01 10:00:00,123 [INFO] [rank 3] step 1 loss 2.0\n"


def look(*targets: Path | str, limits: Limits | None = None) -> RunFiles:
    with discover(list(targets), limits=limits) as run:
        return run


def reasons(run: RunFiles) -> dict[str, str]:
    return {row.path: row.reason for row in run.skipped}


def pass_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# --- targets ---


def test_a_folder_is_read_in_natural_order(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        (tmp_path / f"rank_{number}.log").write_bytes(LINE)
    run = look(tmp_path)
    assert [file.path for file in run.files] == ["rank_1.log", "rank_2.log", "rank_10.log"]
    assert run.path == str(tmp_path)
    assert run.files[0].size_bytes == len(LINE)
    assert run.files[0].modified_ns is not None


def test_one_file_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "traceback.md").write_bytes(b"ValueError: bad\n")
    run = look(tmp_path / "traceback.md")
    assert [(file.path, file.kind) for file in run.files] == [("traceback.md", FileKind.CONSOLE_LOG)]


def test_several_targets_keep_what_is_below_their_common_folder(tmp_path: Path) -> None:
    for node in ("node00", "node01"):
        (tmp_path / node).mkdir()
        (tmp_path / node / "torchrun.log").write_bytes(LINE)
    run = look(tmp_path / "node00", tmp_path / "node01" / "torchrun.log")
    assert [file.path for file in run.files] == ["node00/torchrun.log", "node01/torchrun.log"]
    assert [file.hints.node for file in run.files] == ["node00", "node01"]


def test_the_same_target_twice_has_two_names(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(LINE)
    assert [file.path for file in look(tmp_path / "a.log", tmp_path / "a.log").files] == ["a.log", "a.log~2"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_a_file(monkeypatch: pytest.MonkeyPatch, pack: type[bytes]) -> None:
    pass_stdin(monkeypatch, pack(b"Traceback (most recent call last):\nValueError: bad\n"))
    with discover(["-"]) as run:
        assert [(file.path, file.kind) for file in run.files] == [("stdin", FileKind.CONSOLE_LOG)]
        with open_stream(run.files[0]) as stream:
            assert stream.read().endswith(b"ValueError: bad\n")


def test_standard_input_may_be_an_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo("node03/rank_1.log")
        info.size = len(LINE)
        tar.addfile(info, io.BytesIO(LINE))
    pass_stdin(monkeypatch, buffer.getvalue())
    assert [file.path for file in look("-").files] == ["node03/rank_1.log"]


def test_empty_standard_input_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pass_stdin(monkeypatch, b"")
    with pytest.raises(InputError, match="standard input is empty"):
        look("-")


def test_a_missing_path_is_one_clear_line(tmp_path: Path) -> None:
    for target in (tmp_path / "nowhere", "", "bad\0name"):
        with pytest.raises(InputError) as caught:
            look(target)
        assert "\n" not in str(caught.value)


def test_no_target_is_an_error() -> None:
    with pytest.raises(InputError, match="nothing to read"):
        look()


def test_an_empty_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(NoLogsError, match="no files in it"):
        look(tmp_path)


def test_a_folder_of_images_names_the_reason(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"plot{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    with pytest.raises(NoLogsError, match=r"no logs in it: an image \(5\)"):
        look(tmp_path)


def test_a_folder_of_empty_files_has_no_logs(tmp_path: Path) -> None:
    (tmp_path / "rank_1.log").touch()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(NoLogsError):
        look(tmp_path)


def test_a_fifo_as_target_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a FIFO"):
        look(tmp_path / "pipe")


def test_a_file_that_cannot_be_opened_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.log").write_bytes(LINE)

    def refuse(*_args: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match="permission denied"):
        look(tmp_path / "a.log")


# --- trees ---


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "rank_1.log").write_bytes(LINE)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("plot.png", b"\x89PNG\r\n\x1a\n\0\0", "an image"),
        ("core.4245", b"\x7fELF\x02\x01\x01" + bytes(60), "a program, library or core dump"),
        ("model.safetensors", (44).to_bytes(8, "little") + b'{"__metadata__":{}}' + bytes(64), "a checkpoint"),
        ("model.pt", b"PK\x03\x04" + bytes(40), "a checkpoint, wheel or other zip file"),
        ("old.pt", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "a checkpoint"),
        ("state.pkl", pickle.dumps({"a": 1}, 2), "a pickle that is no flight-recorder dump"),
        ("events.out", bytes(range(256)) * 40, "binary data"),
        ("hole.log", bytes(5000), "holds only NUL bytes"),
        ("train.py", b"import torch\nraise RuntimeError('CUDA out of memory')\n", "source code"),
        ("config.yaml", b"lr: 0.1\n", "a configuration file"),
        ("config.json", b'{\n  "lr": 0.1\n}\n', "a JSON document that is no log"),
        ("verdict.txt", b'{"schema": "correlator.diagnosis/1"}', "a report that correlator wrote"),
        ("log.xz", b"\xfd7zXZ\0" + bytes(20), "xz: unpack it first"),
        ("sound.bin", b"\xff\xfe" + bytes(range(1, 200)), "UTF-16 or binary data: convert it to UTF-8 if it is text"),
        ("cut.log.gz", gzip.compress(LINE, mtime=0)[:11], "nothing can be read from it: gzip ends early"),
    ],
)
def test_what_is_no_log_is_skipped_with_its_reason(tree: Path, name: str, data: bytes, reason: str) -> None:
    (tree / name).write_bytes(data)
    run = look(tree)
    assert [file.path for file in run.files] == ["rank_1.log"]
    assert reasons(run) == {name: reason}


@pytest.mark.parametrize(
    "data",
    [
        bytes(200_000) + LINE * 3,
        LINE + bytes(3000) + LINE,
        b"\xef\xbb\xbf" + LINE,
        (LINE * 3).decode().encode("utf-16"),
        (LINE * 3000).decode().encode("utf-16"),
        b"\x1b[31m" + LINE + b"\x1b[0m\n",
        "größe ✓ ▏████▌ 50%\n".encode() * 30 + LINE,
        b"caf\xe9 " + LINE,
        LINE.replace(b"\n", b"\r\n") * 4,
        b" 10%|#\r" * 30 + LINE,
        b"config = " + b"x" * 100_000 + b"\n" + LINE,
        LINE.rstrip(b"\n"),
    ],
    ids=[
        "hole at head",
        "hole",
        "bom",
        "utf-16",
        "long utf-16",
        "ansi",
        "utf-8 bars",
        "latin-1",
        "crlf",
        "bar",
        "long line",
        "no newline",
    ],
)
def test_damaged_and_coloured_text_is_still_a_log(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "rank_3.log").write_bytes(data)
    assert [(file.kind, file.hints.rank) for file in look(tmp_path).files] == [(FileKind.RANK_LOG, 3)]


def test_special_files_links_and_loops_are_rows(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.log").write_bytes(LINE)
    os.mkfifo(tree / "pipe.log")
    (tree / "sub").mkdir()
    (tree / "sub" / "up").symlink_to(tree)
    (tree / "self").symlink_to("self")
    (tree / "broken.log").symlink_to("nowhere")
    (tree / "same.log").symlink_to("rank_1.log")
    (tree / "away.log").symlink_to(outside / "secret.log")
    (tree / "null").symlink_to("/dev/null")
    server = socket.socket(socket.AF_UNIX)
    directory = os.open(tree, os.O_RDONLY)
    server.bind(f"/proc/self/fd/{directory}/s")
    run = look(tree)
    server.close()
    os.close(directory)
    assert [file.path for file in run.files] == ["rank_1.log"]
    found = reasons(run)
    assert found["pipe.log"] == "a FIFO"
    assert found["s"] == "a socket"
    assert found["broken.log"] == "a broken link"
    assert found["same.log"] == found["sub/up"] == "a link to what is read under its own name"
    assert found["away.log"].startswith("a link out of the folder")
    assert found["self"].startswith("a link that cannot be followed")
    assert found["null"].startswith("a link out of the folder")


def test_a_fifo_that_takes_the_place_of_a_file_does_not_hang(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between listing and opening a file may be replaced: opening must never wait for a writer."""
    (tree / "rank_2.log").write_bytes(LINE)
    real = sample_module.open_regular

    def swap(location: str) -> object:
        if location.endswith("rank_2.log"):
            os.unlink(location)
            os.mkfifo(location)
        return real(location)

    monkeypatch.setattr(sample_module, "open_regular", swap)
    result: list[RunFiles] = []
    worker = threading.Thread(target=lambda: result.append(look(tree)), daemon=True)
    worker.start()
    worker.join(10)
    assert reasons(result[0]) == {"rank_2.log": "cannot be read: not a regular file"}


def test_an_unreadable_file_and_folder_are_rows(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "rank_2.log").write_bytes(LINE)
    (tree / "locked").mkdir()
    real_open, real_scan = os.open, os.scandir

    def guarded_open(path: str, flags: int) -> int:
        if str(path).endswith("rank_2.log"):
            raise PermissionError(13, "Permission denied")
        return real_open(path, flags)

    def guarded_scan(path: str) -> object:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return real_scan(path)

    monkeypatch.setattr(os, "open", guarded_open)
    monkeypatch.setattr(os, "scandir", guarded_scan)
    run = look(tree)
    assert reasons(run) == {"locked": "permission denied", "rank_2.log": "cannot be read: permission denied"}


def test_a_truncated_gz_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(20_000).hex().encode() + b"\n" + LINE * 1000)
    (tmp_path / "rank_3.log.gz").write_bytes(packed[: len(packed) // 2])
    with discover([tmp_path]) as run:
        assert run.files[0].compression is Compression.GZIP
        with open_stream(run.files[0]) as stream:
            assert len(stream.read()) > 5000
            assert stream.cut_off == "gzip ends early"


def test_packing_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "rank_1.log").write_bytes(gzip.compress(LINE))
    (tmp_path / "rank_2.log.gz").write_bytes(LINE)
    assert [file.compression for file in look(tmp_path).files] == [Compression.GZIP, Compression.NONE]


def test_names_of_any_bytes_are_shown_as_text(tmp_path: Path) -> None:
    for name in (b"caf\xe9.log", b"caf\xe8.log", b"two\nlines.log", b"\x1b[31mred.log"):
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))).write_bytes(LINE)
    with discover([tmp_path]) as run:
        paths = [file.path for file in run.files]
        assert len(set(paths)) == 4
        for file in run.files:
            file.path.encode()
            assert file.path.isprintable()
            with open_stream(file) as stream:
                assert stream.read() == LINE


def test_depth_and_number_of_files_are_bounded(tree: Path) -> None:
    deep = tree
    for _ in range(6):
        deep = deep / "d"
        deep.mkdir()
    (deep / "rank_2.log").write_bytes(LINE)
    assert "folders deep" in look(tree, limits=Limits(depth=3)).skipped[0].reason
    for number in range(20):
        (tree / f"rank_{number}.log").write_bytes(LINE)
    run = look(tree, limits=Limits(files=10))
    assert len(run.files) == 9  # the folder is an entry too
    assert "more than 10 files" in run.skipped[-1].reason


def test_folders_without_logs_are_one_row(tree: Path) -> None:
    (tree / ".git" / "objects").mkdir(parents=True)
    (tree / ".git" / "objects" / "x.log").write_bytes(LINE)
    assert reasons(look(tree)) == {".git": "a folder that holds no logs"}


def test_the_date_of_the_run_comes_from_its_lines(tree: Path) -> None:
    (tree / "rank_2.log").write_bytes(LINE.replace(b"10:00:00", b"11:00:00") * 2)
    hints = look(tree).hints
    assert not hints.from_mtime
    assert hints.reference_ns == 1_772_362_800 * 10**9


def test_the_same_tree_gives_the_same_answer(tree: Path) -> None:
    for number in range(30):
        (tree / f"node{number % 3:02d}").mkdir(exist_ok=True)
        (tree / f"node{number % 3:02d}" / f"rank_{number}.log").write_bytes(LINE)
    assert look(tree) == look(tree)


_NAME = st.text(alphabet="abr_k0139.-é\u202e", min_size=1, max_size=20).filter(lambda name: name.strip("."))
_PIECE = st.one_of(
    st.binary(max_size=300),
    st.sampled_from(
        [LINE, gzip.compress(LINE), b"\x80\x02}.", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"{", b"\n", bytes(513)]
    ),
)


@given(files=st.dictionaries(_NAME, st.lists(_PIECE, max_size=4).map(b"".join), max_size=5))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_folder_is_a_run_or_one_clear_line(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    """Whatever lies in it: each file is a log or a row with a reason, all logs open, and errors are ours."""
    folder = tmp_path_factory.mktemp("run")
    for name, data in files.items():
        (folder / name).write_bytes(data)
    with suppress(NoLogsError), discover([folder]) as run:
        told = {file.path for file in run.files} | {row.path for row in run.skipped}
        assert len(told) >= len(files)
        for file in run.files:
            with open_stream(file) as stream:
                stream.read()


def test_a_stray_epoch_in_a_kernel_line_does_not_move_the_year(tmp_path: Path) -> None:
    """Logs of February, a kernel line without a year that quotes an epoch of August, a licence of years ago."""
    for number in range(4):
        (tmp_path / f"rank_{number}.log").write_bytes(LINE.replace(b"03-01", b"02-10") * 5)
    kernel = b"Feb 10 10:00:05 node03 kernel: audit: type=1400 audit(1787000000.305:2787): apparmor\n"
    (tmp_path / "kern.log").write_bytes(b"Feb 10 10:00:01 node03 kernel: x\n" * 20 + kernel)
    (tmp_path / "setup.log").write_bytes(b"2019-01-01 00:00:00 licence\n" + LINE.replace(b"03-01", b"02-10") * 9)
    reference_ns = look(tmp_path).hints.reference_ns
    assert reference_ns is not None
    assert datetime.fromtimestamp(reference_ns / 1e9, UTC).date() == date(2026, 2, 10)
