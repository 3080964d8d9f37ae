"""The raw lines before an event."""

from __future__ import annotations

from pathlib import Path

from correlator.core.files import LogFile
from correlator.core.vocabulary import FileKind
from correlator.sources.context import MAX_LINE_BYTES, lines_before


def test_the_lines_before_are_numbered_and_bounded(tmp_path: Path) -> None:
    """A line of many MB costs no more than its head, and a hole of NULs in front of a line is not shown."""
    path = tmp_path / "rank_0.log"
    path.write_bytes(b"one\n" + b"x" * 3_000_000 + b"\n" + bytes(5_000_000) + b"three\nfour\n")
    file = LogFile("rank_0.log", str(path), FileKind.RANK_LOG, size_bytes=path.stat().st_size)
    assert lines_before(file, 3, 2) == [(2, "x" * MAX_LINE_BYTES), (3, "three")]
    assert lines_before(file, 9, 2) == []
