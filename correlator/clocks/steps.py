"""Clock steps: a node's residuals jump at one moment and stay there (method.md section 3.1 step 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from correlator.clocks.readings import Bools, Floats, Ints

_WINDOW = 12
_BEFORE, _AFTER = 4, 6
_DRIFT_MAX = 100e-6
_MEDIAN_SIGMA = 1.25
_CLEAR = 8.0


@dataclass(frozen=True, slots=True)
class FoundStep:
    """A jump of one node's clock: readings from before it belong to another offset."""

    node: int
    at_ms: float
    """The first reading after it, on the clock itself, in the unit of `Readings.x_ms`."""
    step_ms: float
    """How far the clock jumped forward."""


@dataclass(frozen=True, slots=True)
class _Ordered:
    """The readings of each node in order of time, packed to the left."""

    value: Floats
    x_ms: Floats
    scale: Floats
    count: Ints


def find_steps(value: Floats, x_ms: Floats, seen: Bools, scale: Floats, grain: Floats) -> tuple[FoundStep, ...]:
    """At most one step a node: the clearest. `value` is each reading's offset against its hub, ms."""
    rows = np.flatnonzero(seen.sum(axis=1) >= _BEFORE + _AFTER)
    if not rows.size:
        return ()
    ordered = _ordered(value[rows], x_ms[rows], seen[rows], scale[rows])
    shift, clarity = _shifts(ordered)
    best = np.argmax(clarity, axis=1)
    line = np.arange(rows.size)
    coarse = np.where(seen[rows], grain[rows], -np.inf).max(axis=1)
    typical = np.median(ordered.scale[:, : _BEFORE + _AFTER], axis=1)
    sizes = shift[line, best]
    clear = (clarity[line, best] > _CLEAR) & (np.abs(sizes) > np.maximum(3 * typical, 1.5 * coarse))
    found = []
    for i in np.flatnonzero(clear):
        at = _sharpest(ordered.value[i, : ordered.count[i]], int(best[i]) + _BEFORE)
        found.append(FoundStep(int(rows[i]), float(ordered.x_ms[i, at]), float(sizes[i])))
    return tuple(found)


def _sharpest(value: Floats, split: int) -> int:
    """Where near a split the two levels part best: medians see a jump up to half a window early or late."""
    first, last = max(split - _WINDOW, 1), min(split + _WINDOW, value.size - 1)
    before, after = np.median(value[max(split - _WINDOW, 0) : split]), np.median(value[split : split + _WINDOW])
    gain = np.cumsum(np.abs(value[first:last] - after) - np.abs(value[first:last] - before))
    return first + 1 + int(np.argmax(gain))


def _ordered(value: Floats, x_ms: Floats, seen: Bools, scale: Floats) -> _Ordered:
    order = np.argsort(np.where(seen, x_ms, np.inf), axis=1, kind="stable")
    value, x_ms, scale = (np.take_along_axis(array, order, axis=1) for array in (value, x_ms, scale))
    return _Ordered(value, x_ms, scale, seen.sum(axis=1))


def _shifts(ordered: _Ordered) -> tuple[Floats, Floats]:
    """For each split (column 0 = after the first `_BEFORE` readings) the jump, and how many errors it is worth."""
    width = ordered.value.shape[1]
    splits = np.arange(_BEFORE, width - _AFTER + 1)
    before, n_before = _window_medians(ordered, splits, backwards=True)
    after, n_after = _window_medians(ordered, splits, backwards=False)
    gap = np.abs(after[1] - before[1])
    noise = _MEDIAN_SIGMA * np.sqrt(before[2] ** 2 / n_before + after[2] ** 2 / n_after)
    shift = after[0] - before[0]
    clarity = (np.abs(shift) - 1.5 * _DRIFT_MAX * gap) / np.maximum(noise, 1e-9)
    valid = splits + _AFTER <= ordered.count[:, None]
    return shift, np.where(valid, clarity, -np.inf)


def _window_medians(ordered: _Ordered, splits: Ints, *, backwards: bool) -> tuple[list[Floats], Floats]:
    """Medians of value, time and scale over up to 12 readings before (or after) each split, and how many they are."""
    rows = len(ordered.value)
    ends = np.broadcast_to(splits, (rows, splits.size)) if backwards else ordered.count[:, None]
    starts = np.zeros((rows, splits.size)) if backwards else np.broadcast_to(splits, (rows, splits.size))
    lengths = np.clip(ends - starts, 1, _WINDOW).astype(np.int64)
    first = (np.maximum(ends - lengths, 0) if backwards else starts).astype(np.int64)
    found = [np.zeros(lengths.shape) for _ in range(3)]
    for length in np.unique(lengths):
        at = np.nonzero(lengths == length)
        index = first[at][:, None] + np.arange(length)
        for target, source in zip(found, (ordered.value, ordered.x_ms, ordered.scale), strict=True):
            target[at] = np.median(source[at[0][:, None], index], axis=1)
    return found, lengths.astype(np.float64)
