"""The steps of identity, in order: names, writers, attempts, world, tasks, seats, GPUs, groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from correlator.core.files import FileReport, LogFile
from correlator.core.model import Conflict, RankPlace, Topology
from correlator.core.vocabulary import FileKind
from correlator.identity import fill
from correlator.identity.agents import joined_logs
from correlator.identity.attempts import with_attempts
from correlator.identity.frame import LOG_KINDS, among, working
from correlator.identity.gpus import gpus
from correlator.identity.groups import process_groups
from correlator.identity.names import HostNames, host_names
from correlator.identity.places import Seating, seat
from correlator.identity.tasks import TaskMode, Tasks, tasks
from correlator.identity.votes import collect
from correlator.identity.world import MOST_RANKS, World, logging_nodes, run_nodes, store_node, workers, world_size
from correlator.identity.writers import Writer, within, writers

_MOST_ATTEMPTS = 64
"""Attempts that get a map of their own; earlier ones share the oldest of these."""


@dataclass(frozen=True, slots=True)
class Identified:
    """The event table with ranks and nodes filled in, and the topology of the last attempt."""

    events: pl.DataFrame
    topology: Topology
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Run:
    """What holds for the whole run."""

    names: HostNames
    writers: tuple[Writer, ...]
    world: World
    nodes: tuple[str, ...]
    tasks: Tasks
    attempts: int
    alone: bool
    """All ranks are on one node."""


def identify(events: pl.DataFrame, files: Sequence[LogFile], reports: Sequence[FileReport]) -> Identified:
    """Works out rank, local rank, node, node rank, attempt, GPU and clock domain of every event where evidence allows.

    Contradictory evidence is reported as a Conflict and used only where two thirds of it agree.
    """
    frame = working(events)
    names = host_names(frame)
    frame = _canonical(frame, names)
    joined = joined_logs(frame)
    found, conflicts = writers(frame, files, reports, names, joined.paths)
    bare = frame
    frame = fill.with_writers(bare, found, joined.parts)
    nodes = run_nodes(frame, found, names)
    draft = fill.with_nodes(frame, (), None)
    world = world_size(draft, found, one_attempt=False)
    if world.stated is not None and (bounded := within(found, world.stated)) != found:
        found, frame = bounded, fill.with_writers(bare, bounded, joined.parts)
        draft = fill.with_nodes(frame, (), None)
    step = tasks(draft, found, names, world.stated, len(nodes))
    if step.mode is TaskMode.NODE and joined.parts:
        joined = joined.with_tasks(dict(step.nodes))
        frame = fill.with_writers(bare, found, joined.parts)
        draft = fill.with_nodes(frame, (), None)
    world = _with_tasks(world, step)
    only = _only_node(draft, nodes, world.size)
    frame = fill.with_nodes(frame, step.nodes, only)
    frame, attempts = with_attempts(frame, found, joined.beside)
    last = frame.filter(pl.col("attempt") == attempts - 1)
    world = _with_tasks(world_size(last, found, one_attempt=True), step)
    run = _Run(names, found, world, nodes, step, attempts, alone=only is not None)
    known = [_attempt(run, frame, number) for number in range(max(0, attempts - _MOST_ATTEMPTS), attempts)]
    frame = fill.with_ranks(frame, known, step, local_is_rank=not nodes and _local_is_rank(frame, world.size))
    topology, said = _topology(run, frame, known[-1], (*conflicts, *world.conflicts))
    return Identified(events=fill.finish(events, frame), topology=topology, warnings=said)


def _with_tasks(world: World, step: Tasks) -> World:
    """Where every task is a rank, their number is the size of the run unless a line states another."""
    if world.stated is not None or step.mode is not TaskMode.RANK or step.count < (world.size or 0):
        return world
    return replace(world, size=step.count, stated=step.count)


def _canonical(frame: pl.DataFrame, names: HostNames) -> pl.DataFrame:
    raw = [host for host in frame["host"].unique().to_list() if host is not None]
    mapping = names.mapping(raw)
    table = pl.DataFrame(
        {"host": list(mapping), "_name": list(mapping.values())}, schema={"host": pl.String, "_name": pl.String}
    )
    joined = frame.join(table, on="host", how="left", maintain_order="left")
    return joined.with_columns(pl.col("_name").alias("host")).drop("_name")


def _only_node(frame: pl.DataFrame, nodes: Sequence[str], world: int | None) -> str | None:
    """The node of a run on a single one: nobody names another, and its local ranks or workers make up the world."""
    if len(nodes) != 1:
        return None
    locals_seen = frame.select(pl.col("local_rank").max()).item()
    fits = locals_seen is not None and (world is None or locals_seen + 1 >= world)
    return nodes[0] if fits or world == 1 or (world is not None and workers(frame) >= world) else None


def _local_is_rank(frame: pl.DataFrame, world: int | None) -> bool:
    """Whether, on a run that names no node, local ranks can only be the ranks."""
    pairs = frame.filter(pl.col("rank").is_not_null() & pl.col("local_rank").is_not_null())
    highest = frame.select(pl.col("local_rank").max()).item()
    alike = pairs.filter(pl.col("rank") != pl.col("local_rank")).is_empty()
    return alike and highest is not None and (world is None or highest + 1 >= world)


def _attempt(run: _Run, frame: pl.DataFrame, number: int) -> fill.Known:
    part = frame.filter(pl.col("attempt") == number) if run.attempts > 1 else frame
    part = part.with_columns(
        pl.coalesce("rank", pl.when(pl.col("inherits")).then(pl.col("w_rank"))).alias("rank"),
        pl.coalesce("local_rank", pl.when(pl.col("inherits")).then(pl.col("w_local"))).alias("local_rank"),
    )
    mine = [w for w in run.writers if w.attempt is None or w.attempt == number]
    votes = collect(part, mine, run.names, run.world.stated, run.tasks.mode)
    seating = seat(votes, run.tasks, run.nodes, run.world.size if run.alone else run.world.stated)
    return fill.Known(number, seating, gpus(votes, seating))


def _topology(
    run: _Run, frame: pl.DataFrame, known: fill.Known, conflicts: tuple[Conflict, ...]
) -> tuple[Topology, tuple[str, ...]]:
    last = frame.filter(pl.col("attempt") == known.attempt)
    groups, group_conflicts = process_groups(last, run.world.size)
    logged = _logged(run, last, known.seating)
    size = run.world.size
    ranks = {r for r in known.seating.node_of.keys() | known.seating.local_of.keys() if 0 <= r < MOST_RANKS}
    ranks |= set(range(size or 0))
    seating, devices = known.seating, known.gpus.gpu_of
    places = tuple(
        RankPlace(
            rank=rank,
            local_rank=seating.local_of.get(rank),
            node=seating.node_of.get(rank),
            node_rank=seating.node_rank.get(seating.node_of.get(rank, "")),
            pid=seating.pid_of.get(rank),
            gpu=devices.get(rank),
            has_log=rank in logged,
        )
        for rank in sorted(ranks)
    )
    task_nodes = [node for task, node in run.tasks.nodes if _task_wrote(last, run.writers, task)]
    topology = Topology(
        world_size=size,
        ranks=places,
        nodes=run.nodes,
        groups=groups,
        conflicts=(*conflicts, *seating.conflicts, *group_conflicts),
        attempts=run.attempts,
        nodes_with_logs=logging_nodes(frame, run.writers, task_nodes),
        store_node=store_node(last, run.nodes, run.names),
        tasks_are_ranks=run.tasks.mode is TaskMode.RANK,
    )
    return topology, _warnings(run, known)


def _task_wrote(frame: pl.DataFrame, found: Sequence[Writer], task: int) -> bool:
    if any(w.task_id == task and w.has_lines for w in found):
        return True
    return not frame.filter(pl.col("task") == task).is_empty()


def _logged(run: _Run, last: pl.DataFrame, seating: Seating) -> set[int]:
    """Ranks whose output the files hold: they wrote a line, or the merged log of their node or task is there."""
    wrote = last.filter(pl.col("inherits") & among("kind", LOG_KINDS) & pl.col("rank").is_not_null())
    logged = set(wrote["rank"].unique().to_list())
    merged: set[str] = set()
    for writer in run.writers:
        if not writer.has_lines or writer.kind not in LOG_KINDS or writer.attempt not in (None, run.attempts - 1):
            continue
        if writer.rank is not None:
            logged.add(writer.rank)
        elif writer.node is not None and writer.local_rank is not None:
            logged.add(seating.rank_at.get((writer.node, writer.local_rank), -1))
        elif writer.task_id is not None and run.tasks.mode is TaskMode.RANK:
            logged.add(writer.task_id)
        elif writer.kind is FileKind.NODE_LOG and writer.node is not None:
            merged.add(writer.node)
    if run.tasks.mode is TaskMode.NODE:
        speaking = set(last.filter(among("kind", LOG_KINDS))["task"].unique().to_list())
        speaking |= {w.task_id for w in run.writers if w.has_lines and w.kind in LOG_KINDS}
        merged |= {node for task, node in run.tasks.nodes if task in speaking}
    logged |= {rank for rank, node in seating.node_of.items() if node in merged}
    return logged - {-1}


def _warnings(run: _Run, known: fill.Known) -> tuple[str, ...]:
    said = list(known.seating.warnings)
    if run.world.size is not None and run.world.stated is None:
        said.append(f"no line states the world size; at least {run.world.size} from the ranks and workers seen")
    if known.gpus.by_order:
        said.append(
            f"GPU of {len(known.gpus.by_order)} ranks inferred from the order of PCI addresses, no line says it"
        )
    return tuple(said)
