"""One weighted least-squares solve over all nodes and hubs, exact, by elimination of the nodes (method.md 3.1 step 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from correlator.clocks.readings import DAY_MS, Floats

DRIFT_SD = 60e-6 * DAY_MS
"""Standard deviation of the drift prior, ms per day (60 ppm)."""
_RIDGE = 1e-8


@dataclass(frozen=True, slots=True)
class Solution:
    """Offsets and drifts at the failure, hub times, and the normal equations that they came from."""

    offset: Floats
    drift: Floats
    hub: Floats
    weight: Floats
    s0: Floats
    s2: Floats
    mean_tau: Floats
    u: Floats
    v: Floats
    reduced: Floats
    """Normal matrix of the hubs once the nodes are eliminated, ridge included."""

    def influence(self) -> Floats:
        """How far the offset of a node moves with each of its readings."""
        inverse0, inverse2 = _inverse(self.s0)[:, None], (self.mean_tau / self.s2)[:, None]
        return np.abs(self.u * inverse0 - self.v * inverse2)


def solve(y: Floats, tau: Floats, weight: Floats) -> Solution:
    """Minimises the weighted squares of y - offset - drift * tau - hub, plus the prior on the drifts.

    `tau` is days relative to the failure. Only differences of offsets mean anything: a ridge fixes their constant.
    """
    s0 = weight.sum(axis=1)
    inverse0 = _inverse(s0)
    mean_tau = (weight * tau).sum(axis=1) * inverse0
    centred = tau - mean_tau[:, None]
    v = weight * centred
    s2 = (v * centred).sum(axis=1) + 1.0 / DRIFT_SD**2
    reduced = -(weight * inverse0[:, None]).T @ weight - (v / s2[:, None]).T @ v
    diagonal = np.einsum("ii->i", reduced)
    diagonal += weight.sum(axis=0)
    diagonal += _RIDGE * max(float(diagonal.max(initial=0.0)), 1e-300)
    weighted = weight * y
    g0, g1 = weighted.sum(axis=1), (v * y).sum(axis=1)
    right = weighted.sum(axis=0) - weight.T @ (g0 * inverse0) - v.T @ (g1 / s2)
    hub = np.linalg.solve(reduced, right)
    drift = (g1 - v @ hub) / s2
    offset = (g0 - weight @ hub) * inverse0 - mean_tau * drift
    return Solution(offset, drift, hub, weight, s0, s2, mean_tau, weight, v, reduced)


def offset_variance(solution: Solution) -> Floats:
    """Variance of each offset against the others', ms²; infinite where a node has no weight."""
    return np.where(solution.s0 > 0, _own_variance(solution) + hub_variance(solution), np.inf)


def _own_variance(solution: Solution) -> Floats:
    """The part that a node's own readings leave open, ms²."""
    return _inverse(solution.s0) + solution.mean_tau**2 / solution.s2


def hub_variance(solution: Solution) -> Floats:
    """The part of each offset's variance that the hubs' own uncertainty brings, ms².

    Offsets are told against what all nodes have in common, each as far as it is known itself: a node that hardly any
    evidence ties to the rest leaves the others' variances as they are.
    """
    q = solution.u * _inverse(solution.s0)[:, None] - solution.v * (solution.mean_tau / solution.s2)[:, None]
    told = np.where(solution.s0 > 0, _inverse(_own_variance(solution)), 0.0)
    q = q - (told @ q) / max(float(told.sum()), 1e-300)
    quadratic: Floats = (q * np.linalg.solve(solution.reduced, q.T).T).sum(axis=1)
    return np.maximum(quadratic, 0.0)


def _inverse(values: Floats) -> Floats:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
