"""Pairs of lines that one node wrote about one moment: they share its clock, so a whole zone between them is a zone.

Writers of a node may be set to different zones (a container in UTC, an agent in local time, files with epoch seconds).
Five facts are stated twice, seconds apart at most (method.md section 2):
an exception in error.json (epoch, formats.md B4) and in the rank's own log;
the end of a rank in error.json and in the row of the agent's table that was made from it (B3: the same second);
the enqueue of a collective in a flight-recorder entry (D) and in the watchdog's line minus `ran for N ms` (A3);
SIGTERM as the agent sends it and as the child reports it (B2);
a device's fault as the kernel logs it and as its rank meets it (H1), which alone is no proof: it takes two seconds at most.
"""

from __future__ import annotations

import polars as pl

from correlator.core.vocabulary import CollateralKind, Context, FileKind, Role, TimeSource
from correlator.identity.frame import among, attribute

QUARTER_NS = 900 * 10**9
_CLOSE_NS = 5 * 10**9
"""Both statements of a pair lie within this, zones apart."""
_CLOSE_FAULT_NS = 2 * 10**9
_NS_PER_MS = 1_000_000

EPOCH, KERNEL, AGENT, RANK = "epoch", "kernel", "agent", "rank"
_DEVICE = "device"


def writer() -> pl.Expr:
    """Which writer of a node stamped an event, and whether with a zone: writers of one kind share a setting."""
    kind = pl.col("file_kind").cast(pl.String)
    name = (
        pl.when(kind.is_in([str(FileKind.FLIGHT_RECORDER), str(FileKind.ERROR_FILE)]))
        .then(pl.lit(EPOCH))
        .when(kind == str(FileKind.KERNEL_LOG))
        .then(pl.lit(KERNEL))
        .when(kind == str(FileKind.LAUNCHER_LOG))
        .then(pl.lit(AGENT))
        .otherwise(pl.lit(RANK))
    )
    return pl.concat_str(name, pl.when(pl.col("time_zone").is_not_null()).then(pl.lit("+zone")).otherwise(pl.lit("")))


def pairs(events: pl.DataFrame) -> pl.DataFrame:
    """`domain`, `writer`, `other`, `quarters` (other minus writer), `votes`: what most pairs of two writers agree on."""
    frame = events.filter(
        (pl.col("time_source").cast(pl.String) == str(TimeSource.EXPLICIT))
        & pl.col("timestamp").is_not_null()
        & pl.col("clock_domain").is_not_null()
    ).select(
        pl.col("clock_domain").cast(pl.String).alias("domain"),
        writer().alias("writer"),
        (pl.col("file_kind").cast(pl.String) == str(FileKind.ERROR_FILE)).alias("error_file"),
        pl.col("timestamp").to_physical().alias("ns"),
        pl.col("event_name").cast(pl.String).alias("event"),
        pl.col("exception_type").cast(pl.String),
        pl.col("process_group").cast(pl.String),
        "exception_message",
        pl.col("gpu").cast(pl.String),
        pl.col("role").cast(pl.String),
        "rank",
        "process_pid",
        "collective_seq",
        pl.col("attempt").fill_null(0),
        "attributes",
    )
    sure = pl.concat(
        [_self_join(table) for table in (_exceptions(frame), _ends(frame), _enqueues(frame), _signals(frame))]
    )
    found = pl.concat(
        [sure, _self_join(_device_faults(frame)).join(sure, on=["domain", "writer", "other"], how="anti")]
    )
    distance = pl.col("other_ns") - pl.col("ns")
    quarters = (distance / QUARTER_NS).round().cast(pl.Int64)
    counted = (
        found.with_columns(quarters.alias("quarters"), (distance - quarters * QUARTER_NS).abs().alias("rest"))
        .filter(pl.col("rest") <= pl.when("weak").then(_CLOSE_FAULT_NS).otherwise(_CLOSE_NS))
        .group_by("domain", "writer", "other", "quarters")
        .agg(pl.len().alias("votes"))
        .sort("domain", "writer", "other", "votes", "quarters", descending=[False, False, False, True, False])
    )
    return counted.unique(["domain", "writer", "other"], keep="first", maintain_order=True)


def _self_join(table: pl.DataFrame) -> pl.DataFrame:
    """Statements of one fact by two writers, the earliest of each; `weak` where the fact is the fault of a device."""
    facts = table.drop_nulls().group_by("domain", "writer", "key").agg(pl.col("ns").min())
    other = facts.select("domain", "key", pl.col("writer").alias("other"), pl.col("ns").alias("other_ns"))
    joined = facts.join(other, on=["domain", "key"]).filter(pl.col("writer") != pl.col("other"))
    weak = pl.col("key").str.starts_with(_DEVICE).alias("weak")
    return joined.select("domain", "writer", "other", "ns", "other_ns", weak)


def _facts(frame: pl.DataFrame, *parts: pl.Expr) -> pl.DataFrame:
    key = pl.concat_str(*(part.cast(pl.String) for part in parts), separator="\x1f")
    return frame.select("domain", "writer", key.alias("key"), "ns")


def _exceptions(frame: pl.DataFrame) -> pl.DataFrame:
    """An exception of a rank, by its type and message. A message that a rank repeats is told by nobody's clock."""
    rows = frame.filter(pl.col("exception_type").is_not_null() & (pl.col("event") != str(Context.CHILD_FAILED_ROW)))
    fact = ["domain", "writer", "rank", "attempt", "exception_type", "exception_message"]
    rows = rows.filter(pl.len().over(fact) == 1)
    return _facts(rows, pl.lit("exception"), *(pl.col(name) for name in fact[2:]))


def _ends(frame: pl.DataFrame) -> pl.DataFrame:
    """The table's row of a rank that left an error file bears that file's second, in the agent's local time."""
    of_file = (pl.col("event") == str(Context.CHILD_FAILED_ROW)) & attribute("error_file").is_not_null()
    rows = frame.filter((of_file | pl.col("error_file")) & pl.col("rank").is_not_null())
    return _facts(rows, pl.lit("end"), pl.col("rank"), pl.col("attempt"))


def _device_faults(frame: pl.DataFrame) -> pl.DataFrame:
    """The first fault of each device, as the kernel and as a rank tell it. A device that had several proves nothing."""
    fault = (pl.col("role") == str(Role.INITIATING)) | (pl.col("event") == str(Context.XID))
    rows = frame.filter(fault & pl.col("gpu").is_not_null())
    kernel = pl.col("writer").str.starts_with(KERNEL)
    span = (pl.col("ns").max() - pl.col("ns").min()).over("domain", "gpu", kernel)
    return _facts(rows.filter(span <= _CLOSE_NS), pl.lit(_DEVICE), pl.col("gpu"))


def _enqueues(frame: pl.DataFrame) -> pl.DataFrame:
    ran = attribute("ran_ms").cast(pl.Float64, strict=False)
    lines = frame.filter(pl.col("event") == str(CollateralKind.COLLECTIVE_TIMEOUT)).with_columns(ran.alias("ran"))
    lines = lines.filter(pl.col("ran").is_between(0.0, 1e10)).with_columns(
        (pl.col("ns") - (pl.col("ran") * _NS_PER_MS).cast(pl.Int64)).alias("ns")
    )
    entries = frame.filter(pl.col("event") == str(Context.COLLECTIVE_ENTRY))
    both = pl.concat([lines.drop("ran"), entries])
    # Lines often leave out the group: its sequence number alone is looked up among all groups, and seconds decide.
    return _facts(both, pl.lit("enqueue"), pl.col("rank"), pl.col("attempt"), pl.col("collective_seq"))


def _signals(frame: pl.DataFrame) -> pl.DataFrame:
    rows = frame.filter(
        among("event", (Context.WORKER_SIGNALLED, CollateralKind.TERMINATED_BY_LAUNCHER))
        & pl.col("process_pid").is_not_null()
    )
    return _facts(rows, pl.lit("signal"), pl.col("process_pid"))
