"""A constant lag of one class of lines on one node: another class tells, and where none can, no more is claimed."""

from __future__ import annotations

import numpy as np
import pytest

from correlator.clocks import align
from correlator.clocks.rivals import _middle_of_others
from correlator.core.model import ClockModel, Topology
from correlator.core.vocabulary import FileKind
from tests.helpers_events import event, log, table


def clocks(parts: dict[str, list]) -> ClockModel:
    files = [(log(f"{node}.log", FileKind.NODE_LOG, node=node), lines) for node, lines in parts.items()]
    return align(table(files), Topology(world_size=None, ranks=(), nodes=tuple(parts))).clocks


def progress(lag: float = 0.0) -> list:
    return [event("progress", i, seconds=5 * i + lag, step=i, rank=0) for i in range(40)]


def timeouts(*late: float) -> list:
    """Watchdogs of so many ranks that fired 600 s after the enqueue of one collective at second 200."""
    return [
        event(
            "collective_timeout",
            60 + rank,
            seconds=800.0 + seconds,
            rank=rank,
            collective_seq=161,
            collective_op="ALLREDUCE",
            process_group="0",
            attributes={"ran_ms": "600000"},
        )
        for rank, seconds in enumerate(late)
    ]


@pytest.mark.parametrize("nodes", [2, 3])
def test_iterations_that_lag_are_denied_by_the_watchdogs(nodes: int) -> None:
    """40 lines that lag by 2.5 s against one collective of which three ranks tell: the interval holds both, and it says so."""
    others = {f"a{i}": [*progress(), *timeouts(0.0, 0.01, 0.02)] for i in range(1, nodes)}
    found = clocks({**others, "b1": [*progress(2.5), *timeouts(0.0, 0.01, 0.02)]})
    low, high = found.estimate("b1").interval_ms
    assert low <= 0.0
    assert high >= 2500.0
    [text] = found.contradictions
    assert text.startswith("b1: the enqueue at b1.log:6")
    assert "places its clock 2.5 s behind where its other lines do" in text
    low, high = found.estimate("a1").interval_ms
    assert high - low < 250


def test_a_clock_that_is_ahead_is_not_denied() -> None:
    """All its lines are 2.5 s ahead together."""
    found = clocks({"a1": [*progress(), *timeouts(0.0, 0.01)], "b1": [*progress(2.5), *timeouts(2.5, 2.51)]})
    assert found.contradictions == ()
    low, high = found.estimate("b1").interval_ms
    assert low > 2000.0
    assert high < 3000.0


def test_one_line_of_another_class_denies_nothing() -> None:
    """It may be late itself."""
    found = clocks({"a1": [*progress(), *timeouts(0.0, 0.01)], "b1": [*progress(), *timeouts(5.0)]})
    low, high = found.estimate("b1").interval_ms
    assert high - low < 250


@pytest.mark.parametrize("lag_s", [0.04, 0.15])
def test_lines_of_iterations_never_tell_less_than_their_lag(lag_s: float) -> None:
    """What they constantly lag by on one node is no offset: the interval of the pair holds none."""
    found = clocks({"a1": progress(), "b1": progress(lag_s)})
    (low, high), (other_low, other_high) = (found.estimate(node).interval_ms for node in ("b1", "a1"))
    assert low - other_high <= 0.0 <= high - other_low
    assert high - low < 250


def test_the_middle_of_the_others_is_the_median_without_the_cell() -> None:
    """Against the plain definition."""
    random = np.random.default_rng(7)
    for nodes in (1, 2, 3, 6):
        values, seen = np.round(random.normal(size=(nodes, 8)), 1), random.random((nodes, 8)) < 0.7
        middle = _middle_of_others(values, seen)
        for node, hub in np.argwhere(seen):
            others = [values[other, hub] for other in range(nodes) if other != node and seen[other, hub]]
            assert middle[node, hub] == pytest.approx(np.median(others) if others else 0.0)
