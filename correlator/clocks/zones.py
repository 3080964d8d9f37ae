"""Writers of one node whose stamps are whole quarters of an hour apart: one clock, printed in several zones.

A kernel journal may print `-0500` while ranks print bare local time; an agent may run in another zone than its
container. What two writers say about one moment decides (same_node); where they share none, writers whose lines lie
over each other, or come to do so by a zone that the run prints, are one clock. A writer in another zone gets a domain
of its own, tied to the node's by that zone. One that no zone explains stays alone, and no order is derived across.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import polars as pl

from correlator.clocks.same_node import EPOCH, KERNEL, pairs, writer
from correlator.core.vocabulary import Context, TimeSource

QUARTER_MS = 900_000
_APART_NS = 600 * 10**9
"""Windows closer than this are one clock: kernel logs go quiet for minutes."""
_NO_ZONE_NS = 3000 * 10**9
"""No zone is less than an hour from UTC: windows this close, with no printed zone that fits better, are one clock."""
_MOST_ZONES_NS = 15 * 3600 * 10**9
_REST_MS = 240_000
"""Two clocks in order of minutes, and the error of an offset that few lines bear."""
_ZONE = re.compile(r"([+-])(\d{2}):?(\d{2})?")


@dataclass(frozen=True, slots=True)
class Tie:
    """A second domain of a node: its stamps = the node's + `shift_ms`; None where no zone explains the distance."""

    domain: str
    main: str
    shift_ms: int | None
    zone: str | None = None
    """How the two lie, as text, where it was found."""


@dataclass(frozen=True, slots=True)
class Zoned:
    """Events with refined clock domains, and how the added domains hang together with their nodes."""

    events: pl.DataFrame
    ties: tuple[Tie, ...]


@dataclass(frozen=True, slots=True)
class _Side:
    """The stamps of one writer of a node."""

    writer: str
    first: int
    last: int

    @property
    def zoned(self) -> bool:
        return self.writer.endswith("+zone")

    def gap(self, other: _Side, shift_ns: int = 0) -> int:
        """ns between two windows, 0 where they overlap; `other` is moved by `shift_ns`."""
        return max(0, other.first + shift_ns - self.last, self.first - other.last - shift_ns)


def split_zones(events: pl.DataFrame) -> Zoned:
    """Gives a writer a domain of its own where its stamps and the node's cannot be one reading of the clock."""
    zones = sorted({offset for text in _printed(events) if (offset := zone_ms(text)) is not None and offset != 0})
    votes = {(domain, a, b): quarters for domain, a, b, quarters, _ in pairs(events).iter_rows()}
    ties: list[Tie] = []
    moved: list[tuple[str, str, str]] = []
    for domain, sides in _sides(events).items():
        for other in sides[1:]:
            tie = _tie(domain, sides[0], other, votes, zones)
            if tie is not None:
                tie = _named_apart(tie, ties)
                ties.append(tie)
                moved.append((domain, other.writer, tie.domain))
    if not moved:
        return Zoned(events, ())
    return Zoned(_renamed(events, moved), tuple(dict.fromkeys(ties)))


def _named_apart(tie: Tie, ties: list[Tie]) -> Tie:
    """Two writers share a domain only where the same shift ties them; others get a number."""
    name, number = tie.domain, 1
    while any(one.domain == tie.domain and one.shift_ms != tie.shift_ms for one in ties):
        number += 1
        tie = replace(tie, domain=f"{name} {number}")
    return tie


def _tie(
    domain: str, main: _Side, other: _Side, votes: Mapping[tuple[str, str, str], int], zones: Iterable[int]
) -> Tie | None:
    """How another writer of a node is tied to the main one; None where both read one clock in one zone."""
    name = f"{domain} ({_suffix(main, other)})"
    quarters = votes.get((domain, main.writer, other.writer))
    if quarters is not None:
        shift = quarters * QUARTER_MS
        return None if shift == 0 else Tie(name, domain, shift, _words(main, other, shift))
    if main.zoned == other.zoned or main.gap(other) <= _APART_NS:
        return None
    # Local stamp = absolute stamp + zone offset of the node.
    signs = [-zone if main.zoned else zone for zone in zones]
    fits = [shift for shift in signs if main.gap(other, shift * 1_000_000) <= _APART_NS]
    if len(fits) == 1:
        return Tie(name, domain, -fits[0], _words(main, other, -fits[0]))
    if not fits and main.gap(other) <= _NO_ZONE_NS:
        return None
    if not fits and other.writer.startswith(KERNEL) and main.gap(other) > _MOST_ZONES_NS:
        return None  # merely old lines: no zone reaches that far
    return Tie(name, domain, None)


def _suffix(main: _Side, other: _Side) -> str:
    if main.zoned == other.zoned or not other.writer.startswith(EPOCH):
        kind = other.writer.removesuffix("+zone")
        if kind != main.writer.removesuffix("+zone"):
            return kind
    return "UTC" if other.zoned else "local time"


def _words(main: _Side, other: _Side, shift_ms: int) -> str:
    if main.zoned == other.zoned:
        return f"{_utc(shift_ms)} against the node's other lines"
    local_ms = shift_ms if main.zoned else -shift_ms
    return f"the node's local time is {_utc(local_ms)}"


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


def zone_of(offset_ms: float) -> int | None:
    """The whole-zone part of an offset against the others, ms; None where it is no whole zone plus a small rest."""
    quarters = round(offset_ms / QUARTER_MS)
    rest = offset_ms - quarters * QUARTER_MS
    if quarters == 0 or abs(offset_ms) < 850_000 or abs(quarters) > 14 * 4 or abs(rest) > _REST_MS:
        return None
    return quarters * QUARTER_MS


def zone_name(offset_ms: float) -> str | None:
    """The same in words."""
    zone = zone_of(offset_ms)
    return None if zone is None else f"{_utc(zone)} against the others"


def _utc(offset_ms: int) -> str:
    minutes = abs(offset_ms) // 60_000
    return f"UTC{'-' if offset_ms < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def _printed(events: pl.DataFrame) -> list[str | None]:
    return events["time_zone"].cast(pl.String).unique().to_list()


def _sides(events: pl.DataFrame) -> dict[str, list[_Side]]:
    """The writers of each domain that has several, the one with most lines of ranks and agents first."""
    # By the columns that make a writer, then by the writer: words are made of few rows only.
    told = (
        events.filter(
            (pl.col("time_source").cast(pl.String) == str(TimeSource.EXPLICIT))
            & pl.col("timestamp").is_not_null()
            & (pl.col("event_name").cast(pl.String) != str(Context.KERNEL_BOOT))
        )
        .group_by("clock_domain", "file_kind", "time_zone")
        .agg(
            pl.col("timestamp").to_physical().min().alias("first"),
            pl.col("timestamp").to_physical().max().alias("last"),
            pl.len().alias("all"),
        )
    )
    kind = writer()
    job = ~(kind.str.starts_with(KERNEL) | kind.str.starts_with(EPOCH))
    rows = (
        told.group_by(pl.col("clock_domain").cast(pl.String).alias("domain"), kind.alias("writer"))
        .agg(
            pl.col("first").min(),
            pl.col("last").max(),
            (job * pl.col("all")).sum().alias("job"),
            pl.col("all").sum(),
        )
        .drop_nulls("domain")
        .filter(pl.len().over("domain") > 1)
        .sort("domain", "job", "all", "writer", descending=[False, True, True, False])
    )
    found: dict[str, list[_Side]] = {}
    for domain, name, first, last, _, _ in rows.iter_rows():
        found.setdefault(domain, []).append(_Side(name, first, last))
    return found


def _renamed(events: pl.DataFrame, moved: list[tuple[str, str, str]]) -> pl.DataFrame:
    schema = {"_domain": pl.String, "_writer": pl.String, "_new": pl.String}
    table = pl.DataFrame(moved, schema=schema, orient="row")
    stamped = pl.when(pl.col("timestamp").is_not_null()).then(writer())
    keyed = events.with_columns(pl.col("clock_domain").cast(pl.String).alias("_domain"), stamped.alias("_writer"))
    joined = keyed.join(table, on=["_domain", "_writer"], how="left", maintain_order="left")
    dtype = events.schema["clock_domain"]
    domain = pl.coalesce("_new", "_domain").cast(dtype).alias("clock_domain")
    return joined.with_columns(domain).drop("_domain", "_writer", "_new")
