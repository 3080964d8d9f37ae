"""Flight-recorder dumps that an older run left in the folder (formats.md D: a file may stem from an older run)."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from correlator.core.model import ClockModel
from correlator.core.vocabulary import Context, FileKind, TimeSource

SLACK_NS = 3_600 * 1_000_000_000
"""Ranks record every collective, so the newest entry of a dump of this failure is about as new as the last step."""
ZONES_NS = 26 * SLACK_NS
"""Stamps without a zone beside a dump's epoch: local times differ by up to this much."""

_OF_OTHERS = tuple(str(kind) for kind in (FileKind.FLIGHT_RECORDER, FileKind.KERNEL_LOG, FileKind.SCHEDULER_LOG))
_FILE, _DOMAIN = pl.col("log_file_path").cast(pl.String), pl.col("clock_domain").cast(pl.String)


def stale_dumps(events: pl.DataFrame, attempt: int, clocks: ClockModel) -> frozenset[str]:
    """Files of dumps whose newest entry lies well before the last step of the attempt, or before its first line.

    Clocks that are aligned with each other compare directly; others only where no time zone could explain the distance.
    """
    kind, name = pl.col("file_kind").cast(pl.String), pl.col("event_name").cast(pl.String)
    entries = events.filter(name == Context.COLLECTIVE_ENTRY, kind == FileKind.FLIGHT_RECORDER)
    told = events.filter(
        pl.col("attempt").fill_null(0) == attempt,
        ~kind.is_in(_OF_OTHERS),
        pl.col("time_source").cast(pl.String) == TimeSource.EXPLICIT,
    )
    if entries.is_empty() or told.is_empty():
        return frozenset()
    steps = told.filter(name == Context.PROGRESS)
    limits = _newest(steps if len(steps) else told.bottom_k(1, by="timestamp"), clocks)
    by_stamp = max((newest.printed_ns for newest in limits), default=0)
    by_clock: dict[str | None, int] = {}
    for newest in limits:
        if newest.aligned_ns is not None:
            by_clock[newest.reference] = max(newest.aligned_ns, by_clock.get(newest.reference, newest.aligned_ns))
    stale = set()
    for newest in _newest(entries, clocks):
        limit = by_clock.get(newest.reference)
        if limit is None or newest.aligned_ns is None:
            old = newest.printed_ns < by_stamp - SLACK_NS - ZONES_NS
        else:
            old = newest.aligned_ns < limit - SLACK_NS
        if old:
            stale.add(newest.file)
    return frozenset(stale)


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest stamp of a file on one clock."""

    file: str
    reference: str | None
    printed_ns: int
    aligned_ns: int | None


def _newest(rows: pl.DataFrame, clocks: ClockModel) -> list[_Newest]:
    printed, aligned = pl.col("timestamp").dt.epoch("ns"), pl.col("time_aligned").dt.epoch("ns")
    newest = (
        rows.drop_nulls("timestamp")
        .group_by(_FILE.alias("file"), _DOMAIN.alias("domain"))
        .agg(printed.max().alias("printed"), aligned.max().alias("aligned"))
        .sort("file", "domain")
    )
    found = []
    for file, domain, printed_ns, aligned_ns in newest.iter_rows():
        estimate = clocks.estimate(domain)
        reference = estimate.reference if estimate is not None and aligned_ns is not None else None
        found.append(_Newest(str(file), reference, int(printed_ns), aligned_ns))
    return found
