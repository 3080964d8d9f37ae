"""Writes what is known about ranks and nodes into the event table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from correlator.core.schema import polars_schema
from correlator.core.vocabulary import Context, FileKind
from correlator.identity.agents import Part
from correlator.identity.frame import AGENT_EVENTS, FOREIGN_HOST_EVENTS, RANK_KINDS, among, attribute, is_event
from correlator.identity.gpus import Gpus
from correlator.identity.places import Seating, shared_pids
from correlator.identity.tasks import TaskMode, Tasks
from correlator.identity.work_rank import with_work_ranks
from correlator.identity.writers import Writer

_OWN_CLOCK = (FileKind.SCHEDULER_LOG, FileKind.POD_LISTING)
_SUBJECTS = (Context.WORKER_FAILED, Context.WORKER_SIGNALLED, Context.LAUNCHER_SPAWN, Context.CHILD_FAILED_ROW)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one attempt."""

    attempt: int
    seating: Seating
    gpus: Gpus


def with_writers(frame: pl.DataFrame, writers: Sequence[Writer], parts: Sequence[Part] = ()) -> pl.DataFrame:
    """Adds the writer of each row: `w_node`, `w_rank`, `w_local`, and `task` where only the file's name says it.

    `parts` are those of files that hold the logs of several nodes.
    """
    schema = {"path": pl.String, "w_node": pl.String, "w_rank": pl.Int32, "w_local": pl.Int32, "w_task": pl.Int32}
    table = pl.DataFrame(
        [(w.path, w.node, w.rank, w.local_rank, w.task_id, w.pid) for w in writers],
        schema=schema | {"w_pid": pl.Int64},
        orient="row",
    )
    joined = frame.join(table, on="path", how="left", maintain_order="left")
    inherits = among("kind", RANK_KINDS) & ~among("event", AGENT_EVENTS)
    joined = joined.with_columns(
        pl.coalesce("task", "w_task").alias("task"),
        pl.coalesce("pid", pl.when(inherits).then(pl.col("w_pid"))).alias("pid"),
        inherits.alias("inherits"),
    ).drop("w_task", "w_pid")
    return _with_parts(joined, parts) if parts else joined


def _with_parts(frame: pl.DataFrame, parts: Sequence[Part]) -> pl.DataFrame:
    schema = {"path": pl.String, "offset": pl.Int64, "_node": pl.String}
    table = pl.DataFrame([(p.path, p.offset, p.node) for p in parts], schema=schema, orient="row").sort("offset")
    joined = frame.sort("offset").join_asof(table, on="offset", by="path", check_sortedness=False).sort("row")
    return joined.with_columns(pl.coalesce("w_node", "_node").alias("w_node")).drop("_node")


def with_nodes(frame: pl.DataFrame, task_nodes: Sequence[tuple[int, str]], only: str | None) -> pl.DataFrame:
    """`node`: whose clock and whose processes a row speaks of; `only` is the node of a run on a single one."""
    own = pl.when(~among("event", FOREIGN_HOST_EVENTS)).then(pl.col("host"))
    table = pl.DataFrame(list(task_nodes), schema={"task": pl.Int32, "t_node": pl.String}, orient="row")
    joined = frame.join(table, on="task", how="left", maintain_order="left")
    somewhere = ~among("kind", _OWN_CLOCK)
    fallback = pl.when(somewhere).then(pl.lit(only, pl.String))
    return joined.with_columns(pl.coalesce(own, "w_node", "t_node", fallback).alias("node")).drop("t_node")


def with_ranks(frame: pl.DataFrame, known: Sequence[Known], tasks: Tasks, *, local_is_rank: bool) -> pl.DataFrame:
    """Fills rank, local rank, node, node rank and GPU of every row, strongest evidence first."""
    frame = frame.with_columns(
        pl.coalesce("local_rank", pl.when(pl.col("inherits")).then(pl.col("w_local"))).alias("local_rank")
    )
    frame = with_work_ranks(frame, {(k.attempt, r): n for k in known for r, n in k.seating.node_of.items()})
    proven_local = pl.when(pl.col("inherits")).then(pl.col("k_local"))
    frame = frame.with_columns(pl.coalesce("local_rank", proven_local).alias("local_rank"))
    frame = _look_up(frame, _slots(known), ["attempt", "node", "local_rank"])
    frame = _look_up(frame, _pids(known), ["attempt", "node", "pid"])
    frame = _look_up(frame, _devices(known), ["attempt", "node", "gpu"])
    inherits = pl.col("inherits")
    may_map = inherits | among("event", _SUBJECTS) | among("kind", (FileKind.KERNEL_LOG,))
    sure_gpu = pl.when(~pl.col("g_guess")).then(pl.col("g_rank"))
    device = pl.when(is_event(Context.XID) | among("kind", (FileKind.KERNEL_LOG,)))
    steps = [
        pl.col("rank"),
        pl.when(inherits).then(pl.col("w_rank")),
        pl.when(may_map).then(pl.col("s_rank")),
        device.then(sure_gpu),
        pl.when(may_map).then(pl.col("p_rank")),
        pl.when(inherits).then(pl.col("k_rank")),
        pl.when(inherits).then(pl.col("task")) if tasks.mode is TaskMode.RANK else pl.lit(None, pl.Int32),
        pl.when(may_map).then(pl.col("local_rank")) if local_is_rank else pl.lit(None, pl.Int32),
        pl.when(is_event(Context.TASK_EXIT)).then(_only_task())
        if tasks.mode is TaskMode.RANK
        else pl.lit(None, pl.Int32),
    ]
    by_gpu = device.then(pl.col("g_rank"))
    frame = frame.with_columns(pl.coalesce(*steps).alias("rank"))
    frame = frame.with_columns(
        (pl.col("rank").is_null() & by_gpu.is_not_null()).alias("guessed"),
        pl.coalesce("rank", by_gpu).alias("rank"),
    )
    frame = _look_up(frame, _ranks(known), ["attempt", "rank"])
    frame = frame.with_columns(
        pl.coalesce("node", "r_node").alias("node"),
        pl.coalesce("local_rank", "r_local").alias("local_rank"),
        pl.coalesce("gpu", "r_gpu").alias("gpu"),
    )
    frame = _look_up(frame, _node_ranks(known), ["attempt", "node"])
    return frame.with_columns(pl.coalesce("node_rank", "n_rank").alias("node_rank"))


def _only_task() -> pl.Expr:
    """The task of a scheduler's line about one task (formats.md E1)."""
    return attribute("tasks").str.extract(r"^\[(\d{1,9})\]$").cast(pl.Int32, strict=False)


def finish(events: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
    """The event table with the filled columns; `frame` has one row for each event, in the table's order."""
    schema = polars_schema()
    stamped_by_host = is_event(Context.SCHEDULER_CANCELLED) & pl.col("host").is_not_null()
    domain = (
        pl.when(stamped_by_host)
        .then(pl.col("host"))
        .when(among("kind", _OWN_CLOCK))
        .then(pl.col("path"))
        .otherwise(pl.coalesce("node", "path"))
    )
    filled = frame.select(
        "rank",
        "local_rank",
        "node_rank",
        "attempt",
        "gpu",
        pl.coalesce("host", "node").alias("host_name"),
        pl.col("task").alias("task_id"),
        domain.alias("clock_domain"),
        "guessed",
    )
    filled = filled.with_columns(pl.col(name).cast(schema[name]) for name in filled.columns if name in schema)
    events = events.with_columns(filled.select(name for name in filled.columns if name in schema).get_columns())
    if filled["guessed"].any():
        mark = pl.lit([{"key": "gpu_by_order", "value": "true"}], dtype=schema["attributes"])
        events = events.with_columns(
            pl.when(filled["guessed"])
            .then(pl.concat_list(pl.col("attributes").fill_null([]), mark))
            .otherwise(pl.col("attributes"))
            .alias("attributes")
        )
    return events


def _look_up(frame: pl.DataFrame, table: pl.DataFrame, on: list[str]) -> pl.DataFrame:
    return frame.join(table, on=on, how="left", maintain_order="left")


def _table(rows: list[tuple[object, ...]], schema: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(schema), orient="row")


def _slots(known: Sequence[Known]) -> pl.DataFrame:
    rows: list[tuple[object, ...]] = [
        (k.attempt, node, local, rank) for k in known for (node, local), rank in k.seating.rank_at.items()
    ]
    schema = {"attempt": pl.Int32, "node": pl.String, "local_rank": pl.Int32, "s_rank": pl.Int32}
    return _table(rows, schema)


def _pids(known: Sequence[Known]) -> pl.DataFrame:
    rows: list[tuple[object, ...]] = [
        (k.attempt, node, pid, rank)
        for k in known
        for (node, pid), rank in shared_pids(k.seating.node_of, k.seating.pid_of).items()
    ]
    return _table(rows, {"attempt": pl.Int32, "node": pl.String, "pid": pl.Int64, "p_rank": pl.Int32})


def _devices(known: Sequence[Known]) -> pl.DataFrame:
    rows: list[tuple[object, ...]] = []
    for k in known:
        owners: dict[tuple[str, str], list[int]] = {}
        for rank, gpu in k.gpus.gpu_of.items():
            if rank in k.seating.node_of:
                owners.setdefault((k.seating.node_of[rank], gpu), []).append(rank)
        rows += [
            (k.attempt, node, gpu, ranks[0], ranks[0] in k.gpus.by_order)
            for (node, gpu), ranks in owners.items()
            if len(ranks) == 1
        ]
    schema = {"attempt": pl.Int32, "node": pl.String, "gpu": pl.String, "g_rank": pl.Int32, "g_guess": pl.Boolean}
    return _table(rows, schema)


def _ranks(known: Sequence[Known]) -> pl.DataFrame:
    rows: list[tuple[object, ...]] = []
    for k in known:
        seating, gpus = k.seating, k.gpus
        for rank in sorted(seating.node_of.keys() | seating.local_of.keys() | gpus.gpu_of.keys()):
            gpu = None if rank in gpus.by_order else gpus.gpu_of.get(rank)
            rows.append((k.attempt, rank, seating.node_of.get(rank), seating.local_of.get(rank), gpu))
    schema = {
        "attempt": pl.Int32,
        "rank": pl.Int32,
        "r_node": pl.String,
        "r_local": pl.Int32,
        "r_gpu": pl.String,
    }
    return _table(rows, schema)


def _node_ranks(known: Sequence[Known]) -> pl.DataFrame:
    rows: list[tuple[object, ...]] = [
        (k.attempt, node, rank) for k in known for node, rank in k.seating.node_rank.items()
    ]
    return _table(rows, {"attempt": pl.Int32, "node": pl.String, "n_rank": pl.Int32})
