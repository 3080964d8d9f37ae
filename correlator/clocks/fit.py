"""Offsets of clocks from readings of shared moments: medians to start with, then a joint robust fit over all hubs.

The first form of method.md section 3.1: steps 0-2, 4 without drift, and 6a with the recency guard. A reading's scale
grows by 100 ppm of its distance from the failure instead of a fitted drift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_HUBS = 2_000
_ROUNDS = 30
_DENSE_NODES = 400
"""Above this the covariance is taken from the diagonal alone, which is a little too narrow by the hub noise."""
_Z = 4 * 1.3
_MANY = 30


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings of one component, one row each. Times in ms after a common zero."""

    node: Ints
    hub: Ints
    klass: Ints
    x_ms: Floats
    sigma_ms: Floats
    """Scale of the class and the granularity."""
    drift_ms: Floats
    """What drift may have moved the clock by between the reading and the end of the run."""
    grain_ms: Floats
    nodes: int
    hubs: int


@dataclass(frozen=True, slots=True)
class Fit:
    """Offsets of the nodes of one component, up to a common constant, with half widths of their intervals, ms."""

    offset_ms: Floats
    half_width_ms: Floats
    evidence: Ints
    drift_ms: Floats
    """Weighted mean of `Readings.drift_ms`; part of the half width."""


def fit(data: Readings) -> Fit:
    """Robust offsets of one connected component. `data` must hold at least two nodes."""
    theta = _start(data)
    scale = np.ones(int(data.klass.max()) + 1)
    weight = np.ones_like(data.x_ms)
    for round_number in range(_ROUNDS):
        residual = _residuals(data, theta, weight)
        scale = _class_scales(data, residual)
        sigma = np.hypot(data.sigma_ms * scale[data.klass], data.drift_ms)
        gamma = max(1.0, 100.0 * 2.0**-round_number)
        u = np.abs(residual) / sigma
        weight = np.minimum(1.0, 1.5 * gamma / np.maximum(u, 1e-9)) / sigma**2
        updated = _solve(data, weight)
        done = round_number > 8 and float(np.max(np.abs(updated - theta))) < 0.01
        theta = updated
        if done:
            break
    residual = _residuals(data, theta, weight)
    strength = np.maximum(np.bincount(data.node, weights=weight, minlength=data.nodes), 1e-300)
    drift = np.bincount(data.node, weights=weight * data.drift_ms, minlength=data.nodes) / strength
    # Drift is common to a node's readings, so it is no noise that more readings average out: it is added to the width.
    trust = weight * np.hypot(data.sigma_ms * scale[data.klass], data.drift_ms) ** 2
    bare = trust / (data.sigma_ms * scale[data.klass]) ** 2
    return Fit(
        offset_ms=theta,
        half_width_ms=_half_widths(data, bare, residual, scale) + drift,
        evidence=np.bincount(data.node, minlength=data.nodes),
        drift_ms=drift,
    )


def _start(data: Readings) -> Floats:
    """Alternating medians from the node with most readings outwards (3.1 step 2)."""
    counts = np.bincount(data.node, minlength=data.nodes)
    theta = np.full(data.nodes, np.nan)
    theta[int(np.argmax(counts))] = 0.0
    for _ in range(data.nodes + 6):
        placed = ~np.isnan(theta[data.node])
        hub = _group_median(data.hub[placed], (data.x_ms - theta[data.node])[placed], data.sigma_ms[placed], data.hubs)
        seen = ~np.isnan(hub[data.hub])
        fresh = _group_median(data.node[seen], (data.x_ms - hub[data.hub])[seen], data.sigma_ms[seen], data.nodes)
        was_open = np.isnan(theta)
        moved = np.nanmax(np.abs(np.where(was_open, 0.0, fresh - theta)), initial=0.0)
        theta = fresh
        if not np.isnan(theta).any() and not was_open.any() and moved < 1.0:
            break
    return np.asarray(np.nan_to_num(theta), dtype=np.float64)


def _group_median(group: Ints, value: Floats, sigma: Floats, size: int) -> Floats:
    """Median of each group, weighted by 1/sigma²; NaN for empty groups."""
    result = np.full(size, np.nan)
    if group.size == 0:
        return result
    order = np.lexsort((value, group))
    group, value, weight = group[order], value[order], 1.0 / sigma[order] ** 2
    total = np.bincount(group, weights=weight, minlength=size)
    running = np.cumsum(weight)
    first = np.searchsorted(group, np.arange(size))
    before = np.where(first > 0, running[np.minimum(first, group.size) - 1], 0.0)
    half = running - before[group] >= 0.5 * total[group] * (1 - 1e-12)
    rows = np.flatnonzero(half)
    found, index = np.unique(group[rows], return_index=True)
    result[found] = value[rows[index]]
    return result


def _residuals(data: Readings, theta: Floats, weight: Floats) -> Floats:
    reduced = data.x_ms - theta[data.node]
    total = np.bincount(data.hub, weights=weight, minlength=data.hubs)
    mean = np.bincount(data.hub, weights=weight * reduced, minlength=data.hubs) / np.maximum(total, 1e-300)
    return np.asarray(reduced - mean[data.hub], dtype=np.float64)


def _class_scales(data: Readings, residual: Floats) -> Floats:
    """How wide each class really is, as a factor of its nominal scale, kept within [0.5, 3].

    A class with many more readings than unknowns may prove itself better than that.
    """
    scales = np.ones(int(data.klass.max()) + 1)
    for klass in np.unique(data.klass):
        rows = data.klass == klass
        u = np.abs(residual[rows]) / data.sigma_ms[rows]
        spare = np.count_nonzero(rows) - np.unique(data.hub[rows]).size - data.nodes
        scales[klass] = np.clip(1.4826 * float(np.median(u)), 0.5 if spare < _MANY else 0.1, 3.0)
    return scales


def _normal(data: Readings, weight: Floats) -> tuple[Floats, Floats]:
    """Normal equations of the nodes after every hub is eliminated: N hub members cost N entries, not N²."""
    per_hub = np.maximum(np.bincount(data.hub, weights=weight, minlength=data.hubs), 1e-300)
    dense = np.zeros((data.nodes, data.hubs))
    np.add.at(dense, (data.node, data.hub), weight)
    matrix = np.diag(dense.sum(axis=1)) - (dense / per_hub) @ dense.T
    mean = np.bincount(data.hub, weights=weight * data.x_ms, minlength=data.hubs) / per_hub
    right = np.bincount(data.node, weights=weight * (data.x_ms - mean[data.hub]), minlength=data.nodes)
    return matrix, np.asarray(right, dtype=np.float64)


def _solve(data: Readings, weight: Floats) -> Floats:
    matrix, right = _normal(data, weight)
    # The common constant is free: a small equal pull on all nodes fixes it and changes no difference.
    ridge = float(matrix.diagonal().mean()) / data.nodes
    theta = np.linalg.solve(matrix + ridge, right)
    return np.asarray(theta - np.median(theta), dtype=np.float64)


def _half_widths(data: Readings, weight: Floats, residual: Floats, scale: Floats) -> Floats:
    matrix, _ = _normal(data, weight)
    if data.nodes <= _DENSE_NODES:
        ridge = float(matrix.diagonal().mean()) / data.nodes
        # The ridge makes the free common constant finite; its own variance is taken out again.
        variance = np.diag(np.linalg.inv(matrix + ridge)) - 1.0 / (ridge * data.nodes**2)
    else:
        variance = 1.0 / np.maximum(matrix.diagonal(), 1e-300)
    half = _Z * np.sqrt(np.maximum(variance, 0.0))
    order = np.lexsort((data.x_ms, data.node))
    ends = np.cumsum(np.bincount(data.node, minlength=data.nodes))
    for node, mine in enumerate(np.split(order, ends[:-1])):
        precision = weight[mine] / max(float(weight[mine].max(initial=0.0)), 1e-300)
        effective = float(precision.sum() ** 2 / max(float((precision**2).sum()), 1e-300))
        if 0 < effective < 3:
            # One or two witnesses: none can vouch for the other (3.1 step 6b).
            half[node] *= 3.0 / effective
        latest = mine[-4:]
        drift = abs(float(np.median(residual[latest])))
        allowed = 3 * 1.25 * float(np.median(data.sigma_ms[latest] + data.drift_ms[latest])) / np.sqrt(latest.size)
        half[node] += drift if drift > allowed else 0.0
        finest = float((data.sigma_ms[mine] * scale[data.klass[mine]]).min())
        half[node] = max(half[node], finest) + 0.1 * float(data.grain_ms[mine].min())
    return np.asarray(half, dtype=np.float64)
