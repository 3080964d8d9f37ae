"""How far off an offset may be: the union of several intervals, so that no single line owns the answer (3.1 step 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from correlator.clocks.readings import Bools, Floats, Ints
from correlator.clocks.solve import DRIFT_SD, Solution, hub_variance, offset_variance

_MODEL = 1.3
"""Scales of classes are known no better than this factor."""
_SIGMAS = 4.0
_SIGMAS_WITHOUT_ONE = 3.0
_MEDIAN_SIGMA = 1.25
"""Standard error of a median of n, in units of sigma / sqrt(n)."""
_GUARDS = (4, 12)
_ROUNDING = 0.29
"""Standard deviation of a stamp's rounding, in units of its granularity: that of a uniform error, 1 / sqrt(12)."""
_OF_A_VARIANCE = 0.9
"""Standard error of the sampled variance of n uniform errors, in units of that variance / sqrt(n): sqrt(0.8)."""
_OUTLIER = 6.0
_LONE_MS = 60_000.0
"""A node with one reading: the line may belong to another moment, or be late, by up to this."""


def intervals(
    solution: Solution, residual: Floats, scale: Floats, tau: Floats, seen: Bools, grain: Floats
) -> tuple[Floats, Floats]:
    """Lower and upper ends for each node's offset increment; infinite where a node has no reading."""
    offset = solution.offset
    half = _SIGMAS * _MODEL * np.sqrt(offset_variance(solution))
    low, high = offset - half, offset + half
    lone = _LONE_MS + np.nan_to_num(half, posinf=0.0)
    rows = _Rows(solution.weight, residual, tau, offset, hub_variance(solution), lone)
    others = (_without_one(rows), _in_conflict(rows, scale), *_guards(residual, scale, tau, seen, offset))
    for other_low, other_high in others:
        low, high = np.minimum(low, other_low), np.maximum(high, other_high)
    hidden = _hidden_rounding(solution, residual, grain)
    return low - hidden, high + hidden


def _hidden_rounding(solution: Solution, residual: Floats, grain: Floats) -> Floats:
    """What coarse stamps may all be off by together: the part of their rounding that does not show as scatter.

    Iterations of 8.3 s are rounded now up, now down, and their mean is fine. Iterations of exactly 8 s are all rounded by
    the same unknown part of a second, up to half of it: then residuals hardly scatter. Readings count as they move the
    offset, and the scatter as no more than its sampling error allows.
    """
    influence = solution.influence()
    total = influence.sum(axis=1)
    spread = np.minimum(np.abs(residual), (0.5 + _ROUNDING) * grain)
    hub = solution.weight.sum(axis=0)
    own = np.divide(solution.weight, hub, out=np.zeros_like(influence), where=hub > 0)
    coarse, scatter, taken = (
        np.divide((influence * of).sum(axis=1), total, out=np.zeros_like(total), where=total > 0)
        for of in (grain**2, spread**2, own)
    )
    # A hub of few nodes takes on a part of each one's error.
    seen = scatter / np.maximum(1.0 - taken, 0.1)
    squares = (influence**2).sum(axis=1)
    count = np.divide(total**2, squares, out=np.ones_like(total), where=squares > 0)
    sure = seen * np.maximum(1.0 - _OF_A_VARIANCE / np.sqrt(count), 0.0)
    missing: Floats = np.sqrt(np.clip(_ROUNDING**2 * coarse - sure, 0.0, None))
    return missing * (0.5 / _ROUNDING)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Each node's own two normal equations (offset and drift), hubs held where they are."""

    weight: Floats
    residual: Floats
    tau: Floats
    offset: Floats
    hub_variance: Floats
    lone: Floats
    """How far off an offset may be that one reading alone tells."""

    def of(self, nodes: Ints) -> _Rows:
        """The same of some nodes."""
        return _Rows(*(getattr(self, name)[nodes] for name in self.__slots__))

    def less(self, dropped: Bools) -> _Rows:
        """Without one reading of each node, and with the offset that the others give."""
        shift, drift, _ = self._shifts(np.where(dropped, self.weight, 0.0).sum(axis=1), dropped)
        rest = np.where(dropped, 0.0, self.weight)
        told = rest.sum(axis=1) > 1e-9 * self.weight.sum(axis=1)
        shift, drift = np.where(told, shift, 0.0), np.where(told, drift, 0.0)
        residual = self.residual - shift[:, None] - drift[:, None] * self.tau
        return replace(self, weight=rest, residual=residual, offset=self.offset + shift)

    def _shifts(self, weight: Floats, dropped: Bools) -> tuple[Floats, Floats, Floats]:
        tau, residual = (np.where(dropped, of, 0.0).sum(axis=1) for of in (self.tau, self.residual))
        shift, drift, variance = self.without(weight[:, None], tau[:, None], residual[:, None])
        return shift[:, 0], drift[:, 0], variance[:, 0]

    def without(self, weight: Floats, tau: Floats, residual: Floats) -> tuple[Floats, Floats, Floats]:
        """How offset and drift move without readings of these weights, one a column; and the offset's variance then."""
        s0 = np.maximum(self.weight.sum(axis=1)[:, None] - weight, 1e-300)
        s1 = (self.weight * self.tau).sum(axis=1)[:, None] - weight * tau
        s2 = (self.weight * self.tau**2).sum(axis=1)[:, None] - weight * tau**2 + 1.0 / DRIFT_SD**2
        determinant = np.maximum(s0 * s2 - s1**2, 1e-300)
        # In increments over the fit the right-hand side is what the left-out reading took with it.
        pull0, pull1 = -weight * residual, -weight * residual * tau
        shift, drift = (pull0 * s2 - pull1 * s1) / determinant, (pull1 * s0 - pull0 * s1) / determinant
        return shift, drift, np.maximum(s2 / determinant, 0.0)


def _without_one(rows: _Rows) -> tuple[Floats, Floats]:
    """Envelope of the estimates that leave out one reading each."""
    used = rows.weight > 0
    total = rows.weight.sum(axis=1)[:, None]
    only = used & (total - rows.weight <= 1e-9 * total)
    shift, _, variance = rows.without(np.where(only, 0.0, rows.weight), rows.tau, rows.residual)
    sigma = np.sqrt(variance + rows.hub_variance[:, None])
    half = np.where(only, rows.lone[:, None], _SIGMAS_WITHOUT_ONE * _MODEL * sigma)
    estimate = rows.offset[:, None] + np.where(only, 0.0, shift)
    low = np.where(used, estimate - half, np.inf).min(axis=1, initial=np.inf)
    high = np.where(used, estimate + half, -np.inf).max(axis=1, initial=-np.inf)
    return low, high


def _in_conflict(rows: _Rows, scale: Floats) -> tuple[Floats, Floats]:
    """The same for nodes with a reading that contradicts the others, and too few to tell which is wrong: without it as well.

    Two late lines in a row would else confirm each other.
    """
    far = np.where(rows.weight > 0, np.abs(rows.residual) / scale, 0.0)
    worst = np.argmax(far, axis=1)
    nodes = np.flatnonzero(far[np.arange(len(far)), worst] > _OUTLIER)
    low, high = np.full(len(far), np.inf), np.full(len(far), -np.inf)
    if nodes.size:
        dropped = np.arange(far.shape[1])[None, :] == worst[nodes][:, None]
        low[nodes], high[nodes] = _without_one(rows.of(nodes).less(dropped))
    return low, high


def _guards(residual: Floats, scale: Floats, tau: Floats, seen: Bools, offset: Floats) -> list[tuple[Floats, Floats]]:
    """What the last few readings say, rejected ones included: after an unseen step they are the ones that are right."""
    order = np.argsort(np.where(seen, -tau, np.inf), axis=1, kind="stable")
    count = seen.sum(axis=1)
    found: list[tuple[Floats, Floats]] = []
    for k in _GUARDS:
        if order.shape[1] < k:
            continue
        latest = order[:, :k]
        middle = np.median(np.take_along_axis(residual, latest, axis=1), axis=1)
        half = 3 * _MEDIAN_SIGMA * np.median(np.take_along_axis(scale, latest, axis=1), axis=1) / np.sqrt(k)
        speaks = (count > k + 2) & (np.abs(middle) > half)
        centre = offset + np.where(speaks, middle, 0.0)
        width = np.where(speaks, half, 0.0)
        found.append((centre - width, centre + width))
    return found
