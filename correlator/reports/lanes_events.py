"""What the lanes take from the event table: who ran where, since when each rank waited, which steps were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from correlator.core.vocabulary import CollateralKind, Context, TimeSource
from correlator.reports.causes import CauseGraph

if TYPE_CHECKING:
    import polars as pl

MOST_STEPS = 240
STEPS_BEFORE = 4
"""So many steps before the failure are shown at least."""
HORIZON_NS = 600_000_000_000
"""Nothing farther from the failure than this is shown for its own sake."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait in a collective, from its start to the rank's end (None: to the end of the picture)."""

    low_ns: int
    high_ns: int | None


@dataclass(frozen=True, slots=True)
class Stamp:
    """How far the time of a line can be trusted."""

    margin_ms: float | None
    bound: bool
    """The line has no time of its own: it is not earlier than the one before it of its writer, and no more is known."""


NO_STAMP = Stamp(None, bound=False)


def stamps_of(events: pl.DataFrame) -> dict[tuple[str, int], Stamp]:
    """(file, line) -> how sure its time is, of the lines that tell of faults and collateral."""
    import polars as pl

    told = events.filter(pl.col("body").is_not_null() & pl.col("timestamp").is_not_null())
    rows = told.select(
        "log_file_path",
        "line_number",
        "time_uncertainty_ms",
        pl.col("time_source").cast(pl.String) == TimeSource.INHERITED.value,
    )
    return {(file, line): Stamp(margin, bound) for file, line, margin, bound in rows.iter_rows()}


def ranks_of(events: pl.DataFrame) -> list[tuple[int, str | None]]:
    """Every rank of the table with the node that most of its lines name."""
    import polars as pl

    counted = events.filter(pl.col("rank").is_not_null()).group_by("rank", "host_name").len()
    ordered = counted.sort(
        "rank", pl.col("host_name").is_null(), "len", "host_name", descending=[False, False, True, False]
    )
    return list(ordered.unique("rank", keep="first", maintain_order=True).select("rank", "host_name").iter_rows())


def waits_of(events: pl.DataFrame, graph: CauseGraph | None) -> dict[int, Wait]:
    """Since when each rank waited: a timeout says how long it ran, a flight-recorder entry when it was entered.

    A timeout without a time of its own (an exception) says neither when it began nor when it ended.
    """
    import polars as pl

    time = pl.coalesce("time_aligned", "timestamp").dt.epoch("ns")
    waits: dict[int, Wait] = {}
    timeouts = events.filter(
        (pl.col("event_name") == CollateralKind.COLLECTIVE_TIMEOUT.value)
        & pl.col("rank").is_not_null()
        & (pl.col("time_source").cast(pl.String) != TimeSource.INHERITED.value)
    )
    for rank, ns, attributes in timeouts.select("rank", time, "attributes").iter_rows():
        known = {pair["key"]: pair["value"] for pair in attributes or ()}
        ran_ms = _number(known.get("ran_ms")) or _number(known.get("timeout_ms"))
        if ns is not None and ran_ms is not None:
            low = ns - int(ran_ms * 1e6)
            if rank not in waits or low < waits[rank].low_ns:
                waits[rank] = Wait(low, ns)
    hubs = [cause for cause in graph.causes if cause.kind == "hub"] if graph else []
    cited = pl.Series(sorted(number for hub in hubs for number in hub.event_ids), dtype=pl.UInt64)
    waiting = pl.Series(sorted({rank for hub in hubs for rank in hub.ranks}), dtype=pl.Int32)
    every = events.filter(
        (pl.col("event_name") == Context.COLLECTIVE_ENTRY.value) & pl.col("rank").is_in(waiting.implode())
    )
    keys = ["process_group", "collective_seq"]
    # A hub cites one line of each waiter; where that is a timeout without a time, the entry in its dump still has one.
    held_up = every.filter(pl.col("event_id").is_in(cited.implode())).select(keys).unique()
    entries = every.join(held_up, on=keys)
    for rank, ns in entries.select("rank", time).iter_rows():
        if ns is not None and (rank not in waits or ns < waits[rank].low_ns):
            waits[rank] = Wait(ns, waits[rank].high_ns if rank in waits else None)
    return waits


def _number(text: str | None) -> float | None:
    """A length of a wait in ms, if it is one that a run could have lasted."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < 1e10 else None


def steps_of(events: pl.DataFrame, first_ns: int | None, last_ns: int | None) -> list[tuple[int, int]]:
    """Steps as they were reported, thinned; of a failed run those near the failure."""
    import polars as pl

    time = pl.coalesce("time_aligned", "timestamp").dt.epoch("ns").alias("ns")
    steps = events.filter((pl.col("event_name") == Context.PROGRESS.value) & pl.col("step").is_not_null())
    table = steps.select(time, "step").drop_nulls().group_by("step").agg(pl.col("ns").min()).sort("ns", "step")
    if first_ns is not None and last_ns is not None:
        table = table.filter(pl.col("ns").is_between(first_ns - HORIZON_NS, last_ns)).tail(MOST_STEPS)
    elif table.height > MOST_STEPS:
        table = table.gather_every(-(-table.height // MOST_STEPS))
    return [(ns, step) for ns, step in table.select("ns", "step").iter_rows()]


def steps_to_show(steps: Sequence[tuple[int, int]], times: Sequence[int]) -> list[int]:
    """The last steps before the failure, as far as they are not much farther from it than it lasted."""
    if not times:
        return []
    span = max(max(times) - min(times), 60_000_000_000)
    before = [ns for ns, _ in steps if min(times) - span <= ns <= min(times)]
    return before[-STEPS_BEFORE:]
