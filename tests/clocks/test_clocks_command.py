"""`correlator clocks`: the table and its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from correlator.cli.app import main


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Two nodes that print the same steps 30 s apart, one step of them mislabelled."""
    for node, second in (("node01", 0), ("node02", 30)):
        lines = [
            f"2025-11-30 01:{i:02d}:{second:02d},{100 + i:03d} [INFO] iteration {i}/ 100 | loss: {3 - i / 100:.4f}"
            for i in range(40)
        ]
        (tmp_path / f"{node}.log").write_text("\n".join(lines) + "\n")
    return tmp_path


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(["clocks", *arguments])
    assert left.value.code == 0
    return capsys.readouterr().out


def test_offsets_are_shown_with_their_evidence(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Offset, interval, status and what it rests on, a node a row."""
    text = called(capsys, str(run_folder))
    assert "Clocks against node01" in text
    assert "30.0 s ahead" in text
    assert "40 x iteration" in text


def test_json_is_the_clock_model(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The fields of core.model.ClockModel."""
    found = json.loads(called(capsys, str(run_folder), "--json"))
    node02 = found["estimates"][1]
    assert node02["node"] == "node02"
    assert node02["offset_ms"] == pytest.approx(30_000, abs=1)
    assert node02["kinds"] == [{"kind": "iteration", "readings": 40}]
    assert found["contradictions"] == []
