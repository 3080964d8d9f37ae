"""Wall time for kernel lines that carry only seconds since boot (formats.md H4).

The constant between the two clocks of a host comes from lines that carry both; else from what a rank of the same node
says about the same fault. Which of the two it was shows in the granularity that the lines get: that of the stamp, or
the seconds by which a driver's message and a rank's error lie apart.
"""

from __future__ import annotations

import polars as pl

from correlator.core.schema import polars_schema
from correlator.core.vocabulary import Context, FileKind, Role, TimeSource
from correlator.identity.frame import among

_NS = 1_000_000_000
_DRIFT = 100e-6
"""The kernel's clock against the wall that NTP steers, s/s."""
_AHEAD_S = 10.0
"""A kernel reports a fault up to this long before a rank does."""
_COARSE_MS = 1000.0


def anchored(events: pl.DataFrame) -> pl.DataFrame:
    """Events in which kernel lines without a wall time got one (time source `interpolated`), where that is possible."""
    boot_only = pl.col("boot_seconds").is_finite() & pl.col("timestamp").is_null() & _known_domain()
    rows = events.with_row_index("_row")
    lone = rows.filter(boot_only)
    if lone.is_empty():
        return events
    lone = lone.select("_row", pl.col("clock_domain").cast(pl.String).alias("domain"), "boot_seconds")
    told = pl.concat([_from_both(lone, _both(events)), _from_ranks(lone, events)])
    told = told.unique("_row", keep="first", maintain_order=True)
    joined = rows.join(told, on="_row", how="left", maintain_order="left")
    schema = polars_schema()
    given = pl.col("_ns").is_not_null()
    return joined.with_columns(
        pl.when(given).then(pl.col("_ns").cast(schema["timestamp"])).otherwise("timestamp").alias("timestamp"),
        pl.when(given)
        .then(pl.col("_grain"))
        .otherwise("time_granularity_ms")
        .cast(schema["time_granularity_ms"])
        .alias("time_granularity_ms"),
        pl.when(given)
        .then(pl.lit(str(TimeSource.INTERPOLATED)))
        .otherwise(pl.col("time_source").cast(pl.String))
        .cast(events.schema["time_source"])
        .alias("time_source"),
    ).drop("_row", "_ns", "_grain")


def _known_domain() -> pl.Expr:
    return pl.col("clock_domain").is_not_null()


def _both(events: pl.DataFrame) -> pl.DataFrame:
    rows = events.filter(pl.col("boot_seconds").is_finite() & pl.col("timestamp").is_not_null() & _known_domain())
    return rows.select(
        pl.col("clock_domain").cast(pl.String).alias("domain"),
        pl.col("boot_seconds").alias("at"),
        pl.col("timestamp").to_physical().alias("ns"),
        pl.col("time_granularity_ms").fill_null(_COARSE_MS).cast(pl.Float64).alias("grain"),
    )


def _from_both(lone: pl.DataFrame, both: pl.DataFrame) -> pl.DataFrame:
    """From the nearest line of the host that carries both clocks."""
    near = (
        lone.sort("boot_seconds")
        .join_asof(
            both.sort("at"),
            left_on="boot_seconds",
            right_on="at",
            by="domain",
            strategy="nearest",
            check_sortedness=False,
        )
        .drop_nulls("ns")
    )
    return _placed(near, pl.col("grain"), 0.0)


def _from_ranks(lone: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """From the first fault that the kernel reports and the first that a rank of the node does, of one GPU if named."""
    kind = pl.col("file_kind").cast(pl.String)
    fault = pl.col("role").cast(pl.String) == str(Role.INITIATING)
    ends = among("_event", (Context.WORKER_FAILED, Context.XID))
    rows = events.with_columns(
        pl.col("event_name").cast(pl.String).alias("_event"),
        pl.col("clock_domain").cast(pl.String).alias("domain"),
        pl.col("gpu").cast(pl.String),
    ).filter((fault | ends) & _known_domain())
    kernel = rows.filter((kind == str(FileKind.KERNEL_LOG)) & pl.col("boot_seconds").is_finite())
    explicit = pl.col("time_source").cast(pl.String) == str(TimeSource.EXPLICIT)
    ranks = rows.filter((kind != str(FileKind.KERNEL_LOG)) & explicit & pl.col("timestamp").is_not_null()).select(
        "domain",
        "gpu",
        pl.col("timestamp").to_physical().alias("ns"),
        pl.col("time_granularity_ms").fill_null(_COARSE_MS).cast(pl.Float64).alias("grain"),
    )
    first = kernel.group_by("domain").agg(pl.col("boot_seconds", "gpu").sort_by("boot_seconds").first())
    pairs = first.rename({"boot_seconds": "at", "gpu": "_gpu"}).join(ranks, on="domain")
    same = (pl.col("gpu") == pl.col("_gpu")).fill_null(value=False)
    best = (
        pairs.with_columns(same.alias("_same"))
        .sort("domain", "_same", "ns", descending=[False, True, False])
        .unique("domain", keep="first", maintain_order=True)
        .select("domain", "at", "ns", "grain")
    )
    near = lone.join(best, on="domain")
    return _placed(near, pl.col("grain") + _AHEAD_S * 1000, _AHEAD_S)


def _placed(near: pl.DataFrame, grain: pl.Expr, ahead_s: float) -> pl.DataFrame:
    """The start of the interval in which the line was written, and its length."""
    apart = pl.col("boot_seconds") - pl.col("at")
    slack = apart.abs() * _DRIFT
    start = pl.col("ns") + ((apart - slack - ahead_s) * _NS).cast(pl.Int64)
    return near.select("_row", start.alias("_ns"), (grain + 2000 * slack).alias("_grain"))
