"""What cannot be true together once the clocks are known (method.md section 3.1 step 7).

Lines that the fit rejected, and messages that arrive before they are sent. Two of them widen an interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from correlator.clocks.bounds import edges
from correlator.clocks.classes import CLASSES, ITERATION, communicators, part_names, parts, timeouts
from correlator.clocks.evidence import Component
from correlator.clocks.fit import Fit
from correlator.core.model import ClockEstimate
from correlator.core.vocabulary import Context
from correlator.identity.frame import attribute, place

_NS_PER_MS = 1_000_000
_OUTLIER = 6.0
_WORTH_TELLING_MS = 1000.0


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two lines that the clocks do not reconcile."""

    domains: tuple[str, str]
    excess_ms: float
    """By how much they miss each other."""
    text: str


class Places:
    """Where each reading was printed."""

    def __init__(self, component: Component) -> None:
        self._rows = component.rows
        self._row = np.full(component.readings.seen.shape, -1, dtype=np.int64)
        self._row[self._rows["node"].to_numpy(), self._rows["column"].to_numpy()] = np.arange(self._rows.height)

    def of(self, node: int, column: int) -> str:
        """`file:line` of one reading."""
        row = int(self._row[node, column])
        return place(self._rows["path"][row], self._rows["line"][row])


def disagreements(component: Component, found: Fit) -> list[Contradiction]:
    """For each node the reading that lies farthest from what its other readings say, beside one that fits the hub."""
    data = component.readings
    far = data.seen & (np.abs(found.residual_ms) > np.maximum(_OUTLIER * found.scale_ms, _WORTH_TELLING_MS))
    if not far.any():
        return []
    places = Places(component)
    told: list[Contradiction] = []
    for node in np.flatnonzero(far.any(axis=1)):
        column = int(np.argmax(np.where(far[node], np.abs(found.residual_ms[node]), -1.0)))
        fitting = np.where(found.used[:, column] & ~far[:, column], np.abs(found.residual_ms[:, column]), np.inf)
        other = int(np.argmin(fitting))
        if other == node or not np.isfinite(fitting[other]):
            continue
        seconds = float(found.residual_ms[node, column]) / 1000
        count = int(far[node].sum())
        kind = CLASSES[int(data.klass[column])].name
        text = (
            f"{component.domains[node]}: {places.of(int(node), column)} is {abs(seconds):.1f} s too "
            f"{'late' if seconds > 0 else 'early'} for the {kind} of {places.of(other, column)}"
        )
        text += f"; so are {count - 1} more of its {int(data.seen[node].sum())} readings" if count > 1 else ""
        told.append(Contradiction((component.domains[node], component.domains[other]), abs(seconds) * 1000, text))
    return told


def messages(timed: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """Lines of which one must come before the other on any clock: `rule`, `key`, `later`, and the line itself.

    `table` holds the readings; the earliest rank of each node is the one that the fit has judged.
    """
    return pl.concat([_iterations(table), _communicators(timed), _dump_signals(timed)])


def _sided(rows: pl.DataFrame, rule: str, *, later: bool) -> pl.DataFrame:
    names = part_names(rows)
    key = pl.concat_str(*(pl.col(name).cast(pl.String).fill_null("") for name in names), separator="|")
    return rows.select(
        pl.lit(rule).alias("rule"),
        key.alias("key"),
        pl.lit(later).alias("later"),
        "domain",
        "ns",
        "grain_ms",
        pl.col("path").cast(pl.String),
        "line",
    )


def _iterations(table: pl.DataFrame) -> pl.DataFrame:
    """Nobody prints iteration k after anybody has printed k + 1: the reduce of k + 1 needs all of them."""
    rows = table.filter(pl.col("klass") == ITERATION)
    words = pl.col("hub").str.split("|")  # class, attempt, signature, step, nth
    hubs = rows.select(
        pl.col("hub").unique(),
    ).select(
        "hub",
        pl.concat_str(words.list.get(1), words.list.get(2), words.list.get(4), separator="|").alias("series"),
        words.list.get(3).cast(pl.Int64, strict=False).alias("step"),
    )
    hubs = hubs.with_columns(pl.col("step").rank("dense").over("series").cast(pl.Int64).alias("order"))
    start = pl.col("ns") - (pl.col("grain_ms") * (_NS_PER_MS / 2)).cast(pl.Int64)
    rows = rows.join(hubs, on="hub").with_columns(start.alias("ns"))
    after = parts(rows.with_columns(pl.col("order") - 1), "series", "order")
    rule = "the next iteration"
    return pl.concat([_sided(parts(rows, "series", "order"), rule, later=False), _sided(after, rule, later=True)])


def _communicators(timed: pl.DataFrame) -> pl.DataFrame:
    """No rank completes a communicator before the last one has begun it."""
    rule = "the end of the communicator's init"
    return pl.concat(
        [_sided(communicators(timed, "start"), rule, later=False), _sided(communicators(timed), rule, later=True)]
    )


def _dump_signals(timed: pl.DataFrame) -> pl.DataFrame:
    """A signal from rank X is read after X has timed out (formats.md A4)."""
    rule = "the dump signal that it set off"
    sent = timeouts(timed).filter(pl.col("rank").is_not_null())
    first = sent.sort("ns").unique(["attempt", "rank"], keep="first", maintain_order=True)
    heard = timed.filter(pl.col("event") == str(Context.DUMP_SIGNAL)).with_columns(attribute("from_rank").alias("from"))
    heard = heard.filter(pl.col("from").is_not_null())
    return pl.concat(
        [
            _sided(parts(first, "attempt", "rank"), rule, later=False),
            _sided(parts(heard, "attempt", "from"), rule, later=True),
        ]
    )


def rejected(component: Component, found: Fit) -> pl.DataFrame:
    """`path`, `line` of the readings that the fit does not believe: as messages they prove nothing."""
    data = component.readings
    far = data.seen & (~found.used | (np.abs(found.residual_ms) > _OUTLIER * found.scale_ms))
    rows = component.rows
    return rows.filter(pl.Series(far[rows["node"].to_numpy(), rows["column"].to_numpy()])).select("path", "line")


def violations(
    lines: pl.DataFrame, estimates: Sequence[ClockEstimate], unbelieved: pl.DataFrame
) -> list[Contradiction]:
    """Messages that arrive before they are sent.

    Of each message only the latest start and the earliest arrival are compared: N lines cost N comparisons.
    """
    known = edges(lines.join(unbelieved, on=["path", "line"], how="anti"), estimates)
    sent = _extreme(known.filter(~pl.col("later")), pl.col("soonest_ms"), pl.col("soonest_ms").max())
    heard = _extreme(known.filter("later"), pl.col("latest_ms"), pl.col("latest_ms").min())
    missed = sent.join(heard, on=["rule", "key"], suffix="_heard").with_columns(
        (pl.col("edge") - pl.col("edge_heard")).alias("excess")
    )
    missed = missed.filter((pl.col("excess") > 0) & (pl.col("domain") != pl.col("domain_heard")))
    columns = ("rule", "domain", "path", "line", "domain_heard", "path_heard", "line_heard", "excess")
    return [
        Contradiction(
            (domain, heard_domain),
            excess,
            f"{domain}: {place(path, line)} lies at least {excess / 1000:.1f} s after {rule} at "
            f"{place(heard_path, heard_line)} on {heard_domain}",
        )
        for rule, domain, path, line, heard_domain, heard_path, heard_line, excess in missed.sort(
            "excess", "path", "line", descending=[True, False, False]
        )
        .select(columns)
        .iter_rows()
    ]


def _extreme(rows: pl.DataFrame, edge: pl.Expr, best: pl.Expr) -> pl.DataFrame:
    """Of each message the line with the best edge; of several the first by file and line."""
    found = rows.with_columns(edge.alias("edge")).filter(edge == best.over("rule", "key"))
    return found.sort("rule", "key", "path", "line").unique(["rule", "key"], keep="first", maintain_order=True)


def widening(missed: list[Contradiction]) -> Mapping[str, float]:
    """By how much to widen the interval of each domain, ms: what its second worst violation asks for.

    One witness is a mislabelled line as likely as not.
    """
    worst: dict[str, list[float]] = {}
    for one in missed:
        for domain in one.domains:
            worst.setdefault(domain, []).append(one.excess_ms)
    return {domain: sorted(excess)[-2] for domain, excess in worst.items() if len(excess) > 1}
