"""What a stamp says: c10d's made-up fractions are dropped, or made good where the host's constant can be found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.clocks.stamps import _complement, timed_events
from correlator.core.vocabulary import FileKind
from tests.helpers_events import at, event, log, table

NS = 10**9


def c10d(moments: list[float], rolls_at: float) -> list:
    """Lines of one process at these true seconds, stamped as c10d does on a host whose second rolls at `rolls_at`."""
    lines = []
    for number, moment in enumerate(moments):
        printed = math.floor(moment) + (moment + rolls_at) % 1.0
        lines.append(
            event(
                "work_status",
                number,
                timestamp_ns=at(printed),
                time_source="explicit",
                time_granularity_ms=1000.0,
                rank=3,
            )
        )
    return lines


def intervals(lines: list) -> list[tuple[float, float]]:
    timed = timed_events(table([(log("a.log", FileKind.RANK_LOG, node="node01"), lines)]))
    return [((ns - at(0)) / NS, grain / 1000) for ns, grain in timed.select("ns", "grain_ms").iter_rows()]


def test_a_lone_fraction_is_dropped() -> None:
    """Nothing tells what the fraction means: the stamp stands for its whole second."""
    [(start, width)] = intervals(c10d([7.9], 0.3))
    assert start == pytest.approx(7.0)
    assert width == pytest.approx(1.0)


def test_bursts_within_seconds_reveal_the_constant() -> None:
    """Many lines of one process a second: stamps become as fine as what they leave open."""
    moments = [10 + 0.05 * i for i in range(19)]
    found = intervals(c10d(moments, 0.37))
    assert max(width for _, width in found) < 0.2
    for moment, (start, width) in zip(moments, found, strict=True):
        assert start - 1e-6 <= moment <= start + width + 1e-6


@given(
    st.lists(st.floats(0, 60, allow_nan=False), min_size=1, max_size=40),
    st.floats(0, 0.999),
)
def test_the_true_time_always_lies_in_the_interval(moments: list[float], rolls_at: float) -> None:
    """Whatever the host's constant and whenever the lines were written."""
    ordered = sorted(round(moment, 6) for moment in moments)
    for moment, (start, width) in zip(ordered, intervals(c10d(ordered, rolls_at)), strict=True):
        assert start - 1e-5 <= moment <= start + width + 1e-5


def test_true_fractions_stay() -> None:
    """Stamps in ms are what they say, and whole seconds are not taken for made-up fractions."""
    lines = [event("progress", 1, seconds=5.25), event("progress", 2, seconds=6.0)]
    starts = [start for start, _ in intervals(lines)]
    assert starts == pytest.approx([5.25, 6.0])


def test_the_longest_stretch_is_found_across_zero() -> None:
    """Arcs that overlap over the end of the circle count as one."""
    start, width = _complement(np.array([0.9, 0.1, 0.5]), np.array([0.25, 0.2, 0.05]))
    assert (start, width) == pytest.approx((0.3, 0.6))
