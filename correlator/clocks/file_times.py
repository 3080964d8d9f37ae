"""What the file system says about clocks: the times at which files were last written (method.md section 2).

The weakest evidence there is: copies, checkouts and unpacked archives give files the time of the copy. File times are
believed only where they have followed the stamps: files of one clock whose last lines are a minute or more apart were
written as far apart, and no file of the run says otherwise. A clock whose files all end together is placed where it then
keeps time but for a whole zone. Even so they never decide an order: a clock known by them alone has no interval.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from correlator.clocks.zones import QUARTER_MS, zone_name
from correlator.core.files import FileReport, LogFile
from correlator.core.model import ClockEstimate, ClockEvidence
from correlator.core.vocabulary import ClockStatus, TimeSource
from correlator.identity.names import natural

KIND = "file time"
_NS_PER_MS = 1_000_000
_APART_NS = 60 * 10**9
"""Last lines this far apart tell whether file times follow them."""
_FOLLOWS_MS = 5_000.0
"""A file is closed this soon after its last stamped line; what comes later had no stamp."""
_FOLLOWING = 0.8
"""Share of the pairs of such files that must agree, else the times are those of a copy."""
_IN_ORDER_MS = 60_000.0
_ZONES_MS = 15 * 3_600_000.0
"""No clock that is merely in another zone is farther from the file server's: such files were copied."""


@dataclass(frozen=True, slots=True)
class _File:
    """The last stamp of a file, and how far it lies ahead of the time at which the file server saw the last write."""

    last_ns: int
    ahead_ms: float


def with_file_times(
    known: Mapping[str, ClockEstimate], events: pl.DataFrame, files: Sequence[LogFile], reports: Sequence[FileReport]
) -> dict[str, ClockEstimate]:
    """The estimates, and one without an interval for each clock that nothing but file times speaks of.

    Where no clock is known, offsets are against the first that file times speak of.
    """
    if all(domain in known for domain in _domains(events)):
        return dict(known)
    of_domain = _files_of(events, files, reports)
    proven = [domain for domain, group in of_domain.items() if _follows(group)]
    if not proven or not _follows(*of_domain.values()):
        return dict(known)  # a copy that took its time over some nodes' files may have done so over all
    ahead = {domain: statistics.median(file.ahead_ms for file in group) for domain, group in of_domain.items()}
    usual = statistics.median(ahead[domain] for domain in proven)
    ahead = {
        domain: ms
        for domain, ms in ahead.items()
        if domain in proven or (not _asked(of_domain[domain]) and _in_order(ms - usual))
    }
    reference = _reference(known, ahead)
    if reference is None:
        return dict(known)
    zero = ahead[reference]
    main = known.get(reference)
    found = dict(known)
    for domain in sorted(ahead, key=natural):
        if domain not in known and abs(ahead[domain] - zero) <= _ZONES_MS:
            found[domain] = _estimate(domain, ahead[domain] - zero, len(of_domain[domain]), reference, main)
    return found if len(found) > max(1, len(known)) else dict(known)


def _domains(events: pl.DataFrame) -> list[str]:
    return events["clock_domain"].drop_nulls().unique().cast(pl.String).to_list()


def _files_of(events: pl.DataFrame, files: Sequence[LogFile], reports: Sequence[FileReport]) -> dict[str, list[_File]]:
    """Files that one clock alone stamped, by that clock."""
    written = {file.path: file.modified_ns for file in files if file.modified_ns is not None}
    last = {report.path: report.last_time_ns for report in reports if report.last_time_ns is not None}
    domain = pl.col("clock_domain").cast(pl.String)
    rows = (
        events.filter(pl.col("clock_domain").is_not_null())
        .group_by(pl.col("log_file_path").cast(pl.String).alias("path"))
        .agg(
            domain.first().alias("domain"),
            pl.col("clock_domain").n_unique().alias("clocks"),
            (pl.col("time_source").cast(pl.String) == str(TimeSource.EXPLICIT)).any().alias("dated"),
        )
        .filter((pl.col("clocks") == 1) & pl.col("dated"))
        .select("path", "domain")
        .drop_nulls()
        .sort("path")
    )
    found: dict[str, list[_File]] = {}
    for path, domain in rows.iter_rows():
        if path in written and path in last:
            ahead_ms = (last[path] - written[path]) / _NS_PER_MS
            if abs(ahead_ms) <= _ZONES_MS:
                found.setdefault(domain, []).append(_File(last[path], ahead_ms))
    return found


def _asked(group: Sequence[_File]) -> list[bool]:
    """For each file of a clock whose last line is well after that of the first: whether it was written as much later."""
    ordered = sorted(group, key=lambda file: file.last_ns)
    return [
        abs(file.ahead_ms - ordered[0].ahead_ms) <= _FOLLOWS_MS
        for file in ordered[1:]
        if file.last_ns - ordered[0].last_ns >= _APART_NS
    ]


def _follows(*groups: Sequence[_File]) -> bool:
    """Whether files of one clock were last written as far apart as their last stamps are."""
    told = [answer for group in groups for answer in _asked(group)]
    return bool(told) and sum(told) >= _FOLLOWING * len(told)


def _in_order(ms: float) -> bool:
    """A clock that keeps time, but for a whole zone: what files without a proof of their own may at most say."""
    return abs(ms - round(ms / QUARTER_MS) * QUARTER_MS) <= _IN_ORDER_MS


def _reference(known: Mapping[str, ClockEstimate], ahead: Mapping[str, float]) -> str | None:
    """A clock that both speak of: the reference of the fit, else any that is measured against it, else any."""
    references = [one.reference for one in known.values() if one.reference is not None]
    main = max(sorted(set(references), key=natural), key=references.count, default=None)
    if main is None:
        return min(ahead, key=natural, default=None)
    return main if main in ahead else None


def _estimate(domain: str, offset_ms: float, files: int, reference: str, main: ClockEstimate | None) -> ClockEstimate:
    return ClockEstimate(
        node=domain,
        offset_ms=round(offset_ms, 3),
        interval_ms=None,
        drift_ppm=None,
        timezone=zone_name(offset_ms),
        evidence=files,
        status=ClockStatus.STALE,
        reference=reference,
        as_of_ms=None if main is None else main.as_of_ms,
        kinds=(ClockEvidence(KIND, files),),
    )
