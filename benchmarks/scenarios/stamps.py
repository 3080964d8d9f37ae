"""Set the clock of a machine after the fact: every stamp that its files print, moved by the same time."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from correlator.parsers.dumps.plain_pickle import load

_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_MONTH = "|".join(_MONTHS)
_CLOCK = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?!\d)"
_ISO = re.compile(rf"(?P<Y>20\d\d)(?P<a>[-/])(?P<M>\d\d)(?P=a)(?P<D>\d\d)(?P<b>[T _]){_CLOCK}")
_GLOG = re.compile(rf"(?P<head>(?:^|[\[\]: ])[VIWEFC])(?P<M>\d{{1,2}})(?P<D>\d\d) {_CLOCK}", re.MULTILINE)
_DMESG = re.compile(rf"(?P<w>Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<N>{_MONTH}) (?P<D>[ \d]\d) {_CLOCK} (?P<Y>20\d\d)")
_SYSLOG = re.compile(rf"^(?P<N>{_MONTH}) (?P<D>[ \d]\d) {_CLOCK}", re.MULTILINE)
_US = re.compile(rf"(?P<M>\d\d)/(?P<D>\d\d)/(?P<Y>20\d\d)(?P<b>,? ){_CLOCK}")
_SHORT = re.compile(rf"(?<!\d)(?P<Y>\d\d)-(?P<M>\d\d)-(?P<D>\d\d) {_CLOCK}")
_BARE = re.compile(rf"^(?P<head>(?:\[\w+\]:)*\[){_CLOCK}\]", re.MULTILINE)
_EPOCH = re.compile(
    r'(?P<head>"(?:timestamp|time|time_ms|ts|__REALTIME_TIMESTAMP)": ?"?|UTC \()(?P<n>1[67]\d{8})(?P<rest>\d{6}|\d{3}|)(?!\d)'
)
_NANOSECONDS = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")


def shifted(data: bytes, seconds: int) -> bytes:
    """The same text from a clock that is so many seconds ahead."""
    text = data.decode("utf-8", errors="surrogateescape")
    for pattern, change in _FORMS:
        text = pattern.sub(_moved(change, seconds), text)
    return text.encode("utf-8", errors="surrogateescape")


def shifted_dump(data: bytes, seconds: int) -> bytes:
    """A flight-recorder dump, pickle or JSON, with all its epoch stamps moved; what is neither stays as it is."""
    as_text = data.lstrip()[:1] == b"{"
    try:
        value: Any = json.loads(data) if as_text else load(data).value
    except (ValueError, EOFError):
        return data
    if not isinstance(value, dict):
        return data
    for entry in value.get("entries", ()):
        for key in _NANOSECONDS:
            if entry.get(key):
                entry[key] += seconds * 1_000_000_000
    return json.dumps(value).encode() if as_text else pickle.dumps(value, protocol=2)


def _moved(change: Callable[[re.Match[str], int], str], seconds: int) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        try:
            return change(match, seconds)
        except ValueError:  # no date after all
            return match[0]

    return replace


def _later(match: re.Match[str], year: int, month: int, seconds: int) -> datetime:
    day, hour, minute, second = (int(match[name]) for name in ("D", "h", "m", "s"))
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC) + timedelta(seconds=seconds)


def _iso(match: re.Match[str], seconds: int) -> str:
    then = _later(match, int(match["Y"]), int(match["M"]), seconds)
    return f"{then:%Y}{match['a']}{then:%m}{match['a']}{then:%d}{match['b']}{then:%H:%M:%S}"


def _glog(match: re.Match[str], seconds: int) -> str:
    then = _later(match, 2024, int(match["M"]), seconds)
    month = f"{then.month:0{len(match['M'])}d}"
    return f"{match['head']}{month}{then:%d %H:%M:%S}"


def _dmesg(match: re.Match[str], seconds: int) -> str:
    then = _later(match, int(match["Y"]), _MONTHS.index(match["N"]) + 1, seconds)
    return f"{then:%a %b} {then.day:2d} {then:%H:%M:%S %Y}"


def _syslog(match: re.Match[str], seconds: int) -> str:
    then = _later(match, 2024, _MONTHS.index(match["N"]) + 1, seconds)
    return f"{then:%b} {then.day:2d} {then:%H:%M:%S}"


def _epoch(match: re.Match[str], seconds: int) -> str:
    return f"{match['head']}{int(match['n']) + seconds}{match['rest']}"


def _us(match: re.Match[str], seconds: int) -> str:
    then = _later(match, int(match["Y"]), int(match["M"]), seconds)
    return f"{then:%m/%d/%Y}{match['b']}{then:%H:%M:%S}"


def _short(match: re.Match[str], seconds: int) -> str:
    return f"{_later(match, 2000 + int(match['Y']), int(match['M']), seconds):%y-%m-%d %H:%M:%S}"


def _bare(match: re.Match[str], seconds: int) -> str:
    hour, minute, second = (int(match[name]) for name in ("h", "m", "s"))
    then = (hour * 3600 + minute * 60 + second + seconds) % 86_400
    return f"{match['head']}{then // 3600:02d}:{then // 60 % 60:02d}:{then % 60:02d}]"


_FORMS = (
    (_ISO, _iso),
    (_DMESG, _dmesg),
    (_SYSLOG, _syslog),
    (_GLOG, _glog),
    (_US, _us),
    (_SHORT, _short),
    (_BARE, _bare),
    (_EPOCH, _epoch),
)
