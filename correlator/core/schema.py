"""The event table from one declaration: names, dtypes, docs and OpenTelemetry names all derive from `COLUMNS`.

Names follow the OpenTelemetry log data model in snake case. polars and pyarrow are imported only inside functions, so that
reading this module costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

SCHEMA_VERSION = "1"


class Kind(StrEnum):
    """The dtypes that columns may have."""

    TEXT = "text"
    LABEL = "label"  # few distinct values
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT64 = "uint64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    TIME = "time"  # ns, UTC
    ATTRIBUTES = "attributes"  # list of (key, value)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, dtype, whether it may be null, what it means, and its OpenTelemetry name."""

    name: str
    kind: Kind
    doc: str
    nullable: bool = True
    otel: str | None = None


COLUMNS: tuple[Column, ...] = (
    Column("event_id", Kind.UINT64, "Stable over runs: hash of file path, byte offset and signature.", nullable=False),
    Column(
        "timestamp", Kind.TIME, "As printed, on the writer's own clock; local time is read as UTC.", otel="Timestamp"
    ),
    Column("time_source", Kind.LABEL, "explicit, inherited (from a line before), interpolated, none.", nullable=False),
    Column("time_granularity_ms", Kind.FLOAT32, "Resolution of the stamp, ms."),
    Column("time_zone", Kind.LABEL, "Printed zone of the stamp; null = local, unknown."),
    Column("time_aligned", Kind.TIME, "timestamp minus the estimated clock offset of the node."),
    Column("time_uncertainty_ms", Kind.FLOAT32, "Half width of the interval of time_aligned, ms."),
    Column("observed_timestamp", Kind.TIME, "Stamp of a collector around the line's own.", otel="ObservedTimestamp"),
    Column("boot_seconds", Kind.FLOAT64, "Kernel time since boot, s."),
    Column("severity_number", Kind.UINT8, "OpenTelemetry severity, 1-24.", otel="SeverityNumber"),
    Column("severity_text", Kind.LABEL, "OpenTelemetry severity text.", otel="SeverityText"),
    Column("body", Kind.TEXT, "Message without prefixes.", otel="Body"),
    Column(
        "template",
        Kind.LABEL,
        "Of an error that nothing knows: its message with numbers, names and places masked, equal for all like it.",
    ),
    Column("event_name", Kind.LABEL, "Fault code, collateral kind or context name.", nullable=False, otel="EventName"),
    Column("role", Kind.LABEL, "initiating, collateral or context.", nullable=False),
    Column("signature", Kind.LABEL, "Id of the pattern that recognised the line.", nullable=False),
    Column("host_name", Kind.LABEL, "Node, short host name.", otel="host.name"),
    Column("process_pid", Kind.INT64, "Process id as printed (a container's own, or the host's).", otel="process.pid"),
    Column("rank", Kind.INT32, "Global rank."),
    Column("local_rank", Kind.INT32, "Rank on its node."),
    Column("node_rank", Kind.INT32, "torchrun GROUP_RANK."),
    Column("task_id", Kind.INT32, "Slurm task id."),
    Column("world_size", Kind.INT32, "Number of ranks the line speaks of."),
    Column("attempt", Kind.INT32, "Restart attempt, 0-based."),
    Column("gpu", Kind.LABEL, "PCI address of the GPU, 0000:3b:00."),
    Column("process_group", Kind.LABEL, "Name of the group, equal on all members."),
    Column("collective_seq", Kind.INT64, "Sequence number of the collective in its group."),
    Column("collective_op", Kind.LABEL, "Collective, as PyTorch names it in capitals."),
    Column("group_rank", Kind.INT32, "Rank inside the group."),
    Column("step", Kind.INT64, "Training step or iteration."),
    Column("loss", Kind.FLOAT64, "Loss printed with the step."),
    Column("exit_code", Kind.INT32, "Exit code; negative = signal."),
    Column("exception_type", Kind.LABEL, "Exception class.", otel="exception.type"),
    Column("exception_message", Kind.TEXT, "Exception message.", otel="exception.message"),
    Column("exception_stacktrace", Kind.TEXT, "Traceback.", otel="exception.stacktrace"),
    Column("code_file_path", Kind.LABEL, "Innermost frame of the user's code.", otel="code.file.path"),
    Column("code_line_number", Kind.INT32, "Line in code_file_path.", otel="code.line.number"),
    Column("log_file_path", Kind.LABEL, "File, relative to the run.", nullable=False, otel="log.file.path"),
    Column("line_number", Kind.INT64, "1-based line in the file.", nullable=False),
    Column("body_line_number", Kind.INT64, "Line that body quotes, where it is not the first line of the record."),
    Column("body_byte_offset", Kind.INT64, "Offset of that line."),
    Column("line_count", Kind.INT32, "Lines folded into this event.", nullable=False),
    Column("byte_offset", Kind.INT64, "Offset in the decompressed file.", nullable=False),
    Column("log_iostream", Kind.LABEL, "stdout or stderr.", otel="log.iostream"),
    Column("dialect", Kind.LABEL, "Dialect that read the line.", nullable=False),
    Column("file_kind", Kind.LABEL, "What the file is (rank_log, kernel_log, ...).", nullable=False),
    Column("clock_domain", Kind.LABEL, "Whose clock stamped it: a node, or a file without one."),
    Column("attributes", Kind.ATTRIBUTES, "Further facts.", otel="Attributes"),
)
COLUMN_NAMES: tuple[str, ...] = tuple(column.name for column in COLUMNS)


def arrow_schema() -> pa.Schema:
    """The table's Arrow schema; docs and OpenTelemetry names are in the field metadata."""
    import pyarrow as pa

    types = {
        Kind.TEXT: pa.large_string(),
        Kind.LABEL: pa.dictionary(pa.int32(), pa.string()),
        Kind.INT32: pa.int32(),
        Kind.INT64: pa.int64(),
        Kind.UINT8: pa.uint8(),
        Kind.UINT64: pa.uint64(),
        Kind.FLOAT32: pa.float32(),
        Kind.FLOAT64: pa.float64(),
        Kind.TIME: pa.timestamp("ns", tz="UTC"),
        Kind.ATTRIBUTES: pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_string())])),
    }

    def field(column: Column) -> pa.Field:
        metadata = {"doc": column.doc} | ({"otel": column.otel} if column.otel else {})
        return pa.field(column.name, types[column.kind], nullable=column.nullable, metadata=metadata)

    return pa.schema([field(column) for column in COLUMNS])


def polars_schema() -> dict[str, pl.DataType | type[pl.DataType]]:
    """The table's polars schema, in column order."""
    import polars as pl

    types: dict[Kind, pl.DataType | type[pl.DataType]] = {
        Kind.TEXT: pl.String,
        Kind.LABEL: pl.Categorical(),
        Kind.INT32: pl.Int32,
        Kind.INT64: pl.Int64,
        Kind.UINT8: pl.UInt8,
        Kind.UINT64: pl.UInt64,
        Kind.FLOAT32: pl.Float32,
        Kind.FLOAT64: pl.Float64,
        Kind.TIME: pl.Datetime("ns", "UTC"),
        Kind.ATTRIBUTES: pl.List(pl.Struct({"key": pl.String, "value": pl.String})),
    }
    return {column.name: types[column.kind] for column in COLUMNS}


def validate(table: pl.DataFrame) -> list[str]:
    """What is wrong with a table against the declaration; empty when it fits."""
    wanted = polars_schema()
    problems = [f"column {name!r} is missing" for name in wanted if name not in table.columns]
    problems += [f"column {name!r} is not declared" for name in table.columns if name not in wanted]
    for column in COLUMNS:
        if column.name not in table.columns:
            continue
        dtype = table.schema[column.name]
        if dtype != wanted[column.name]:
            problems.append(f"column {column.name!r} is {dtype}, not {wanted[column.name]}")
        if not column.nullable and table[column.name].null_count():
            problems.append(f"column {column.name!r} has nulls")
    return problems
