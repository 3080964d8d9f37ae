"""Tidy frames: one row a thing, one column a fact, times as times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from correlator.core.vocabulary import Context
from correlator.graphs.episodes import Episode

if TYPE_CHECKING:
    from correlator.notebook.views import Shown

TIME = pl.Datetime("ns", "UTC")


def episodes(run: Shown) -> pl.DataFrame:
    """The episodes of the attempt that was judged, in the order of time; `initiator` marks those that started it."""
    found = run.findings
    started = {root.id for root in found.roots}
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "id": pl.String,
        "code": pl.String,
        "role": pl.String,
        "initiator": pl.Boolean,
        "attempt": pl.Int32,
        "rank": pl.Int32,
        "node": pl.String,
        "gpu": pl.String,
        "pid": pl.Int64,
        "time": TIME,
        "uncertainty_ms": pl.Float64,
        "step": pl.Int64,
        "lines": pl.Int32,
        "file": pl.String,
        "line": pl.Int64,
        "text": pl.String,
    }
    rows = [
        (
            episode.id,
            str(episode.code),
            str(episode.role),
            episode.id in started,
            episode.attempt,
            episode.rank,
            episode.node,
            episode.gpu,
            episode.pid,
            episode.onset_ns,
            _uncertainty_ms(episode),
            episode.step,
            len(episode.facts),
            episode.head.file,
            episode.head.line,
            episode.head.body,
        )
        for episode in found.attempt.scene.episodes
    ]
    return pl.DataFrame(rows, schema=schema, orient="row").sort("time", "file", "line", nulls_last=True)


def _uncertainty_ms(episode: Episode) -> float | None:
    """Of the line that begins it; None where its clock is not comparable."""
    onset = episode.onset_ns
    first = next((fact for fact in episode.facts if fact.aligned_ns is not None and fact.aligned_ns == onset), None)
    return None if first is None else first.uncertainty_ms


def collateral(run: Shown) -> pl.DataFrame:
    """The collateral of the diagnosis; `explained_by` is the path to the initiator."""
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "rank": pl.Int32,
        "node": pl.String,
        "kind": pl.String,
        "time": pl.String,
        "file": pl.String,
        "line": pl.Int64,
        "text": pl.String,
        "explained_by": pl.List(pl.String),
    }
    rows = [
        (
            entry.rank,
            entry.node,
            str(entry.kind),
            entry.time,
            entry.evidence[0].file if entry.evidence else None,
            entry.evidence[0].line if entry.evidence else None,
            entry.evidence[0].text if entry.evidence else None,
            list(entry.explained_by),
        )
        for entry in run.diagnosis.collateral
    ]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    printed = pl.col("time").str.strip_suffix("Z").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="ns", strict=False)
    return frame.with_columns(printed.dt.replace_time_zone("UTC"))


def clock_table(run: Shown) -> pl.DataFrame:
    """The clock estimates; an offset is (the node's clock) - (the reference clock)."""
    schema = {
        "node": pl.String,
        "offset_ms": pl.Float64,
        "low_ms": pl.Float64,
        "high_ms": pl.Float64,
        "drift_ppm": pl.Float64,
        "timezone": pl.String,
        "evidence": pl.Int64,
        "status": pl.String,
    }
    rows = [
        (e.node, e.offset_ms, *(e.interval_ms or (None, None)), e.drift_ppm, e.timezone, e.evidence, str(e.status))
        for e in run.clocks.estimates
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def progress(run: Shown) -> pl.DataFrame:
    """Progress lines in the order of time; `step_time_s` is the time since the line before of the same rank, a step."""
    writer = ["attempt", "rank", "log_file_path"]
    lines = (
        run.events.filter(pl.col("event_name").cast(pl.String) == str(Context.PROGRESS))
        .drop_nulls("step")
        .sort("time_aligned", "log_file_path", "line_number", nulls_last=True)
        .with_columns(pl.col("log_file_path", "host_name").cast(pl.String))
    )
    steps = (pl.col("step") - pl.col("step").shift(1)).over(writer)
    seconds = (pl.col("time_aligned") - pl.col("time_aligned").shift(1)).over(writer).dt.total_nanoseconds() / 1e9
    return lines.select(
        pl.col("time_aligned").alias("time"),
        "attempt",
        "rank",
        pl.col("host_name").alias("node"),
        "step",
        "loss",
        pl.when(steps > 0).then(seconds / steps).alias("step_time_s"),
        pl.col("log_file_path").alias("file"),
        pl.col("line_number").alias("line"),
    )
