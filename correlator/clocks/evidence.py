"""From events to readings: one row for each shared moment and node, then matrices for each connected component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from correlator.clocks.classes import CLASSES, EvidenceClass, Reduce, part_names
from correlator.clocks.readings import Readings, most_hubs
from correlator.identity.names import natural

_NS_PER_MS = 1_000_000
_COMMON = 0.25
_ENOUGH = 30
_SAMPLE = 100_000
"""Rows from which the spread within nodes is told."""
_SHARES = (50, 2)
"""What a class may prove to be better than nominal: at most this much from its spread within nodes, else this much."""
_WITNESSES = 20
"""Readings that the selection of hubs keeps for each node, where it has them."""


@dataclass(frozen=True, slots=True)
class Component:
    """Domains that shared hubs connect, with their readings as matrices and as rows."""

    domains: tuple[str, ...]
    readings: Readings
    zero_ns: int
    """Zero of `Readings.x_ms`."""
    rows: pl.DataFrame
    """`node`, `column` (in the matrices), `hub`, `path`, `line` of each reading, and how many lines of the node it reads."""


def readings(timed: pl.DataFrame) -> pl.DataFrame:
    """A row for each hub and domain, with the place of the line that it is read from.

    `ns` is the centre of the stamp; `sigma_ms` the nominal scale, `least_ms` the smallest that may be claimed. Hubs that
    only one domain saw say nothing and are left out.
    """
    table = pl.concat([_reduced(klass, number, klass.select(timed)) for number, klass in enumerate(CLASSES)])
    return table.filter(pl.col("domain").n_unique().over("hub") >= 2).sort("hub", "domain")


def _reduced(klass: EvidenceClass, number: int, rows: pl.DataFrame) -> pl.DataFrame:
    """One reading a node: a stamp x of granularity g stands for [x, x + g), its centre errs by 0.29 g (section 2)."""
    centre = pl.col("ns") + (pl.col("grain_ms") * (_NS_PER_MS / 2)).cast(pl.Int64)
    rows = rows.with_columns(centre.alias("ns"))
    names = part_names(rows)
    ns = pl.col("ns")
    first = ns.arg_min()
    votes = pl.col("votes") if klass.reduce is Reduce.MEAN else pl.lit(1)
    rounding = 0.29 * pl.col("grain_ms") / votes.sqrt()
    # What polls do not average out is what their nodes have in common.
    nominal = (klass.sigma_ms**2 * (1 / votes + (votes > 1) * _COMMON**2)).sqrt()
    least = nominal * _share(rows.tail(_SAMPLE), [*names, "domain"], klass.sigma_ms)
    if klass.reduce is not Reduce.EARLIEST:
        nominal, least = (pl.max_horizontal(scale, _discord(klass)) for scale in (nominal, least))
    reduced = rows.group_by([*names, "domain"]).agg(
        _standing(klass),
        pl.lit(0) if klass.reduce is Reduce.EARLIEST else (ns - ns.median()).abs().median().alias("apart"),
        pl.len().alias("votes"),
        pl.col("grain_ms", "path", "line").get(first),
    )
    key = (pl.col(name).cast(pl.String).fill_null("") for name in names)
    return reduced.select(
        pl.concat_str(pl.lit(klass.name), *key, separator="|").alias("hub"),
        "domain",
        "ns",
        (nominal**2 + rounding**2).sqrt().alias("sigma_ms"),
        (least**2 + rounding**2).sqrt().alias("least_ms"),
        "grain_ms",
        pl.lit(number, pl.Int32).alias("klass"),
        pl.col("path").cast(pl.String),
        "line",
        pl.col("votes").cast(pl.Int64),
    )


def _discord(klass: EvidenceClass) -> pl.Expr:
    """How far the ranks of a node, which share a clock, differ about one moment; 0 where it is what the class expects."""
    apart = pl.col("apart") / _NS_PER_MS
    expected = (klass.sigma_ms**2 + (0.29 * pl.col("grain_ms")) ** 2).sqrt()
    return pl.when((pl.col("votes") > 2) & (apart > 3 * expected)).then(apart).otherwise(0.0)


def _standing(klass: EvidenceClass) -> pl.Expr:
    """The reading that stands for a node."""
    ns = pl.col("ns")
    match klass.reduce:
        case Reduce.EARLIEST:
            return ns.min()
        case Reduce.MIDDLE:
            return ns.median().cast(pl.Int64)
        case Reduce.MEAN:
            reach = 3 * _NS_PER_MS * (klass.sigma_ms**2 + (0.29 * pl.col("grain_ms")) ** 2).sqrt()
            return ns.filter((ns - ns.median()).abs() <= reach).mean().cast(pl.Int64)


def _share(rows: pl.DataFrame, group: list[str], sigma_ms: float) -> float:
    """How much better than nominal a class may be: ranks of one node share its clock, so their spread tells."""
    spread = (pl.col("ns") - pl.col("ns").median().over(group)).abs()
    several = rows.select(spread.alias("spread"), pl.len().over(group).alias("many")).filter(pl.col("many") >= 3)
    typical = several["spread"].median()
    if several.height < _ENOUGH or not isinstance(typical, (int, float)):
        return 1 / _SHARES[1]
    return float(np.clip(1.4826 * typical / _NS_PER_MS / sigma_ms, 1 / _SHARES[0], 1 / _SHARES[1]))


def components(table: pl.DataFrame, ends: Mapping[str, int]) -> list[Component]:
    """The connected components, those of most domains first (ties: by name)."""
    groups = _connected(table)
    return [
        _component(table.filter(pl.col("domain").is_in(pl.Series(group).implode())), group, ends) for group in groups
    ]


def _connected(table: pl.DataFrame) -> list[list[str]]:
    """Domains connected by shared hubs: union-find over the pairs of hub and domain."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    links = table.select(pl.col("domain").first().over("hub").alias("first"), "domain").unique().sort("first", "domain")
    for first, domain in links.iter_rows():
        a, b = root(first), root(domain)
        parent[max(a, b)] = min(a, b)
    groups: dict[str, list[str]] = {}
    for name in sorted(parent, key=natural):
        groups.setdefault(root(name), []).append(name)
    return sorted(groups.values(), key=len, reverse=True)


def _component(table: pl.DataFrame, domains: Sequence[str], ends: Mapping[str, int]) -> Component:
    table = _selected(table, ends, most_hubs(len(domains)))
    zero = min(ends[domain] for domain in domains)
    names = pl.DataFrame({"domain": domains, "node": range(len(domains))}, schema_overrides={"node": pl.Int64})
    hubs = table.select("hub", "klass").unique(maintain_order=True).with_row_index("column")
    rows = table.join(names, on="domain", maintain_order="left").join(
        hubs.select("hub", "column"), on="hub", maintain_order="left"
    )
    node, column = rows["node"].to_numpy(), rows["column"].to_numpy()
    shape = (len(domains), hubs.height)

    def matrix(values: pl.Series, empty: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        filled = np.full(shape, empty)
        filled[node, column] = values.to_numpy()
        return filled

    seen = np.zeros(shape, dtype=np.bool_)
    seen[node, column] = True
    readings = Readings(
        x_ms=matrix((rows["ns"] - zero) / _NS_PER_MS, 0.0),
        seen=seen,
        sigma_ms=matrix(rows["sigma_ms"], 1.0),
        least_ms=matrix(rows["least_ms"], 1.0),
        grain_ms=matrix(rows["grain_ms"], 0.0),
        klass=hubs["klass"].to_numpy().astype(np.int64),
        marks=np.array([klass.at_work for klass in CLASSES])[hubs["klass"].to_numpy()],
    )
    return Component(tuple(domains), readings, zero, rows.select("node", "column", "hub", "path", "line", "votes"))


def _selected(table: pl.DataFrame, ends: Mapping[str, int], most: int) -> pl.DataFrame:
    """At most so many hubs: mostly the latest as their nodes' own clocks tell it, some for nodes with few, some older."""
    if table["hub"].n_unique() <= most:
        return table
    last = pl.DataFrame({"domain": list(ends), "_end": list(ends.values())}, schema_overrides={"_end": pl.Int64})
    table = table.join(last, on="domain", how="left", maintain_order="left")
    aged = table.with_columns((pl.col("_end") - pl.col("ns")).alias("_age")).drop("_end")
    hubs = aged.group_by("hub").agg(pl.col("_age").median(), pl.len().alias("_members")).sort("_age", "hub")
    latest = hubs["hub"].head(most // 2)
    mine = aged.filter(pl.col("_age").rank("ordinal").over("domain") <= _WITNESSES)["hub"].unique()
    wanted = hubs.filter(pl.col("hub").is_in(mine.implode()) & ~pl.col("hub").is_in(latest.implode()))
    covering = wanted.sort("_members", "_age", "hub", descending=[True, False, False])["hub"].head(most // 4)
    taken = pl.concat([latest, covering])
    rest = hubs.filter(~pl.col("hub").is_in(taken.implode()))["hub"]
    picks = np.unique(np.geomspace(1, max(rest.len(), 1), most - taken.len()).astype(np.int64)) - 1
    kept = pl.concat([taken, rest.gather(picks[picks < rest.len()])])
    return table.drop("_end").filter(pl.col("hub").is_in(kept.implode()))
