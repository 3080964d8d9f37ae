"""Which patterns occur where in a chunk of raw bytes.

`HyperscanEngine` searches all patterns at once, faster than any literal pre-filter tried (performance.md c). `ReEngine`
runs the same patterns one by one with Python's `re`: a thousand times slower, the fallback where hyperscan has no
wheel, and the oracle of the differential test. Both speak of segments (see `segments`) and of the same scan form of
each pattern.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from correlator.ingest.database import Compiled, compile_patterns, load
from correlator.ingest.scanform import scan_form
from correlator.parsers.base import LinePattern

Scan = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Offsets behind the last byte of each match, and the id (index) of the pattern that matched."""

Raw = bytes | bytearray | memoryview

_SEPARATOR = re.compile(rb"\r\n|\n|\r")


class Patterns(Protocol):
    """What an engine needs of a `parsers.table.PatternTable`."""

    @property
    def patterns(self) -> tuple[LinePattern, ...]:
        """All patterns; the id of a pattern is its index."""


class Engine(Protocol):
    """Finds patterns in raw bytes: at least the last match of each pattern in each segment."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be done as planned, for a person."""

    def scan(self, buffer: Raw, length: int, *, start: int = 0, thin: bool = False) -> Scan:
        """All matches in the bytes from `start` to `length`, which begin and end with a line.

        `thin`: of dense patterns only those whose step is a multiple of 2**quota.THIN_EXPONENT.
        """


class ReEngine:
    """Python's `re` on the bytes of every segment, one pattern after the other."""

    def __init__(self, patterns: Sequence[LinePattern], ids: Sequence[int] | None = None) -> None:
        numbers = range(len(patterns)) if ids is None else ids
        self._searches = tuple((number, _compiled(patterns[number])) for number in numbers)
        self._thin = tuple((number, _compiled(patterns[number], thin=True)) for number in numbers)
        self._dense = _dense(patterns)
        self.warnings: tuple[str, ...] = ()

    def scan(self, buffer: Raw, length: int, *, start: int = 0, thin: bool = False) -> Scan:
        """All matches in the bytes from `start` to `length`."""
        ends, ids = array("q"), array("i")
        for place, segment in _segments(bytes(memoryview(buffer)[start:length])):
            for number, regex in self._thin if thin else self._searches:
                last = -1
                for match in regex.finditer(segment):
                    last = match.end()
                if last > 0:
                    ends.append(start + place + last)
                    ids.append(number)
        found_ids = _as_numpy(ids, np.dtype(np.int32))
        return _behind_step(buffer, _as_numpy(ends, np.dtype(np.int64)), self._dense[found_ids]), found_ids


class HyperscanEngine:
    """All patterns in one block-mode database; those that hyperscan refuses run through `re`, with a warning."""

    def __init__(self, patterns: Sequence[LinePattern], compiled: Compiled | None = None) -> None:
        compiled = compiled or compile_patterns(patterns)
        refused = dict(compiled.refused)
        self._databases = load(compiled.databases)
        self._thin = load(compiled.thin)
        self._dense = _dense(patterns)
        self._rest = ReEngine(patterns, sorted(refused)) if refused else None
        self._shift = max(len(patterns) - 1, 1).bit_length()
        self.warnings: tuple[str, ...] = tuple(
            f"pattern {patterns[number].id} runs through the slow engine: {reason}"
            for number, reason in sorted(refused.items())
        )

    def scan(self, buffer: Raw, length: int, *, start: int = 0, thin: bool = False) -> Scan:
        """All matches in the bytes from `start` to `length`."""
        packed = array("q")
        collect = _collector(packed, self._shift, start)
        databases = self._thin if thin else self._databases
        for database in databases if length > start else ():
            database.scan(memoryview(buffer)[start:length], match_event_handler=collect)
        found = np.frombuffer(packed, dtype=np.int64) if packed else np.empty(0, dtype=np.int64)
        ids = (found & ((1 << self._shift) - 1)).astype(np.int32)
        ends = _behind_step(buffer, found >> self._shift, self._dense[ids])
        if self._rest is None:
            return ends, ids
        more_ends, more_ids = self._rest.scan(buffer, length, start=start, thin=thin)
        return np.concatenate([ends, more_ends]), np.concatenate([ids, more_ids])


def make_engine(table: Patterns, *, force_re: bool = False, compiled: Compiled | None = None) -> Engine:
    """The fastest engine that this machine has for the table. `compiled`: its patterns, if that is done already."""
    if force_re:
        return ReEngine(table.patterns)
    try:
        return HyperscanEngine(table.patterns, compiled)
    except ImportError:
        engine = ReEngine(table.patterns)
        engine.warnings = ("hyperscan is not installed: reading is about a thousand times slower",)
        return engine


def _collector(packed: array[int], shift: int, start: int) -> Any:
    """The callback of a scan. It runs once a match and does nothing but append one integer (performance.md c)."""
    append = packed.append
    base = start << shift

    def collect(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
        append((end << shift | number) + base)

    return collect


def _dense(patterns: Sequence[LinePattern]) -> NDArray[np.bool_]:
    return np.array([pattern.bulk for pattern in patterns], dtype=np.bool_)


def _behind_step(buffer: Raw, ends: NDArray[np.int64], dense: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Match ends, those of dense patterns moved back over the byte that their scan form looks at behind the step."""
    if not dense.any():
        return ends
    last = np.frombuffer(buffer, dtype=np.uint8)[ends - 1]
    return ends - (dense & ((last < ord("0")) | (last > ord("9"))))


def _compiled(pattern: LinePattern, *, thin: bool = False) -> re.Pattern[bytes]:
    try:
        return re.compile(scan_form(pattern.regex, dense=pattern.bulk, thin=thin and pattern.bulk))
    except re.error:  # outside the shared subset
        return re.compile(pattern.regex.encode("utf-8", errors="replace"))


def _segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each segment with its offset."""
    start = 0
    for separator in _SEPARATOR.finditer(data):
        yield start, data[start : separator.start()]
        start = separator.end()
    if start < len(data):
        yield start, data[start:]


def _as_numpy(values: array[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.frombuffer(values, dtype=dtype) if values else np.empty(0, dtype=dtype)
