"""What a Slurm task is in this run: one rank, or one node's launcher (formats.md E1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from correlator.core.vocabulary import Context
from correlator.identity.ballot import Ballot
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
from correlator.identity.writers import Writer


class TaskMode(StrEnum):
    """What SLURM_PROCID counts."""

    RANK = "rank"
    NODE = "node"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of the job step."""

    mode: TaskMode
    count: int
    """Highest task id seen + 1."""
    nodes: tuple[tuple[int, str], ...]
    """(task, node) as far as lines say it."""


def tasks(
    frame: pl.DataFrame, writers: Sequence[Writer], names: HostNames, world: int | None, node_count: int
) -> Tasks:
    """Reads task ids from labels, file names and srun's exit lines. `frame.node` is the writer's node."""
    ballot: Ballot[int, str] = Ballot()
    ids: set[int] = {w.task_id for w in writers if w.task_id is not None}
    for writer in writers:
        if writer.task_id is not None and writer.node is not None:
            ballot.add(writer.task_id, writer.node, writer.path)
    labelled = frame.filter(pl.col("task").is_not_null())
    ids.update(labelled["task"].unique().to_list())
    hosts = labelled.filter(pl.col("host").is_not_null() & ~among("event", FOREIGN_HOST_EVENTS))
    for task, host, path, line in hosts.group_by("task", "host").agg(pl.col("path", "line").first()).iter_rows():
        ballot.add(task, host, place(path, line))
    exits = frame.filter(is_event(Context.TASK_EXIT)).select("path", "line", attribute("nodes"), attribute("tasks"))
    for path, line, nodes_text, tasks_text in exits.iter_rows():
        nodes = [names.node(name) for name in texts(nodes_text)]
        listed = numbers(tasks_text)
        ids.update(listed)
        if len(nodes) == 1 and nodes[0] is not None:
            for task in listed:
                ballot.add(task, nodes[0], place(path, line))
    count = max(ids, default=-1) + 1
    pairs = _pairs(labelled, writers)
    mode = _mode(pairs, count, world, node_count)
    return Tasks(mode, count, tuple(sorted(ballot.winners().items())))


def _pairs(labelled: pl.DataFrame, writers: Iterable[Writer]) -> dict[int, set[int]]:
    """Ranks that wrote under each task id."""
    pairs: dict[int, set[int]] = defaultdict(set)
    own = labelled.filter(pl.col("rank").is_not_null() & ~among("event", AGENT_EVENTS))
    for task, rank in own.select("task", "rank").unique().iter_rows():
        pairs[task].add(rank)
    for writer in writers:
        if writer.task_id is not None and writer.rank is not None:
            pairs[writer.task_id].add(writer.rank)
    return pairs


def _mode(pairs: dict[int, set[int]], count: int, world: int | None, node_count: int) -> TaskMode:
    if count == 0:
        return TaskMode.UNKNOWN
    if any(len(ranks) > 1 for ranks in pairs.values()):
        return TaskMode.NODE
    if pairs and any(ranks != {task} for task, ranks in pairs.items()):
        # One rank spoke in each task: still a node's launcher where there are several ranks for each task.
        return TaskMode.NODE if world is not None and world > count and world % count == 0 else TaskMode.UNKNOWN
    if world is not None and count == world:
        return TaskMode.RANK
    if world is not None and count < world and (count == node_count or world % count == 0):
        return TaskMode.NODE
    if world is None or pairs:
        return TaskMode.RANK if len(pairs) > 1 or (world is None and count > node_count) else TaskMode.UNKNOWN
    return TaskMode.UNKNOWN
