"""A timeline on disk: the same verdict comes back, other libraries open it, and nothing else is overwritten for it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import correlator
from correlator.all_lines import open_lines
from correlator.core.errors import InputError, OutputError
from correlator.core.schema import COLUMNS, arrow_schema
from correlator.pipeline import Run
from correlator.reports.json import to_jsonable
from correlator.timeline_files import BLOCK_ROWS, NO_HOST, partition_of, write_dataset, write_file

SAMPLES = Path(__file__).resolve().parent.parent / "sample_runs"
NAMES = ("pub-oom-rank11-slurm", "real-hang-pyspy-006", "sim-xid79-cuda-error-slurm-task-zone-302")


@cache
def opened(name: str) -> Run:
    """A sample run, read once."""
    return correlator.open_run(SAMPLES / name / "run", workers=1)


def written(name: str, path: Path, *, all_lines: bool, partition: bool) -> Path:
    """Its timeline."""
    run = opened(name)
    if not all_lines:
        run.write_timeline(path, partition=partition)
        return path
    with open_lines([SAMPLES / name / "run"], run, with_events=True, by_host=partition, workers=1) as lines:
        run.write_timeline(path, rows=lines.tables, partition=partition)
    return path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("all_lines", "partition"), [(False, False), (True, False), (False, True), (True, True)],
    ids=["events", "lines", "events by node", "lines by node"],
)  # fmt: skip
def test_a_timeline_gives_the_same_verdict(name: str, all_lines: bool, partition: bool, tmp_path: Path) -> None:
    """The whole diagnosis, to the byte, from each form."""
    path = written(name, tmp_path / "t.parquet", all_lines=all_lines, partition=partition)
    again = correlator.open_run(path)
    assert json.dumps(to_jsonable(again.diagnosis)) == json.dumps(to_jsonable(opened(name).diagnosis))
    assert again.events.height == opened(name).events.height


def test_a_timeline_of_a_timeline_is_the_same(tmp_path: Path) -> None:
    """Written again from itself it holds the same rows in the same order, lines included."""
    first = written(NAMES[2], tmp_path / "a.parquet", all_lines=True, partition=False)
    by_node = written(NAMES[2], tmp_path / "b.parquet", all_lines=True, partition=True)
    run = correlator.open_run(by_node)
    with open_lines([by_node], run, with_events=True) as lines:
        run.write_timeline(tmp_path / "c.parquet", rows=lines.tables)
    assert pl.read_parquet(tmp_path / "c.parquet")["event_id"].to_list() == pl.read_parquet(first)["event_id"].to_list()


@pytest.mark.parametrize("partition", [False, True])
def test_polars_pandas_and_duckdb_read_it(partition: bool, tmp_path: Path) -> None:
    """As many rows in each, times as times with their zone, labels as text or categories."""
    pandas = pytest.importorskip("pandas")
    duckdb = pytest.importorskip("duckdb")
    path = written(NAMES[2], tmp_path / "t.parquet", all_lines=True, partition=partition)
    glob = f"{path}/**/*.parquet" if partition else str(path)
    rows = opened(NAMES[2]).events.height + sum(
        r.lines + r.cr_splits for r in opened(NAMES[2]).reports if lined(r.path)
    )
    frame = pl.read_parquet(path)
    table = pandas.read_parquet(path)
    relation = duckdb.sql(f"SELECT * FROM '{glob}'")
    assert frame.height == len(table) == len(relation) == rows
    assert set(frame.columns) == set(table.columns) == set(relation.columns) == {column.name for column in COLUMNS}
    assert frame.schema["time_aligned"] == pl.Datetime("ns", "UTC")
    assert str(table["time_aligned"].dtype) == "datetime64[ns, UTC]"
    by_rank = dict(
        duckdb.sql(f"SELECT rank, count(*) FROM '{glob}' WHERE event_name = 'line' GROUP BY rank").fetchall()
    )
    assert by_rank == dict(frame.filter(pl.col("event_name") == "line").group_by("rank").len().iter_rows())


def lined(path: str) -> bool:
    """Whether a file of that sample has lines, and is no flight-recorder dump."""
    return "trace" not in path and "flight" not in path


def test_columns_carry_their_docs_and_the_file_its_diagnosis(tmp_path: Path) -> None:
    """Field metadata say what a column means; the file's say what was found, for readers without correlator."""
    path = written(NAMES[0], tmp_path / "t.parquet", all_lines=False, partition=False)
    schema = pq.read_schema(path)
    assert schema.field("rank").metadata[b"doc"] == b"Global rank."
    assert schema.field("timestamp").metadata[b"otel"] == b"Timestamp"
    verdict = json.loads(schema.metadata[b"correlator.diagnosis"])["verdict"]
    assert verdict["summary"] == opened(NAMES[0]).diagnosis.verdict.summary
    times = pl.read_parquet(path)["time_aligned"]
    assert times.equals(times.sort(nulls_last=True))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all", b"PAR1" + bytes(64) + b"PAR1"])
def test_a_file_that_is_no_timeline_is_an_input_error(content: bytes, tmp_path: Path) -> None:
    """One sentence, whatever the bytes."""
    path = tmp_path / "t.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError):
        correlator.open_run(path)


def test_somebody_elses_parquet_is_an_input_error(tmp_path: Path) -> None:
    """It says how to write one of ours."""
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="no timeline of this version"):
        correlator.open_run(tmp_path / "t.parquet")


def test_a_column_that_came_later_is_null(tmp_path: Path) -> None:
    """A timeline from before the column opens, with the same verdict; one without a column that it needs does not."""
    path = written(NAMES[0], tmp_path / "t.parquet", all_lines=False, partition=False)
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["loss"]), tmp_path / "older.parquet")
    again = correlator.open_run(tmp_path / "older.parquet")
    assert again.events["loss"].null_count() == again.events.height
    assert again.diagnosis.verdict == opened(NAMES[0]).diagnosis.verdict
    pq.write_table(table.drop_columns(["event_name"]), tmp_path / "broken.parquet")
    with pytest.raises(InputError):
        correlator.open_run(tmp_path / "broken.parquet")


def test_a_folder_that_is_no_timeline_is_never_replaced(tmp_path: Path) -> None:
    """Not even by the library, and nothing is left beside it."""
    (tmp_path / "precious.parquet").mkdir()
    (tmp_path / "precious.parquet" / "thesis.txt").write_text("x")
    with pytest.raises(InputError):
        opened(NAMES[0]).write_timeline(tmp_path / "precious.parquet", partition=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["precious.parquet", "thesis.txt"]


def test_a_dataset_replaces_an_earlier_one_and_a_file(tmp_path: Path) -> None:
    """The former is gone, and no draft is left."""
    path = tmp_path / "t.parquet"
    for partition in (False, True, True):
        opened(NAMES[0]).write_timeline(path, partition=partition)
    assert path.is_dir()
    assert [found.name for found in tmp_path.iterdir()] == ["t.parquet"]


def test_a_folder_that_is_not_there_is_an_output_error(tmp_path: Path) -> None:
    """Not a traceback."""
    with pytest.raises(OutputError, match="cannot write"):
        opened(NAMES[0]).write_timeline(tmp_path / "missing" / "t.parquet")


def table(hosts: list[str | None]) -> pa.Table:
    """Rows with nothing but a node, and what may not be null."""
    columns = []
    for field in arrow_schema():
        kind = pa.string() if pa.types.is_dictionary(field.type) else field.type
        if field.name == "host_name":
            columns.append(pa.array(hosts, pa.string()))
        elif field.nullable:
            columns.append(pa.nulls(len(hosts), kind))
        elif pa.types.is_integer(kind):
            columns.append(pa.array(range(len(hosts)), kind))
        else:
            columns.append(pa.array([""] * len(hosts), kind))
    return pa.table(columns, names=arrow_schema().names)


def test_one_file_a_node_whatever_its_name(tmp_path: Path) -> None:
    """Names that a path could misread are quoted; no name at all has a partition that every reader takes."""
    hosts = [None, "..", "a b", "node/../../x", "ü", "x" * 300]
    parts = [table(sorted([host] * 3, key=str)) for host in hosts]
    write_dataset(tmp_path / "d.parquet", parts, {})
    found = pl.read_parquet(tmp_path / "d.parquet").group_by("host_name").len()
    assert dict(found.iter_rows()) == {NO_HOST: 6, "..": 3, "a b": 3, "node/../../x": 3, "ü": 3}
    assert {path.parent for path in (tmp_path / "d.parquet").iterdir()} == {tmp_path / "d.parquet"}
    assert partition_of("x" * 300) == NO_HOST


def test_blocks_are_written_as_row_groups_of_one_size(tmp_path: Path) -> None:
    """Thousands of small tables do not become thousands of row groups."""
    small = table(["n"] * 1000)
    write_file(tmp_path / "t.parquet", (small for _ in range(300)), {})
    metadata = pq.read_metadata(tmp_path / "t.parquet")
    assert metadata.num_rows == 300_000
    assert metadata.num_row_groups == -(-300_000 // BLOCK_ROWS)


def test_an_empty_timeline_is_one_too(tmp_path: Path) -> None:
    """No rows, all columns, in both forms."""
    write_file(tmp_path / "f.parquet", [], {})
    write_dataset(tmp_path / "d.parquet", [], {})
    assert pl.read_parquet(tmp_path / "f.parquet").shape == (0, len(COLUMNS))
    assert pl.read_parquet(tmp_path / "d.parquet").height == 0
