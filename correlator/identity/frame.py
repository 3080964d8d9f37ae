"""The event table as identity reads it: labels as text, one row an event, in table order."""

from __future__ import annotations

import json
from collections.abc import Iterable

import polars as pl

from correlator.core.vocabulary import CollateralKind, Context, FileKind

AGENT_EVENTS: frozenset[str] = frozenset(
    {
        Context.RENDEZVOUS_COMPLETE,
        Context.RENDEZVOUS_STARTED,
        Context.LAUNCHER_STARTED,
        Context.LAUNCHER_SPAWN,
        Context.ATTEMPT_STARTED,
        Context.WORKER_FAILED,
        Context.CHILD_FAILED_ROW,
        Context.WORKER_SIGNALLED,
        Context.AGENT_SIGNALLED,
        Context.TASK_EXIT,
        Context.SCHEDULER_CANCELLED,
        Context.NODE_FAILURE_REPORTED,
        Context.POD_STATUS,
        Context.KERNEL_BOOT,
        Context.CLOCK_STEP,
        Context.XID,
        CollateralKind.LAUNCHER_REPORT,
    }
)
"""Written by a launcher, a scheduler or a kernel: such a line belongs to no rank unless it names one."""

FOREIGN_HOST_EVENTS: frozenset[str] = frozenset(
    {Context.SCHEDULER_CANCELLED, Context.NODE_FAILURE_REPORTED, Context.NODE_ADDRESS, Context.POD_STATUS}
    | {Context.TASK_EXIT, Context.NAMED_MISSING_RANKS}
)
"""The host that these lines name need not be the one that wrote them."""

RANK_KINDS: frozenset[str] = frozenset(
    {FileKind.RANK_LOG, FileKind.NODE_LOG, FileKind.CONSOLE_LOG, FileKind.RAY_LOG, FileKind.TEXT}
    | {FileKind.NCCL_DEBUG_LOG, FileKind.FLIGHT_RECORDER, FileKind.STACK_DUMP, FileKind.ERROR_FILE}
)
"""Files in which ranks write."""

LOG_KINDS: frozenset[str] = RANK_KINDS - {
    FileKind.NCCL_DEBUG_LOG,
    FileKind.FLIGHT_RECORDER,
    FileKind.STACK_DUMP,
    FileKind.ERROR_FILE,
}
"""Files that show what a rank printed up to its end; dumps and NCCL's start-up log do not."""

_RENAMED = {
    "log_file_path": "path",
    "file_kind": "kind",
    "event_name": "event",
    "host_name": "host",
    "process_pid": "pid",
    "task_id": "task",
    "world_size": "world",
    "line_number": "line",
    "byte_offset": "offset",
}
_KEPT = (
    "role",
    "signature",
    "process_group",
    "collective_seq",
    "rank",
    "local_rank",
    "node_rank",
    "attempt",
    "step",
    "gpu",
    "group_rank",
    "attributes",
)


def working(events: pl.DataFrame) -> pl.DataFrame:
    """The columns that identity reads, under short names; `row` is the place in the table, `time` ns or null."""
    labels = ("path", "kind", "event", "host", "role", "signature", "gpu", "process_group")
    frame = events.select(
        pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"),
        *(pl.col(old).alias(new) for old, new in _RENAMED.items()),
        *_KEPT,
        pl.col("timestamp").to_physical().alias("time"),
        (pl.col("time_source").cast(pl.String) == "explicit").alias("explicit"),
    )
    frame = frame.with_columns(pl.col(*labels).cast(pl.String))
    # The many rows of these two kinds say nothing about identity in their attributes: dragging the lists along is dear.
    bulk = among("event", (Context.PROGRESS, Context.COLLECTIVE_ENTRY))
    return frame.with_columns(pl.when(~bulk).then(pl.col("attributes")).alias("attributes"))


def attribute(name: str) -> pl.Expr:
    """The value of a further fact of each event, or null."""
    chosen = pl.element().filter(pl.element().struct.field("key") == name).struct.field("value")
    return pl.col("attributes").list.eval(chosen).list.first().alias(name)


def numbers(text: str | None) -> tuple[int, ...]:
    """A JSON list of integers; empty for anything else."""
    values = _json_list(text)
    return tuple(v for v in values if isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 2**31)


def texts(text: str | None) -> tuple[str, ...]:
    """A JSON list of strings; empty for anything else."""
    return tuple(v for v in _json_list(text) if isinstance(v, str))


def _json_list(text: str | None) -> list[object]:
    if not text:
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def place(path: str, line: int | None) -> str:
    """`file:line`, as conflicts cite it."""
    return f"{path}:{line}" if line else path


def among(column: str, values: Iterable[str]) -> pl.Expr:
    """Whether a text column holds one of these values; members of a StrEnum count as their text."""
    return pl.col(column).is_in(pl.Series(sorted(str(value) for value in values), dtype=pl.String).implode())


def is_event(name: str) -> pl.Expr:
    """Whether a row is this kind of event."""
    return pl.col("event") == pl.lit(str(name))
