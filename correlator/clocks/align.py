"""From the event table to clock estimates and aligned times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from correlator.clocks.evidence import readings, timed_events
from correlator.clocks.fit import MOST_HUBS, Fit, Readings, fit
from correlator.clocks.zones import Tie, split_zones, zone_name
from correlator.core.model import ClockEstimate, ClockModel, Topology
from correlator.core.schema import polars_schema
from correlator.core.vocabulary import ClockStatus
from correlator.identity.names import natural

_DRIFT = 100e-6
"""Assumed largest drift of a clock, s/s (method.md section 3.1, DMAX)."""
_STALE_MS = 3_600_000
"""Nodes whose readings lie further than this before their last line are stale."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """The event table with `time_aligned` and `time_uncertainty_ms`, and the clocks behind them."""

    events: pl.DataFrame
    clocks: ClockModel


def align(events: pl.DataFrame, topology: Topology) -> Aligned:
    """Estimates the offset of every clock domain against a reference node and fills the aligned times.

    Domains without shared evidence get no offset: their events keep the printed time as `time_aligned`, with a null
    `time_uncertainty_ms`, and are never ordered against others.
    """
    zoned = split_zones(events)
    timed = _on_main_clock(timed_events(zoned.events, topology.store_node), zoned.ties)
    table = readings(timed)
    ends = dict(timed.group_by("domain").agg(pl.col("ns").max()).iter_rows())
    names = sorted({*ends, *topology.nodes}, key=natural)
    nodes = [domain for domain in ends if domain in topology.nodes] or list(ends)
    main = _estimates(table, ends, names, nodes[0] if len(nodes) == 1 else None)
    estimates = sorted((*main, *_tied(main, zoned.ties)), key=lambda estimate: natural(estimate.node))
    model = ClockModel(estimates=tuple(estimates))
    return Aligned(events=_filled(zoned.events, estimates), clocks=model)


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


def _estimates(
    table: pl.DataFrame, ends: dict[str, int], names: Sequence[str], only: str | None
) -> list[ClockEstimate]:
    """Estimates of the largest connected component; all other domains are not comparable with it.

    Where nothing connects, the `only` node of the run is its own reference, exactly.
    """
    known: dict[str, ClockEstimate] = {}
    component = _largest_component(table)
    if component:
        members = table.filter(pl.col("domain").is_in(pl.Series(component).implode()))
        known = _fitted(members, sorted(component, key=natural), ends)
    elif only is not None:
        known[only] = ClockEstimate(only, 0.0, (0.0, 0.0), None, None, 0, ClockStatus.ALIGNED)
    return [known.get(name, ClockEstimate(name, None, None, None, None, 0, ClockStatus.NONE)) for name in names]


def _largest_component(table: pl.DataFrame) -> list[str]:
    """Domains connected by shared hubs, most members first (ties: by name)."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    first: dict[str, str] = {}
    for hub, domain in table.select("hub", "domain").iter_rows():
        a, b = root(first.setdefault(hub, domain)), root(domain)
        parent[max(a, b)] = min(a, b)
    groups: dict[str, list[str]] = {}
    for name in sorted(parent):
        groups.setdefault(root(name), []).append(name)
    return max(groups.values(), key=len, default=[])


def _fitted(table: pl.DataFrame, domains: list[str], ends: dict[str, int]) -> dict[str, ClockEstimate]:
    table = _recent(table, ends)
    data = _arrays(table, domains, ends)
    result = fit(data)
    reference = _reference(result)
    offsets = result.offset_ms - result.offset_ms[reference]
    centre = float(np.median(result.offset_ms))
    estimates: dict[str, ClockEstimate] = {}
    for index, domain in enumerate(domains):
        half = float(result.half_width_ms[index])
        stale = float(result.drift_ms[index]) > _DRIFT * _STALE_MS
        offset = round(float(offsets[index]), 3)
        estimates[domain] = ClockEstimate(
            node=domain,
            offset_ms=offset,
            interval_ms=(round(offset - half, 3), round(offset + half, 3)),
            drift_ppm=None,
            timezone=zone_name(float(result.offset_ms[index]) - centre),
            evidence=int(result.evidence[index]),
            status=ClockStatus.STALE if stale else ClockStatus.ALIGNED,
        )
    return estimates


def _recent(table: pl.DataFrame, ends: dict[str, int]) -> pl.DataFrame:
    """At most MOST_HUBS hubs: those nearest to the end of the run as the clocks of their own nodes tell it."""
    last = pl.DataFrame(
        {"domain": list(ends), "_end": list(ends.values())}, schema={"domain": pl.String, "_end": pl.Int64}
    )
    table = table.join(last, on="domain", how="left", maintain_order="left")
    table = table.with_columns(((pl.col("_end") - pl.col("ns")) / 1e6).clip(0.0).alias("age_ms")).drop("_end")
    hubs = table.group_by("hub").agg(pl.col("age_ms").median()).sort("age_ms", "hub")
    if hubs.height <= MOST_HUBS:
        return table
    # Weak classes may be all that ties a node in; each domain keeps its latest hubs besides the latest of all.
    mine = table.filter(pl.col("age_ms").rank("ordinal").over("domain") <= 8)["hub"]
    kept = pl.concat([hubs["hub"].head(MOST_HUBS), mine]).unique()
    return table.filter(pl.col("hub").is_in(kept.implode()))


def _arrays(table: pl.DataFrame, domains: list[str], ends: dict[str, int]) -> Readings:
    index = {domain: i for i, domain in enumerate(domains)}
    hubs = {hub: i for i, hub in enumerate(table["hub"].unique(maintain_order=True))}
    zero = min(ends.values())
    return Readings(
        node=np.array([index[domain] for domain in table["domain"]], dtype=np.int64),
        hub=np.array([hubs[hub] for hub in table["hub"]], dtype=np.int64),
        klass=table["klass"].to_numpy().astype(np.int64),
        x_ms=(table["ns"].to_numpy() - zero) / 1e6,
        sigma_ms=table["sigma_ms"].to_numpy().astype(np.float64),
        drift_ms=_DRIFT * table["age_ms"].to_numpy().astype(np.float64),
        grain_ms=table["grain_ms"].to_numpy().astype(np.float64),
        nodes=len(domains),
        hubs=len(hubs),
    )


def _reference(result: Fit) -> int:
    """The best witnessed node; among equals the one in the middle, so that the odd clock out is never the measure."""
    enough = result.evidence >= 0.9 * result.evidence.max()
    distance = np.abs(result.offset_ms - np.median(result.offset_ms))
    return int(np.argmin(np.where(enough, distance, np.inf)))


def _tied(estimates: Sequence[ClockEstimate], ties: Sequence[Tie]) -> list[ClockEstimate]:
    by_name = {estimate.node: estimate for estimate in estimates}
    found: list[ClockEstimate] = []
    for tie in ties:
        main = by_name.get(tie.main)
        if tie.shift_ms is None or main is None or main.offset_ms is None or main.interval_ms is None:
            continue
        low, high = main.interval_ms
        shift = tie.shift_ms
        interval = (low + shift, high + shift)
        offset = main.offset_ms + shift
        found.append(ClockEstimate(tie.domain, offset, interval, None, tie.zone, main.evidence, main.status))
    return found


def _filled(events: pl.DataFrame, estimates: Sequence[ClockEstimate]) -> pl.DataFrame:
    schema = polars_schema()
    rows = [
        (e.node, round(e.offset_ms * 1e6), (e.interval_ms[1] - e.interval_ms[0]) / 2)
        for e in estimates
        if e.offset_ms is not None and e.interval_ms is not None
    ]
    columns = {"_domain": pl.String, "_offset": pl.Int64, "_half": pl.Float64}
    table = pl.DataFrame(rows, schema=columns, orient="row")
    keyed = events.with_columns(pl.col("clock_domain").cast(pl.String).alias("_domain"))
    joined = keyed.join(table, on="_domain", how="left", maintain_order="left")
    moved = pl.col("timestamp") - pl.duration(nanoseconds=pl.col("_offset").fill_null(0), time_unit="ns")
    uncertain = pl.when(pl.col("timestamp").is_not_null()).then(
        pl.col("_half") + pl.col("time_granularity_ms").fill_null(0.0)
    )
    return joined.with_columns(
        moved.cast(schema["time_aligned"]).alias("time_aligned"),
        uncertain.cast(schema["time_uncertainty_ms"]).alias("time_uncertainty_ms"),
    ).drop("_domain", "_offset", "_half")
