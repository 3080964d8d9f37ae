"""The raw lines before an event."""

from __future__ import annotations

from pathlib import Path

from correlator.core.files import LogFile
from correlator.core.vocabulary import FileKind
from correlator.sources.context import MAX_LINE_BYTES, lines_before, writer_lines_before


def test_the_lines_before_are_numbered_and_bounded(tmp_path: Path) -> None:
    """A line of many MB costs no more than its head, and a hole of NULs in front of a line is not shown."""
    path = tmp_path / "rank_0.log"
    path.write_bytes(b"one\n" + b"x" * 3_000_000 + b"\n" + bytes(5_000_000) + b"three\nfour\n")
    file = LogFile("rank_0.log", str(path), FileKind.RANK_LOG, size_bytes=path.stat().st_size)
    assert lines_before(file, 3, 2) == [(2, "x" * MAX_LINE_BYTES), (3, "three")]
    assert lines_before(file, 9, 2) == []


def test_of_a_merged_file_only_the_lines_of_the_writer_are_kept(tmp_path: Path) -> None:
    """What seven other ranks printed in between is no context; in a rank's own file every line is."""
    path = tmp_path / "node03.log"
    lines = [f"[rank{number % 8}]: step {number}" for number in range(400)]
    path.write_text("\n".join([*lines[:-8], "no name", *lines[-8:]]) + "\n")
    merged = LogFile("node03.log", str(path), FileKind.NODE_LOG, size_bytes=path.stat().st_size)
    found = writer_lines_before(merged, 396, 20)
    assert len(found) == 20
    assert {text.partition(":")[0] for _, text in found} == {"[rank2]"}
    assert found[-1] == (396, "[rank2]: step 394")
    own = LogFile("rank_2.log", str(path), FileKind.RANK_LOG, size_bytes=path.stat().st_size)
    assert [number for number, _ in writer_lines_before(own, 396, 3)] == [394, 395, 396]


def test_a_line_without_a_name_keeps_all_lines(tmp_path: Path) -> None:
    """Nothing says whose it is, so nothing is left out."""
    path = tmp_path / "node03.log"
    path.write_text("[rank1]: a\nb\nc\n")
    merged = LogFile("node03.log", str(path), FileKind.CONSOLE_LOG, size_bytes=path.stat().st_size)
    assert writer_lines_before(merged, 3, 5) == [(1, "[rank1]: a"), (2, "b"), (3, "c")]
