"""What one attempt says about ranks, nodes, local ranks, pids and GPUs, as votes (formats.md R4, B2, B3, C2, E1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import polars as pl

from correlator.core.vocabulary import Context
from correlator.identity.ballot import CONTENT, HINT, Ballot
from correlator.identity.frame import (
    AGENT_EVENTS,
    FOREIGN_HOST_EVENTS,
    among,
    attribute,
    is_event,
    numbers,
    place,
    texts,
)
from correlator.identity.names import HostNames
from correlator.identity.tasks import TaskMode
from correlator.identity.writers import Writer

Slot = tuple[str, int]
"""(node, local rank)"""
_OWN_PID = frozenset({Context.RANK_IDENTITY, Context.CHILD_FAILED_ROW, Context.NCCL_COMM_INIT, Context.THREAD_STACK})
_SLOT_PID = (Context.LAUNCHER_SPAWN, Context.WORKER_FAILED, Context.RANK_IDENTITY)
_TOLD_PID = (Context.WORKER_SIGNALLED, Context.WORKER_FAILED, Context.CHILD_FAILED_ROW, Context.LAUNCHER_SPAWN)
_SAYS = ("path", "task", "event", "host", "node", "rank", "local_rank", "pid", "gpu")


@dataclass(slots=True)
class Votes:
    """Ballots on who sits where, for one attempt."""

    node_of: Ballot[int, str] = field(default_factory=Ballot)
    local_of: Ballot[int, int] = field(default_factory=Ballot)
    pid_of: Ballot[int, int] = field(default_factory=Ballot)
    gpu_of: Ballot[int, str] = field(default_factory=Ballot)
    rank_at: Ballot[Slot, int] = field(default_factory=Ballot)
    pid_at: Ballot[Slot, int] = field(default_factory=Ballot)
    node_rank: Ballot[str, int] = field(default_factory=Ballot)
    told_pids: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Workers of each node that its agent named by pid."""
    local_sizes: dict[str, int] = field(default_factory=dict)
    """Workers of each node, as its agent said."""
    addresses: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """PCI addresses of GPUs that any line names, by node."""


def collect(
    frame: pl.DataFrame, writers: Sequence[Writer], names: HostNames, world: int | None, mode: TaskMode
) -> Votes:
    """All votes of one attempt. `frame` is that attempt's part, with canonical `host`, and `node` of the writer."""
    votes = Votes()
    _from_files(votes, writers)
    _from_rows(votes, frame.filter(~among("event", FOREIGN_HOST_EVENTS | {Context.NCCL_COMM_INIT})))
    _from_comms(votes, frame, world)
    _from_rendezvous(votes, frame)
    _from_slots(votes, frame.filter(among("event", _SLOT_PID)))
    _told_pids(votes, frame)
    if mode is TaskMode.RANK:
        _from_task_exits(votes, frame, names)
    _addresses(votes, frame)
    return votes


def _from_files(votes: Votes, writers: Iterable[Writer]) -> None:
    for writer in writers:
        if writer.rank is not None:
            if writer.node is not None:
                votes.node_of.add(writer.rank, writer.node, writer.path, HINT)
            if writer.local_rank is not None:
                votes.local_of.add(writer.rank, writer.local_rank, writer.path, HINT)
            if writer.node is not None and writer.local_rank is not None:
                votes.rank_at.add((writer.node, writer.local_rank), writer.rank, writer.path, HINT)
        if writer.node is not None and writer.node_rank is not None:
            votes.node_rank.add(writer.node, writer.node_rank, writer.path, HINT)


def _from_rows(votes: Votes, frame: pl.DataFrame) -> None:
    told = (
        frame.filter(pl.col("rank").is_not_null())
        .group_by(_SAYS)
        .agg(pl.col("line").min())
        .sort("path", "line", "rank")
    )
    for path, _, event, host, node, rank, local, pid, gpu, line in told.iter_rows():
        where = place(path, line)
        agent = event in AGENT_EVENTS and event != Context.CHILD_FAILED_ROW
        if agent:
            continue
        if node is not None:
            votes.node_of.add(rank, node, where, HINT if host is None else CONTENT)
        if local is not None:
            votes.local_of.add(rank, local, where)
            if node is not None:
                votes.rank_at.add((node, local), rank, where)
        if pid is not None:
            votes.pid_of.add(rank, pid, where, CONTENT if event in _OWN_PID else HINT)
        if gpu is not None:
            votes.gpu_of.add(rank, gpu, where)


def _from_comms(votes: Votes, frame: pl.DataFrame, world: int | None) -> None:
    """NCCL init lines: rank in the communicator of all ranks = global rank (C2)."""
    rows = frame.filter(is_event(Context.NCCL_COMM_INIT)).with_columns(attribute("nranks").cast(pl.Int32, strict=False))
    told = rows.group_by("node", "pid", "group_rank", "rank", "nranks", "gpu").agg(pl.col("path", "line").first())
    for node, pid, group_rank, own, nranks, gpu, path, line in told.sort("path", "line").iter_rows():
        rank = own if own is not None else (group_rank if world is not None and nranks == world else None)
        if rank is None:
            continue
        where = place(path, line)
        if node is not None:
            votes.node_of.add(rank, node, where)
        if pid is not None:
            votes.pid_of.add(rank, pid, where)
        if gpu is not None:
            votes.gpu_of.add(rank, gpu, where)


def _from_rendezvous(votes: Votes, frame: pl.DataFrame) -> None:
    """The agent's table of local and global ranks (B2)."""
    rows = frame.filter(is_event(Context.RENDEZVOUS_COMPLETE)).select(
        "path", "line", "node", "node_rank", attribute("global_ranks"), attribute("local_ranks")
    )
    for path, line, node, node_rank, global_text, local_text in rows.iter_rows():
        where = place(path, line)
        global_ranks = numbers(global_text)
        local_ranks = numbers(local_text)
        if len(local_ranks) != len(global_ranks):
            local_ranks = tuple(range(len(global_ranks)))
        if node is not None and node_rank is not None:
            votes.node_rank.add(node, node_rank, where)
        if node is not None and global_ranks:
            votes.local_sizes[node] = len(global_ranks)
        for rank, local in zip(global_ranks, local_ranks, strict=True):
            votes.local_of.add(rank, local, where)
            if node is not None:
                votes.node_of.add(rank, node, where)
                votes.rank_at.add((node, local), rank, where)


def _from_slots(votes: Votes, frame: pl.DataFrame) -> None:
    rows = frame.filter(pl.all_horizontal(pl.col("node", "local_rank", "pid").is_not_null()))
    for node, local, pid, path, line in rows.select("node", "local_rank", "pid", "path", "line").iter_rows():
        votes.pid_at.add((node, local), pid, place(path, line))


def _told_pids(votes: Votes, frame: pl.DataFrame) -> None:
    rows = frame.filter(among("event", _TOLD_PID) & pl.col("node").is_not_null() & pl.col("pid").is_not_null())
    for node, pid in rows.select("node", "pid").unique().iter_rows():
        votes.told_pids[node].add(pid)


def _from_task_exits(votes: Votes, frame: pl.DataFrame, names: HostNames) -> None:
    """srun's `node03: tasks 8-15: ...` where a task is a rank (E1); only lines that name one node."""
    rows = frame.filter(is_event(Context.TASK_EXIT)).select("path", "line", attribute("nodes"), attribute("tasks"))
    for path, line, nodes_text, tasks_text in rows.iter_rows():
        nodes = [names.node(name) for name in texts(nodes_text)]
        if len(nodes) == 1 and nodes[0] is not None:
            for rank in numbers(tasks_text):
                votes.node_of.add(rank, nodes[0], place(path, line))


def _addresses(votes: Votes, frame: pl.DataFrame) -> None:
    rows = frame.filter(pl.col("gpu").is_not_null() & pl.col("node").is_not_null())
    for node, gpu in rows.select("node", "gpu").unique().iter_rows():
        votes.addresses[node].add(gpu)
