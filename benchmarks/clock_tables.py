"""What the alignment of a whole event table costs: readings, fit, validators and aligned times of every line.

    python -m benchmarks.clock_tables --nodes 8 128 2048 --ranks 8

Memory is what the alignment needs above the table that it is given.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np
import polars as pl

from correlator.clocks import align
from correlator.core.model import Topology
from correlator.core.schema import polars_schema

LINES = 116
"""Of each rank: 2,048 nodes then have 237,568 readings."""


def event_table(nodes: int, ranks: int, hubs: int, seed: int) -> pl.DataFrame:
    """Iteration lines of every rank, in ms, by clocks that are up to 45 s off: the table that `align` is given."""
    source = np.random.default_rng(seed)
    moments_s = np.cumsum(source.normal(8.0, 0.3, hubs))
    offset_s = source.uniform(-45, 45, nodes)
    noise_s = np.abs(source.normal(0.0, 0.0075, (nodes, ranks, hubs)))
    printed_s = moments_s + offset_s[:, None, None] + noise_s
    size = nodes * ranks * hubs
    rank = np.arange(nodes * ranks).repeat(hubs)
    given: dict[str, Any] = {
        "event_id": np.arange(size),
        "timestamp": (1_764_464_400_000 + np.floor(printed_s * 1000).astype(np.int64).ravel()) * 1_000_000,
        "time_source": pl.repeat("explicit", size, eager=True),
        "time_granularity_ms": np.ones(size),
        "event_name": pl.repeat("progress", size, eager=True),
        "signature": pl.repeat("benchmark.progress", size, eager=True),
        "rank": rank,
        "step": np.tile(np.arange(hubs), nodes * ranks),
        "attempt": np.zeros(size, dtype=np.int32),
        "line_number": np.tile(np.arange(hubs), nodes * ranks),
        "byte_offset": np.tile(np.arange(hubs), nodes * ranks) * 100,
        "log_file_path": pl.Series([f"rank_{i}.log" for i in range(nodes * ranks)]).gather(rank),
        "clock_domain": pl.Series([f"node{i:04d}" for i in range(nodes)]).gather(rank // ranks),
        "file_kind": pl.repeat("rank_log", size, eager=True),
    }
    schema = polars_schema()
    columns = [
        pl.Series(name, given[name]).cast(dtype)
        if name in given
        else pl.Series(name, [None], dtype).new_from_index(0, size)
        for name, dtype in schema.items()
    ]
    return pl.DataFrame(columns)


def whole(nodes: int, ranks: int, seed: int) -> str:
    """Time and memory of the alignment of a whole event table, in words."""
    table = event_table(nodes, ranks, LINES, seed)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    names = tuple(table["clock_domain"].unique().cast(pl.String).sort())
    began, wall = time.process_time(), time.perf_counter()
    aligned = align(table, Topology(world_size=None, ranks=(), nodes=names))
    cpu_s, wall_s = time.process_time() - began, time.perf_counter() - wall
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held
    known = sum(one.interval_ms is not None for one in aligned.clocks.estimates)
    return (
        f"{nodes} nodes x {ranks} ranks, {table.height} lines: {cpu_s:.2f} s CPU, {wall_s:.2f} s wall, "
        f"{more / 1e6:.2f} GB above the table's own {table.estimated_size() / 1e9:.2f} GB, {known} clocks known"
    )


def main() -> None:
    """Measure from the command line."""
    arguments = argparse.ArgumentParser(description="Measure the alignment of event tables.")
    arguments.add_argument("--nodes", type=int, nargs="+", default=[8, 128])
    arguments.add_argument("--ranks", type=int, default=8, help="of each node")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    for nodes in options.nodes:
        print(whole(nodes, options.ranks, options.seed), flush=True)


if __name__ == "__main__":
    main()
