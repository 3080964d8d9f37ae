"""What many ranks say alike is said once, and a time that is only a bound is never shown as one."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from correlator.core.model import Evidence
from correlator.core.vocabulary import TimeSource
from correlator.reports.causes import read_causes
from correlator.reports.folding import alike, in_order, named
from correlator.reports.html_view import view_of
from correlator.reports.lanes import swim
from tests.helpers_reports import START_NS, failed_run


def line(text: str, time: str | None = None, number: int = 1) -> Evidence:
    return Evidence("a.log", number, 0, text, time, "rule")


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["rank 19 on gpu-066", "rank 33 on gpu-071"], "rank 19 on gpu-066 and rank 33 on gpu-071"),
        ([f"rank {rank} on nid001020" for rank in range(32, 40)], "ranks 32-39 on nid001020"),
        ([f"rank {rank} on n{rank // 8}" for rank in range(40)], "ranks 0-39 on n[0-4]"),
        (["node03", "rank 1"], "rank 1 and node03"),
        (["a", "b", "c", "d", "e"], "a and b and c and 2 more"),
        ([], "someone whom no file names"),
    ],
)
def test_names_of_ranks_are_folded(names: list[str], folded: str) -> None:
    assert named(names) == folded


def test_initiators_that_say_the_same_are_one_story() -> None:
    """Eight ranks on a full disk are one; two stragglers on two nodes are two; another message is another story."""
    first = failed_run(8)[0].verdict.initiators[0]
    eight = [replace(first, rank=rank, evidence=(line(f"no space left: '__{rank}_0.distcp'"),)) for rank in range(8)]
    other = replace(first, rank=9, evidence=(line("read-only file system"),))
    assert [(group.who, group.count) for group in alike([*eight, other])] == [
        ("ranks 0-7 on node0000", 8),
        ("rank 9 on node0000", 1),
    ]
    assert len(alike(eight[:2])) == 2


def test_lines_are_in_the_order_of_time() -> None:
    """Those without a time stay behind the line that they were cited after."""
    lines = [line("c", "2026-01-01T00:00:03"), line("d"), line("a", "2026-01-01T00:00:01"), line("b")]
    assert [one.text for one in in_order(lines)] == ["a", "b", "c", "d"]


def test_a_bound_is_not_shown_as_a_time() -> None:
    """Exceptions inherit the time of an older line: before the cause it says nothing, after it is `not before`."""
    diagnosis, details = failed_run(8)
    early = pl.col("role").eq("collateral") & pl.col("rank").lt(2)
    late = pl.col("role").eq("collateral") & pl.col("rank").eq(2)
    inherited = details.events.with_columns(
        pl.when(early | late)
        .then(pl.lit(TimeSource.INHERITED.value))
        .otherwise(pl.col("time_source").cast(pl.String))
        .alias("time_source")
    )
    collateral = tuple(
        replace(entry, time="2026-03-02T03:12:30.000Z") if (entry.rank or 0) < 2 else entry
        for entry in diagnosis.collateral
    )
    diagnosis, details = replace(diagnosis, collateral=collateral), replace(details, events=inherited)
    lanes = {lane.label: lane for lane in swim(diagnosis, details, read_causes(diagnosis, details)).lanes}
    assert lanes["0"].marks[0].time_ns is None
    assert "not before 03:12:30" in lanes["0"].marks[0].words
    assert lanes["2"].marks[0].bound
    assert (lanes["2"].marks[0].time_ns or 0) > START_NS
    assert lanes["2"].end_ns is None
    assert not lanes["3"].marks[0].bound
    times = [row.time for kind in view_of(diagnosis, details).collateral for row in kind.rows]
    assert not any("03:12:30" in time for time in times)
