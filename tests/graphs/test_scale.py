"""Four times the ranks are about four times the work, whatever the shape of the failure: counted, not timed."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable

import pytest

from benchmarks.graph_scale import CULPRIT, SHAPES, Lines, facts, groups, lines, lost_peers
from correlator.graphs import RunFacts, judge
from correlator.graphs.pairing import MOST_CAUSES

FEW, MANY = 32, 128
MOST_GROWTH = 1.35 * MANY / FEW
"""Sorting and trees grow a little faster than ranks; comparing pairs would be sixteen times the work."""


def work(run: RunFacts) -> tuple[int, int]:
    """Calls of functions, Python's and C's, and edges of the graph."""
    with cProfile.Profile() as profile:
        found = judge(run)
    return pstats.Stats(profile).total_calls, found.attempt.graph.number_of_edges()  # type: ignore[attr-defined]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_work_and_edges_grow_with_the_ranks(shape: Callable[[int], RunFacts]) -> None:
    few, many = work(shape(FEW)), work(shape(MANY))
    assert many[0] <= MOST_GROWTH * few[0]
    assert many[1] <= MOST_GROWTH * max(few[1], FEW)
    assert many[1] <= (MOST_CAUSES + 4) * 6 * MANY


@pytest.mark.parametrize("shape", [lost_peers, groups], ids=lambda shape: shape.__name__)
def test_the_culprit_is_found_among_many(shape: Callable[[int], RunFacts]) -> None:
    assert [one.rank for one in judge(shape(MANY)).verdict.initiators] == [CULPRIT]


def test_the_accused_explains_all_though_others_were_tried_before_it() -> None:
    """More causes come before the fault than an effect keeps: once it is known, its own links are kept."""
    world, waited = 64, list(range(16, 40))
    early: list[Lines] = [lines("python_exception", waited, 9.0, exception_type="ValueError")]
    wait = {"collective_seq": 9, "collective_op": "ALLREDUCE", "process_group": "0"}
    parts = [
        *(lines("progress", range(world), float(step), step=step) for step in (1, 2, 3)),
        *early,
        lines("cuda_oom", [CULPRIT], 12.0, exception_type="OutOfMemoryError"),
        lines("remote_peer_lost", range(48, world), 13.0, exception_type="RuntimeError"),
        lines("collective_timeout", waited, 600.0, **wait),
    ]
    found = judge(facts(parts, world))
    assert [one.rank for one in found.verdict.initiators] == [CULPRIT]
    lost = [entry for entry in found.collateral if entry.kind == "remote_peer_lost"]
    assert len(lost) == world - 48
    assert all(entry.explained_by for entry in lost)
