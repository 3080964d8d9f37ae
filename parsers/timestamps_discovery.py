"""A time layout that we do not know, found once for a file from a few of its lines, with dateparser's help."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from correlator.parsers.base import FileContext, Stamp
from correlator.parsers.peel.peeler import peel
from correlator.parsers.timestamps import civil, time_only, without_year

MAX_SAMPLES = 20
_MIN_SAMPLES = 3
_HEAD = 48
"""Characters of a line in which a stamp begins."""
_CLOCK = re.compile(r"\d{1,2}:\d\d:\d\d")
_CANDIDATE = re.compile(
    r"[\[<(| ]{0,3}(?P<stamp>[\w .,/@-]{0,40}?\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?:"
    r" ?[AaPp][Mm]\b)?)[\]>)|]{0,2}(?::?[ \t]|$)"
)
_TOKEN = re.compile(r"\d+|[A-Za-z]+|[^A-Za-z\d]")
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}


@dataclass(frozen=True, slots=True)
class Layout:
    """A generated regex with the groups year, month, day, clock, noon as far as the layout prints them."""

    regex: re.Pattern[str]

    def match(self, text: str, context: FileContext) -> tuple[Stamp, str] | None:
        """The time at the head of a line and the text behind it, or None."""
        found = self.regex.match(text)
        stamp = _convert(found.groupdict(), context) if found else None
        return (stamp, text[found.end() :]) if found and stamp else None


def discover(lines: Sequence[str], context: FileContext) -> Layout | None:
    """The layout of a file none of whose lines has a stamp that we know, or None. dateparser sees at most 20 stamps."""
    stamps: list[str] = []
    for line in lines:
        if len(stamps) >= MAX_SAMPLES:
            break
        if not _CLOCK.search(line[: _HEAD + 16]):
            continue
        prefix, message = peel(line, context)
        if prefix.stamp is not None:
            return None
        if (match := _CANDIDATE.match(message[: _HEAD + 32])) and _plausible(match["stamp"]):
            stamps.append(match["stamp"])
    if len(stamps) < _MIN_SAMPLES:
        return None
    return _common(stamps)


def _plausible(text: str) -> bool:
    """A date beside the clock: a bare clock in front of words may be a duration."""
    return len(text) > 9 and sum(char.isdigit() for char in text) >= 8


def _common(stamps: Sequence[str]) -> Layout | None:
    votes: Counter[str] = Counter()
    for stamp in stamps:
        if (moment := _read(stamp)) is not None:
            votes.update(_spellings(stamp, moment))
    if not votes:
        return None
    regex, count = votes.most_common(1)[0]
    return Layout(re.compile(regex)) if 3 * count >= 2 * len(stamps) else None


def _read(text: str) -> datetime | None:
    """The moment that dateparser takes a stamp for (English names only)."""
    import dateparser

    try:
        moment = dateparser.parse(text, languages=["en"])
    except Exception:  # noqa: BLE001 - a parser of free text may fail in many ways on hostile input
        return None
    return moment if isinstance(moment, datetime) else None


def _spellings(stamp: str, moment: datetime) -> list[str]:
    """Regexes that read this stamp as this moment: one for each order of fields that fits."""
    clock = re.search(r"(\d{1,2}:\d\d:\d\d)((?:[.,]\d{1,9})?)( ?[AaPp][Mm])?$", stamp)
    if clock is None:
        return []
    noon = " ?(?P<noon>[AaPp][Mm])" if clock[3] else ""
    tail = rf"(?P<clock>\d{{1,2}}:\d\d:\d\d{'[.,][0-9]{1,9}' if clock[2] else ''}){noon}[\]>)|]{{0,2}}:?[ \t]*"
    tokens = _TOKEN.findall(stamp[: clock.start()])
    return [rf"[\[<(| ]{{0,3}}{head}{tail}" for head in _orders(tokens, moment, frozenset())]


def _orders(tokens: Sequence[str], moment: datetime, used: frozenset[str]) -> list[str]:
    if not tokens:
        return [""]
    first, rest = tokens[0], tokens[1:]
    found: list[str] = []
    for name, regex in _meanings(first, moment):
        if name and name in used:
            continue
        part = f"(?P<{name}>{regex})" if name else regex
        found += [part + tail for tail in _orders(rest, moment, used | {name} if name else used)]
    return found


def _meanings(token: str, moment: datetime) -> list[tuple[str, str]]:
    """What a piece of a stamp can be, given the moment that the whole is."""
    if token.isdecimal():
        number = int(token[:9])
        options = [("year", rf"\d{{{len(token)}}}")] if number in (moment.year, moment.year % 100) else []
        options += [("month", r"\d{1,2}")] if number == moment.month else []
        options += [("day", r"\d{1,2}")] if number == moment.day else []
        return options
    if token.isalpha():
        month = _MONTHS.get(token[:3].lower())
        return [("month", "[A-Za-z]{3,9}")] if month == moment.month else [("", "[A-Za-z]{1,9}")]
    return [("", " +" if token == " " else re.escape(token))]  # noqa: S105 - a piece of a date, no password


def _convert(fields: dict[str, str | None], context: FileContext) -> Stamp | None:
    clock = fields["clock"] or ""
    hour, _, rest = clock.partition(":")
    value = int(hour)
    if noon := fields.get("noon"):
        value = value % 12 + (12 if noon[0] in "Pp" else 0)
    clock = f"{value:02d}:{rest}"
    month, day, year = fields.get("month"), fields.get("day"), fields.get("year")
    if not month or not day:
        return time_only(clock, context)
    number = int(month) if month.isdecimal() else _MONTHS.get(month[:3].lower(), 0)
    if not year:
        return without_year(number, int(day), clock, context)
    full = int(year) + (2000 if len(year) == 2 else 0)
    return civil(full, number, int(day), clock)
