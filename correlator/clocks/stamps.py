"""What a printed stamp says about its writer's clock: the interval [x, x + granularity), narrowed where that is possible.

c10d prints the fraction of another clock than the seconds (formats.md R3). All processes of a host share that clock, so
the fraction at which its second rolls over is one constant of the host. Two lines of one process within one printed
second prove that it did not roll over between them; enough of them leave a narrow arc for the constant, and every
stamp of the host becomes as fine as that arc. Where nothing narrows it, the fraction is dropped.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from correlator.clocks.readings import Floats
from correlator.core.vocabulary import TimeSource

_SECOND_NS = 1_000_000_000
_WORTH_IT = 0.95
"""An arc wider than this share of a second is no gain over the bare seconds."""


def timed_events(events: pl.DataFrame, store_node: str | None = None) -> pl.DataFrame:
    """Events with a stamp of their own and a known clock, in the columns that the evidence classes read.

    `ns` and `grain_ms` give the interval in which the writer's clock stood.
    """
    frame = events.filter(
        (pl.col("time_source").cast(pl.String) == str(TimeSource.EXPLICIT))
        & pl.col("timestamp").is_not_null()
        & pl.col("clock_domain").is_not_null()
    )
    timed = frame.select(
        pl.col("clock_domain").cast(pl.String).alias("domain"),
        pl.col("timestamp").to_physical().alias("ns"),
        pl.col("time_granularity_ms").fill_null(1000.0).cast(pl.Float64).clip(0.0, 86_400_000.0).alias("grain_ms"),
        pl.col("event_name").cast(pl.String).alias("event"),
        "signature",
        pl.col("log_file_path").alias("path"),
        pl.col("line_number").alias("line"),
        pl.col("process_group").cast(pl.String),
        pl.col("collective_op").cast(pl.String),
        pl.col("attempt").fill_null(0),
        (pl.col("clock_domain").cast(pl.String) == pl.lit(store_node, pl.String))
        .fill_null(value=False)
        .alias("is_store"),
        "rank",
        "step",
        "collective_seq",
        pl.col("boot_seconds").is_not_null().alias("kernel"),
        "byte_offset",
        "attributes",
    )
    return _without_fake_fractions(timed)


def _without_fake_fractions(timed: pl.DataFrame) -> pl.DataFrame:
    fraction = (pl.col("ns") % _SECOND_NS) / _SECOND_NS
    fake = (pl.col("grain_ms") >= 1000) & (fraction > 0) & ~pl.col("kernel")
    marked = timed.with_columns(fake.alias("_fake"), fraction.alias("_f"))
    if not marked["_fake"].any():
        return timed
    arcs = _rollovers(marked)
    joined = marked.join(arcs, on="domain", how="left", maintain_order="left")
    second = pl.col("ns") - pl.col("ns") % _SECOND_NS
    # The host's second rolled over at a fraction within [start, start + width): the true fraction is f minus that.
    into = (pl.col("_f") - pl.col("_start") - pl.col("_width")) % 1.0
    told = pl.col("_fake") & pl.col("_width").is_not_null() & (into + pl.col("_width") < 1.0 + 1e-9)
    return joined.with_columns(
        pl.when(told)
        .then(second + (into * _SECOND_NS).cast(pl.Int64))
        .when("_fake")
        .then(second)
        .otherwise("ns")
        .alias("ns"),
        pl.when(told).then(pl.col("_width") * 1000).otherwise("grain_ms").alias("grain_ms"),
    ).drop("_fake", "_f", "_start", "_width")


def _rollovers(marked: pl.DataFrame) -> pl.DataFrame:
    """For each host the arc `_start`, `_width` (in seconds) that holds its rollover, where it is narrow enough."""
    process = ["path", "rank"]
    pairs = (
        marked.filter(pl.col("rank").is_not_null() & ((pl.col("grain_ms") < 100) | pl.col("_fake")))
        .sort("path", "rank", "byte_offset")
        .with_columns(
            pl.col("ns").shift().over(process).alias("_before"),
            pl.col("_f").shift().over(process).alias("_f_before"),
            pl.col("_fake").shift().over(process).alias("_fake_before"),
        )
        .filter(pl.col("_fake") & (pl.col("ns") // _SECOND_NS == pl.col("_before") // _SECOND_NS))
        # A line with a true fraction x in the same second before: no rollover in the x seconds before this line.
        .with_columns(
            pl.when("_fake_before")
            .then((pl.col("_f") - pl.col("_f_before")) % 1.0)
            .otherwise("_f_before")
            .alias("_length")
        )
    )
    rows = []
    for (domain,), group in pairs.select("domain", "_f", "_length").group_by(["domain"], maintain_order=True):
        length = group["_length"].to_numpy()
        start, width = _complement(group["_f"].to_numpy() - length, length)
        if width < _WORTH_IT:
            rows.append((domain, start, width))
    schema = {"domain": pl.String, "_start": pl.Float64, "_width": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _complement(start: Floats, length: Floats) -> tuple[float, float]:
    """The circle (0-1) less the longest stretch that the arcs cover together: its start and width."""
    start = start % 1.0
    start, end = np.concatenate([start, start + 1.0]), np.concatenate([start + length, start + length + 1.0])
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    opens = np.flatnonzero(np.append(True, start[1:] > reach[:-1]))
    closes = np.append(opens[1:] - 1, start.size - 1)
    covered = reach[closes] - start[opens]
    longest = int(np.argmax(covered))
    return float(reach[closes[longest]] % 1.0), max(0.0, 1.0 - float(covered[longest]))
