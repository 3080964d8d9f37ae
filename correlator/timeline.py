"""The event table on disk: one Parquet file that polars, pandas and DuckDB open, and that we reopen with the same verdict.

polars drops field metadata when it writes Parquet, so pyarrow writes: column docs and OpenTelemetry names travel in the field
metadata, topology, clocks and the diagnosis in the file's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from correlator import __version__
from correlator.core.errors import InputError
from correlator.core.files import FileReport, Skipped
from correlator.core.model import ClockModel, Diagnosis, Topology
from correlator.core.reasons import ContextLine
from correlator.core.schema import SCHEMA_VERSION, arrow_schema, polars_schema
from correlator.timeline_files import (
    STORED_KEY,
    VERSION_KEY,
    Content,
    TimelineFiles,
    describe_timeline,
    read_event_rows,
    write_dataset,
    write_file,
)

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

TIMELINE_SUFFIXES = (".parquet",)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a timeline file carries beside its rows."""

    path: str
    topology: Topology
    clocks: ClockModel
    reports: tuple[FileReport, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    context: tuple[ContextLine, ...]


def write_timeline(
    path: Path,
    events: pl.DataFrame,
    stored: Stored,
    diagnosis: Diagnosis,
    *,
    rows: Iterable[pa.Table] | None = None,
    partition: bool = False,
) -> None:
    """Write the events, ordered by aligned time, in one piece; raises OutputError where the folder does not allow it.

    Args:
        path: the file, or with `partition` the folder, to create or to replace.
        events: the event table.
        stored: what else is needed to reopen it.
        diagnosis: for those who read the file without us.
        rows: what is written in place of `events`: these and all other lines, ordered (`all_lines.open_lines`).
        partition: a folder with one file for each node (`host_name=node03/`), where one file would be too much.
    """
    from pydantic import TypeAdapter

    content = Content.EVENTS if rows is None else Content.ALL_LINES
    metadata = {
        VERSION_KEY: SCHEMA_VERSION.encode(),
        b"correlator.version": __version__.encode(),
        b"correlator.content": content.value.encode(),
        b"correlator.clocks": TypeAdapter(ClockModel).dump_json(stored.clocks),
        b"correlator.diagnosis": TypeAdapter(Diagnosis).dump_json(diagnosis),
        STORED_KEY: TypeAdapter(Stored).dump_json(stored),
    }
    tables = _ordered(events, by_host=partition) if rows is None else iter(rows)
    if partition:
        write_dataset(path, tables, metadata)
    else:
        write_file(path, tables, metadata)


def _ordered(events: pl.DataFrame, *, by_host: bool) -> Iterator[pa.Table]:
    import polars as pl

    keys: list[str | pl.Expr] = ["time_aligned", "log_file_path", "line_number", "event_id"]
    if by_host:
        keys.insert(0, pl.col("host_name").cast(pl.String))
    yield to_arrow(events.sort(*keys, nulls_last=True))


def to_arrow(events: pl.DataFrame) -> pa.Table:
    """The event table with the declared Arrow types and the docs of its columns."""
    import pyarrow as pa

    schema = arrow_schema()
    table = events.to_arrow()
    columns = []
    for field in schema:
        column = table.column(field.name)
        if pa.types.is_dictionary(field.type):
            column = column.cast(pa.string()).dictionary_encode().cast(field.type)
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=schema)


def read_timeline(path: Path) -> tuple[pl.DataFrame, Stored]:
    """The events and what they carry. Raises InputError for a Parquet file that is not ours, or of another version."""
    import polars as pl

    timeline = describe_timeline(path)
    stored = stored_in(timeline)
    frame = pl.from_arrow(read_event_rows(timeline))
    if not isinstance(frame, pl.DataFrame):
        raise InputError(f"{path} holds no table")
    frame = frame.select(pl.col(name).cast(dtype) for name, dtype in polars_schema().items())
    return frame.sort("log_file_path", "line_number", "byte_offset", "event_id"), stored


def stored_in(timeline: TimelineFiles) -> Stored:
    """What a timeline carries beside its rows. Raises InputError where that is damaged."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(Stored).validate_json(timeline.stored)
    except ValidationError as error:
        raise InputError(f"the metadata of {timeline.path} is damaged") from error
