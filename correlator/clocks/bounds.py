"""What messages bound, on any clock: the earliest moment of what was sent, the latest of what was heard (3.1 step 7).

A line that must come before another bounds the difference of two clocks. The bounds are followed over nodes and hubs
(Bellman-Ford from the intervals of the fit), but no interval is narrowed by one witness alone: the second best bound
counts, and a wrong line costs nothing. Where two bounds leave nothing of an interval, it is widened to hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from correlator.clocks.readings import Bools, Floats, Ints
from correlator.core.model import DRIFT_KNOWN_PPM, DRIFT_UNKNOWN_PPM, ClockEstimate

_NS_PER_MS = 1_000_000
_WIDE_MS = 2_000.0
"""Clocks known better than this gain nothing: one message alone takes its time too."""
_ROUNDS = 5
_SCHEMA = {
    "domain": pl.String,
    "low": pl.Float64,
    "high": pl.Float64,
    "offset": pl.Float64,
    "as_of": pl.Float64,
    "drift": pl.Float64,
    "loose": pl.Float64,
}


def edges(lines: pl.DataFrame, estimates: Sequence[ClockEstimate]) -> pl.DataFrame:
    """Lines of clocks with an interval, and `soonest_ms` and `latest_ms`: when they were printed on the true time scale.

    Far from the moment that an interval holds for, the drift is taken in.
    """
    rows = [_row(one) for one in estimates if one.interval_ms is not None and one.offset_ms is not None]
    known = lines.join(pl.DataFrame(rows, schema=_SCHEMA, orient="row"), on="domain", maintain_order="left")
    printed_ms = pl.col("ns") / _NS_PER_MS
    away_ms = printed_ms - pl.col("offset") - pl.col("as_of").fill_null(printed_ms - pl.col("offset"))
    moved, slack = pl.col("drift") * away_ms, pl.col("loose") * away_ms.abs()
    soonest = (printed_ms - moved - slack).alias("printed_soonest_ms")
    latest = (printed_ms + pl.col("grain_ms") - moved + slack).alias("printed_latest_ms")
    return known.with_columns(soonest, latest).with_columns(
        (pl.col("printed_soonest_ms") - pl.col("high")).alias("soonest_ms"),
        (pl.col("printed_latest_ms") - pl.col("low")).alias("latest_ms"),
    )


def _row(one: ClockEstimate) -> tuple[str, float, float, float, float | None, float, float]:
    low, high = one.interval_ms or (0.0, 0.0)
    exact = low == high
    loose = 0.0 if exact else DRIFT_UNKNOWN_PPM if one.drift_ppm is None else DRIFT_KNOWN_PPM
    return (one.node, low, high, one.offset_ms or 0.0, one.as_of_ms, (one.drift_ppm or 0.0) * 1e-6, loose * 1e-6)


def bounded(estimates: Sequence[ClockEstimate], lines: pl.DataFrame, unbelieved: pl.DataFrame) -> list[ClockEstimate]:
    """The estimates of one component, with intervals narrowed by what two messages at least say.

    `lines` as of `validators.messages`, `unbelieved` those that the fit rejected.
    """
    wide = [one.node for one in estimates if one.interval_ms and one.interval_ms[1] - one.interval_ms[0] > _WIDE_MS]
    if not wide or lines.is_empty():
        return list(estimates)
    told = pl.col("domain").is_in(pl.Series(wide, dtype=pl.String).implode()).any().over("rule", "key")
    used = lines.join(unbelieved, on=["path", "line"], how="anti").filter(told)
    used = _tightest(edges(used, estimates))
    if used.is_empty():
        return list(estimates)
    number = {one.node: index for index, one in enumerate(estimates)}
    low = np.array([one.interval_ms[0] if one.interval_ms else -np.inf for one in estimates])
    high = np.array([one.interval_ms[1] if one.interval_ms else np.inf for one in estimates])
    graph = _Graph(used, number)
    first_low, first_high = low, high
    for _ in range(_ROUNDS):
        new_low, new_high = graph.narrowed(low, high)
        settled = np.allclose(new_low, low, atol=0.01) and np.allclose(new_high, high, atol=0.01)
        low, high = new_low, new_high
        if settled:
            break
    empty = low > high  # the bounds cross each other: hold both, and all that was there before
    low, high = np.where(empty, np.minimum(first_low, high), low), np.where(empty, np.maximum(first_high, low), high)
    return [_moved(one, float(low[index]), float(high[index])) for index, one in enumerate(estimates)]


def _tightest(known: pl.DataFrame) -> pl.DataFrame:
    """One line of each node and side of a message: its ranks are no second witness against one late line elsewhere."""
    return (
        known.group_by("rule", "key", "later", "domain")
        .agg(pl.col("printed_soonest_ms").max(), pl.col("printed_latest_ms").min())
        .sort("rule", "key", "later", "domain")
    )


def _moved(one: ClockEstimate, low: float, high: float) -> ClockEstimate:
    if one.interval_ms is None or one.offset_ms is None:
        return one
    low, high = round(low, 3), round(high, 3)
    if (low, high) == one.interval_ms:
        return one
    return replace(one, interval_ms=(low, high), offset_ms=min(max(one.offset_ms, low), high))


class _Graph:
    """Messages between nodes and hubs as arrays: one row a line."""

    def __init__(self, used: pl.DataFrame, number: dict[str, int]) -> None:
        hub = used.select(pl.concat_str("rule", "key", separator="|").rank("dense").alias("hub"))["hub"]
        self._nodes = len(number)
        self._hub: Ints = hub.to_numpy().astype(np.int64) - 1
        self._node: Ints = used["domain"].replace_strict(number, return_dtype=pl.Int64).to_numpy()
        self._later = used["later"].to_numpy()
        self._soonest: Floats = used["printed_soonest_ms"].to_numpy()
        self._latest: Floats = used["printed_latest_ms"].to_numpy()

    def narrowed(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """One round: hubs from nodes, nodes from hubs."""
        heard, sent = self._later, ~self._later
        # A hub lies after all that was sent and before all that was heard of it; a node is no witness of its own.
        began = self._of_others(sent, self._soonest - high[self._node], heard)
        ended = -self._of_others(heard, -(self._latest - low[self._node]), sent)
        upper = self._second_least(self._node[heard], self._latest[heard] - began)
        lower = -self._second_least(self._node[sent], -(self._soonest[sent] - ended))
        return np.maximum(low, lower), np.minimum(high, upper)

    def _of_others(self, chosen: Bools, value: Floats, asked: Bools) -> Floats:
        """For each asked line the greatest value that another node's chosen lines give its hub; -inf without any."""
        size = int(self._hub.max()) + 1
        hub, node = self._hub[chosen], self._node[chosen]
        order = np.lexsort((value[chosen], hub))
        hub, node, value = hub[order], node[order], value[chosen][order]
        best, other = np.full(size, -np.inf), np.full(size, -np.inf)
        owner = np.full(size, -1, dtype=np.int64)
        best[hub], owner[hub] = value, node  # in ascending order: the last one written is the greatest
        rest = node != owner[hub]
        other[hub[rest]] = value[rest]
        mine = self._hub[asked]
        return np.where(owner[mine] == self._node[asked], other[mine], best[mine])

    def _second_least(self, node: Ints, value: Floats) -> Floats:
        """Of each node the second least bound: what two witnesses say; +inf where there are fewer."""
        order = np.lexsort((value, node))
        node, value = node[order], value[order]
        found = np.full(self._nodes, np.inf)
        second = np.flatnonzero((node[1:] == node[:-1]) & np.append(True, node[1:-1] != node[:-2])) + 1
        found[node[second]] = value[second]
        return found
