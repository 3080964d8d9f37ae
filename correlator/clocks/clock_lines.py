"""Steps that a system's own log tells of: chronyd, ntpd, systemd (formats.md H5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from correlator.core.model import ClockStep
from correlator.core.vocabulary import Context
from correlator.identity.frame import attribute, place

_SMALL_S = 0.02
"""Steps below this are lost in what the clocks leave open anyway."""


@dataclass(frozen=True, slots=True)
class Split:
    """A clock that jumped: stamps from before `ns`, on the clock itself, belong to another offset."""

    ns: int
    step: ClockStep


def clock_splits(timed: pl.DataFrame) -> dict[str, Split]:
    """The last step of each domain. A clock that was slewed, or set while the system came up, has none."""
    rows = timed.filter(pl.col("event") == str(Context.CLOCK_STEP)).with_columns(
        attribute("step_s").cast(pl.Float64, strict=False).alias("step_s"),
        attribute("slewed").is_not_null().alias("slewed"),
        attribute("set_to").is_not_null().alias("booting"),
    )
    small = pl.col("step_s").is_finite() & (pl.col("step_s").abs() < _SMALL_S)
    last = (
        rows.filter(~pl.col("slewed") & ~pl.col("booting") & ~small.fill_null(value=False))
        .sort("domain", "ns", "path", "line")
        .unique("domain", keep="last", maintain_order=True)
    )
    return {
        domain: Split(ns, ClockStep(_iso(ns), None if step_s is None else step_s * 1000, place(path, line)))
        for domain, ns, step_s, path, line in last.select(
            "domain", "ns", "step_s", pl.col("path").cast(pl.String), "line"
        ).iter_rows()
    }


def _iso(ns: int) -> str | None:
    try:
        return datetime.fromtimestamp(ns / 1e9, UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None
