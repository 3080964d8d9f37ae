"""Faults that the run survived: whatever training went on after was not what ended it (R7, peers.md step 4)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import polars as pl

from correlator.core.model import ClockModel
from correlator.core.vocabulary import Context, Role, Severity, TimeSource
from correlator.graphs.episodes import Episode
from correlator.graphs.facts import Fact

_PLACE = ("log_file_path", "line_number", "rank", "step", "signature")
_WALK = 4_096
"""Steps looked at before a fault, for the last one of its own rank."""
STEPS_AFTER = 2
"""Peers may still print the step in which a rank died; only a second one proves that training went on."""
STEPS_AFTER_LOSS = 5
"""Steps that were printed already may reach the file after the word of a lost peer, for they are buffered."""


@dataclass(frozen=True, slots=True)
class Advance:
    """Progress of one attempt: every printed step with its place, for "did training go on after this?"."""

    by_file: dict[str, list[tuple[int, int | None, int]]] = field(default_factory=dict, hash=False)
    """File -> (line, rank, step) in line order."""
    by_domain: dict[str, list[tuple[int, int]]] = field(default_factory=dict, hash=False)
    """Clock domain -> (earliest printed ns, step) of each step, by time."""
    earliest: tuple[tuple[int, int], ...] = ()
    """(lower bound of the true time at which any rank printed it, step), by time; clocks that compare with the reference."""
    first_seen: tuple[tuple[int, int], ...] = ()
    """(earliest aligned ns, step) of each step that any rank printed, by time."""
    finished: tuple[Fact, ...] = ()
    printed: dict[tuple[str | None, int], int] = field(default_factory=dict, hash=False)
    """(clock domain, step) -> ns of its first print on that clock."""
    printer_of: dict[str, str] = field(default_factory=dict, hash=False)
    """File -> signature of its progress lines: which trainer prints them."""

    @property
    def last_step(self) -> int | None:
        """The highest step that any rank printed."""
        return max((step for rows in self.by_file.values() for _, _, step in rows), default=None)


def advance_of(events: pl.DataFrame, facts: list[Fact], attempt: int, clocks: ClockModel) -> Advance:
    """The progress lines of an attempt."""
    steps = events.filter(
        (pl.col("event_name").cast(pl.String) == Context.PROGRESS)
        & pl.col("step").is_not_null()
        & (pl.col("attempt").fill_null(0) == attempt)
    ).select(
        pl.col("log_file_path").cast(pl.String),
        "line_number",
        "rank",
        "step",
        pl.col("clock_domain").cast(pl.String),
        pl.col("signature").cast(pl.String),
        pl.col("timestamp").dt.epoch("ns").alias("printed"),
        pl.col("time_aligned").dt.epoch("ns").alias("ns"),
    )
    by_file: dict[str, list[tuple[int, int | None, int]]] = {}
    printer_of: dict[str, str] = {}
    places = steps.sort("log_file_path", "line_number")
    for path, line, rank, step, printer in places.select(_PLACE).iter_rows():
        by_file.setdefault(path, []).append((line, rank, step))
        printer_of.setdefault(path, printer)
    by_domain: dict[str, list[tuple[int, int]]] = {}
    printed = (
        steps.drop_nulls(["printed", "clock_domain"]).group_by("clock_domain", "step").agg(pl.col("printed").min())
    )
    for domain, step, ns in printed.sort("printed", "step").select("clock_domain", "step", "printed").iter_rows():
        by_domain.setdefault(domain, []).append((int(ns), int(step)))
    timed = steps.drop_nulls("ns").group_by("step").agg(pl.col("ns").min()).sort("ns", "step")
    finished = tuple(f for f in facts if f.name == Context.TRAINING_FINISHED and f.attempt == attempt)
    first_seen = tuple((int(ns), int(step)) for step, ns in timed.iter_rows())
    on_clock: dict[tuple[str | None, int], int] = {
        (domain, step): ns for domain, rows in by_domain.items() for ns, step in rows
    }
    return Advance(by_file, by_domain, _earliest(by_domain, clocks), first_seen, finished, on_clock, printer_of)


def last_steps(events: pl.DataFrame, attempt: int) -> dict[tuple[int | None, str | None], int]:
    """(rank, clock domain) -> printed ns of the last step that the rank printed, from stamped lines alone."""
    steps = events.filter(
        (pl.col("event_name").cast(pl.String) == Context.PROGRESS)
        & pl.col("rank").is_not_null()
        & (pl.col("attempt").fill_null(0) == attempt)
        & (pl.col("time_source").cast(pl.String) == TimeSource.EXPLICIT)
    ).select("rank", pl.col("clock_domain").cast(pl.String), pl.col("timestamp").dt.epoch("ns").alias("ns"))
    last = steps.group_by("rank", "clock_domain").agg(pl.col("ns").max())
    return {(int(rank), domain): int(ns) for rank, domain, ns in last.iter_rows()}


def _earliest(by_domain: dict[str, list[tuple[int, int]]], clocks: ClockModel) -> tuple[tuple[int, int], ...]:
    bounds: dict[int, int] = {}
    for domain, rows in by_domain.items():
        estimate = clocks.estimate(domain)
        if estimate is None or estimate.interval_ms is None:
            continue
        most_ahead_ns = int(estimate.interval_ms[1] * 1e6)
        for ns, step in rows:
            bounds[step] = min(ns - most_ahead_ns, bounds.get(step, ns - most_ahead_ns))
    return tuple(sorted((ns, step) for step, ns in bounds.items()))


def recovered(episode: Episode, advance: Advance, clocks: ClockModel, logged: frozenset[int] = frozenset()) -> bool:
    """True where training certainly went on after the last line of the episode.

    The time of an unstamped line is a lower bound and proves nothing, but for tracebacks that a logger printed (`logged`).
    """
    last = max(episode.facts, key=lambda f: (f.aligned_ns or f.printed_ns or 0, f.line))
    enough = STEPS_AFTER if episode.role is Role.INITIATING else STEPS_AFTER_LOSS
    if _same_file_progress(last, advance, enough) >= enough:
        return True
    if last.printed_ns is None or (last.inherited and last.event_id not in logged):
        return False
    end_ns = last.printed_ns + int(last.granularity_ms * 1e6)
    if _count_after(advance.by_domain.get(last.domain or "", ()), end_ns) >= STEPS_AFTER:
        return True
    estimate = clocks.estimate(last.domain)
    if estimate is None or estimate.interval_ms is None:
        return False  # a clock that cannot be compared proves nothing
    return _count_after(advance.earliest, end_ns - int(estimate.interval_ms[0] * 1e6)) >= STEPS_AFTER


def logged_tracebacks(facts: Sequence[Fact], ended: Collection[int]) -> frozenset[int]:
    """Event ids of tracebacks that belong to the ERROR record of a logger right above them (`logger.exception`).

    Nobody's hook printed them, and their process is not known to have `ended` by its own exit: they have the record's time.
    """
    records = {
        (f.file, f.line + f.line_count, f.rank): f.printed_ns
        for f in facts
        if not f.inherited and f.printed_ns is not None and f.severity in (Severity.ERROR, Severity.FATAL)
    }
    return frozenset(
        f.event_id
        for f in facts
        if f.inherited
        and f.exception_type is not None
        and f.rank not in ended
        and f.printed_ns is not None
        and records.get((f.file, f.line, f.rank)) == f.printed_ns
        and f.attribute("excepthook") is None
    )


FEWEST_STEPS = 2


def cut_short(advance: Advance) -> frozenset[int]:
    """Ranks whose logs end two of their own printing intervals before the last step of the run: the rest was not kept.

    A rank that stalls stops with its peers, for they cannot go on without it.
    """
    steps: dict[int, set[int]] = {}
    for rows in advance.by_file.values():
        for _, rank, step in rows:
            if rank is not None:
                steps.setdefault(rank, set()).add(step)
    furthest = max((max(found) for found in steps.values()), default=0)
    short = set()
    for rank, found in steps.items():
        last = sorted(found)[-FEWEST_STEPS:]
        if len(last) == FEWEST_STEPS and furthest - last[1] >= FEWEST_STEPS * (last[1] - last[0]):
            short.add(rank)
    return frozenset(short)


def _count_after(rows: Sequence[tuple[int, int]], ns: int) -> int:
    """Steps, given as (time, step) in order of time, that come after a moment."""
    return len(rows) - bisect_right(rows, ns, key=lambda row: row[0])


def _same_file_progress(fact: Fact, advance: Advance, enough: int) -> int:
    """New steps printed after the fact in its own file, up to `enough`; by the same rank where ranks are told apart.

    Steps that fall back are another log that was appended, or another attempt: they say nothing about this one.
    """
    rows = advance.by_file.get(fact.file, [])
    begin = bisect_right(rows, fact.line, key=lambda row: row[0])
    before = (
        step
        for _, rank, step in (rows[index] for index in range(begin - 1, max(-1, begin - 1 - _WALK), -1))
        if _same(rank, fact.rank)
    )
    top = last = next(before, -1)
    new: set[int] = set()
    for _, rank, step in rows[begin:]:
        if not _same(rank, fact.rank) or _printed_before(fact, step, advance):
            continue  # logs of several ranks one after the other, or in turn: each has its own steps
        if step + 1 < last:
            break
        last = step
        if step > top:
            new.add(step)
            if len(new) >= enough:
                break
    return len(new)


def _printed_before(fact: Fact, step: int, advance: Advance) -> bool:
    """Whether a step below a dated line was printed before it: the line is of a log that stands above the rank's."""
    if fact.printed_ns is None or fact.inherited:
        return False
    printed = advance.printed.get((fact.domain, step))
    return printed is not None and printed < fact.printed_ns + int(fact.granularity_ms * 1e6)


def _same(rank: int | None, other: int | None) -> bool:
    return rank is None or other is None or rank == other
