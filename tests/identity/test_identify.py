"""Identity on hand-made tables: each kind of evidence fills what it proves, and contradictions are kept."""

from __future__ import annotations

import json

import polars as pl

from correlator.core.schema import validate
from correlator.core.vocabulary import FileKind
from correlator.identity import Identified, identify
from tests.helpers_events import event, log, report, table


def run(parts: list) -> Identified:
    files = [file for file, _ in parts]
    result = identify(table(parts), files, [report(file) for file in files])
    assert validate(result.events) == []
    return result


def cell(result: Identified, path: str, line: int, column: str) -> object:
    row = result.events.filter((pl.col("log_file_path").cast(pl.String) == path) & (pl.col("line_number") == line))
    return row[column].to_list()[0]


def rendezvous(line: int, node_rank: int, size: int = 2, nodes: int = 2, attempt: int = 0, **fields):
    ranks = list(range(node_rank * size, node_rank * size + size))
    attributes = {
        "global_ranks": json.dumps(ranks),
        "local_ranks": json.dumps(list(range(size))),
        "master_addr": "node01.cluster.local",
        "group_world_size": nodes,
    }
    return event(
        "rendezvous_complete",
        line,
        node_rank=node_rank,
        attempt=attempt,
        world_size=size * nodes,
        attributes=attributes,
        seconds=line,
        **fields,
    )


def test_rendezvous_places_ranks_and_tee_prefix_finds_them() -> None:
    """A merged node log: the agent's table maps [default1]: to a global rank; the agent's own lines get none."""
    one, two = log("node01.log", FileKind.NODE_LOG, node="node01"), log("node02.log", FileKind.NODE_LOG, node="node02")
    result = run(
        [
            (one, [rendezvous(1, 0), event("progress", 5, local_rank=1, step=3)]),
            (two, [rendezvous(1, 1), event("cuda_oom", 7, local_rank=0), event("python_exception", 8)]),
        ]
    )
    assert cell(result, "node01.log", 5, "rank") == 1
    assert cell(result, "node02.log", 7, "rank") == 2
    assert cell(result, "node02.log", 8, "rank") is None
    assert cell(result, "node02.log", 1, "rank") is None
    assert cell(result, "node02.log", 1, "host_name") == "node02"
    assert result.topology.world_size == 4
    assert [(p.rank, p.node, p.local_rank, p.node_rank) for p in result.topology.ranks] == [
        (0, "node01", 0, 0),
        (1, "node01", 1, 0),
        (2, "node02", 0, 1),
        (3, "node02", 1, 1),
    ]
    assert result.topology.store_node == "node01"
    assert all(place.has_log for place in result.topology.ranks)
