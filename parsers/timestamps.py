"""Printed times to nanoseconds, by digit arithmetic. Layouts: formats.md A1, B1, C1, H4 and I5.

Nothing here guesses silently: a missing year is the one nearest to the run's reference, a missing day the one nearest
to the file's last known time, and a missing zone leaves `Stamp.zone` None while the digits are read as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from correlator.parsers.base import FileContext, Stamp

NS_PER_SECOND = 1_000_000_000
_DAY_NS = 86_400 * NS_PER_SECOND
_MONTH_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}
_FAKE_FRACTION_MS = 1000.0

ISO = (
    r"\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z\b|[+-]\d\d:?\d\d\b|[+-]\d\d\b| UTC\b| [+-]\d{4}\b)?"
)
"""Regex fragment (no groups) of every year-first layout."""
COMPACT = r"\d{8}[-T_ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
SHORT = r"(?:\d\d/\d\d/\d{2}(?:\d\d)?|\d\d-\d\d-\d\d),? \d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
"""`11/30/25` of rich, `25/11/30` of log4j, `25-11-30` of strftime's `%y-%m-%d`; see `dates_of_three`."""
CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
SYSLOG = r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
CTIME = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}"
MONTH_DAY = r"(?:\d{3,4}|\d{8}) \d\d:\d\d:\d\d(?:\.\d{1,9})?"
"""glog style; the month is unpadded where c10d prints it (formats.md R2)."""
EPOCH = r"\d{10}(?:\.\d{1,9})?|\d{13}|\d{16}|\d{19}"

# Offsets of the abbreviations that name one zone only; CST, IST and BST name several and stay "unknown".
_NAMED_ZONES_H = {"UTC": 0, "GMT": 0, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "JST": 9, "KST": 9}
_NAMED_ZONES_H |= {"EST": -5, "EDT": -4, "CDT": -5, "MDT": -6, "MST": -7, "PDT": -7, "PST": -8}


@lru_cache(maxsize=4096)
def day_number(year: int, month: int, day: int) -> int | None:
    """Days from 1970-01-01 in the proleptic Gregorian calendar; None where there is no such day."""
    if not (1 <= month <= 12 and 1 <= day <= _MONTH_LENGTHS[month - 1] and 1970 <= year <= 2200):
        return None
    if month == 2 and day == 29 and (year % 4 or (year % 100 == 0 and year % 400)):
        return None
    shifted = year - (month <= 2)
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def clock_ns(text: str) -> int | None:
    """`hh:mm:ss[.fraction]` as ns since midnight; None where a part is out of range."""
    hour, minute, second = int(text[0:2]), int(text[3:5]), int(text[6:8])
    if hour > 23 or minute > 59 or second > 60:
        return None
    fraction = text[9:18]
    sub_second = int(fraction) * 10 ** (9 - len(fraction)) if fraction.isdigit() else 0
    return (hour * 3600 + minute * 60 + second) * NS_PER_SECOND + sub_second


def granularity_ms(clock: str) -> float:
    """Resolution that the printed digits of `hh:mm:ss[.fraction]` claim, ms."""
    digits = len(clock) - 9
    return 1000.0 if digits <= 0 else float(10 ** (3 - min(digits, 9)))


def zone_offset_s(zone: str) -> int | None:
    """Seconds east of UTC of `Z`, `+0100`, `+01:00`, `+01` or a named zone; None for an unknown name."""
    if zone in ("Z", "z"):
        return 0
    if zone[0] not in "+-":
        hours = _NAMED_ZONES_H.get(zone)
        return None if hours is None else hours * 3600
    digits = zone[1:].replace(":", "")
    offset_s = int(digits[0:2]) * 3600 + (int(digits[2:4]) * 60 if len(digits) >= 4 else 0)
    return -offset_s if zone[0] == "-" else offset_s


def civil(year: int, month: int, day: int, clock: str, zone: str | None = None) -> Stamp | None:
    """A full date and clock; None where it is no date. A zone of unknown name counts as none."""
    number = day_number(year, month, day)
    time_ns = clock_ns(clock)
    if number is None or time_ns is None:
        return None
    offset_s = zone_offset_s(zone) if zone else None
    ns = number * _DAY_NS + time_ns - (offset_s or 0) * NS_PER_SECOND
    return Stamp(ns, granularity_ms(clock), zone if offset_s is not None else None)


def dates_of_three(parts: tuple[str, str, str], *, slashed: bool) -> list[tuple[int, int, int]]:
    """(year, month, day) that three printed numbers can be, the likeliest first; the year may have two digits.

    Slashes are American (rich) unless the first number is no month (log4j's `yy/MM/dd`), hyphens are year first
    (strftime's `%y-%m-%d`). Years before 2012 are no reading: the programs are younger.
    """
    first, second, third = map(int, parts)
    if len(parts[2]) == 4:
        orders = [(third, first, second), (third, second, first)]
    else:
        american, year_first, day_first = (third, first, second), (first, second, third), (third, second, first)
        order = (american, year_first, day_first) if slashed else (year_first, day_first, american)
        orders = [(2000 + year, month, day) for year, month, day in order]
    return [date for date in orders if date[0] >= 2012 and day_number(*date) is not None]


def without_year(month: int, day: int, clock: str, context: FileContext) -> Stamp | None:
    """A date that leaves out its year: the one nearest to the run's reference, also across new year (formats.md R1)."""
    time_ns = clock_ns(clock)
    if time_ns is None or not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    reference_ns = context.run.reference_ns
    if reference_ns is None:
        reference_ns = context.last_ns if context.last_ns is not None else context.modified_ns
    if reference_ns is None:
        return Stamp(None, granularity_ms(clock))
    year = 1970 + int(reference_ns // (_DAY_NS * 365.2425))
    numbers = (day_number(candidate, month, day) for candidate in (year - 1, year, year + 1, year + 2))
    times = [number * _DAY_NS + time_ns for number in numbers if number is not None]
    if not times:
        return None
    return Stamp(min(times, key=lambda ns: abs(ns - reference_ns)), granularity_ms(clock))


def time_only(clock: str, context: FileContext) -> Stamp | None:
    """A bare clock: on the day nearest to the file's last known time, else to the run's reference."""
    time_ns = clock_ns(clock)
    if time_ns is None:
        return None
    known = (context.last_ns, context.run.reference_ns, context.modified_ns)
    reference_ns = next((ns for ns in known if ns is not None), None)
    if reference_ns is None:
        return Stamp(None, granularity_ms(clock))
    day = reference_ns // _DAY_NS
    times = [(day + shift) * _DAY_NS + time_ns for shift in (-1, 0, 1)]
    return Stamp(min(times, key=lambda ns: abs(ns - reference_ns)), granularity_ms(clock))


def epoch(text: str) -> Stamp | None:
    """Epoch seconds (10 digits, or with a fraction), ms (13), µs (16) or ns (19); None for other lengths."""
    whole, _, fraction = text.partition(".")
    if not (whole.isascii() and whole.isdigit()) or (fraction and not (fraction.isascii() and fraction.isdigit())):
        return None
    scale = {10: 9, 13: 6, 16: 3, 19: 0}.get(len(whole))
    if scale is None:
        return None
    ns = int(whole) * 10**scale
    if fraction and scale == 9:
        fraction = fraction[:9]
        return Stamp(ns + int(fraction) * 10 ** (9 - len(fraction)), float(10 ** (3 - len(fraction))), "Z")
    return Stamp(ns, float(10 ** (scale - 6)), "Z")


def boot_time(seconds: str, context: FileContext) -> Stamp:
    """Kernel seconds since boot; wall time only where the boot anchor is known (then as coarse as the RTC, 1 s)."""
    boot_seconds = float(seconds)
    if context.boot_epoch_ns is None:
        return Stamp(None, 0.001, None, boot_seconds)
    return Stamp(context.boot_epoch_ns + round(boot_seconds * NS_PER_SECOND), 1000.0, "Z", boot_seconds)


def month_day(text: str, context: FileContext, *, fake_fraction: bool = False) -> Stamp | None:
    """`1130 01:02:03.1`, unpadded `105 ...`, `20251130 ...`; `fake_fraction` where c10d made it up (formats.md R3)."""
    digits, _, clock = text.partition(" ")
    number = int(digits)
    if len(digits) == 8:
        stamp = civil(number // 10_000, number // 100 % 100, number % 100, clock)
    else:
        stamp = without_year(number // 100, number % 100, clock, context)
    if stamp is not None and fake_fraction:
        return Stamp(stamp.ns, _FAKE_FRACTION_MS)
    return stamp


def parse_stamp(text: str, context: FileContext) -> Stamp | None:
    """The time that `text` is, and nothing but it; None where no layout fits. Never raises."""
    text = text.strip()
    if not text.isascii():
        return None
    for layout, convert in _LAYOUTS:
        if match := layout.fullmatch(text):
            return convert(match, context)
    return None


def _iso(match: re.Match[str], _context: FileContext) -> Stamp | None:
    year, month, day, clock, zone = match.groups()
    return civil(int(year), int(month), int(day), clock, zone.strip() if zone else None)


def _short(match: re.Match[str], context: FileContext) -> Stamp | None:
    """The reading nearest to the run in half-years: it decides the order of the parts, not the order within a year."""
    first, mark, second, third, clock = match.groups()
    reference_ns = context.run.reference_ns
    best: tuple[int, Stamp] | None = None
    for year, month, day in dates_of_three((first, second, third), slashed=mark == "/"):
        stamp = civil(year, month, day, clock)
        if stamp is None or stamp.ns is None:
            continue
        distance = 0 if reference_ns is None else abs(stamp.ns - reference_ns) // (182 * _DAY_NS)
        if best is None or distance < best[0]:
            best = distance, stamp
    return best[1] if best is not None else None


def _syslog(match: re.Match[str], context: FileContext) -> Stamp | None:
    month = _MONTHS.get(match[1])
    return None if month is None else without_year(month, int(match[2]), match[3], context)


def _day_first(match: re.Match[str], context: FileContext) -> Stamp | None:
    month = _MONTHS.get(match[2])
    return None if month is None else without_year(month, int(match[1]), match[3], context)


def _named_month(match: re.Match[str], _context: FileContext) -> Stamp | None:
    month = _MONTHS.get(match["month"])
    zone = match.groupdict().get("zone")
    return None if month is None else civil(int(match["year"]), month, int(match["day"]), match["clock"], zone)


_Convert = Callable[[re.Match[str], FileContext], Stamp | None]
_FRACTION = r"(?:[.,]\d{1,9})?"
_ZONE = r"( ?(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?| [A-Z]{3,4}))?"
_LAYOUTS: tuple[tuple[re.Pattern[str], _Convert], ...] = tuple(
    (re.compile(regex), convert)
    for regex, convert in (
        (rf"(\d{{4}})[-/](\d\d)[-/](\d\d)[T _](\d\d:\d\d:\d\d{_FRACTION}){_ZONE}", _iso),
        (rf"[A-Z][a-z]{{2}} (\d{{4}})-(\d\d)-(\d\d) (\d\d:\d\d:\d\d{_FRACTION}){_ZONE}", _iso),
        (rf"(\d{{4}})(\d\d)(\d\d)[-T_ ](\d\d:\d\d:\d\d{_FRACTION}){_ZONE}", _iso),
        (rf"([A-Z][a-z]{{2}}) ([ \d]\d) (\d\d:\d\d:\d\d{_FRACTION})", _syslog),
        (r"(\d{1,2}) ([A-Z][a-z]{2}) (\d\d:\d\d:\d\d)", _day_first),
        (r"\d{3,4} \d\d:\d\d:\d\d(?:\.\d{1,9})?", lambda match, context: month_day(match[0], context)),
        (
            r"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) (?P<day>[ \d]\d) (?P<clock>\d\d:\d\d:\d\d) (?P<year>\d{4})",
            _named_month,
        ),
        (
            r"(?P<month>[A-Z][a-z]{2}) (?P<day>[ \d]\d) (?P<year>\d{4}) (?P<clock>\d\d:\d\d:\d\d)",
            _named_month,
        ),
        (
            r"(?P<day>\d\d)/(?P<month>[A-Z][a-z]{2})/(?P<year>\d{4}):(?P<clock>\d\d:\d\d:\d\d) ?(?P<zone>[+-]\d{4})?",
            _named_month,
        ),
        (rf"(\d\d)(/)(\d\d)/(\d{{2}}|\d{{4}}),? (\d\d:\d\d:\d\d{_FRACTION})", _short),
        (rf"(\d\d)(-)(\d\d)-(\d\d),? (\d\d:\d\d:\d\d{_FRACTION})", _short),
        (
            rf"(\d\d)-(\d\d) (\d\d:\d\d:\d\d{_FRACTION})",
            lambda match, context: without_year(int(match[1]), int(match[2]), match[3], context),
        ),
        (rf"\d\d:\d\d:\d\d{_FRACTION}", lambda match, context: time_only(match[0], context)),
        (EPOCH, lambda match, _context: epoch(match[0])),
    )
)
