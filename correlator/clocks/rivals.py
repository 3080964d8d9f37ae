"""Classes of evidence that deny the fit: a constant lag of one class on one node passes for an offset of its clock.

A logger that holds the iteration lines of a node back by two seconds moves all of them alike. No spread shows it, and
they outnumber everything else. Only another class can tell: where its readings lie beyond their own reach from the
offset that the fit gives, either may be right, so the interval is widened to hold both and the conflict is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from correlator.clocks.classes import CLASSES
from correlator.clocks.estimates import reference_of
from correlator.clocks.evidence import Component
from correlator.clocks.fit import Fit
from correlator.clocks.readings import Bools, Floats, Ints, median_of
from correlator.clocks.validators import Contradiction, Places
from correlator.core.model import ClockEstimate

_REACH = 3.0
"""Nominal scales within which a class speaks of one moment: its readings on two nodes differ by that of both."""
_WITNESSES = 2
"""Lines on the node that must say so: one is a late or mislabelled line as likely as not."""


def rivals(component: Component, found: Fit) -> tuple[dict[str, tuple[float, float]], list[Contradiction]]:
    """How far below and above the fitted offset other classes place a domain, ms, reach included; and their words."""
    data = component.readings
    apart, seen = _against_others(found, data.seen, reference_of(found))
    votes = np.zeros(seen.shape)
    votes[component.rows["node"].to_numpy(), component.rows["column"].to_numpy()] = component.rows["votes"].to_numpy()
    places = Places(component)
    moves: dict[str, tuple[float, float]] = {}
    told: list[Contradiction] = []
    for klass in np.unique(data.klass):
        columns = np.flatnonzero(data.klass == klass)
        mine, count = seen[:, columns], (votes[:, columns] * seen[:, columns]).sum(axis=1)
        gap = np.nan_to_num(median_of(apart[:, columns], mine, axis=1))
        nominal = np.sqrt(2.0) * median_of(data.sigma_ms[:, columns], mine, axis=1)
        reach = _REACH * np.nan_to_num(nominal, nan=np.inf)
        for node in np.flatnonzero((np.abs(gap) > reach) & (count >= _WITNESSES)):
            low, high = moves.get(component.domains[node], (0.0, 0.0))
            moves[component.domains[node]] = (
                min(low, float(gap[node] - reach[node])),
                max(high, float(gap[node] + reach[node])),
            )
            column = columns[int(np.argmax(mine[node]))]
            told.append(_words(component, places, int(node), int(column), float(gap[node])))
    return moves, told


def _against_others(found: Fit, seen: Bools, reference: int) -> tuple[Floats, Bools]:
    """Each reading less the middle of what the other nodes of its hub say, offsets off; and where that can be told.

    Of two nodes alone either may lag: it counts for the one that is not the measure.
    """
    members = seen.sum(axis=0)
    told = seen & (members >= 2)
    told[reference] &= members > 2
    return np.where(told, found.residual_ms - _middle_of_others(found.residual_ms, seen), 0.0), told


def _middle_of_others(values: Floats, seen: Bools) -> Floats:
    """For each seen cell the median of the other seen cells of its column; 0 where there is none."""
    order = np.argsort(np.where(seen, values, np.inf), axis=0, kind="stable")
    ordered = np.take_along_axis(np.where(seen, values, 0.0), order, axis=0)
    place = np.argsort(order, axis=0, kind="stable")
    others = np.maximum(seen.sum(axis=0) - 1, 0)
    last = len(seen) - 1

    def other(number: Ints) -> Floats:
        """The so-and-so-many-th of the others: the cell itself is passed over."""
        return np.take_along_axis(ordered, np.clip(number + (number >= place), 0, last), axis=0)

    middle = (other(np.maximum(others - 1, 0) // 2) + other(others // 2)) / 2
    return np.asarray(np.where(seen & (others > 0), middle, 0.0), dtype=np.float64)


def _words(component: Component, places: Places, node: int, column: int, gap: float) -> Contradiction:
    others = np.flatnonzero(component.readings.seen[:, column])
    other = int(others[others != node][0])
    name = CLASSES[int(component.readings.klass[column])].name
    text = (
        f"{component.domains[node]}: the {name} at {places.of(node, column)} and {places.of(other, column)} places its "
        f"clock {abs(gap) / 1000:.1f} s {'ahead of' if gap > 0 else 'behind'} where its other lines do; "
        "lines of one kind may be held back there, so the interval holds both"
    )
    return Contradiction((component.domains[node], component.domains[other]), abs(gap), text)


def with_rivals(estimates: Sequence[ClockEstimate], moves: Mapping[str, tuple[float, float]]) -> list[ClockEstimate]:
    """Estimates whose intervals hold what the rival classes say as well."""
    return [_moved(one, moves[one.node]) if one.node in moves else one for one in estimates]


def _moved(one: ClockEstimate, moves: tuple[float, float]) -> ClockEstimate:
    if one.interval_ms is None or one.offset_ms is None:
        return one
    low, high = (round(one.offset_ms + move, 3) for move in moves)
    return replace(one, interval_ms=(min(one.interval_ms[0], low), max(one.interval_ms[1], high)))
