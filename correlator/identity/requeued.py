"""A second start after the scheduler ended the first: preempted and requeued, out of time, cancelled, its node lost.

Slurm appends the output of a requeued job to the same files (`--requeue` with `--open-mode=append`, formats.md E1): one
file holds both lives of a rank, and the order to stop stands between them or in another file. A start counts only
where that same rank had come to a step before and neither stamps nor steps say that it came first; in a file without
the order, the steps must fall back or the order's time lie between.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import median_low

import polars as pl

from correlator.core.vocabulary import Context
from correlator.identity.cuts import Cut
from correlator.identity.frame import among, is_event

_ENDS_JOB = frozenset({Context.SCHEDULER_CANCELLED, Context.NODE_FAILURE_REPORTED})
_STARTS = frozenset({Context.RANK_IDENTITY, Context.CHECKPOINT_LOADED, Context.CHECKPOINT_LOAD_STARTED})


@dataclass(frozen=True, slots=True)
class _Again:
    """A rank starts behind a step of its own. Times in ns on the file's clock, None = not printed."""

    before: int
    """Byte offset of the rank's last step."""
    offset: int
    before_ns: int | None
    ns: int | None
    fell_back: bool
    """The next step is none that the rank had not come to before."""

    @property
    def later(self) -> bool:
        """Whether the start is no older piece of log that was put behind the steps."""
        return self.fell_back if self.before_ns is None or self.ns is None else self.ns > self.before_ns


def started_again(frame: pl.DataFrame, lone: AbstractSet[str]) -> list[Cut]:
    """The first lines of each further attempt, and of the first one, in the files in which ranks started again.

    `lone`: files that one rank alone writes.
    """
    stops = frame.filter(among("event", _ENDS_JOB)).sort("path", "offset")
    starts = frame.filter(among("event", _STARTS)).sort("offset")
    if stops.is_empty() or starts.is_empty():
        return []
    steps = frame.filter(is_event(Context.PROGRESS) & among("path", starts["path"].unique().to_list())).sort("offset")
    orders: dict[str, list[int]] = defaultdict(list)
    for path, offset in stops.select("path", "offset").iter_rows():
        orders[path].append(offset)
    times = sorted(stops.filter(pl.col("explicit") & pl.col("time").is_not_null())["time"].to_list())
    found: dict[str, list[int]] = {}
    for path, again in _again(starts, steps).items():
        if path in orders:
            found[path] = _behind(again, orders[path])
        elif path in lone:
            found[path] = _apart(again, times)
    if any(found.values()):
        found |= _introduced_twice(starts, lone - orders.keys() - {path for path, cuts in found.items() if cuts})
    found = {path: offsets for path, offsets in found.items() if offsets}
    if not found:
        return []
    cuts = _cuts(frame, found)
    return [*cuts, *_orders_elsewhere(frame.filter(among("path", orders.keys() - found.keys())), _begun(starts, cuts))]


def _cuts(frame: pl.DataFrame, found: dict[str, list[int]]) -> list[Cut]:
    """All that a file holds goes over at once: the scheduler's lines without a task's label as well."""
    writers = frame.filter(among("path", found)).select("path", "task").unique().sort("path", "task")
    return [
        Cut(path, task, offset, attempt)
        for path, task in writers.iter_rows()
        for attempt, offset in enumerate((0, *found[path]))
    ]


def _again(starts: pl.DataFrame, steps: pl.DataFrame) -> dict[str, list[_Again]]:
    """Path -> the starts that stand behind a step of the same rank, in file order."""
    who, stamp = pl.coalesce("task", "rank", "w_rank").alias("_who"), pl.when("explicit").then("time").alias("_ns")
    starts, steps = (rows.with_columns(who, stamp).drop_nulls("_who") for rows in (starts, steps))
    if starts.is_empty() or steps.is_empty():
        return {}
    by = ["path", "_who"]
    last = steps.select(
        *by,
        "offset",
        pl.col("offset").alias("_before"),
        pl.col("_ns").alias("_before_ns"),
        pl.col("step").cum_max().over(by).alias("_highest"),
    )
    following = steps.select(*by, "offset", pl.col("step").alias("_next"))
    met = starts.select(*by, "offset", "_ns").join_asof(last, on="offset", by=by, check_sortedness=False)
    met = met.join_asof(following, on="offset", by=by, strategy="forward", check_sortedness=False)
    fell_back = (pl.col("_next") <= pl.col("_highest")).fill_null(value=False)
    rows = met.drop_nulls("_before").sort("path", "offset")
    found: dict[str, list[_Again]] = defaultdict(list)
    for path, *row in rows.select("path", "_before", "offset", "_before_ns", "_ns", fell_back).iter_rows():
        found[path].append(_Again(*row))
    return found


def _behind(again: Sequence[_Again], orders: Sequence[int]) -> list[int]:
    """The first start behind each order to stop, where that rank's last step stands above the order."""
    firsts: dict[int, int] = {}
    for start in again:
        order = bisect_left(orders, start.offset) - 1
        if order >= 0 and start.later and bisect_left(orders, start.before) <= order:
            firsts.setdefault(order, start.offset)
    return sorted(firsts.values())


def _apart(again: Sequence[_Again], orders_ns: Sequence[int]) -> list[int]:
    """The first start behind each stretch of steps of a rank's own file, whose order to stop is in another file."""
    firsts: dict[int, int] = {}
    for start in again:
        told = (
            start.before_ns is not None
            and start.ns is not None
            and bisect_left(orders_ns, start.before_ns) < bisect_right(orders_ns, start.ns)
        )
        if start.later and (start.fell_back or told):
            firsts.setdefault(start.before, start.offset)
    return sorted(firsts.values())


def _begun(starts: pl.DataFrame, cuts: Sequence[Cut]) -> list[int]:
    """When each further attempt began, ns: the median of its files, so that one node's wrong clock does not decide."""
    at = {(cut.path, cut.offset): cut.attempt for cut in cuts if cut.attempt}
    times: dict[int, list[int]] = defaultdict(list)
    rows = starts.filter(pl.col("explicit") & pl.col("time").is_not_null())
    for path, offset, ns in rows.select("path", "offset", "time").iter_rows():
        if (path, offset) in at:
            times[at[path, offset]].append(ns)
    return sorted(median_low(found) for found in times.values())


def _orders_elsewhere(frame: pl.DataFrame, begun_ns: Sequence[int]) -> Iterator[Cut]:
    """The files of the scheduler alone: each dated line by when the attempts began, the others with the line above."""
    reached: dict[tuple[str, int | None], int] = {}
    rows = frame.sort("path", "offset").select("path", "task", "offset", "time", "explicit")
    for path, task, offset, ns, explicit in rows.iter_rows():
        attempt = bisect_right(begun_ns, ns) if explicit and ns is not None else 0
        if attempt > reached.get((path, task), -1):
            reached[path, task] = attempt
            yield Cut(path, task, offset, attempt)


def _introduced_twice(starts: pl.DataFrame, paths: AbstractSet[str]) -> dict[str, list[int]]:
    """Where other ranks started again: the files of ranks that print no steps and say twice who they are."""
    found: dict[str, list[int]] = defaultdict(list)
    said: dict[str, set[str]] = defaultdict(set)
    rows = starts.filter(is_event(Context.RANK_IDENTITY) & among("path", paths)).sort("path", "offset")
    for path, signature, offset in rows.select("path", "signature", "offset").iter_rows():
        if signature in said[path]:
            found[path].append(offset)
            said[path].clear()
        said[path].add(signature)
    return found
