"""All lines: each exactly once, in order, with the rank and the time that events have; in memory that does not grow."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import correlator
from correlator.all_lines import open_lines
from correlator.all_lines.choice import Labels, Unclassified, as_frame
from correlator.all_lines.merge import BLOCK_ROWS, FAN_IN, Spills, merged
from correlator.all_lines.rows import KEYS
from correlator.core.errors import UsageError
from correlator.core.vocabulary import CollateralKind, Context
from correlator.pipeline import Run

SAMPLES = Path(__file__).resolve().parent.parent / "sample_runs"
MERGED, BY_TASK, LABELLED = (
    "sim-dataloader-stall-merged-5s-319",
    "sim-xid79-cuda-error-slurm-task-zone-302",
    "sim-segfault-so-label-none-311",
)
ABOUT_OTHERS = [
    Context.WORKER_SIGNALLED,
    Context.WORKER_FAILED,
    Context.CHILD_FAILED_ROW,
    Context.RUN_CONFIG,
    Context.NCCL_COMM_INIT,
    Context.TASK_EXIT,
    CollateralKind.LAUNCHER_REPORT,
]
"""Events whose rank need not be the writer's."""


@cache
def opened(name: str) -> Run:
    """A sample run, read once."""
    return correlator.open_run(SAMPLES / name / "run", workers=1)


@cache
def lines_of(name: str) -> pl.DataFrame:
    """All its lines."""
    with open_lines([SAMPLES / name / "run"], opened(name), workers=1) as lines:
        return pl.concat([as_frame(table) for table in lines.tables])


@pytest.mark.parametrize("name", [MERGED, BY_TASK, LABELLED])
def test_every_line_is_there_once_and_in_order(name: str) -> None:
    """As many as the account of each file says, by time; lines of equal time in the order of their file."""
    frame = lines_of(name)
    counted = dict(frame.group_by("log_file_path").len().iter_rows())
    accounted = {r.path: r.lines + r.cr_splits for r in opened(name).reports if r.path in counted}
    assert counted == accounted
    assert frame["time_aligned"].equals(frame["time_aligned"].sort(nulls_last=True))
    same = frame.group_by("log_file_path", "time_aligned", maintain_order=True).agg("byte_offset")["byte_offset"]
    assert all(offsets.equals(offsets.sort()) for offsets in same)
    assert frame["event_id"].n_unique() == frame.height


@pytest.mark.parametrize("name", [MERGED, BY_TASK, LABELLED])
def test_lines_have_the_rank_and_time_of_the_events_that_begin_on_them(name: str) -> None:
    """But for events about somebody else than the writer of the line, and times that a line tells of."""
    place = ["log_file_path", "byte_offset"]
    events = opened(name).events.with_columns(pl.col("log_file_path", "event_name", "file_kind").cast(pl.String))
    both = events.filter(
        (pl.col("file_kind") != "kernel_log") & ~pl.col("event_name").is_in([str(event) for event in ABOUT_OTHERS])
    ).join(lines_of(name), on=place, suffix="_line")
    assert both.height > 200
    wrong = both.filter(pl.col("rank").ne_missing(pl.col("rank_line")))
    assert wrong.height <= 0.01 * both.height
    late = both.filter(pl.col("time_aligned").ne_missing(pl.col("time_aligned_line")))
    assert late.height <= 0.01 * both.height


def test_nothing_is_lost_between_many_small_runs(tmp_path: Path) -> None:
    """More runs than are merged at once, with ties across them: sorted, complete, and no file is left."""
    spills = Spills(tmp_path, "test")
    runs = []
    for number in range(2 * FAN_IN + 3):
        times = sorted((7 * number + 3 * row) % 50 for row in range(40))
        columns = {"_host": [0] * 40, "_time": times, "_place": [(number << 8) + row for row in range(40)]}
        runs.append(spills.write([pa.table(columns)]))
    whole = pa.concat_tables(list(merged([run for run in runs if run is not None], spills)))
    assert whole.num_rows == 40 * len(runs)
    keys = list(zip(*(whole.column(name).to_pylist() for name in KEYS), strict=True))
    assert keys == sorted(keys)
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=12), max_size=5))
def test_a_merge_is_a_sort(runs: list[list[tuple[int, int]]]) -> None:
    """For any runs, also empty ones and ones of equal keys."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        spills = Spills(Path(folder), "law")
        paths = []
        for rows in runs:
            ordered = sorted(rows)
            columns = {"_host": [0] * len(rows), "_time": [r[0] for r in ordered], "_place": [r[1] for r in ordered]}
            table = pa.table(columns, schema=pa.schema([(name, pa.int64()) for name in KEYS]))
            path = spills.write([table])
            paths += [path] if path is not None else []
        found = [
            row
            for table in merged(paths, spills)
            for row in zip(*(table.column(k).to_pylist() for k in KEYS[1:]), strict=True)
        ]
    assert found == sorted(row for rows in runs for row in rows)


def test_a_run_is_merged_in_blocks(tmp_path: Path) -> None:
    """What is in memory is a block of each run, however long the runs are."""
    spills = Spills(tmp_path, "test")
    rows = 5 * BLOCK_ROWS
    columns = {"_host": [0] * rows, "_time": list(range(rows)), "_place": [0] * rows}
    runs = [spills.write([pa.table(columns)]) for _ in range(2)]
    sizes = [table.num_rows for table in merged([run for run in runs if run is not None], spills)]
    assert sum(sizes) == 2 * rows
    assert max(sizes) <= 2 * BLOCK_ROWS


@pytest.fixture
def odd_run(tmp_path: Path) -> Path:
    """Carriage returns, bad bytes, control sequences, no last newline, a packed file, and a line without a time first."""
    first = (
        b"no time yet\n2026-01-01 00:00:01,000 INFO [rank 0] \x1b[31mstep 1\x1b[0m\rprogress 1\rprogress 2\n"
        b"bad \xff\xfe byte\n2026-01-01 00:00:03,000 ERROR [rank 0] RuntimeError: it broke\x00\nlast"
    )
    (tmp_path / "rank_0.log").write_bytes(first)
    (tmp_path / "rank_1.log.gz").write_bytes(gzip.compress(b"2026-01-01 00:00:02,000 INFO [rank 1] step 1\n"))
    return tmp_path


def test_odd_bytes_are_lines_too(odd_run: Path) -> None:
    """Each segment is a row, in order, harmless to look at, and takes the time of its neighbours."""
    run = correlator.open_run(odd_run, workers=1)
    with open_lines([odd_run], run, workers=1) as lines:
        frame = pl.concat([as_frame(table) for table in lines.tables])
    second = [int(time.timestamp()) % 60 if time else None for time in frame["time_aligned"]]
    assert list(zip(second, frame["line_number"], frame["body"], strict=True)) == [
        (1, 1, "no time yet"),
        (1, 2, "2026-01-01 00:00:01,000 INFO [rank 0] step 1"),
        (1, 2, "progress 1"),
        (1, 2, "progress 2"),
        (1, 3, "bad \ufffd\ufffd byte"),
        (2, 1, "2026-01-01 00:00:02,000 INFO [rank 1] step 1"),
        (3, 4, "2026-01-01 00:00:03,000 ERROR [rank 0] RuntimeError: it broke"),
        (3, 5, "last"),
    ]
    assert frame["rank"].to_list() == [0, 0, 0, 0, 0, 1, 0, 0]


@pytest.mark.slow
def test_processes_give_the_same_rows(odd_run: Path) -> None:
    """Order and content do not depend on how many read."""
    target = SAMPLES / BY_TASK / "run"
    run = opened(BY_TASK)
    with open_lines([target], run, workers=2) as lines:
        frame = pl.concat([as_frame(table) for table in lines.tables])
    assert frame.equals(lines_of(BY_TASK))


def test_lines_are_labelled_with_the_weightiest_event() -> None:
    """A line is what its event is; all others stay lines, and none is added or lost."""
    labelled = Labels(opened(LABELLED).events)(lines_of(LABELLED))
    assert labelled.height == lines_of(LABELLED).height
    assert labelled.columns == lines_of(LABELLED).columns
    fault = labelled.filter(pl.col("event_name") == "native_segfault")
    assert fault["role"].to_list() == ["initiating"]
    assert fault["log_file_path"].to_list() == ["journal/h100-06-005.log"]


def test_unclassified_lines_look_like_errors_and_are_no_events() -> None:
    """Neither an event, nor a line of a record of one, nor harmless."""
    lines = lines_of(LABELLED)
    found = Unclassified(opened(LABELLED).events)(lines)
    assert 0 < found.height < 0.1 * lines.height
    events = opened(LABELLED).events.filter(pl.col("event_name").cast(pl.String) != str(Context.MESSAGE))
    known = set(events.select(pl.col("log_file_path").cast(pl.String), "byte_offset").iter_rows())
    assert not known & set(found.select("log_file_path", "byte_offset").iter_rows())
    assert found["body"].str.contains("wandb: Network error").any()
    assert not found["body"].str.contains("iteration +\\d+/").any()


def test_what_cannot_be_read_twice_is_refused(tmp_path: Path) -> None:
    """Standard input, and a timeline without lines; with a sentence about what to do."""
    run = opened(MERGED)
    with pytest.raises(UsageError, match="only once"), open_lines(["-"], run):
        pass
    run.write_timeline(tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="holds events only"), open_lines([tmp_path / "t.parquet"], run):
        pass


def test_times_before_the_epoch_and_without_a_clock_do_not_raise(tmp_path: Path) -> None:
    """Any stamp that a parser reads fits, or is none."""
    (tmp_path / "rank_0.log").write_text(
        "1969-12-31 23:59:59,000 INFO step 1\n9999-12-31 23:59:59,000 INFO step 2\nRuntimeError: x\n"
    )
    run = correlator.open_run(tmp_path, workers=1)
    with open_lines([tmp_path], run, workers=1) as lines:
        frame = pl.concat([as_frame(table) for table in lines.tables])
    assert frame.height == 3
    assert frame["time_aligned"].drop_nulls().max() is None or frame["time_aligned"].max() < datetime(
        2263, 1, 1, tzinfo=UTC
    )
