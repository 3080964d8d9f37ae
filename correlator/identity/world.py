"""How many ranks the run has, which nodes belong to it, and which of them hosts the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from correlator.core.model import Conflict
from correlator.core.vocabulary import CollateralKind, Context, FileKind
from correlator.identity.ballot import Ballot
from correlator.identity.frame import AGENT_EVENTS, among, attribute, is_event, numbers, place, texts
from correlator.identity.names import HostNames, is_address, natural
from correlator.identity.writers import Writer

MOST_RANKS = 1 << 20
"""Larger numbers are noise of a damaged line."""
DEFAULT_GROUP = "default_pg"
_OF_WORKERS = frozenset(
    {Context.WORKER_FAILED, Context.WORKER_SIGNALLED, Context.LAUNCHER_SPAWN, Context.CHILD_FAILED_ROW}
)
_NOT_OF_THE_RUN = frozenset({Context.NCCL_COMM_INIT, Context.COLLECTIVE_ENTRY, Context.NAMED_MISSING_RANKS})


@dataclass(frozen=True, slots=True)
class World:
    """The size of the run. `stated` is None where `size` is only a lower bound from the highest rank seen."""

    size: int | None
    stated: int | None
    conflicts: tuple[Conflict, ...] = ()


def world_size(frame: pl.DataFrame, writers: Sequence[Writer], *, one_attempt: bool) -> World:
    """Best supported size: what lines state, else the largest communicator, worker folders, the highest rank + 1."""
    ballot: Ballot[str, int] = Ballot()
    said = frame.filter(pl.col("world").is_between(1, MOST_RANKS) & ~among("event", _NOT_OF_THE_RUN))
    for path, world, line in said.group_by("path", "world").agg(pl.col("line").min()).sort("path", "line").iter_rows():
        ballot.add("world size", world, place(path, line))
    floor = _highest_rank(frame, writers) + 1
    floor = max(floor, _slots(writers), workers(frame) if one_attempt else 0)
    _group_sizes(ballot, frame)
    conflicts = tuple(ballot.conflicts(lambda subject: subject))
    stated = ballot.winner("world size")
    if stated is None and ballot.weights:
        stated = max(ballot.weights["world size"])
    if stated is None or stated < floor:
        comm = frame.filter(is_event(Context.NCCL_COMM_INIT)).select(
            attribute("nranks").cast(pl.Int32, strict=False).max()
        )
        largest = comm.item()
        stated = largest if largest is not None and floor <= largest <= MOST_RANKS else None
    if stated is None and 0 < _slots(writers) == floor:
        stated = floor
    return World(size=stated if stated is not None else (floor or None), stated=stated, conflicts=conflicts)


def _slots(writers: Sequence[Writer]) -> int:
    """Workers that torchrun made folders for: one for each agent and local rank (formats.md B5)."""
    folders = {(w.agent, w.attempt, w.local_rank) for w in writers if w.agent is not None and w.local_rank is not None}
    latest = max((attempt or 0 for _, attempt, _ in folders), default=0)
    return sum(1 for _, attempt, _ in folders if (attempt or 0) == latest)


def workers(frame: pl.DataFrame) -> int:
    """Processes that launchers speak of as their workers: a lower bound, as equal pids of two nodes count once."""
    rows = frame.filter(among("event", _OF_WORKERS) & pl.col("pid").is_not_null())
    return min(rows["pid"].n_unique(), MOST_RANKS)


def _group_sizes(ballot: Ballot[str, int], frame: pl.DataFrame) -> None:
    """The default group has every rank as its member (flight-recorder configuration)."""
    rows = frame.filter(is_event(Context.PROCESS_GROUP)).select(
        "path", "line", attribute("description"), attribute("members")
    )
    sizes = rows.filter(pl.col("description") == DEFAULT_GROUP).unique(["path", "members"]).sort("path", "line")
    for path, line, _, members in sizes.iter_rows():
        if listed := numbers(members):
            ballot.add("world size", len(listed), place(path, line))


def _highest_rank(frame: pl.DataFrame, writers: Sequence[Writer]) -> int:
    seen = frame.filter(pl.col("rank") < MOST_RANKS).select(pl.col("rank").max()).item()
    hinted = max((w.rank for w in writers if w.rank is not None and w.rank < MOST_RANKS and not w.guessed), default=-1)
    return max(-1 if seen is None else int(seen), hinted)


def run_nodes(frame: pl.DataFrame, writers: Sequence[Writer], names: HostNames) -> tuple[str, ...]:
    """Every node that any file names as part of the run, in natural order, without bare addresses of no known host."""
    found = {writer.node for writer in writers if writer.node is not None} | set(names.listed)
    found |= {host for host in frame["host"].unique().to_list() if host is not None}
    exits = frame.filter(is_event(Context.TASK_EXIT)).select(attribute("nodes")).unique()
    for (text,) in exits.iter_rows():
        found |= {node for node in (names.node(name) for name in texts(text)) if node is not None}
    named = {node for node in found if not is_address(node)}
    return tuple(sorted(named or found, key=natural))


def store_node(frame: pl.DataFrame, nodes: Sequence[str], names: HostNames) -> str | None:
    """Node of the TCPStore: the master address that lines print, else the remote end of lost store connections."""
    master = frame.select("event", "offset", attribute("master_addr")).filter(pl.col("master_addr").is_not_null())
    votes = Counter(names.node(text) for text in master["master_addr"].to_list())
    del votes[None]
    if not votes:
        lost = frame.filter(is_event(CollateralKind.STORE_LOST)).select(attribute("remote")).drop_nulls()
        votes = Counter(
            names.node(text.rsplit("]:", 1)[0].split(":")[0] if "]" in text else text) for text in lost["remote"]
        )
        del votes[None]
    ranked = sorted(votes.items(), key=lambda item: (item[0] not in nodes, -item[1], item[0] or ""))
    return ranked[0][0] if ranked else None


def logging_nodes(frame: pl.DataFrame, writers: Sequence[Writer], task_nodes: Sequence[str]) -> tuple[str, ...]:
    """Nodes from which at least one rank or launcher line is there (a kernel log alone does not count)."""
    rank_files = {w.node for w in writers if w.node and w.has_lines and w.kind not in _NOT_THE_JOB}
    rows = frame.filter(~among("kind", _NOT_THE_JOB) & ~among("event", _FAR))
    wrote = {node for node in rows["node"].unique().to_list() if node is not None}
    return tuple(sorted(rank_files | wrote | set(task_nodes), key=natural))


_NOT_THE_JOB = frozenset({FileKind.KERNEL_LOG, FileKind.SCHEDULER_LOG, FileKind.POD_LISTING})
_FAR = AGENT_EVENTS - {
    Context.RENDEZVOUS_COMPLETE,
    Context.RENDEZVOUS_STARTED,
    Context.LAUNCHER_STARTED,
    Context.AGENT_SIGNALLED,
    Context.WORKER_FAILED,
    Context.CHILD_FAILED_ROW,
}
