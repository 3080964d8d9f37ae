"""What messages say about clocks: two of them narrow an interval, one does not."""

from __future__ import annotations

import polars as pl
import pytest

from correlator.clocks.bounds import bounded
from correlator.core.model import ClockEstimate, ClockModel
from correlator.core.vocabulary import ClockStatus
from tests.helpers_events import at

SCHEMA = {
    "rule": pl.String,
    "key": pl.String,
    "later": pl.Boolean,
    "domain": pl.String,
    "ns": pl.Int64,
    "grain_ms": pl.Float64,
    "path": pl.String,
    "line": pl.Int64,
}
NOTHING = pl.DataFrame(schema={"path": pl.String, "line": pl.Int64})
WIDE = (-60_000.0, 60_000.0)


def estimate(node: str, interval: tuple[float, float], offset: float = 0.0) -> ClockEstimate:
    return ClockEstimate(node, offset, interval, 0.0, None, 2, ClockStatus.STALE, "a1", at(0) / 1e6)


def message(key: str, sent_s: float, heard_s: float, sender: str = "a1", hearer: str = "a2") -> list[tuple]:
    """`sender` prints at its own `sent_s`, `hearer` at its own `heard_s`, later on any clock."""
    return [
        ("m", key, False, sender, at(sent_s), 1.0, f"{sender}.log", int(key)),
        ("m", key, True, hearer, at(heard_s), 1.0, f"{hearer}.log", int(key)),
    ]


def interval_of(node: str, messages: list[list[tuple]], *known: ClockEstimate) -> tuple[float, float]:
    lines = pl.DataFrame([row for one in messages for row in one], schema=SCHEMA, orient="row")
    return next(one.interval_ms for one in bounded(known, lines, NOTHING) if one.node == node)


def test_two_messages_narrow_and_one_does_not() -> None:
    """a2 hears within 3 and 4 s of sending, by its own clock 10 s ahead: it is at most 14 s ahead of a1."""
    known = (estimate("a1", (0.0, 0.0)), estimate("a2", WIDE))
    assert interval_of("a2", [message("1", 0.0, 13.0)], *known) == WIDE
    low, high = interval_of("a2", [message("1", 0.0, 13.0), message("2", 0.0, 14.0)], *known)
    assert low == WIDE[0]
    assert high == pytest.approx(14_001.0, abs=1.0)


def test_answers_bound_from_the_other_side() -> None:
    """What a2 sends to a1 says how far it is ahead at least."""
    known = (estimate("a1", (0.0, 0.0)), estimate("a2", WIDE))
    back = [message(str(i), 10.0, 2.0 + i, sender="a2", hearer="a1") for i in range(3)]
    low, high = interval_of("a2", back, *known)
    assert low == pytest.approx(7_000.0 - 1.0, abs=1.0)
    assert high == WIDE[1]


def test_bounds_travel_over_nodes() -> None:
    """a1 bounds a2, and a2 what it sends to a3: nothing is exchanged between a1 and a3."""
    known = (estimate("a1", (0.0, 0.0)), estimate("a2", WIDE), estimate("a3", WIDE))
    onward = [message(str(i), 0.0, 1.0, sender="a1", hearer="a2") for i in (1, 2)]
    further = [message(str(i), 0.0, 1.0, sender="a2", hearer="a3") for i in (3, 4)]
    assert interval_of("a3", onward + further, *known)[1] == pytest.approx(2_002.0, abs=1.0)


def test_bounds_that_cross_widen() -> None:
    """Two pairs of messages that cannot all be right leave an interval that holds both."""
    known = (estimate("a1", (0.0, 0.0)), estimate("a2", WIDE))
    forth = [message(str(i), 0.0, 1.0) for i in (1, 2)]
    back = [message(str(i), 10.0, 0.0, sender="a2", hearer="a1") for i in (3, 4)]
    low, high = interval_of("a2", forth + back, *known)
    assert low <= 1_000.0
    assert high >= 9_999.0


def test_ranks_of_one_node_are_no_second_witness() -> None:
    """One late START of a1 bounds both ranks of a2: it is one line, and narrows nothing."""
    known = (estimate("a1", (0.0, 0.0)), estimate("a2", WIDE))
    late = message("1", 8.0, 1.0)
    other_rank = [("m", "1", True, "a2", at(1.1), 1.0, "a2.log", 7)]
    assert interval_of("a2", [late, other_rank], *known) == WIDE


def test_an_old_message_says_less() -> None:
    """A day before the failure a clock of unknown drift may have stood 9 s elsewhere."""
    known = (
        estimate("a1", (0.0, 0.0)),
        ClockEstimate("a2", 0.0, WIDE, None, None, 2, ClockStatus.STALE, "a1", at(0) / 1e6),
    )
    old = [message(str(i), -86_400.0, -86_399.0) for i in (1, 2)]
    assert interval_of("a2", old, *known)[1] == pytest.approx(1_000.0 + 8_640.0, abs=20.0)


def test_the_probability_of_an_order_follows_the_interval() -> None:
    """Certain on one clock, one half where nothing is known, in between by the interval."""
    clocks = ClockModel((estimate("a1", (0.0, 0.0)), estimate("a2", (-4_000.0, 4_000.0)), estimate("a3", WIDE)))
    assert clocks.probability_before("a1", at(0), 0.001, "a1", at(1), 0.001) == 1.0
    assert clocks.probability_before("a1", at(0), 1.0, "b1", at(1), 1.0) == 0.5
    one = clocks.probability_before("a1", at(0), 1.0, "a2", at(1), 1.0)
    assert one == pytest.approx(0.841, abs=0.01)
    assert clocks.probability_before("a2", at(1), 1.0, "a1", at(0), 1.0) == pytest.approx(1 - one, abs=0.001)
    assert 0.5 < clocks.probability_before("a1", at(0), 1.0, "a3", at(1), 1.0) < one
