"""Printed numbers and signal names as values, bounded so that no hostile digit string can break a column."""

from __future__ import annotations

import re
import signal

_INT64_LIMIT = 2**63
_INT32_LIMIT = 2**31
_DIGITS = re.compile(r"\d+")
_LIST_LIMIT = 100_000


def int64(text: str | None) -> int | None:
    """A printed decimal number, or None where it is absent, malformed or does not fit 64 bits."""
    return _bounded(text, _INT64_LIMIT)


def int32(text: str | None) -> int | None:
    """A printed decimal number, or None where it is absent, malformed or does not fit 32 bits."""
    return _bounded(text, _INT32_LIMIT)


def _bounded(text: str | None, limit: int) -> int | None:
    if text is None or not 0 < len(text) <= 20:
        return None
    try:
        value = int(text)
    except ValueError:
        return None
    return value if -limit <= value < limit else None


def numbers(text: str) -> list[int]:
    """The non-negative numbers of a printed list, `0, 1, 2` or `[0, 1]`; absurdly long digit strings are left out."""
    return [value for value in map(int64, _DIGITS.findall(text)[:_LIST_LIMIT]) if value is not None]


def signal_name(text: str) -> str:
    """`SIGTERM` for each of the printed forms `15`, `SIGTERM` and `Signals.SIGTERM`; other text stays as it is."""
    name = text.strip().removeprefix("Signals.")
    if not name.isdecimal():
        return name
    try:
        return signal.Signals(int(name[:3])).name
    except ValueError:
        return name
