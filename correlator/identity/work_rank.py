"""`[Rank 3]` of torch 2.0-2.2 read as a rank of its own, where the whole run shows which one it can only be.

In those versions it is the only rank on a c10d line, and it counts inside the line's process group (formats.md A2, R4). Lines
of one kind about one collective tell which: a rank of the default group lies on its own node on every node that prints such
lines; a group that is a node shows all of its local ranks there, each of them once. Other groups show neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import polars as pl

from correlator.core.vocabulary import Context

_DEFAULT_GROUPS = ("0", "default_pg")
_KIND = ("attempt", "event", "collective_seq", "process_group")


def with_work_ranks(frame: pl.DataFrame, node_of: Mapping[tuple[int, int], str]) -> pl.DataFrame:
    """Adds `k_rank` and `k_local`: what the group rank of a row without a rank is proven to be, global or local rank.

    `node_of`: (attempt, rank) -> node. `frame` has attempt, event, collective_seq, process_group, rank, local_rank,
    group_rank and node of each row.
    """
    schema = {"attempt": pl.Int32, "group_rank": pl.Int32, "k_node": pl.String}
    table = pl.DataFrame([(a, r, n) for (a, r), n in node_of.items()], schema=schema, orient="row")
    frame = frame.join(table, on=["attempt", "group_rank"], how="left", maintain_order="left")
    said = pl.col("group_rank").is_not_null() & pl.col("node").is_not_null()
    said &= pl.col("event") != pl.lit(str(Context.NCCL_COMM_INIT))  # NCCL counts in its communicator, and prints a pid
    candidate = said & pl.col("rank").is_null() & pl.col("local_rank").is_null()
    default = pl.col("process_group").is_null() | pl.col("process_group").is_in(list(_DEFAULT_GROUPS))
    at_home = (pl.col("k_node") == pl.col("node")).fill_null(value=False)
    rows = frame.filter(candidate)
    frame = _marked(frame, _global(rows.filter(default), alone=len(set(node_of.values())) == 1), _KIND, "k_global")
    frame = _marked(frame, _local(rows, node_of), (*_KIND, "node"), "k_whole")
    return frame.with_columns(
        pl.when(candidate & default & at_home & pl.col("k_global")).then(pl.col("group_rank")).alias("k_rank"),
        pl.when(candidate & pl.col("k_whole")).then(pl.col("group_rank")).alias("k_local"),
    ).drop("k_node", "k_global", "k_whole")


def _global(rows: pl.DataFrame, *, alone: bool) -> pl.DataFrame:
    """Kinds of lines whose group ranks are all at home on the node that prints them, on more than one node."""
    kinds = rows.group_by(_KIND).agg(
        (pl.col("k_node") == pl.col("node")).fill_null(value=False).all().alias("all"),
        pl.col("node").n_unique().alias("nodes"),
    )
    return kinds.filter(pl.col("all") & ((pl.col("nodes") > 1) | pl.lit(alone)))


def _local(rows: pl.DataFrame, node_of: Mapping[tuple[int, int], str]) -> pl.DataFrame:
    """Kinds of lines that show, on one node, each of its local ranks."""
    sizes = Counter((attempt, node) for (attempt, _), node in node_of.items())
    schema = {"attempt": pl.Int32, "node": pl.String, "size": pl.UInt32}
    table = pl.DataFrame([(a, n, size) for (a, n), size in sizes.items()], schema=schema, orient="row")
    shown = rows.group_by(*_KIND, "node").agg(
        pl.col("group_rank").n_unique().alias("count"), pl.col("group_rank").max().alias("top")
    )
    whole = (pl.col("count") == pl.col("size")) & (pl.col("top") == pl.col("size") - 1) & (pl.col("size") > 1)
    return shown.join(table, on=["attempt", "node"]).filter(whole)


def _marked(frame: pl.DataFrame, proven: pl.DataFrame, on: tuple[str, ...], name: str) -> pl.DataFrame:
    marks = proven.select(*on).with_columns(pl.lit(value=True).alias(name))
    joined = frame.join(marks, on=list(on), how="left", maintain_order="left", nulls_equal=True)
    return joined.with_columns(pl.col(name).fill_null(value=False))
