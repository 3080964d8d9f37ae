"""Which rows of the timeline a person asks for: by who, when, what and which words, with the rows around them."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from correlator.core.errors import UsageError
from correlator.core.model import ClockModel
from correlator.core.ranges import unfold_hosts, unfold_numbers
from correlator.core.vocabulary import SEVERITY_NUMBER, CollateralKind, Context, FaultCode, Order, Role, Severity

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

NAMES: tuple[str, ...] = tuple(
    dict.fromkeys([*map(str, FaultCode), *map(str, CollateralKind), *map(str, Context), *map(str, Role)])
)
"""What `events` may name: every kind of event, and the three roles."""

_ISO_ENOUGH = re.compile(r"\d{4}-\d\d-\d\d")
_ONLY_DIGITS = re.compile(r"[-+]?\d+")


@dataclass(frozen=True, slots=True)
class Query:
    """What to show. The first group says which rows count at all, the second which of them are hits."""

    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    level: Severity | None = None
    events: tuple[str, ...] = ()
    words: str | None = None
    """A regular expression of Rust, which takes time linear in the text."""
    around: Moment | None = None

    context: int = 0
    """Rows before and after each hit that are shown too, whatever they are, of those that count."""

    def counts(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of the chosen ranks, nodes and times. Rows without a time are left out once a time is asked for."""
        import polars as pl

        if self.ranks:
            rows = rows.filter(pl.col("rank").is_in(pl.Series(self.ranks, dtype=pl.Int32).implode()))
        if self.nodes:
            rows = rows.filter(pl.col("host_name").cast(pl.String).is_in(pl.Series(self.nodes).implode()))
        if self.since is not None:
            rows = rows.filter(pl.col("time_aligned") >= self.since)
        if self.until is not None:
            rows = rows.filter(pl.col("time_aligned") <= self.until)
        return rows

    def hits(self, rows: pl.DataFrame) -> pl.Series:
        """Which rows are hits by level, event and words. Raises UsageError for a bad regular expression."""
        import polars as pl

        found = pl.Series([True]).new_from_index(0, rows.height) if rows.height else pl.Series([], dtype=pl.Boolean)
        if self.level is not None:
            found &= rows.select(_severity() >= SEVERITY_NUMBER[self.level]).to_series()
        if self.events:
            names = pl.Series(self.events, dtype=pl.String).implode()
            named = [pl.col(column).cast(pl.String).is_in(names) for column in ("event_name", "role")]
            found &= rows.select(named[0] | named[1]).to_series()
        if self.words is not None:
            found &= _containing(rows, self.words)
        return found


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in the timeline: a time, or a line of a file."""

    time: datetime | None = None
    file: str | None = None
    line_number: int | None = None

    def hits(self, rows: pl.DataFrame, *, met: bool) -> pl.Series:
        """The rows that are the place; of a time the first row that is not before it, once (`met`: it was)."""
        import polars as pl

        if self.time is None:
            same = pl.col("log_file_path").cast(pl.String) == pl.lit(self.file, pl.String)
            return rows.select(same & (pl.col("line_number") == self.line_number)).to_series()
        later = rows.select((pl.col("time_aligned") >= self.time).fill_null(value=True)).to_series()
        return later & (later.cum_sum() == 1) & pl.Series([not met])


def _severity() -> pl.Expr:
    """A row's severity; where none is printed, a fault or its consequence counts as an error, the rest as information."""
    import polars as pl

    assumed = pl.when(pl.col("role").cast(pl.String) == str(Role.CONTEXT))
    return pl.coalesce(
        "severity_number",
        assumed.then(SEVERITY_NUMBER[Severity.INFO]).otherwise(SEVERITY_NUMBER[Severity.ERROR]),
    )


def _containing(rows: pl.DataFrame, words: str) -> pl.Series:
    import polars as pl

    columns = ("body", "exception_message", "exception_stacktrace")
    try:
        found = [pl.col(column).str.contains(words).fill_null(value=False) for column in columns]
        return rows.select(pl.any_horizontal(found)).to_series()
    except pl.exceptions.ComputeError as error:
        raise UsageError(f"not a regular expression: {words!r}", hint=_reason(str(error))) from error


def _reason(text: str) -> str:
    """What Rust says is wrong with it."""
    found = re.search(r"(?:^|\n)error: ([^\n]{1,200})", text)
    return found[1] if found else "regular expressions are Rust's: no look-around, no back-references"


class Vicinity:
    """Chooses, from rows that come in blocks, the hits and the rows around them; `number` tells where rows are left out."""

    def __init__(self, context: int) -> None:
        self._context = context
        self._seen = 0
        self._last_hit: int | None = None
        self._held: pl.DataFrame | None = None

    def feed(self, rows: pl.DataFrame, hits: pl.Series) -> pl.DataFrame:
        """Rows to show now, with their `number`; those that a later hit may still need are held back."""
        import numpy as np
        import polars as pl

        numbers = pl.int_range(self._seen, self._seen + rows.height, eager=True, dtype=pl.Int64).alias("number")
        found = numbers.filter(hits).to_numpy()
        if self._last_hit is not None:
            found = np.concatenate([[self._last_hit], found])
        rows = rows.with_columns(numbers)
        if self._held is not None and self._held.height:
            rows = pl.concat([self._held, rows])
        self._seen += len(numbers)
        near = _near(rows["number"].to_numpy(), found, self._context)
        self._last_hit = int(found[-1]) if len(found) else None
        rest = rows.filter(pl.Series(~near))
        self._held = rest.filter(pl.col("number") >= self._seen - self._context)
        return rows.filter(pl.Series(near))

    def rest(self) -> pl.DataFrame | None:
        """What is held back at the end."""
        return self._held


def _near(numbers: NDArray[np.int64], hits: NDArray[np.int64], distance: int) -> NDArray[np.bool_]:
    """Which of the numbers lie within a distance of a hit; both ascending."""
    import numpy as np

    if not len(hits):
        return np.zeros(len(numbers), dtype=np.bool_)
    after = np.searchsorted(hits, numbers)
    ahead = hits[np.minimum(after, len(hits) - 1)] - numbers
    behind = numbers - hits[np.maximum(after - 1, 0)]
    return ((ahead >= 0) & (ahead <= distance)) | ((behind >= 0) & (behind <= distance))


def select(query: Query, blocks: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The rows that are asked for, with their `number` among those that count, from blocks in the order of time."""
    vicinity = Vicinity(query.context)
    met = False
    for block in blocks:
        rows = query.counts(block)
        hits = query.hits(rows)
        if query.around is not None:
            hits &= query.around.hits(rows, met=met)
            met = met or bool(hits.any())
        yield vicinity.feed(rows, hits)
    rest = vicinity.rest()
    if rest is not None and query.around is not None and query.around.time is not None and not met:
        yield rest  # the time lies behind the last row: show the end


class OrderMarks:
    """Tells for rows in the order of the timeline whether each may as well have come before the one above it."""

    def __init__(self, clocks: ClockModel) -> None:
        self._clocks = clocks
        self._above: tuple[str, str | None, int | None, float] | None = None

    def __call__(self, rows: pl.DataFrame) -> pl.Series:
        """True where neither the clocks nor a common file say that a row is later than the one above."""
        import polars as pl

        facts = rows.select(
            pl.col("log_file_path", "clock_domain").cast(pl.String),
            pl.col("timestamp").to_physical(),
            pl.col("time_granularity_ms").cast(pl.Float64).fill_null(0.0),
        )
        marks = [self._uncertain(row) for row in facts.iter_rows()]
        return pl.Series("order_uncertain", marks, dtype=pl.Boolean)

    def _uncertain(self, row: tuple[str, str | None, int | None, float]) -> bool:
        above, self._above = self._above, row
        if above is None or above[0] == row[0]:
            return False
        (_, domain_a, ns_a, grain_a), (_, domain_b, ns_b, grain_b) = above, row
        if ns_a is None or ns_b is None:
            return True
        return self._clocks.order(domain_a, ns_a, grain_a, domain_b, ns_b, grain_b) is not Order.BEFORE


# --- what people write ---


def parse_ranks(text: str) -> tuple[int, ...]:
    """The ranks of `3,8-15`. Raises UsageError."""
    try:
        return unfold_numbers(text)
    except ValueError as error:
        raise UsageError(str(error), hint="write ranks like 3,8-15") from error


def parse_nodes(texts: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """The nodes of host lists like `node[01-03],login*`. Raises UsageError for one that the run does not have."""
    known = sorted(set(known))
    chosen: dict[str, None] = {}
    for text in texts:
        try:
            names = unfold_hosts(text)
        except ValueError as error:
            raise UsageError(str(error), hint="write nodes like node[01-03],login") from error
        for name in names:
            found = [node for node in known if node == name or fnmatch.fnmatchcase(node, name)]
            if not found:
                close = get_close_matches(name, known, n=3)
                raise UsageError(f"no such node: {name}", hint=f"did you mean {' or '.join(close)}?" if close else None)
            chosen.update(dict.fromkeys(found))
    return tuple(chosen)


def parse_events(texts: Iterable[str]) -> tuple[str, ...]:
    """Names of events or roles, comma-separated, `*` allowed. Raises UsageError for an unknown one."""
    chosen: dict[str, None] = {}
    for name in (part.strip() for text in texts for part in text.split(",")):
        found = fnmatch.filter(NAMES, name)
        if not found:
            close = get_close_matches(name, NAMES, n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else "correlator catalogue lists the faults"
            raise UsageError(f"no such event: {name}", hint=hint)
        chosen.update(dict.fromkeys(found))
    return tuple(chosen)


def last_time(events: pl.DataFrame) -> datetime | None:
    """The run's last time, which words like `10 minutes ago` are relative to; None where no line has one."""
    last = events["time_aligned"].max()
    return last if isinstance(last, datetime) else None


def parse_time(text: str, last: datetime | None) -> datetime:
    """A time in words (`17:35`, `2 hours ago`, `Mar 2 17:35 CET`), UTC unless it says otherwise; ISO 8601 is the fast way.

    `last` is the run's last time: words are relative to it, never to now. Raises UsageError.
    """
    text = text.strip()
    parsed = None
    if _ISO_ENOUGH.match(text):
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError:
            parsed = None
    if parsed is None and not _ONLY_DIGITS.fullmatch(text):
        parsed = _in_words(text, last)
    if parsed is None:
        raise UsageError(f"not a time: {text!r}", hint="write 17:35, '10 minutes ago' or 2025-11-30T01:02:03Z")
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def _in_words(text: str, last: datetime | None) -> datetime | None:
    import warnings

    import dateparser

    settings = {
        "RELATIVE_BASE": (last or datetime(1970, 1, 1, tzinfo=UTC)).astimezone(UTC).replace(tzinfo=None),
        "TIMEZONE": "UTC",
        "RETURN_AS_TIMEZONE_AWARE": True,
        "PREFER_DATES_FROM": "past",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dateparser's own use of strptime
        try:
            found: datetime | None = dateparser.parse(text, languages=["en"], settings=settings)
        except (ValueError, OverflowError, TypeError):
            return None
    return found


def parse_moment(text: str, events: pl.DataFrame, last: datetime | None, *, all_lines: bool) -> Moment:
    """A time, the id of an event, or `file:line`. Raises UsageError for what the run does not have.

    Among events (not `all_lines`) a line that is none stands for the last event above it.
    """
    import polars as pl

    if re.fullmatch(r"\d{6,20}", text):
        row = events.filter(pl.col("event_id") == int(text)) if int(text) < 1 << 64 else events.clear()
        if row.is_empty():
            raise UsageError(f"no event has the id {text}", hint="ids are in --json, and in a timeline.parquet")
        return Moment(file=str(row["log_file_path"][0]), line_number=row["line_number"][0])
    path, _, digits = text.rpartition(":")
    if path and digits.isdecimal() and len(digits) < 19:
        lines = events.filter(pl.col("log_file_path").cast(pl.String) == path)["line_number"]
        if len(lines) and all_lines:
            return Moment(file=path, line_number=int(digits))
        if len(lines):
            above = lines.filter(lines <= int(digits))
            return Moment(file=path, line_number=above.max() if len(above) else lines.min())  # type: ignore[arg-type]
    return Moment(time=parse_time(text, last))
