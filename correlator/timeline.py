"""The event table on disk: one Parquet file that polars, pandas and DuckDB open, and that we reopen with the same verdict.

polars drops field metadata when it writes Parquet, so pyarrow writes: column docs and OpenTelemetry names travel in the field
metadata, topology, clocks and the diagnosis in the file's own.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from correlator import __version__
from correlator.core.errors import InputError, OutputError
from correlator.core.files import FileReport, Skipped
from correlator.core.model import ClockModel, ContextLine, Diagnosis, Topology
from correlator.core.schema import SCHEMA_VERSION, arrow_schema, polars_schema

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

TIMELINE_SUFFIXES = (".parquet",)
_VERSION_KEY = b"correlator.schema_version"
_STORED_KEY = b"correlator.stored"


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


def write_timeline(path: Path, events: pl.DataFrame, stored: Stored, diagnosis: Diagnosis) -> None:
    """Write atomically; raises OutputError where the folder does not allow it."""
    import pyarrow.parquet as pq
    from pydantic import TypeAdapter

    ordered = events.sort("time_aligned", "log_file_path", "line_number", "event_id", nulls_last=True)
    table = _to_arrow(ordered)
    metadata = {
        _VERSION_KEY: SCHEMA_VERSION.encode(),
        b"correlator.version": __version__.encode(),
        b"correlator.clocks": TypeAdapter(ClockModel).dump_json(stored.clocks),
        b"correlator.diagnosis": TypeAdapter(Diagnosis).dump_json(diagnosis),
        _STORED_KEY: TypeAdapter(Stored).dump_json(stored),
    }
    table = table.replace_schema_metadata(metadata)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise OutputError(msg) from error
    try:
        pq.write_table(table, temporary, compression="zstd", compression_level=1, row_group_size=1_000_000)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror or error}"
        raise OutputError(msg) from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def _to_arrow(events: pl.DataFrame) -> pa.Table:
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
    """The table and what it carries. Raises InputError for a Parquet file that is not ours, or of another version."""
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pydantic import TypeAdapter, ValidationError

    try:
        table = pq.read_table(path)
    except FileNotFoundError as error:
        msg = f"no such file: {path}"
        raise InputError(msg) from error
    except (OSError, pa.ArrowException) as error:
        msg = f"cannot read {path} as Parquet"
        raise InputError(msg) from error
    metadata = table.schema.metadata or {}
    if metadata.get(_VERSION_KEY) != SCHEMA_VERSION.encode() or _STORED_KEY not in metadata:
        msg = f"{path} is no timeline of this version of correlator"
        raise InputError(msg, hint="write one with: correlator timeline RUN -o timeline.parquet")
    try:
        stored = TypeAdapter(Stored).validate_json(metadata[_STORED_KEY])
    except ValidationError as error:
        msg = f"the metadata of {path} is damaged"
        raise InputError(msg) from error
    frame = pl.from_arrow(table)
    if not isinstance(frame, pl.DataFrame):
        msg = f"{path} holds no table"
        raise InputError(msg)
    frame = frame.select(pl.col(name).cast(dtype) for name, dtype in polars_schema().items())
    return frame.sort("log_file_path", "line_number", "byte_offset", "event_id"), stored
