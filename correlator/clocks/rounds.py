"""Rounds of step numbers: which epoch, or which resume, a repeated step number belongs to.

Writers that began or ended at different moments (a file without its head, a node that lacks the first attempt) count
different numbers of rounds. Such a writer is matched by the end that it shares with the others. One that shares both
ends, or neither, fits more than one way and names no moment: an epoch's worth of seconds would pass for an offset.
"""

from __future__ import annotations

import polars as pl

_WRITER = ("attempt", "signature", "path", "rank")
_SERIES = ("attempt", "signature")


def with_rounds(rows: pl.DataFrame) -> pl.DataFrame:
    """Progress lines with `nth`, the round that their step belongs to, 1 for the first; without lines that fit no round.

    A round ends where the step falls back and the line after it stays below as well: one mislabelled line ends none.
    """
    step = pl.col("step")
    before, after = step.shift(1).over(_WRITER), step.shift(-1).over(_WRITER)
    falls = ((step < before) & (after.is_null() | (after < before))).fill_null(value=False)
    counted = rows.sort("path", "line").with_columns(
        (falls.cast(pl.Int64).cum_sum().over(_WRITER) + 1).alias("nth"),
        (step - before).filter(step > before).median().over(_WRITER).fill_null(1.0).alias("_stride"),
    )
    counted = counted.with_columns(
        pl.col("nth").max().over(_WRITER).alias("_rounds"),
        step.first().over(_WRITER).alias("_first"),
        step.last().over(_WRITER).alias("_last"),
    )
    most = pl.col("_rounds").max().over(_SERIES)
    whole = pl.col("_rounds") == most
    began, ended = (
        (pl.col(name) - pl.col(name).filter(whole).median().over(_SERIES)).abs() <= pl.col("_stride")
        for name in ("_first", "_last")
    )
    lost = most - pl.col("_rounds")
    nth = (
        pl.when(lost == 0)
        .then("nth")
        .when(ended & ~began)
        .then(pl.col("nth") + lost)
        .when(began & ~ended)
        .then("nth")
        .cast(pl.UInt32)
    )
    placed = counted.with_columns(nth.alias("nth")).filter(pl.col("nth").is_not_null())
    return placed.drop("_stride", "_rounds", "_first", "_last")
