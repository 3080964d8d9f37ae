"""The attempt of a failure without a time of its own, from the attempt in which the rank's agent saw it fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import polars as pl

from correlator.core.vocabulary import Context, Role
from correlator.identity.frame import among, attribute, is_event, numbers

_REPORTS = frozenset({Context.WORKER_FAILED, Context.CHILD_FAILED_ROW})


def reported_attempts(frame: pl.DataFrame, paths: Iterable[str]) -> pl.DataFrame:
    """`attempt` of the undated faults in these files, each of one rank, where agents report one failed attempt of it.

    `frame` has the attempts of the agents' own lines already.
    """
    files = sorted(paths)
    faults = (
        among("path", files)
        & (pl.col("role") == pl.lit(str(Role.INITIATING)))
        & ~pl.col("explicit")
        & pl.col("attempt").is_null()
    )
    if not files or frame.filter(faults).is_empty():
        return frame
    table = pl.DataFrame(
        list(_failed_once(frame).items()), schema={"_rank": pl.Int32, "_reported": pl.Int32}, orient="row"
    )
    keyed = frame.with_columns(pl.when(faults).then(pl.coalesce("rank", "w_rank")).alias("_rank"))
    joined = keyed.join(table, on="_rank", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("attempt", "_reported").alias("attempt")).drop("_rank", "_reported")


def _failed_once(frame: pl.DataFrame) -> dict[int, int]:
    """Rank -> the one attempt in which its agent saw it fail."""
    rank_at = _rank_at(frame)
    failed: dict[int, set[int]] = defaultdict(set)
    rows = frame.filter(among("event", _REPORTS) & pl.col("attempt").is_not_null())
    for attempt, rank, node, local in rows.select("attempt", "rank", "node", "local_rank").iter_rows():
        who = rank if rank is not None else rank_at.get((attempt, node, local))
        if who is not None:
            failed[who].add(attempt)
    return {rank: next(iter(attempts)) for rank, attempts in failed.items() if len(attempts) == 1}


def home_nodes(frame: pl.DataFrame) -> dict[int, str]:
    """Rank -> node, where the agents' tables of all attempts agree."""
    nodes: dict[int, set[str]] = defaultdict(set)
    for (_, node, _), rank in _rank_at(frame).items():
        nodes[rank].add(node)
    return {rank: next(iter(where)) for rank, where in nodes.items() if len(where) == 1}


def _rank_at(frame: pl.DataFrame) -> dict[tuple[int, str, int], int]:
    """(attempt, node, local rank) -> rank, as the agents' rendezvous tables say (formats.md B2)."""
    tables = frame.filter(is_event(Context.RENDEZVOUS_COMPLETE) & pl.col("node").is_not_null()).select(
        "attempt", "node", attribute("global_ranks"), attribute("local_ranks")
    )
    found: dict[tuple[int, str, int], int] = {}
    for attempt, node, global_text, local_text in tables.iter_rows():
        ranks, slots = numbers(global_text), numbers(local_text)
        slots = slots if len(slots) == len(ranks) else tuple(range(len(ranks)))
        found |= {(attempt, node, local): rank for local, rank in zip(slots, ranks, strict=True)}
    return found
