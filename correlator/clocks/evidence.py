"""Synchronisation evidence: events that several nodes share, as readings of one moment (a hub) on several clocks.

The classes, their scales and which rank of a node speaks for it are method.md section 2. A watchdog timeout is never
read at the time of its line but at the time the collective was enqueued (line minus `ran for N milliseconds`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from correlator.core.vocabulary import CollateralKind, Context, TimeSource
from correlator.identity.frame import attribute

_NS_PER_MS = 1_000_000
_FIRST_BARRIER = "c10d.unknown_device_barrier"
"""A barrier before any device is known: printed once by every rank; known by signature, as it is a plain message."""
_LATEST_ENTRIES = 256
"""Flight-recorder entries used of each group: the latest, where the drift is smallest."""


class Reduce(StrEnum):
    """Which rank's reading stands for its node."""

    EARLIEST = "earliest"  # exits of a collective: the least delayed line
    MIDDLE = "middle"  # entries of waiting ranks: equal but for noise


@dataclass(frozen=True, slots=True)
class EvidenceClass:
    """One kind of shared event. `sigma_ms`: how far a node's reading lies from the shared moment, granularity apart."""

    name: str
    sigma_ms: float
    reduce: Reduce
    select: Callable[[pl.DataFrame], pl.DataFrame]
    """From the timed events to rows of `key`, `domain`, `ns`, `grain_ms`."""


def timed_events(events: pl.DataFrame, store_node: str | None = None) -> pl.DataFrame:
    """Events with a stamp of their own and a known clock, in the columns that the classes read."""
    frame = events.filter(
        (pl.col("time_source").cast(pl.String) == str(TimeSource.EXPLICIT))
        & pl.col("timestamp").is_not_null()
        & pl.col("clock_domain").is_not_null()
    )
    return frame.select(
        pl.col("clock_domain").cast(pl.String).alias("domain"),
        pl.col("timestamp").to_physical().alias("ns"),
        pl.col("time_granularity_ms").fill_null(1000.0).cast(pl.Float64).clip(0.0, 86_400_000.0).alias("grain_ms"),
        pl.col("event_name").cast(pl.String).alias("event"),
        pl.col("signature").cast(pl.String),
        pl.col("log_file_path").cast(pl.String).alias("path"),
        pl.col("process_group").cast(pl.String),
        pl.col("collective_op").cast(pl.String),
        pl.col("attempt").fill_null(0),
        (pl.col("clock_domain").cast(pl.String) == pl.lit(store_node, pl.String))
        .fill_null(value=False)
        .alias("is_store"),
        "rank",
        "step",
        "collective_seq",
        "byte_offset",
        "attributes",
    )


def _named(frame: pl.DataFrame, *events: str) -> pl.DataFrame:
    wanted = pl.Series([str(event) for event in events], dtype=pl.String).implode()
    return frame.filter(pl.col("event").is_in(wanted))


def _keyed(frame: pl.DataFrame, *parts: pl.Expr) -> pl.DataFrame:
    key = pl.concat_str(*(part.cast(pl.String).fill_null("") for part in parts), separator="|")
    return frame.select(key.alias("key"), "domain", "ns", "grain_ms")


def _steps(frame: pl.DataFrame) -> pl.DataFrame:
    """Iteration lines. Step numbers that one writer repeats (epochs) are told apart by their count."""
    rows = _named(frame, Context.PROGRESS).filter(pl.col("step").is_not_null()).sort("path", "byte_offset")
    writer = ["attempt", "path", "rank", "signature", "step"]
    rows = rows.with_columns(pl.col("ns").cum_count().over(writer).alias("nth"))
    return _keyed(rows, *(pl.col(name) for name in ("attempt", "signature", "step", "nth")))


def _checkpoints(frame: pl.DataFrame) -> pl.DataFrame:
    rows = _named(
        frame,
        Context.CHECKPOINT_SAVED,
        Context.CHECKPOINT_SAVE_STARTED,
        Context.CHECKPOINT_LOADED,
        Context.EVALUATION,
    )
    rows = rows.with_columns(pl.coalesce(attribute("checkpoint"), pl.col("step").cast(pl.String)).alias("name"))
    rows = rows.filter(pl.col("name").is_not_null())
    return _keyed(rows, *(pl.col(name) for name in ("attempt", "event", "signature", "name")))


def _comms(frame: pl.DataFrame) -> pl.DataFrame:
    rows = _named(frame, Context.NCCL_COMM_INIT).with_columns(
        attribute("comm_id").alias("comm"), attribute("phase").alias("phase")
    )
    rows = rows.filter((pl.col("phase") == "complete") & pl.col("comm").is_not_null())
    return _keyed(rows, pl.col("attempt"), pl.col("comm"))


def _enqueued(frame: pl.DataFrame) -> pl.DataFrame:
    """Timeouts, back-dated. The group is the line's own, or that of the rank's report on the same sequence number."""
    rows = _named(frame, CollateralKind.COLLECTIVE_TIMEOUT).with_columns(
        attribute("ran_ms").cast(pl.Float64, strict=False).alias("ran_ms")
    )
    rows = rows.filter(pl.col("ran_ms").is_between(0.0, 1e10) & pl.col("collective_seq").is_not_null())
    status = (
        _named(frame, Context.WORK_STATUS)
        .filter(pl.col("process_group").is_not_null() & pl.col("rank").is_not_null())
        .group_by("rank", "attempt", "collective_seq")
        .agg(pl.col("process_group").unique().alias("groups"))
        .filter(pl.col("groups").list.len() == 1)
        .select("rank", "attempt", "collective_seq", pl.col("groups").list.first().alias("status_group"))
    )
    rows = rows.join(status, on=["rank", "attempt", "collective_seq"], how="left")
    rows = rows.with_columns(
        pl.coalesce("process_group", "status_group").alias("group"),
        (pl.col("ns") - (pl.col("ran_ms") * _NS_PER_MS).cast(pl.Int64)).alias("ns"),
    )
    return _keyed(rows, *(pl.col(name) for name in ("attempt", "group", "collective_seq", "collective_op")))


def _dump_signals(frame: pl.DataFrame) -> pl.DataFrame:
    """Monitors poll the store each second: all that name the same signaller read the same key."""
    rows = _named(frame, Context.DUMP_SIGNAL).with_columns(attribute("from_rank").alias("from_rank"))
    return _keyed(rows.filter(pl.col("from_rank").is_not_null()), pl.col("attempt"), pl.col("from_rank"))


def _entries(frame: pl.DataFrame) -> pl.DataFrame:
    """Flight-recorder entries of collectives (no point-to-point): created on all members at about the same time."""
    rows = _named(frame, Context.COLLECTIVE_ENTRY).with_columns(attribute("p2p").alias("p2p"))
    rows = rows.filter((pl.col("p2p").fill_null("false").str.to_lowercase() != "true") & (pl.col("collective_seq") > 0))
    last = pl.col("collective_seq").max().over("process_group")
    rows = rows.filter(pl.col("collective_seq") > last - _LATEST_ENTRIES)
    return _keyed(rows, *(pl.col(name) for name in ("attempt", "process_group", "collective_seq", "collective_op")))


def _rendezvous(frame: pl.DataFrame) -> pl.DataFrame:
    return _keyed(_named(frame, Context.RENDEZVOUS_COMPLETE), pl.col("attempt"))


def _launches(frame: pl.DataFrame) -> pl.DataFrame:
    return _keyed(_named(frame, Context.LAUNCHER_STARTED), pl.col("attempt"), pl.col("signature"))


def _introductions(frame: pl.DataFrame) -> pl.DataFrame:
    """Lines that every rank prints once on its way into the first collective."""
    own = _named(frame, Context.RANK_IDENTITY)
    barrier = frame.filter(pl.col("signature") == _FIRST_BARRIER)
    return _keyed(pl.concat([own, barrier]), pl.col("attempt"), pl.col("signature"))


def _store_lost(frame: pl.DataFrame) -> pl.DataFrame:
    """The store's end as ranks see it within a poll or two. Its own node is no witness: it may have died before."""
    rows = _named(frame, CollateralKind.STORE_LOST).filter(~pl.col("is_store") & pl.col("rank").is_not_null())
    return _keyed(rows, pl.col("attempt"), pl.col("signature"))


def _teardown(frame: pl.DataFrame) -> pl.DataFrame:
    """Agents told to stop, and the scheduler's cancel line: one wave."""
    return _keyed(_named(frame, Context.AGENT_SIGNALLED, Context.SCHEDULER_CANCELLED), pl.col("attempt"))


CLASSES: tuple[EvidenceClass, ...] = (
    EvidenceClass("iteration", 10.0, Reduce.EARLIEST, _steps),
    EvidenceClass("communicator", 50.0, Reduce.EARLIEST, _comms),
    EvidenceClass("checkpoint", 300.0, Reduce.EARLIEST, _checkpoints),
    EvidenceClass("enqueue", 300.0, Reduce.MIDDLE, _enqueued),
    EvidenceClass("flight recorder", 300.0, Reduce.MIDDLE, _entries),
    EvidenceClass("dump signal", 300.0, Reduce.EARLIEST, _dump_signals),
    EvidenceClass("rendezvous", 500.0, Reduce.EARLIEST, _rendezvous),
    EvidenceClass("teardown", 1000.0, Reduce.EARLIEST, _teardown),
    EvidenceClass("store lost", 1000.0, Reduce.EARLIEST, _store_lost),
    EvidenceClass("introduction", 2000.0, Reduce.MIDDLE, _introductions),
    EvidenceClass("launch", 3000.0, Reduce.EARLIEST, _launches),
)


def readings(timed: pl.DataFrame) -> pl.DataFrame:
    """A row for each hub and domain: `hub`, `domain`, `ns` (centre of the stamp), `sigma_ms`, `grain_ms`, `klass`.

    Hubs that only one domain saw say nothing and are left out.
    """
    parts = [_reduced(klass, number, klass.select(timed)) for number, klass in enumerate(CLASSES)]
    table = pl.concat(parts)
    return table.filter(pl.col("domain").n_unique().over("hub") >= 2).sort("hub", "domain")


def _reduced(klass: EvidenceClass, number: int, rows: pl.DataFrame) -> pl.DataFrame:
    # A stamp x of granularity g stands for [x, x + g): its centre, uniform error 0.29 g (method.md section 2).
    centre = pl.col("ns") + (pl.col("grain_ms") * (_NS_PER_MS / 2)).cast(pl.Int64)
    ns = centre.min() if klass.reduce is Reduce.EARLIEST else centre.median().cast(pl.Int64)
    votes = pl.len() if klass.reduce is Reduce.MIDDLE else pl.lit(1)
    grain = pl.col("grain_ms").median()
    return (
        rows.group_by("key", "domain")
        .agg(ns.alias("ns"), grain.alias("grain_ms"), votes.alias("votes").cast(pl.Float64))
        .select(
            pl.format("{}|{}", pl.lit(klass.name), "key").alias("hub"),
            "domain",
            "ns",
            (klass.sigma_ms**2 + (0.29 * pl.col("grain_ms")) ** 2 / pl.col("votes")).sqrt().alias("sigma_ms"),
            "grain_ms",
            pl.lit(number, pl.Int32).alias("klass"),
        )
    )
