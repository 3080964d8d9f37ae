"""Aligned times: the printed time less the offset of its clock, as core.schema declares them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from correlator.core.model import DRIFT_KNOWN_PPM, DRIFT_UNKNOWN_PPM, ClockEstimate
from correlator.core.schema import polars_schema

_NS_PER_MS = 1_000_000
_COLUMNS = {
    "_domain": pl.String,
    "_offset": pl.Float64,
    "_half": pl.Float64,
    "_as_of": pl.Float64,
    "_drift": pl.Float64,
    "_loose": pl.Float64,
}


def filled(events: pl.DataFrame, estimates: Sequence[ClockEstimate]) -> pl.DataFrame:
    """`time_aligned` and `time_uncertainty_ms`: half of what the clock leaves open, and the granularity of the stamp.

    Domains of a smaller component are aligned within it; against the rest they are not, so they get no uncertainty.
    """
    main = _main_reference(estimates)
    rows = [_row(estimate, main) for estimate in estimates if estimate.offset_ms is not None]
    table = pl.DataFrame(rows, schema=_COLUMNS, orient="row")
    keyed = events.with_columns(pl.col("clock_domain").cast(pl.String).alias("_domain"))
    joined = keyed.join(table, on="_domain", how="left", maintain_order="left")
    printed_ms = pl.col("timestamp").to_physical() / _NS_PER_MS
    away_ms = printed_ms - pl.col("_offset") - pl.col("_as_of").fill_null(printed_ms - pl.col("_offset"))
    offset_ms = (pl.col("_offset") + pl.col("_drift") * away_ms).fill_null(0.0)
    moved = pl.col("timestamp") - pl.duration(nanoseconds=(offset_ms * _NS_PER_MS).cast(pl.Int64), time_unit="ns")
    slack = pl.col("_loose") * away_ms.abs()
    uncertain = pl.when(pl.col("timestamp").is_not_null()).then(
        pl.col("_half") + slack + pl.col("time_granularity_ms").fill_null(0.0)
    )
    schema = polars_schema()
    return joined.with_columns(
        moved.cast(schema["time_aligned"]).alias("time_aligned"),
        uncertain.cast(schema["time_uncertainty_ms"]).alias("time_uncertainty_ms"),
    ).drop(list(_COLUMNS))


def _main_reference(estimates: Sequence[ClockEstimate]) -> str | None:
    """The reference that most clocks are measured against."""
    counts: dict[str, int] = {}
    for estimate in estimates:
        if estimate.reference is not None:
            counts[estimate.reference] = counts.get(estimate.reference, 0) + 1
    return max(counts, key=lambda name: (counts[name], name), default=None)


def _row(
    estimate: ClockEstimate, main: str | None
) -> tuple[str, float | None, float | None, float | None, float, float]:
    half = None
    if estimate.interval_ms is not None and estimate.reference == main:
        half = (estimate.interval_ms[1] - estimate.interval_ms[0]) / 2
    loose = DRIFT_UNKNOWN_PPM if estimate.drift_ppm is None else DRIFT_KNOWN_PPM
    drift = (estimate.drift_ppm or 0.0) * 1e-6
    exact = half == 0.0
    return (estimate.node, estimate.offset_ms, half, estimate.as_of_ms, drift, 0.0 if exact else loose * 1e-6)
