"""The fit on generated runs of seeds that no decision was taken on, and laws that hold for any run."""

from __future__ import annotations

import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.clocks import Score, generate, score
from correlator.clocks.coarse import coarse
from correlator.clocks.fit import Fit, fit
from correlator.clocks.readings import Readings

SEEDS = range(7000, 7030)


def scores(scenario: str, grain_ms: float, nodes: int = 8, *, steps: bool = False) -> list[Score]:
    return [score(generate(nodes, scenario, grain_ms, seed, steps=steps), seed) for seed in SEEDS]


def covered(table: list[Score]) -> float:
    return statistics.fmean(one.covered for one in table)


def wrong(table: list[Score]) -> float:
    return sum(one.wrong for one in table) / max(sum(one.right + one.wrong for one in table), 1)


def decided(table: list[Score]) -> float:
    """Share of the gaps of a second or more that are decided, and rightly."""
    return sum(one.right_of_long for one in table) / sum(one.long for one in table)


def centred(found: Fit) -> np.ndarray:
    return found.offset_ms - found.offset_ms[0]


@pytest.mark.parametrize(("grain_ms", "error_ms", "share"), [(1.0, 2.0, 0.90), (1000.0, 60.0, 0.78)])
def test_many_shared_iterations_fix_the_clocks(grain_ms: float, error_ms: float, share: float) -> None:
    """Error, coverage, orders and zones where iterations are printed by all nodes up to the failure."""
    table = scores("rich", grain_ms)
    assert np.median(np.concatenate([one.errors_ms for one in table])) <= error_ms
    assert covered(table) >= 0.995
    assert wrong(table) <= 1e-4
    assert decided(table) >= share
    assert all(one.zones_right for one in table)


def test_seconds_that_are_all_cut_alike_hide_up_to_half_a_second() -> None:
    """Iterations of exactly 8 s stamped in whole seconds: their agreement is no precision, and the interval says so."""
    table = scores("steady", 1000.0)
    assert covered(table) >= 0.995
    assert wrong(table) <= 1e-4
    assert statistics.median(one.width_ms for one in scores("steady", 1.0)) < 100


@pytest.mark.parametrize("scenario", ["mid", "sparse3", "sparse"])
@pytest.mark.parametrize("grain_ms", [1.0, 1000.0])
def test_sparse_evidence_gives_wide_intervals_not_wrong_ones(scenario: str, grain_ms: float) -> None:
    """Few shared events: the truth stays inside, and hardly an order is wrong."""
    table = scores(scenario, grain_ms)
    assert covered(table) >= 0.995
    assert wrong(table) <= 1e-4
    assert all(one.zones_right for one in table)


def test_steps_are_found_and_do_little_harm() -> None:
    """A clock that jumps before the failure is told; what is missed makes at most 3 orders in 1,000 wrong."""
    fine, coarse = scores("rich", 1.0, steps=True), scores("rich", 1000.0, steps=True)
    assert sum(one.steps_found for one in fine) >= 0.7 * len(SEEDS)  # every tenth node has two readings only
    assert sum(one.steps_false for one in fine + coarse) <= 1
    assert wrong(fine + coarse) <= 3e-3
    assert sum(one.wrong_fresh for one in fine + coarse) == 0


def test_time_is_bounded() -> None:
    """128 nodes with 15,000 readings cost less than a second, 8 nodes less than a fifth."""
    assert min(score(generate(8, "rich", 1.0, seed), seed).cpu_s for seed in (1, 2, 3)) <= 0.2
    assert min(score(generate(128, "rich", 1.0, seed), seed).cpu_s for seed in (1, 2)) <= 1.0


@pytest.mark.slow
def test_two_thousand_nodes() -> None:
    """2,048 nodes with 236,000 readings: 5 s at most."""
    assert score(generate(2048, "rich", 1000.0, 1), 1).cpu_s <= 5.0


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), shift_ms=st.integers(-(10**8), 10**8), data=st.data())
def test_a_constant_on_one_clock_moves_its_offset_alone(seed: int, shift_ms: int, data: st.DataObject) -> None:
    """Whatever the constant: that node's offset moves by it, and nothing else changes."""
    readings = generate(8, "mid", 1.0, seed).readings
    node = data.draw(st.integers(1, len(readings.seen) - 1))
    moved = readings.x_ms.copy()
    moved[node] += shift_ms
    before, after = fit(readings), fit(replace(readings, x_ms=moved))
    expected = centred(before)
    expected[node] += shift_ms
    assert centred(after) == pytest.approx(expected, abs=1.0)
    assert after.high_ms - after.low_ms == pytest.approx(before.high_ms - before.low_ms, rel=0.01, abs=1.0)


def rows_of(readings: Readings, rows: np.ndarray) -> Readings:
    """The readings of these nodes, in this order."""
    kept = {name: getattr(readings, name)[rows] for name in ("x_ms", "seen", "sigma_ms", "least_ms", "grain_ms")}
    return replace(readings, **kept)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), order=st.randoms(use_true_random=False))
def test_permuting_the_nodes_permutes_the_answer(seed: int, order: object) -> None:
    """The order in which nodes are given means nothing."""
    readings = generate(8, "mid", 1.0, seed).readings
    rows = np.arange(len(readings.seen))
    order.shuffle(rows)
    before, after = fit(readings), fit(rows_of(readings, rows))
    pairs = before.offset_ms[rows][:, None] - before.offset_ms[rows]
    assert after.offset_ms[:, None] - after.offset_ms == pytest.approx(pairs, abs=2.0)
    assert after.high_ms - after.low_ms == pytest.approx((before.high_ms - before.low_ms)[rows], rel=0.01, abs=2.0)


@pytest.mark.parametrize(
    ("scenario", "grain_ms", "least"), [("rich", 1.0, 0.6), ("rich", 1000.0, 0.35), ("mid", 1.0, 0.6)]
)
def test_removing_a_node_leaves_the_others_within_their_intervals(scenario: str, grain_ms: float, least: float) -> None:
    """The others lose what that node witnessed and no more: pairs move within their intervals, which hardly change.

    Those of whole-second stamps vary more: they rest on how far the rounding shows.
    """
    readings = generate(8, scenario, grain_ms, 3).readings
    whole = fit(readings)
    for gone in range(len(readings.seen)):
        rest = np.delete(np.arange(len(readings.seen)), gone)
        less = fit(rows_of(readings, rest))
        moved = np.subtract.outer(less.offset_ms, less.offset_ms) - np.subtract.outer(
            whole.offset_ms[rest], whole.offset_ms[rest]
        )
        before = np.add.outer(*(2 * [(whole.high_ms - whole.low_ms)[rest]]))
        after = np.add.outer(*(2 * [less.high_ms - less.low_ms]))
        assert (np.abs(moved) <= before / 2).all()
        assert (after >= least * before).all()
        assert (after <= 1.7 * before + 2.0).all()


def with_node(readings: Readings, x_ms: np.ndarray, seen: np.ndarray, sigma_ms: float) -> Readings:
    """One more node, and one more moment that it may see."""
    nodes, hubs = readings.seen.shape

    def grown(values: np.ndarray, row: np.ndarray | float, fill: float) -> np.ndarray:
        wide = np.full((nodes + 1, hubs + 1), fill)
        wide[:nodes, :hubs] = values
        wide[nodes] = row
        return wide

    return Readings(
        x_ms=grown(readings.x_ms, x_ms, 0.0),
        seen=grown(readings.seen, seen, 0).astype(np.bool_),
        sigma_ms=grown(readings.sigma_ms, sigma_ms, 5.0),
        least_ms=grown(readings.least_ms, sigma_ms / 2, 5.0),
        grain_ms=grown(readings.grain_ms, 1.0, 1.0),
        klass=np.append(readings.klass, 0),
        marks=np.append(readings.marks, False),
    )


@pytest.mark.parametrize("sigma_ms", [5.0, 3000.0])
def test_a_node_that_hardly_anything_ties_spoils_no_other(sigma_ms: float) -> None:
    """One reading of one shared moment, fine or coarse: the newcomer is known as badly as that, the others as before."""
    readings = generate(8, "rich", 1.0, 3).readings
    hubs = readings.seen.shape[1]
    shared = int(np.argmax(readings.seen.sum(axis=0)))
    row = np.zeros(hubs + 1)
    row[shared] = readings.x_ms[readings.seen[:, shared], shared].mean()
    before, after = fit(readings), fit(with_node(readings, row, np.arange(hubs + 1) == shared, sigma_ms))
    assert centred(after)[:-1] == pytest.approx(centred(before), abs=0.5)
    assert (after.high_ms - after.low_ms)[:-1] == pytest.approx(before.high_ms - before.low_ms, rel=0.02, abs=0.5)
    assert (after.high_ms - after.low_ms)[-1] > 60_000


def test_a_node_that_shares_nothing_changes_nothing() -> None:
    """A node whose only reading is of a moment that nobody else saw leaves all others as they are."""
    readings = generate(8, "mid", 1.0, 3).readings
    nodes, hubs = readings.seen.shape
    alone = np.arange(hubs + 1) == hubs
    before, after = fit(readings), fit(with_node(readings, np.zeros(hubs + 1), alone, 5.0))
    assert after.offset_ms[:nodes] - after.offset_ms[0] == pytest.approx(centred(before), abs=1.0)
    assert (after.high_ms - after.low_ms)[:nodes] == pytest.approx(before.high_ms - before.low_ms, rel=0.01, abs=1.0)


def test_one_reading_gives_an_interval_of_minutes() -> None:
    """No single line owns an answer: two nodes that share one moment are bounded, and widely."""
    both = np.ones((2, 1))
    found = fit(
        Readings(np.array([[0.0], [500.0]]), both > 0, 10 * both, 5 * both, both, np.zeros(1, np.int64), both[0] > 0)
    )
    assert found.offset_ms[1] - found.offset_ms[0] == pytest.approx(500.0, abs=0.1)
    assert (found.high_ms - found.low_ms >= 120_000).all()
    assert found.stale.all()


def chain(nodes: int) -> Readings:
    """Nodes in a row, each of which shares one moment with the next."""
    seen = np.zeros((nodes, nodes - 1), dtype=np.bool_)
    number = np.arange(nodes - 1)
    seen[number, number] = seen[number + 1, number] = True
    filled = np.ones(seen.shape)
    x_ms = np.where(seen, 1000.0 * number + 10.0 * np.arange(nodes)[:, None], 0.0)
    return Readings(
        x_ms, seen, 10 * filled, 5 * filled, filled, np.zeros(nodes - 1, np.int64), np.ones(nodes - 1, np.bool_)
    )


def test_where_no_fit_reaches_medians_remain() -> None:
    """A chain of 450 nodes is followed 200 hops either way: the rest stays unknown, and what is told is told coarsely."""
    data = chain(450)
    found = coarse(data)
    known = np.isfinite(found.offset_ms)
    assert 200 <= known.sum() < 450
    first = int(np.flatnonzero(known)[0])
    away = 10.0 * (np.flatnonzero(known) - first)
    assert found.offset_ms[known] - found.offset_ms[first] == pytest.approx(away, abs=1.0)
    assert ((found.high_ms - found.low_ms)[known] >= 120_000).all()
    assert found.stale.all()


def test_a_stray_moment_is_not_the_end_of_the_job() -> None:
    """Two of eight nodes share a moment a year later: offsets, drifts and staleness refer to the job's end."""
    data = generate(8, "rich", 1.0, 11).readings
    year_ms = 365 * 86_400_000.0
    column = np.full((len(data.seen), 1), 0.0)
    stray = np.zeros((len(data.seen), 1), dtype=np.bool_)
    stray[:1] = True
    column[:1] = year_ms

    def wider(values: np.ndarray, more: np.ndarray) -> np.ndarray:
        return np.concatenate([values, more], axis=1)

    grown = replace(
        data,
        x_ms=wider(data.x_ms, column),
        seen=wider(data.seen, stray),
        sigma_ms=wider(data.sigma_ms, column * 0 + 10),
        least_ms=wider(data.least_ms, column * 0 + 5),
        grain_ms=wider(data.grain_ms, column * 0 + 1),
        klass=np.append(data.klass, 0),
        marks=np.append(data.marks, True),
    )
    assert fit(grown).failure_ms == pytest.approx(fit(data).failure_ms, abs=1.0)
    assert fit(grown).stale.tolist() == fit(data).stale.tolist()
