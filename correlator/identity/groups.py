"""Members of process groups: flight-recorder configuration, fully known NCCL communicators, and the world."""

from __future__ import annotations

from collections import defaultdict

import polars as pl

from correlator.core.model import Conflict, ProcessGroup
from correlator.core.vocabulary import Context
from correlator.identity.frame import attribute, is_event, numbers, place
from correlator.identity.world import DEFAULT_GROUP

_MOST_GROUPS = 100_000


def process_groups(frame: pl.DataFrame, world: int | None) -> tuple[tuple[ProcessGroup, ...], tuple[Conflict, ...]]:
    """Groups of one attempt by name (PG GUID, communicator id). `frame.rank` is filled."""
    found, conflicts = _configured(frame)
    for name, members in _communicators(frame).items():
        found.setdefault(name, ProcessGroup(name, None, members))
    if world is not None:
        everyone = tuple(range(world))
        for name in _default_names(frame):
            found.setdefault(name, ProcessGroup(name, DEFAULT_GROUP, everyone))
    ordered = sorted(found.values(), key=lambda group: (len(group.name), group.name))
    return tuple(ordered[:_MOST_GROUPS]), conflicts


def _configured(frame: pl.DataFrame) -> tuple[dict[str, ProcessGroup], tuple[Conflict, ...]]:
    rows = (
        frame.filter(is_event(Context.PROCESS_GROUP) & pl.col("process_group").is_not_null())
        .select("process_group", "path", "line", attribute("members"), attribute("description"))
        .filter(pl.col("members").is_not_null())
        .group_by("process_group", "members")
        .agg(pl.col("description").drop_nulls().first(), pl.col("path").min(), pl.col("line").first(), pl.len())
        .sort("process_group", "len", "members", descending=[False, True, False])
    )
    groups: dict[str, ProcessGroup] = {}
    rivals: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, text, description, path, line, _ in rows.iter_rows():
        members = numbers(text)
        if not members:
            continue
        rivals[name].append((text[:200], place(path, line)))
        known = groups.get(name)
        if known is None or len(members) > len(known.members):
            groups[name] = ProcessGroup(name, description, members)
    conflicts = tuple(
        Conflict(f"members of process group {name}", tuple(text for text, _ in said), tuple(where for _, where in said))
        for name, said in rivals.items()
        if len(said) > 1
    )
    return groups, conflicts


def _communicators(frame: pl.DataFrame) -> dict[str, tuple[int, ...]]:
    """commId -> members, where the global rank behind every communicator rank is known."""
    rows = (
        frame.filter(is_event(Context.NCCL_COMM_INIT) & pl.col("rank").is_not_null())
        .select("rank", "group_rank", attribute("comm_id"), attribute("nranks").cast(pl.Int32, strict=False))
        .drop_nulls()
        .unique()
    )
    members: dict[tuple[str, int], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for rank, group_rank, comm_id, nranks in rows.iter_rows():
        members[comm_id, nranks][group_rank].add(rank)
    return {
        comm_id: tuple(next(iter(by_rank[i])) for i in range(nranks))
        for (comm_id, nranks), by_rank in members.items()
        if len(by_rank) == nranks
        and set(by_rank) == set(range(nranks))
        and all(len(ranks) == 1 for ranks in by_rank.values())
    }


def _default_names(frame: pl.DataFrame) -> list[str]:
    """Names under which lines speak of the default group, and its own."""
    named = (
        frame.filter(pl.col("process_group").is_not_null())
        .filter(attribute("pg_description") == DEFAULT_GROUP)["process_group"]
        .unique()
        .to_list()
    )
    return sorted({DEFAULT_GROUP, *named})
