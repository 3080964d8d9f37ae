"""When the run was, from printed stamps that carry a year. Layouts without one take theirs from it."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from correlator.core.files import RunHints
from correlator.parsers.timestamps import dates_of_three
from correlator.sources.sample import Sample

_LINES: Final = 40
"""Lines looked at from either end of a sample."""
_HEAD_BYTES: Final = 100
_EPOCH_BYTES: Final = 2000
"""JSON logs have their keys in any order."""
_DAY_S: Final = 86_400
_STAMPS_OF_A_FILE: Final = 5
_GROUP_S: Final = 3 * _DAY_S
"""Files whose last stamps lie this close are of one time."""
_SHARE: Final = 0.2
"""A group of files with at least this share of them may be the run's end: fewer are strays."""
_FIRST_S: Final = int(datetime(2015, 1, 1, tzinfo=UTC).timestamp())
_LAST_S: Final = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())

_MONTHS: Final = {
    name: number for number, name in enumerate(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), start=1)
}
_MONTH: Final = rb"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK: Final = rb"(\d\d):(\d\d):(\d\d)"
_ISO: Final = re.compile(rb"(?<!\d)(20\d\d)[-/](\d\d)[-/](\d\d)[T _,:-]" + _CLOCK)
_CTIME: Final = re.compile(
    rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) " + _MONTH + rb" {1,2}(\d{1,2}) " + _CLOCK + rb" (?:[A-Z]{2,5} )?(20\d\d)"
)
_SHORT: Final = re.compile(rb"(?<!\d)(\d\d)([-/])(\d\d)[-/](20\d\d|\d\d),? " + _CLOCK)
_ACCESS: Final = re.compile(rb"(?<!\d)(\d\d)/" + _MONTH + rb"/(20\d\d):" + _CLOCK)
_EPOCH: Final = re.compile(
    rb'(?:"(?:time_ms|time_created_ns|__REALTIME_TIMESTAMP|timestamp|time|ts)":\s*"?|audit\(|^)(1\d{9})(\d{3}|\d{6}|\d{9})?(?=[."\s:,}])'
)
_EARLY: Final = re.compile(rb"20\d\d|\d\d/\d\d/\d\d|\d\d-\d\d-\d\d |/20\d\d:|1\d{9}")
"""Cheap test: a line without any of these has no stamp with a year."""
_SCHEDULER: Final = re.compile(rb"(?:CANCELLED AT|  time +:) (20\d\d)-(\d\d)-(\d\d)[T_]" + _CLOCK)


def latest_stamps(sample: Sample) -> tuple[int, ...]:
    """Some stamps with a year from line heads, the nearest to the end, as epoch seconds; the clock is read as UTC."""
    found: list[int] = []
    for data in (sample.tail, sample.head):
        lines = data.split(b"\n")
        for line in (*reversed(lines[-_LINES:]), *lines[: max(0, min(_LINES, len(lines) - _LINES))]):
            found += _stamps(line)
            if len(found) >= _STAMPS_OF_A_FILE:
                return tuple(found[:_STAMPS_OF_A_FILE])
    return tuple(found)


def run_hints(files: Iterable[Sequence[int]], newest_mtime_ns: int | None) -> RunHints:
    """The date of the run from the late stamps of each file, or from the newest file where no line has a year.

    Each file speaks once, with the middle one of its stamps: a line that quotes another year (a licence, an epoch of the
    audit system) is outvoted in its own file, a file of another time by the others. The run ended when the latest group
    of files did that holds a fair share of them.
    """
    spoken = sorted(sorted(stamps)[len(stamps) // 2] for stamps in files if stamps)
    if not spoken:
        return RunHints(newest_mtime_ns, from_mtime=newest_mtime_ns is not None)
    now_s = datetime.now(UTC).timestamp()
    believable = [stamp for stamp in spoken if stamp <= now_s + 2 * _DAY_S] or spoken
    return RunHints(_end_of_the_run(believable) * 1_000_000_000)


def _end_of_the_run(ordered: Sequence[int]) -> int:
    """The latest stamp that closes a group of files; where no group is large enough, the largest (the later of two)."""
    sizes = [index + 1 - bisect_left(ordered, stamp - _GROUP_S) for index, stamp in enumerate(ordered)]
    enough = max(2, math.ceil(_SHARE * len(ordered)))
    best = max(sizes)
    return next(
        (stamp for stamp, size in zip(reversed(ordered), reversed(sizes), strict=True) if size >= min(enough, best)),
        ordered[-1],
    )


def _stamps(line: bytes) -> list[int]:
    """Epoch seconds of the stamps at the head of a line, and of those behind a few fixed words."""
    text = line.rpartition(b"\r")[2] if b"\r" in line[:-1] else line
    head = text[:_HEAD_BYTES]
    if not _EARLY.search(text, 0, _EPOCH_BYTES):
        return []
    fields = []
    if match := _SCHEDULER.search(text[:400]) or _ISO.search(head):
        fields.append(tuple(map(int, match.groups())))
    elif match := _CTIME.search(head):
        month, day, hour, minute, second, year = match.groups()
        fields.append((int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second)))
    elif match := _SHORT.search(head):
        first, mark, second, third, *clock = (group.decode() for group in match.groups())
        dates = dates_of_three((first, second, third), slashed=mark == "/")
        fields += [(*date, *map(int, clock)) for date in dates[:1]]
    elif match := _ACCESS.search(head):
        day, month, year, *rest = match.groups()
        fields.append((int(year), _MONTHS[month], int(day), *map(int, rest)))
    stamps = [second for field in fields if (second := _epoch(field)) is not None]
    if not stamps and (match := _EPOCH.search(text, 0, _EPOCH_BYTES)):
        stamps.append(int(match[1]))
    return [stamp for stamp in stamps if _FIRST_S <= stamp < _LAST_S]


def _epoch(fields: tuple[int, ...]) -> int | None:
    try:
        return int(datetime(*fields, tzinfo=UTC).timestamp())  # type: ignore[arg-type, misc]
    except ValueError:
        return None
