"""What remains where no fit can join the readings of a component: medians, and intervals that say how coarse they are."""

from __future__ import annotations

import numpy as np

from correlator.clocks.fit import Fit, started
from correlator.clocks.readings import DAY_MS, Bools, Floats, Readings, median_of

_LATE_MS = 60_000.0
"""A line may belong to another moment, or be late, by up to this."""
_DRIFT_MAX = 100e-6


def coarse(data: Readings) -> Fit:
    """Offsets as medians over shared hubs, never compared finer than all of a node's readings agree on.

    Nodes that are not reached keep NaN. No drift is told, so the interval takes in what it may have been since the
    node's latest reading.
    """
    theta = started(data)
    placed = data.seen & ~np.isnan(theta)[:, None]
    corrected = data.x_ms - np.nan_to_num(theta)[:, None]
    hub = np.nan_to_num(median_of(corrected, placed, axis=0))
    residual = np.where(placed, corrected - hub, 0.0)
    told: Bools = np.asarray(placed.any(axis=0))
    failure_ms = _failure_ms(hub, told & data.marks, told)
    age_ms = np.where(placed, np.abs(failure_ms - corrected), 0.0).max(axis=1, initial=0.0)
    half = _LATE_MS + np.abs(residual).max(axis=1, initial=0.0) + _DRIFT_MAX * np.minimum(age_ms, 365 * DAY_MS)
    nodes = len(theta)
    return Fit(
        offset_ms=theta,
        low_ms=theta - half,
        high_ms=theta + half,
        drift_ppm=np.full(nodes, np.nan),
        used=placed,
        residual_ms=residual,
        scale_ms=np.where(placed, _LATE_MS, 1.0),
        failure_ms=failure_ms,
        stale=np.ones(nodes, dtype=np.bool_),
        steps=(),
    )


def _failure_ms(hub: Floats, *choices: Bools) -> float:
    return next((float(hub[choice].max()) for choice in choices if choice.any()), 0.0)
