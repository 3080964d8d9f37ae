"""How far off an offset may be: the union of four intervals, so that no single line owns the answer (3.1 step 6)."""

from __future__ import annotations

import numpy as np

from correlator.clocks.readings import Bools, Floats
from correlator.clocks.solve import Solution, hub_variance, offset_variance

_MODEL = 1.3
"""Scales of classes are known no better than this factor."""
_SIGMAS = 4.0
_SIGMAS_WITHOUT_ONE = 3.0
_MEDIAN_SIGMA = 1.25
"""Standard error of a median of n, in units of sigma / sqrt(n)."""
_GUARDS = (4, 12)
_GRAIN_SHARE = 0.15
"""Rounding is no independent noise: the method's 0.1 left out 0.1 % of the pairs with small undetected steps."""
_LONE_MS = 60_000.0
"""A node with one reading: the line may belong to another moment, or be late, by up to this."""


def intervals(
    solution: Solution, residual: Floats, scale: Floats, tau: Floats, seen: Bools, grain: Floats
) -> tuple[Floats, Floats]:
    """Lower and upper ends for each node's offset increment; infinite where a node has no reading."""
    offset = solution.offset
    half = _SIGMAS * _MODEL * np.sqrt(offset_variance(solution))
    low, high = offset - half, offset + half
    for other_low, other_high in (_without_one(solution, residual, tau), *_guards(residual, scale, tau, seen, offset)):
        low, high = np.minimum(low, other_low), np.maximum(high, other_high)
    total = solution.weight.sum(axis=1)
    coarse = np.divide((solution.weight * grain).sum(axis=1), total, out=np.zeros_like(total), where=total > 0)
    return low - _GRAIN_SHARE * coarse, high + _GRAIN_SHARE * coarse


def _without_one(solution: Solution, residual: Floats, tau: Floats) -> tuple[Floats, Floats]:
    """Envelope of the estimates that leave out one reading each (2 x 2 downdate, hubs held)."""
    weight = solution.weight
    used = weight > 0
    s0 = solution.s0[:, None] - weight
    only = used & (s0 <= 1e-9 * solution.s0[:, None])
    s0 = np.where(used & ~only, s0, 1.0)
    # In increments over the fit the right-hand side is what the left-out reading took with it.
    first = solution.s0 * solution.mean_tau
    second = solution.s2 + first * solution.mean_tau
    s1 = first[:, None] - weight * tau
    s2 = second[:, None] - weight * tau**2
    determinant = np.maximum(s0 * s2 - s1**2, 1e-300)
    pull0, pull1 = -weight * residual, -weight * residual * tau
    shift = (pull0 * s2 - pull1 * s1) / determinant
    sigma = np.sqrt(np.maximum(s2 / determinant, 0.0) + hub_variance(solution)[:, None])
    lone = _LONE_MS + _SIGMAS * _MODEL * np.sqrt(offset_variance(solution))[:, None]
    half = np.where(only, lone, _SIGMAS_WITHOUT_ONE * _MODEL * sigma)
    estimate = solution.offset[:, None] + np.where(only, 0.0, shift)
    low = np.where(used, estimate - half, np.inf).min(axis=1, initial=np.inf)
    high = np.where(used, estimate + half, -np.inf).max(axis=1, initial=-np.inf)
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
