"""What the fit works on: readings of shared moments (hubs) by the nodes of one component, as node x hub matrices.

Hubs that all nodes saw make the matrices nearly full, so plain array algebra over them is both the shortest and the
fastest form; `most_hubs` keeps it so for any run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DAY_MS = 86_400_000.0
PPM_PER_MS_A_DAY = 1e6 / DAY_MS

_MOST_HUBS = 400
_LEAST_HUBS = 200
_WORK = 2e8
"""Nodes x hubs² that a round of the fit may cost."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings of one component: row = node, column = hub. Cells that `seen` denies hold no meaning."""

    x_ms: Floats
    """Centre of the stamp on the node's clock, ms after a common zero."""
    seen: Bools
    sigma_ms: Floats
    """Nominal scale of the class, granularity included."""
    least_ms: Floats
    """The smallest scale that the class may prove to have (method.md section 2: the spread within a node)."""
    grain_ms: Floats
    klass: Ints
    """Class of each hub."""
    marks: Bools
    """Hubs of the running job: the last of them is the moment that offsets are told for."""

    @property
    def counts(self) -> Ints:
        """Readings of each node."""
        return np.asarray(self.seen.sum(axis=1), dtype=np.int64)

    def without(self, dropped: Bools) -> Readings:
        """The same with some cells unseen."""
        return replace(self, seen=self.seen & ~dropped)


def most_hubs(nodes: int) -> int:
    """How many hubs a component of so many nodes may use: its cost stays bounded, its precision is long reached."""
    return int(np.clip(np.sqrt(_WORK / max(nodes, 1)), _LEAST_HUBS, _MOST_HUBS))


def median_of(values: Floats, seen: Bools, axis: int) -> Floats:
    """Median over the seen cells along an axis; NaN where there is none."""
    ordered = np.sort(np.where(seen, values, np.inf), axis=axis)
    count = seen.sum(axis=axis)
    low = np.expand_dims(np.maximum((count - 1) // 2, 0), axis)
    high = np.expand_dims(np.maximum(count // 2, 0), axis)
    high = np.minimum(high, ordered.shape[axis] - 1)
    middle = (np.take_along_axis(ordered, low, axis) + np.take_along_axis(ordered, high, axis)) / 2
    return np.asarray(np.where(count > 0, np.squeeze(middle, axis), np.nan), dtype=np.float64)
