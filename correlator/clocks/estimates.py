"""From a fit to estimates: the reference, the zone's name, the status, and what each estimate rests on."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from correlator.clocks.classes import CLASSES
from correlator.clocks.evidence import Component
from correlator.clocks.fit import Fit
from correlator.clocks.zones import zone_name
from correlator.core.model import ClockEstimate, ClockEvidence, ClockStep
from correlator.core.vocabulary import ClockStatus

_USUAL_MS = 1000.0
_LAG_MS = 200.0
"""What two nodes may constantly differ by in telling of one moment, however little their lines scatter.

After the reduce each host still reads the loss back, waits for the interpreter's lock, and runs its log handlers: tens
of ms to some hundred, the same at each iteration where one node does more there than another. Nothing but a class as
fine and of another kind could tell it from an offset, and there is none: communicators reach 200 ms themselves.
"""


def estimates_of(component: Component, found: Fit) -> tuple[ClockEstimate, ...]:
    """Estimates of all domains of a component, against the one that `reference_of` picks."""
    reference = reference_of(found)
    zero = float(found.offset_ms[reference])
    as_of = round(component.zero_ns / 1e6 + found.failure_ms - zero, 3)
    drift = found.drift_ppm - found.drift_ppm[reference]
    estimates = []
    for index, domain in enumerate(component.domains):
        if not np.isfinite(found.offset_ms[index]):
            continue  # not reached: unknown, never a number that is none
        middle = float(found.offset_ms[index])
        low = min(float(found.low_ms[index]), middle - _LAG_MS / 2) - zero
        high = max(float(found.high_ms[index]), middle + _LAG_MS / 2) - zero
        bounded = bool(np.isfinite(low) and np.isfinite(high))
        known = bool(np.isfinite(drift[index]))
        estimates.append(
            ClockEstimate(
                node=domain,
                offset_ms=round(float(found.offset_ms[index]) - zero, 3),
                interval_ms=(round(low, 3), round(high, 3)) if bounded else None,
                drift_ppm=round(float(drift[index]), 2) if known else None,
                timezone=zone_name(float(found.offset_ms[index]) - zero),
                evidence=int(found.used[index].sum()),
                status=_status(found, index),
                reference=component.domains[reference],
                as_of_ms=as_of,
                kinds=_kinds(component, found, index),
                steps=_steps(component, found, index),
            )
        )
    return tuple(estimates)


def reference_of(found: Fit) -> int:
    """The first of the well witnessed nodes whose clock is in line: the odd one out is never the measure.

    Moving another clock does not change the choice, so offsets stay comparable.
    """
    counts = found.used.sum(axis=1)
    distance = np.abs(found.offset_ms - np.nanmedian(found.offset_ms))
    usual = distance <= max(_USUAL_MS, 2 * float(np.nanmedian(distance)))
    enough = counts >= 0.9 * counts[usual].max()
    return int(np.flatnonzero(usual & enough)[0])


def _status(found: Fit, index: int) -> ClockStatus:
    if any(step.node == index for step in found.steps):
        return ClockStatus.STEPPED
    return ClockStatus.STALE if found.stale[index] else ClockStatus.ALIGNED


def _kinds(component: Component, found: Fit, index: int) -> tuple[ClockEvidence, ...]:
    counts = np.bincount(component.readings.klass[found.used[index]], minlength=len(CLASSES))
    return tuple(ClockEvidence(CLASSES[number].name, int(counts[number])) for number in np.flatnonzero(counts))


def _steps(component: Component, found: Fit, index: int) -> tuple[ClockStep, ...]:
    """Steps of one node, at the time that its own clock showed."""
    zero_ms = component.zero_ns / 1e6
    return tuple(
        ClockStep(_iso(zero_ms + step.at_ms), round(step.step_ms, 1), "readings")
        for step in found.steps
        if step.node == index
    )


def _iso(ms: float) -> str | None:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None
