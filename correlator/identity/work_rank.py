"""`[Rank 3]` of torch 2.0-2.2 read as a global rank, where the whole run shows that it can be nothing else.

In those versions it is the only rank on a c10d line, and it counts inside the line's process group (formats.md A2, R4). Lines
of one kind about one collective that come from several nodes tell: a rank in the default group lies on its own node in every
one of them, a rank in a smaller group does not.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

_DEFAULT_GROUPS = ("0", "default_pg")
_KIND = ("attempt", "event", "collective_seq", "process_group")


def with_work_ranks(frame: pl.DataFrame, node_of: Mapping[tuple[int, int], str]) -> pl.DataFrame:
    """Adds `k_rank`: the group rank of rows without a rank, where it is proven global. `node_of`: (attempt, rank) -> node.

    `frame` has attempt, event, collective_seq, process_group, rank, group_rank and node of each row.
    """
    schema = {"attempt": pl.Int32, "group_rank": pl.Int32, "k_node": pl.String}
    table = pl.DataFrame([(a, r, n) for (a, r), n in node_of.items()], schema=schema, orient="row")
    frame = frame.join(table, on=["attempt", "group_rank"], how="left", maintain_order="left")
    candidate = pl.col("rank").is_null() & pl.col("group_rank").is_not_null() & pl.col("node").is_not_null()
    default = pl.col("process_group").is_null() | pl.col("process_group").is_in(list(_DEFAULT_GROUPS))
    at_home = (pl.col("k_node") == pl.col("node")).fill_null(value=False)
    rows = frame.filter(candidate & default)
    kinds = rows.group_by(_KIND).agg(
        (pl.col("k_node") == pl.col("node")).fill_null(value=False).all().alias("k_all"),
        pl.col("node").n_unique().alias("k_nodes"),
    )
    alone = len(set(node_of.values())) == 1
    proven = kinds.filter(pl.col("k_all") & ((pl.col("k_nodes") > 1) | pl.lit(alone))).select(*_KIND)
    proven = proven.with_columns(pl.lit(value=True).alias("k_proven"))
    frame = frame.join(proven, on=list(_KIND), how="left", maintain_order="left", nulls_equal=True)
    chosen = candidate & default & at_home & pl.col("k_proven").fill_null(value=False)
    return frame.with_columns(pl.when(chosen).then(pl.col("group_rank")).alias("k_rank")).drop("k_node", "k_proven")
