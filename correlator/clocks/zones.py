"""Stamps with and without a zone on one node: two readings of one clock, apart by whole quarters of an hour.

A kernel journal may print `-0500` while ranks print bare local time; both come from the node's clock. Where the two
kinds of a node do not lie over each other, the minority gets a domain of its own, tied to the node's by the zone
that makes them meet. Without such a zone it stays alone, and no order is derived across (method.md section 2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from correlator.core.vocabulary import Context, FileKind

QUARTER_MS = 900_000
_APART_NS = 600 * 10**9
"""Windows closer than this are one clock: kernel logs go quiet for minutes."""
_MOST_ZONES_NS = 15 * 3600 * 10**9
_ZONE = re.compile(r"([+-])(\d{2}):?(\d{2})?")


@dataclass(frozen=True, slots=True)
class Tie:
    """A second domain of a node: its stamps = the node's + `shift_ms`; None where no zone explains the distance."""

    domain: str
    main: str
    shift_ms: int | None
    zone: str | None = None
    """The node's zone as text, where it was found."""


@dataclass(frozen=True, slots=True)
class Zoned:
    """Events with refined clock domains, and how the added domains hang together with their nodes."""

    events: pl.DataFrame
    ties: tuple[Tie, ...]


@dataclass(frozen=True, slots=True)
class _Window:
    first: int
    last: int

    def gap(self, other: _Window, shift_ns: int = 0) -> int:
        """ns between two windows, 0 where they overlap; `other` is moved by `shift_ns`."""
        return max(0, other.first + shift_ns - self.last, self.first - other.last - shift_ns)


def split_zones(events: pl.DataFrame) -> Zoned:
    """Gives zoned and unzoned stamps of a node separate domains where they cannot be one reading of its clock."""
    windows = _windows(events)
    zones = sorted({offset for text in _printed(events) if (offset := zone_ms(text)) is not None and offset != 0})
    ties: list[Tie] = []
    moved: list[tuple[str, bool, str]] = []
    for domain, sides in windows.items():
        if len(sides) < 2:
            continue
        (main_zoned, main, _), (_, other, kernel_only) = sides
        if main.gap(other) <= _APART_NS:
            continue
        # Local stamp = absolute stamp + zone offset of the node.
        signs = [-zone if main_zoned else zone for zone in zones]
        fits = [shift for shift in signs if main.gap(other, shift * 1_000_000) <= _APART_NS]
        if not fits and kernel_only and main.gap(other) > _MOST_ZONES_NS:
            continue  # merely old lines: no zone reaches that far
        suffix = "kernel" if kernel_only else "local time" if main_zoned else "UTC"
        name = f"{domain} ({suffix})"
        if len(fits) == 1:
            zone = f"the node's local time is {_utc(-fits[0] if main_zoned else fits[0])}"
            ties.append(Tie(name, domain, -fits[0], zone))
        else:
            ties.append(Tie(name, domain, None))
        moved.append((domain, not main_zoned, name))
    if not moved:
        return Zoned(events, ())
    return Zoned(_renamed(events, moved), tuple(ties))


def zone_ms(text: str | None) -> int | None:
    """Offset of a printed zone in ms: `+01:00`, `-0500`, `Z`, `UTC`; None for what is no zone."""
    if text is None:
        return None
    if text.upper() in ("Z", "UTC", "GMT"):
        return 0
    match = _ZONE.fullmatch(text)
    if match is None:
        return None
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    return (-1 if match[1] == "-" else 1) * minutes * 60_000


def zone_name(offset_ms: float) -> str | None:
    """The whole-zone part of an offset against the others, named; None where it is no whole zone plus a small rest."""
    quarters = round(offset_ms / QUARTER_MS)
    rest = offset_ms - quarters * QUARTER_MS
    if quarters == 0 or abs(offset_ms) < 850_000 or abs(quarters) > 14 * 4 or abs(rest) > 120_000:
        return None
    return f"{_utc(quarters * QUARTER_MS)} against the others"


def _utc(offset_ms: int) -> str:
    minutes = abs(offset_ms) // 60_000
    return f"UTC{'-' if offset_ms < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def _printed(events: pl.DataFrame) -> list[str | None]:
    return events["time_zone"].cast(pl.String).unique().to_list()


def _windows(events: pl.DataFrame) -> dict[str, list[tuple[bool, _Window, bool]]]:
    """For each domain its kinds of stamps, the one with most lines of ranks and launchers first."""
    kernel = pl.col("file_kind").cast(pl.String) == str(FileKind.KERNEL_LOG)
    rows = (
        events.filter(
            (pl.col("time_source").cast(pl.String) == "explicit")
            & pl.col("timestamp").is_not_null()
            & (pl.col("event_name").cast(pl.String) != str(Context.KERNEL_BOOT))
        )
        .group_by(
            pl.col("clock_domain").cast(pl.String).alias("domain"), pl.col("time_zone").is_not_null().alias("zoned")
        )
        .agg(
            pl.col("timestamp").to_physical().min().alias("first"),
            pl.col("timestamp").to_physical().max().alias("last"),
            (~kernel).sum().alias("job"),
            pl.len().alias("all"),
        )
        .drop_nulls("domain")
        .sort("domain", "job", "all", "zoned", descending=[False, True, True, False])
    )
    found: dict[str, list[tuple[bool, _Window, bool]]] = {}
    for domain, zoned, first, last, job, _ in rows.iter_rows():
        found.setdefault(domain, []).append((zoned, _Window(first, last), job == 0))
    return found


def _renamed(events: pl.DataFrame, moved: list[tuple[str, bool, str]]) -> pl.DataFrame:
    schema = {"_domain": pl.String, "_zoned": pl.Boolean, "_new": pl.String}
    table = pl.DataFrame(moved, schema=schema, orient="row")
    keyed = events.with_columns(
        pl.col("clock_domain").cast(pl.String).alias("_domain"),
        (pl.col("time_zone").is_not_null() & pl.col("timestamp").is_not_null()).alias("_zoned"),
    )
    joined = keyed.join(table, on=["_domain", "_zoned"], how="left", maintain_order="left")
    dtype = events.schema["clock_domain"]
    domain = pl.coalesce("_new", "_domain").cast(dtype).alias("clock_domain")
    return joined.with_columns(domain).drop("_domain", "_zoned", "_new")
