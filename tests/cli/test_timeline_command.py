"""`correlator timeline`: one file or one a node, events or all lines, and nothing overwritten that is not ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from correlator.cli.app import main

SAMPLE = Path(__file__).resolve().parents[2] / "sample_runs" / "real-nan-assert-011" / "run"
Outcome = tuple[int, str, str]
Invoke = Callable[..., Outcome]


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Invoke:
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments: str | Path) -> Outcome:
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return run


def test_events_or_all_lines_in_a_file_or_a_folder(invoke: Invoke, tmp_path: Path) -> None:
    """Four forms, each with the events, two with the lines; the remark is on stderr."""
    events = tmp_path / "events.parquet"
    code, out, err = invoke("timeline", SAMPLE, "-o", events)
    assert (code, out) == (0, "")
    assert f"wrote {pl.read_parquet(events).height} events to " in err
    for name, options in (("a", ["--all-lines"]), ("b", ["--partition"]), ("c", ["--all-lines", "--partition"])):
        path = tmp_path / f"{name}.parquet"
        assert invoke("timeline", SAMPLE, "-o", path, *options, "-q") == (0, "", "")
        frame = pl.read_parquet(path)
        assert path.is_dir() == ("--partition" in options)
        assert frame.filter(pl.col("event_name") != "line").height == pl.read_parquet(events).height
        assert (frame.height > pl.read_parquet(events).height) == ("--all-lines" in options)


def test_more_than_a_thousand_ranks_are_partitioned(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless --no-partition says otherwise."""
    monkeypatch.setattr("correlator.cli.timeline.PARTITION_FROM_RANKS", 3)
    assert invoke("timeline", SAMPLE, "-o", tmp_path / "d.parquet", "-q")[0] == 0
    assert (tmp_path / "d.parquet").is_dir()
    assert invoke("timeline", SAMPLE, "-o", tmp_path / "f.parquet", "-q", "--no-partition")[0] == 0
    assert (tmp_path / "f.parquet").is_file()


def test_a_former_dataset_is_replaced_only_with_force(invoke: Invoke, tmp_path: Path) -> None:
    """And a folder that is none never is."""
    path = tmp_path / "d.parquet"
    assert invoke("timeline", SAMPLE, "-o", path, "--partition", "-q")[0] == 0
    code, _, err = invoke("timeline", SAMPLE, "-o", path, "--partition")
    assert code == 2
    assert "--force" in err
    assert invoke("timeline", SAMPLE, "-o", path, "--partition", "--force", "-q")[0] == 0
    (tmp_path / "mine").mkdir()
    for options in ((), ("--partition",), ("--no-partition",)):
        assert invoke("timeline", SAMPLE, "-o", tmp_path / "mine", "--force", *options)[0] == 2
    assert sorted(found.name for found in tmp_path.iterdir()) == ["d.parquet", "mine"]
