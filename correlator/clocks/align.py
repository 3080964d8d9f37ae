"""From the event table to clock estimates and aligned times: the steps of ALIGN in order (method.md section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from correlator.clocks.bounds import bounded
from correlator.clocks.clock_lines import Split, clock_splits
from correlator.clocks.coarse import coarse
from correlator.clocks.estimates import estimates_of
from correlator.clocks.evidence import components, readings
from correlator.clocks.file_times import with_file_times
from correlator.clocks.filling import filled
from correlator.clocks.fit import Fit, fit
from correlator.clocks.kernel_time import anchored
from correlator.clocks.readings import Readings
from correlator.clocks.rivals import rivals, with_rivals
from correlator.clocks.stamps import timed_events
from correlator.clocks.validators import Contradiction, disagreements, messages, rejected, violations, widening
from correlator.clocks.zones import Tie, split_zones
from correlator.core.files import FileReport, LogFile
from correlator.core.model import ClockEstimate, ClockModel, ClockStep, Topology
from correlator.core.vocabulary import ClockStatus
from correlator.identity.names import natural

_MOST_CONTRADICTIONS = 20


@dataclass(frozen=True, slots=True)
class Aligned:
    """The event table with `time_aligned` and `time_uncertainty_ms`, and the clocks behind them."""

    events: pl.DataFrame
    clocks: ClockModel


def align(
    events: pl.DataFrame, topology: Topology, files: Sequence[LogFile] = (), reports: Sequence[FileReport] = ()
) -> Aligned:
    """Estimates the offset of every clock domain against a reference node and fills the aligned times.

    Kernel lines without a wall time get one first (time source `interpolated`), and writers of a node in another zone
    a domain of their own. Domains without shared evidence get no offset: their events keep the printed time as
    `time_aligned`, with a null `time_uncertainty_ms`, and are never ordered against others. `files` and `reports`, where
    given, let believable file times place such a domain, still without an uncertainty.
    """
    zoned = split_zones(anchored(events))
    timed = _on_main_clock(timed_events(zoned.events, topology.store_node), zoned.ties)
    ends = dict(timed.group_by("domain").agg(pl.col("ns").max()).sort("domain").iter_rows())
    splits = clock_splits(timed)
    table = _after_splits(readings(timed), splits)
    found, told = _fitted(timed, table, ends, splits)
    names = sorted({*ends, *topology.nodes}, key=natural)
    known = found or _alone(ends, topology)
    known |= {one.node: one for one in _tied(known, zoned.ties)}
    known = with_file_times(known, zoned.events, files, reports)
    known |= {one.node: one for one in _tied(known, zoned.ties)}
    unknown = (_unknown(name, splits) for name in names if name not in known)
    estimates = sorted([*known.values(), *unknown], key=lambda estimate: natural(estimate.node))
    return Aligned(filled(zoned.events, estimates), ClockModel(tuple(estimates), _words(told)))


def _on_main_clock(timed: pl.DataFrame, ties: Sequence[Tie]) -> pl.DataFrame:
    """Readings of a tied domain count for its node; those of an unexplained one stay apart."""
    rows = [(tie.domain, tie.main, tie.shift_ms * 1_000_000) for tie in ties if tie.shift_ms is not None]
    if not rows:
        return timed
    schema = {"domain": pl.String, "_main": pl.String, "_shift": pl.Int64}
    joined = timed.join(pl.DataFrame(rows, schema=schema, orient="row"), on="domain", how="left", maintain_order="left")
    return joined.with_columns(
        pl.coalesce("_main", "domain").alias("domain"), (pl.col("ns") - pl.col("_shift").fill_null(0)).alias("ns")
    ).drop("_main", "_shift")


def _after_splits(table: pl.DataFrame, splits: Mapping[str, Split]) -> pl.DataFrame:
    """Without readings from before a step that the system's own log tells of; one that came after all of them is late."""
    if not splits:
        return table
    rows = pl.DataFrame({"domain": list(splits), "_at": [split.ns for split in splits.values()]})
    joined = table.join(rows, on="domain", how="left", maintain_order="left")
    late = pl.col("_at") > pl.col("ns").max().over("domain")
    kept = joined.filter(pl.col("_at").is_null() | late | (pl.col("ns") >= pl.col("_at"))).drop("_at")
    return kept.filter(pl.col("domain").n_unique().over("hub") >= 2)


def _fitted(
    timed: pl.DataFrame, table: pl.DataFrame, ends: Mapping[str, int], splits: Mapping[str, Split]
) -> tuple[dict[str, ClockEstimate], list[Contradiction]]:
    """Estimates by domain, and what contradicts them; one fit and one reference for each connected component."""
    if table.is_empty():
        return {}, []
    lines = messages(timed, table)
    estimates: dict[str, ClockEstimate] = {}
    told: list[Contradiction] = []
    for component in components(table, ends):
        fitted = _fit_or_medians(component.readings)
        moves, denied = rivals(component, fitted)
        chosen = with_rivals(estimates_of(component, fitted), moves)
        unbelieved = rejected(component, fitted)
        missed = violations(lines, chosen, unbelieved)
        told += [*missed, *denied, *disagreements(component, fitted)]
        wider = widening(missed)
        held = [_widened(estimate, wider.get(estimate.node, 0.0)) for estimate in chosen]
        for estimate in bounded(held, lines, unbelieved):
            split = splits.get(estimate.node)
            one = estimate if split is None else _split(estimate, split)
            estimates[one.node] = one
    return estimates, told


def _fit_or_medians(data: Readings) -> Fit:
    """Readings that no fit can join (years apart, one long chain) still have medians."""
    try:
        fitted = fit(data)
    except np.linalg.LinAlgError:
        return coarse(data)
    return fitted if np.isfinite(fitted.offset_ms).all() else coarse(data)


def _split(estimate: ClockEstimate, split: Split) -> ClockEstimate:
    return replace(estimate, status=ClockStatus.STEPPED, steps=(*estimate.steps, split.step))


def _widened(estimate: ClockEstimate, by_ms: float) -> ClockEstimate:
    if estimate.interval_ms is None or not by_ms:
        return estimate
    low, high = estimate.interval_ms
    return replace(estimate, interval_ms=(low - by_ms, high + by_ms))


def _alone(ends: Mapping[str, int], topology: Topology) -> dict[str, ClockEstimate]:
    """Where nothing connects, the only node of the run is its own reference, exactly."""
    nodes = [domain for domain in ends if domain in topology.nodes] or list(ends)
    if len(nodes) != 1:
        return {}
    name = nodes[0]
    return {name: ClockEstimate(name, 0.0, (0.0, 0.0), None, None, 0, ClockStatus.ALIGNED, reference=name)}


def _unknown(name: str, splits: Mapping[str, Split]) -> ClockEstimate:
    steps: tuple[ClockStep, ...] = (splits[name].step,) if name in splits else ()
    return ClockEstimate(name, None, None, None, None, 0, ClockStatus.NONE, steps=steps)


def _tied(known: Mapping[str, ClockEstimate], ties: Sequence[Tie]) -> list[ClockEstimate]:
    """A writer in another zone: its node's clock, so many quarters of an hour away."""
    found: list[ClockEstimate] = []
    for tie in ties:
        main = known.get(tie.main)
        if tie.shift_ms is not None and main is not None and main.offset_ms is not None:
            interval = main.interval_ms
            moved = None if interval is None else (interval[0] + tie.shift_ms, interval[1] + tie.shift_ms)
            offset = main.offset_ms + tie.shift_ms
            found.append(replace(main, node=tie.domain, offset_ms=offset, interval_ms=moved, timezone=tie.zone))
    return found


def _words(told: Sequence[Contradiction]) -> tuple[str, ...]:
    """The worst contradictions, and how many there are besides."""
    ordered = sorted(told, key=lambda one: (-one.excess_ms, one.text))
    words = [one.text for one in ordered[:_MOST_CONTRADICTIONS]]
    more = len(ordered) - len(words)
    return (*words, f"{more} further readings contradict the clocks") if more else tuple(words)
