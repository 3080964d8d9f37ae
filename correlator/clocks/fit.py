"""Offsets of the clocks of one component: a joint robust fit over all nodes and hubs (method.md section 3.1, ALIGN)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from correlator.clocks.blas import one_thread
from correlator.clocks.intervals import intervals
from correlator.clocks.readings import DAY_MS, PPM_PER_MS_A_DAY, Bools, Floats, Readings, median_of
from correlator.clocks.solve import Solution, solve
from correlator.clocks.steps import FoundStep, find_steps

_ROUNDS = 30
_FIRST_REJECTING = 12
_FIRST_LAST = 14
_SETTLED_MS = 0.2
_HUBER = 1.5
_AGREED_MS = 60_000.0
"""A hub whose nodes differ by more, once their offsets are off, mixes different moments."""
_ONE_TIME_MS = DAY_MS
_SHARE = 0.25
"""The failure is looked for where at least this share of the nodes was seen within a day."""
_OUTLIER = 6.0
_WITNESSES = 3.0
"""Readings are discarded only where as many others still speak for the node; else the conflict widens the interval."""
_REFINEMENTS = 6
_FARTHEST = 200
"""Hops over hubs from the first node: beyond it a node counts as not connected."""
_RECENT_DAYS = 15 / 1440
_RECENT_WITNESSES = 3
_UNSEEN_STEP_MS = 2_000.0
"""A clock without a recent witness, or with two in all, may have jumped: this takes in most of what turns orders round."""
_DRIFT_MAX = 100e-6 * DAY_MS
_DRIFT_KNOWN = 20e-6 * DAY_MS
"""A drift is told where its standard error is below this."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Offsets at the failure up to a common constant, ms, with the interval of each."""

    offset_ms: Floats
    low_ms: Floats
    high_ms: Floats
    drift_ppm: Floats
    """NaN where the readings say little about it."""
    used: Bools
    """Readings that count."""
    residual_ms: Floats
    """Of every seen reading, against the final fit."""
    scale_ms: Floats
    failure_ms: float
    """The moment that offsets and steps refer to, on a clock of offset 0: when the job was last seen at work."""
    stale: Bools
    steps: tuple[FoundStep, ...]


@dataclass(frozen=True, slots=True)
class _Problem:
    """The readings as increments over the start, which keeps the matrix well-conditioned."""

    data: Readings
    theta: Floats
    failure_ms: float
    tau: Floats
    """Days relative to the failure."""
    y: Floats


@dataclass(frozen=True, slots=True)
class _Robust:
    solution: Solution
    residual: Floats
    scale: Floats


def fit(data: Readings) -> Fit:
    """Offsets of one connected component. Every node must have a reading, every hub two."""
    with one_thread():
        return _fit(data)


def _fit(data: Readings) -> Fit:
    theta = started(data)
    robust, problem = _robust(data, theta)
    steps = find_steps(robust.residual, data.x_ms, data.seen, robust.scale, data.grain_ms)
    kept = data
    if steps:
        kept = data.without(_before(steps, data.x_ms))
        # A hub that only one node still sees binds nothing, and does no harm.
        robust, problem = _robust(kept, theta)
    return _finished(kept, problem, robust, steps)


def _before(steps: tuple[FoundStep, ...], x_ms: Floats) -> Bools:
    dropped = np.zeros(x_ms.shape, dtype=np.bool_)
    for step in steps:
        dropped[step.node] = x_ms[step.node] < step.at_ms
    return dropped


def started(data: Readings) -> Floats:
    """Alternating medians from the node with most readings outwards (step 2); NaN where none is reached."""
    theta = np.full(len(data.seen), np.nan)
    theta[int(np.argmax(data.counts))] = 0.0
    rounds_left = _REFINEMENTS
    for _ in range(_FARTHEST):
        placed = data.seen & ~np.isnan(theta)[:, None]
        hub = median_of(data.x_ms - theta[:, None], placed, axis=0)
        fresh = median_of(data.x_ms - hub, data.seen & ~np.isnan(hub), axis=1)
        grown = bool((np.isnan(theta) & ~np.isnan(fresh)).any())
        theta = fresh
        rounds_left -= not grown
        if rounds_left <= 0:
            break
    return theta


def _problem(data: Readings, theta: Floats) -> _Problem:
    corrected = data.x_ms - np.nan_to_num(theta)[:, None]
    hub = np.nan_to_num(median_of(corrected, data.seen & ~np.isnan(theta)[:, None], axis=0))
    y = np.where(data.seen, corrected - hub, 0.0)
    failure_ms = _failure_ms(data, hub, y)
    tau = np.where(data.seen, (corrected - failure_ms) / DAY_MS, 0.0)
    return _Problem(data, theta, failure_ms, tau, y)


def _failure_ms(data: Readings, hub: Floats, y: Floats) -> float:
    """The last moment of the running job that nodes agree on (else of any hub).

    A moment that stands alone, long after all that most nodes saw, is a stray stamp and not the end of the job.
    """
    told = data.seen.any(axis=0)
    agreed = told & (np.nan_to_num(median_of(np.abs(y), data.seen, axis=0)) <= _AGREED_MS)
    for choice in (agreed & data.marks, agreed, told):
        if choice.any():
            return _last_common(hub[choice], data.seen[:, choice])
    return 0.0


def _last_common(hub: Floats, seen: Bools) -> float:
    """The latest of these hubs that, with those of the time before it, was seen by a fair share of the nodes."""
    order = np.argsort(hub, kind="stable")
    moments, rows = hub[order], seen[:, order]
    enough = max(2, int(np.ceil(_SHARE * rows.any(axis=1).sum())))
    for last in range(moments.size - 1, -1, -1):
        first = int(np.searchsorted(moments, moments[last] - _ONE_TIME_MS))
        if first == 0 or int(rows[:, first : last + 1].any(axis=1).sum()) >= enough:
            return float(moments[last])
    return float(moments[-1])


def _robust(data: Readings, theta: Floats) -> tuple[_Robust, _Problem]:
    """Iteratively reweighted least squares with graduated weights (step 4)."""
    problem = _problem(data, theta)
    seen = data.seen & ~np.isnan(theta)[:, None]
    reference = int(np.argmax(data.counts))
    residual, offset = problem.y, np.zeros(len(theta))
    rejectable = np.zeros(len(theta), dtype=np.bool_)
    for number in range(_ROUNDS):
        scale = _scales(data, residual, seen)
        u = np.abs(residual) / scale
        weight = np.minimum(1.0, _HUBER * max(1.0, 100.0 * 2.0**-number) / np.maximum(u, 1e-9))
        if number >= _FIRST_REJECTING:
            weight[(u > _OUTLIER) & rejectable[:, None]] = 0.0
        weight = np.where(seen, weight / scale**2, 0.0)
        solution = solve(problem.y, problem.tau, weight)
        residual = _residual(problem, solution, seen)
        influence = solution.influence()
        total = influence.sum(axis=1) ** 2
        squares = (influence**2).sum(axis=1)
        rejectable = np.divide(total, squares, out=np.zeros_like(total), where=squares > 0) >= _WITNESSES
        moved = np.abs((solution.offset - solution.offset[reference]) - (offset - offset[reference]))
        offset = solution.offset
        if number >= _FIRST_LAST and float(moved.max()) < _SETTLED_MS:
            break
    return _Robust(solution, residual, scale), problem


def _residual(problem: _Problem, solution: Solution, seen: Bools) -> Floats:
    bare = problem.y - solution.offset[:, None] - solution.drift[:, None] * problem.tau
    hub = solution.hub
    empty = ~(solution.weight.sum(axis=0) > 0)
    if empty.any():
        hub = hub.copy()
        hub[empty] = np.nan_to_num(median_of(bare[:, empty], seen[:, empty], axis=0))
    return np.where(seen, bare - hub, 0.0)


def _scales(data: Readings, residual: Floats, seen: Bools) -> Floats:
    """How wide each class really is: what its residuals say, between what it may prove and 3 x nominal."""
    ratio = np.abs(residual) / data.sigma_ms
    factor = np.ones(int(data.klass.max(initial=0)) + 1)
    for klass in np.unique(data.klass):
        columns = data.klass == klass
        values = ratio[:, columns][seen[:, columns]]
        if values.size:
            factor[klass] = min(1.4826 * float(np.median(values)), 3.0)
    return np.maximum(factor[data.klass] * data.sigma_ms, data.least_ms)


def _finished(kept: Readings, problem: _Problem, robust: _Robust, steps: tuple[FoundStep, ...]) -> Fit:
    solution = robust.solution
    seen = kept.seen & ~np.isnan(problem.theta)[:, None]
    low, high = intervals(solution, robust.residual, robust.scale, problem.tau, seen, kept.grain_ms)
    recent = (seen & (problem.tau > -_RECENT_DAYS)).sum(axis=1)
    stale = recent < _RECENT_WITNESSES
    unseen = (recent == 0) | (seen.sum(axis=1) < _RECENT_WITNESSES)
    slack = np.where(stale, _DRIFT_MAX * _age_of_latest(problem.tau, seen), 0.0) + _UNSEEN_STEP_MS * unseen
    offset = problem.theta + solution.offset
    informed = solution.s2 > 1.0 / _DRIFT_KNOWN**2
    return Fit(
        offset_ms=offset,
        low_ms=np.nan_to_num(problem.theta) + low - slack,
        high_ms=np.nan_to_num(problem.theta) + high + slack,
        drift_ppm=np.where(informed, solution.drift * PPM_PER_MS_A_DAY, np.nan),
        used=solution.weight > 0,
        residual_ms=robust.residual,
        scale_ms=robust.scale,
        failure_ms=problem.failure_ms,
        stale=stale,
        steps=steps,
    )


def _age_of_latest(tau: Floats, seen: Bools) -> Floats:
    """Days since a node was last witnessed: 0 without readings."""
    age = np.where(seen, -tau, np.inf).min(axis=1)
    return np.where(np.isfinite(age), np.maximum(age, 0.0), 0.0)
