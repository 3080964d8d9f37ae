"""Limits are there by default, can be changed by an option, and a wrong one is said in a sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from correlator.cli.app import main
from correlator.cli.options import LIMITS, limits_of
from correlator.core.errors import UsageError
from correlator.sources import Limits

LINE = b"[rank%d]: 2026-03-02 17:05:01,000 torch.OutOfMemoryError: CUDA out of memory\n"


def diagnosis(capsys: pytest.CaptureFixture[str], *words: str | Path) -> dict[str, Any]:
    with pytest.raises(SystemExit) as end:
        main(["diagnose", *map(str, words), "--json", "--quiet", "--workers", "1"])
    assert end.value.code == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def reasons(answer: dict[str, Any]) -> list[str]:
    return [row["reason"] for row in answer["skipped"]]


def test_a_limit_is_a_number_with_a_unit() -> None:
    assert limits_of(None) is None
    assert limits_of(["expanded=2G", "ratio=9", "line=1m"]) == Limits(
        expanded_bytes=2 << 30, ratio=9, line_bytes=1 << 20
    )
    assert all(hasattr(Limits(), field) for field in LIMITS.values())


@pytest.mark.parametrize(
    "text", ["expanded", "expanded=", "expanded=0", "expanded=-1", "expanded=1X", "e=1", "ratio=²", "=1"]
)
def test_a_wrong_limit_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--limit"):
        limits_of([text])


def test_files_and_depth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(4):
        folder = tmp_path / "a" / "b" if rank == 3 else tmp_path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"rank_{rank}.log").write_bytes(LINE % rank)
    assert diagnosis(capsys, tmp_path)["run"]["files"] == 4
    shallow = diagnosis(capsys, tmp_path, "--limit", "depth=1")
    assert (shallow["run"]["files"], reasons(shallow)) == (3, ["more than 1 folders deep"])
    few = diagnosis(capsys, tmp_path, "--limit", "files=3")
    assert (few["run"]["files"], reasons(few)) == (2, ["more than 3 files: the rest was not looked at"])


def test_lines_and_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rank_0.log").write_bytes(LINE % 0 + b"x" * 100_000 + b"\n" + LINE % 0)
    (tmp_path / "error.json").write_text(json.dumps({"message": {"message": "x" * 50_000, "extraInfo": {}}}))
    assert reasons(diagnosis(capsys, tmp_path)) == []
    small = diagnosis(capsys, tmp_path, "--limit", "document=1K", "--limit", "line=10K")
    assert any("longer than expected" in reason for reason in reasons(small)), reasons(small)


def test_a_packed_file_that_expands_too_much_is_read_on_when_it_may(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rank_0.log.gz").write_bytes(gzip.compress(LINE % 0 + bytes(3_000_000) + b"\n" + LINE % 0, 9, mtime=0))
    monkeypatch.setattr(Limits.__init__, "__defaults__", _with(ratio_from_bytes=1_000_000))
    bounded = diagnosis(capsys, tmp_path)
    assert any("expands more than 400 times" in reason for reason in reasons(bounded)), reasons(bounded)
    assert reasons(diagnosis(capsys, tmp_path, "--limit", "ratio=100K")) == []


def _with(**changed: int) -> tuple[int, ...]:
    return tuple(changed.get(name, getattr(Limits(), name)) for name in Limits.__dataclass_fields__)
