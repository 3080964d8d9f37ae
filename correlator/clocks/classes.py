"""The classes of synchronisation evidence: which lines of several nodes speak of one moment (method.md section 2).

Each selector says where its fact comes from, and which columns name the moment: nodes that agree on them share a hub.
A watchdog timeout is never read at the time of its line but at the time its collective was enqueued.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from correlator.clocks.rounds import with_rounds
from correlator.core.vocabulary import CollateralKind, Context
from correlator.identity.frame import attribute

_NS_PER_MS = 1_000_000
_FIRST_BARRIER = "c10d.unknown_device_barrier"
"""A barrier before any device is known: printed once by every rank; known by signature, as it is a plain message."""
_STORE_POLL = "store_lost.dump_flag"
_LATEST_ENTRIES = 256
"""Flight-recorder entries used of each group: the latest, where the drift is smallest."""


PART = "part_"


class Reduce(StrEnum):
    """Which rank's reading stands for its node."""

    EARLIEST = "earliest"  # exits of a collective: the least delayed line
    MIDDLE = "middle"  # entries of waiting ranks: equal but for noise
    MEAN = "mean"  # polls out of step with each other: they dither the rounding of coarse stamps


@dataclass(frozen=True, slots=True)
class EvidenceClass:
    """One kind of shared event. `sigma_ms`: how far a node's reading lies from the shared moment, granularity apart."""

    name: str
    sigma_ms: float
    reduce: Reduce
    at_work: bool
    """Whether the job is still at work at that moment: the last such one is where offsets are wanted most."""
    select: Callable[[pl.DataFrame], pl.DataFrame]
    """From the timed events (stamps.timed_events) to the rows of `parts`."""


def _named(frame: pl.DataFrame, *events: str) -> pl.DataFrame:
    wanted = pl.Series([str(event) for event in events], dtype=pl.String).implode()
    return frame.filter(pl.col("event").is_in(wanted))


def parts(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """The columns that a class hands on: those that name the moment, with nulls made to meet, and the reading itself."""
    named = (pl.col(column).alias(f"{PART}{number}") for number, column in enumerate(columns))
    return frame.select(*named, "domain", "ns", "grain_ms", "path", "line")


def part_names(frame: pl.DataFrame) -> list[str]:
    """The columns of `parts` that name the moment."""
    return [name for name in frame.columns if name.startswith(PART)]


def iterations(frame: pl.DataFrame) -> pl.DataFrame:
    """Iteration lines: printed after a blocking reduce of the loss (formats.md F).

    Step numbers that one writer repeats (epochs, a resume) are told apart by their round.
    """
    rows = _named(frame, Context.PROGRESS).filter(pl.col("step").is_not_null())
    writer = ["attempt", "path", "rank", "signature", "step"]
    if rows.height == rows.select(pl.struct(writer).hash()).to_series().n_unique():
        return parts(rows.with_columns(pl.lit(1, pl.UInt32).alias("nth")), "attempt", "signature", "step", "nth")
    return parts(with_rounds(rows), "attempt", "signature", "step", "nth")


def checkpoints(frame: pl.DataFrame) -> pl.DataFrame:
    """Checkpoint and evaluation lines, which end in a barrier (formats.md F); skewed by the storage.

    Names that some writers repeat more often than others (epochs, and a file without its head) name no one moment.
    """
    rows = _named(
        frame, Context.CHECKPOINT_SAVED, Context.CHECKPOINT_SAVE_STARTED, Context.CHECKPOINT_LOADED, Context.EVALUATION
    )
    rows = rows.with_columns(pl.coalesce(attribute("checkpoint"), pl.col("step").cast(pl.String)).alias("name"))
    named = ["attempt", "event", "signature", "name"]
    times = pl.len().over(*named, "path", "rank").alias("times")
    rows = rows.filter(pl.col("name").is_not_null()).with_columns(times)
    return parts(rows.filter(pl.col("times").n_unique().over(named) == 1), *named)


def communicators(frame: pl.DataFrame, phase: str = "complete") -> pl.DataFrame:
    """NCCL `Init COMPLETE` of one commId: the end of a collective exchange (formats.md C2)."""
    rows = _named(frame, Context.NCCL_COMM_INIT).with_columns(
        attribute("comm_id").alias("comm"), attribute("phase").alias("phase")
    )
    return parts(rows.filter((pl.col("phase") == phase) & pl.col("comm").is_not_null()), "attempt", "comm")


def timeouts(frame: pl.DataFrame) -> pl.DataFrame:
    """Watchdog timeouts, with the group of the line itself or of the rank's report on the same sequence number."""
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
    rows = rows.join(status, on=["rank", "attempt", "collective_seq"], how="left", maintain_order="left")
    return rows.with_columns(pl.coalesce("process_group", "status_group").alias("group"))


def _enqueued(frame: pl.DataFrame) -> pl.DataFrame:
    """`ran for N milliseconds` counts from the creation of the work (formats.md A3): the line minus N is the enqueue."""
    back = pl.col("ns") - (pl.col("ran_ms") * _NS_PER_MS).cast(pl.Int64)
    return parts(timeouts(frame).with_columns(back.alias("ns")), "attempt", "group", "collective_seq", "collective_op")


def _dump_signals(frame: pl.DataFrame) -> pl.DataFrame:
    """Monitors poll the store each second (formats.md A4): all that name the same signaller read the same key."""
    rows = _named(frame, Context.DUMP_SIGNAL).with_columns(attribute("from_rank").alias("from_rank"))
    return parts(_first_of_rank(rows.filter(pl.col("from_rank").is_not_null())), "attempt", "from_rank")


def _first_of_rank(rows: pl.DataFrame) -> pl.DataFrame:
    """The first line of each rank: a poll that fails, or a signal that stays, is told again every second."""
    writer = ["attempt", "domain", "path", "rank"]
    return rows.sort("ns", "path", "line").unique(writer, keep="first", maintain_order=True)


def _entries(frame: pl.DataFrame) -> pl.DataFrame:
    """Flight-recorder entries (formats.md D) of collectives, not point-to-point: created on all members together."""
    rows = _named(frame, Context.COLLECTIVE_ENTRY).with_columns(attribute("p2p").alias("p2p"))
    rows = rows.filter((pl.col("p2p").fill_null("false").str.to_lowercase() != "true") & (pl.col("collective_seq") > 0))
    last = pl.col("collective_seq").max().over("process_group")
    rows = rows.filter(pl.col("collective_seq") > last - _LATEST_ENTRIES)
    return parts(rows, "attempt", "process_group", "collective_seq", "collective_op")


def _rendezvous(frame: pl.DataFrame) -> pl.DataFrame:
    """Rendezvous complete (formats.md B2): agents look at the shared state about once a second."""
    return parts(_named(frame, Context.RENDEZVOUS_COMPLETE), "attempt")


def _finished(frame: pl.DataFrame) -> pl.DataFrame:
    """The job's own end: workers leave their last barrier, agents see it within a poll (formats.md B2)."""
    return parts(_named(frame, Context.TRAINING_FINISHED), "attempt", "signature")


def _teardown(frame: pl.DataFrame) -> pl.DataFrame:
    """Agents told to stop, and the scheduler's cancel line: one wave (formats.md B2, E1).

    A node's agent is the better witness: the scheduler's line is coarse, and a little ahead.
    """
    agents = _named(frame, Context.AGENT_SIGNALLED)
    scheduler = _named(frame, Context.SCHEDULER_CANCELLED).join(agents, on="domain", how="anti")
    return parts(pl.concat([agents, scheduler]), "attempt")


def _store_polled(frame: pl.DataFrame) -> pl.DataFrame:
    """The store's end as the monitors see it, which poll it each second (formats.md A4)."""
    polls = _of_store(frame).filter(pl.col("signature") == _STORE_POLL)
    return parts(_first_of_rank(polls), "attempt", "signature")


def _store_lost(frame: pl.DataFrame) -> pl.DataFrame:
    """The store's end as others see it at their next use (formats.md A7)."""
    return parts(_of_store(frame).filter(pl.col("signature") != _STORE_POLL), "attempt", "signature")


def _of_store(frame: pl.DataFrame) -> pl.DataFrame:
    """The store's own node is no witness of its end: it may have died before."""
    return _named(frame, CollateralKind.STORE_LOST).filter(~pl.col("is_store") & pl.col("rank").is_not_null())


def _membership(frame: pl.DataFrame) -> pl.DataFrame:
    """Agents notice that the group changed at their next poll (formats.md B2)."""
    return parts(_named(frame, Context.ATTEMPT_STARTED), "attempt", "signature")


def _introductions(frame: pl.DataFrame) -> pl.DataFrame:
    """Lines that every rank prints once as it comes up."""
    return parts(_named(frame, Context.RANK_IDENTITY), "attempt", "signature")


def _first_barriers(frame: pl.DataFrame) -> pl.DataFrame:
    """Ranks enter the first barrier right after the process group's init has let all of them go (formats.md A3)."""
    return parts(frame.filter(pl.col("signature") == _FIRST_BARRIER), "attempt")


def _launches(frame: pl.DataFrame) -> pl.DataFrame:
    """The scheduler starts all agents together (formats.md B2)."""
    return parts(_named(frame, Context.LAUNCHER_STARTED), "attempt", "signature")


def _task_ends(frame: pl.DataFrame) -> pl.DataFrame:
    """The launcher's line that a node's task has ended (formats.md E1), and the last that the agent there reported.

    One hub for each node that the launcher tells of: they tie the launcher's own clock to the nodes'.
    """
    told = attribute("nodes").str.extract_all(r'[^"\[\], ]+')  # a list of names as JSON
    ends = _named(frame, Context.TASK_EXIT).with_columns(told.alias("node")).explode("node").drop_nulls("node")
    agents = _named(frame, Context.WORKER_FAILED, Context.CHILD_FAILED_ROW).with_columns(pl.col("domain").alias("node"))
    last = agents.sort("ns", "path", "line").unique("domain", keep="last", maintain_order=True)
    return parts(pl.concat([ends.filter(pl.col("node") != pl.col("domain")), last.select(ends.columns)]), "node")


CLASSES: tuple[EvidenceClass, ...] = (
    EvidenceClass("iteration", 10.0, Reduce.EARLIEST, at_work=True, select=iterations),
    EvidenceClass("communicator", 50.0, Reduce.EARLIEST, at_work=True, select=communicators),
    EvidenceClass("checkpoint", 300.0, Reduce.EARLIEST, at_work=True, select=checkpoints),
    EvidenceClass("enqueue", 300.0, Reduce.MIDDLE, at_work=True, select=_enqueued),
    EvidenceClass("flight recorder", 300.0, Reduce.MIDDLE, at_work=True, select=_entries),
    EvidenceClass("dump signal", 300.0, Reduce.MEAN, at_work=False, select=_dump_signals),
    EvidenceClass("finish", 300.0, Reduce.EARLIEST, at_work=True, select=_finished),
    EvidenceClass("rendezvous", 400.0, Reduce.EARLIEST, at_work=False, select=_rendezvous),
    EvidenceClass("teardown", 300.0, Reduce.EARLIEST, at_work=False, select=_teardown),
    EvidenceClass("store poll", 300.0, Reduce.MEAN, at_work=False, select=_store_polled),
    EvidenceClass("store lost", 2000.0, Reduce.EARLIEST, at_work=False, select=_store_lost),
    EvidenceClass("first barrier", 500.0, Reduce.MIDDLE, at_work=False, select=_first_barriers),
    EvidenceClass("task end", 2000.0, Reduce.EARLIEST, at_work=False, select=_task_ends),
    EvidenceClass("membership", 2000.0, Reduce.EARLIEST, at_work=False, select=_membership),
    EvidenceClass("introduction", 2000.0, Reduce.MIDDLE, at_work=False, select=_introductions),
    EvidenceClass("launch", 3000.0, Reduce.EARLIEST, at_work=False, select=_launches),
)
ITERATION = next(number for number, klass in enumerate(CLASSES) if klass.select is iterations)
