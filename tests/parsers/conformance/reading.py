"""Lines in, events as one line of text each out: what the tables of the conformance tests compare.

A line goes through the same scan as in production (segments, control sequences, JSON escapes), then `FileParser`.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from functools import cache

import numpy as np

from correlator.core.event import Event
from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import FileKind, TimeSource
from correlator.ingest.engines import HyperscanEngine
from correlator.ingest.matches import find_matches
from correlator.ingest.segments import ChunkSegments, SegmentIndex
from correlator.ingest.selection import Selector
from correlator.parsers.base import FileContext
from correlator.parsers.dumps import WHOLE_FILE
from correlator.parsers.interpret import FileParser
from correlator.parsers.table import pattern_table

REFERENCE_NS = 1_764_464_523_000_000_000
"""2025-11-30T01:02:03Z, the date of the examples in formats.md."""
_SHORT = {
    "collective_seq": "seq",
    "collective_op": "op",
    "process_group": "group",
    "process_pid": "pid",
    "host_name": "host",
    "log_iostream": "stream",
    "code_file_path": "file",
    "code_line_number": "line",
}
_LEFT_OUT = frozenset(
    "event_name role signature template line_number byte_offset body_line_number body_byte_offset dialect timestamp_ns time_source time_granularity_ms time_zone "
    "body exception_message exception_stacktrace attributes observed_timestamp_ns line_count severity".split()
)
_NAMED = {b"\\r": b"\r", b"\\0": b"\0", b"\\x1b": b"\x1b", b"\\xe9": b"\xe9", b"\\\\": b"\\"}


def to_bytes(text: str, *, escaped: bool) -> bytes:
    """The lines of a case as a file holds them; `escaped` ones name their control characters."""
    data = text.encode()
    if escaped:
        data = data.replace(b"\\\\", b"\x02")
        for name, value in _NAMED.items():
            data = data.replace(name, value)
        data = data.replace(b"\x02", b"\\")
    return data


@cache
def _engine() -> HyperscanEngine:
    return HyperscanEngine(pattern_table().patterns)


def read(data: bytes, kind: str = "console_log") -> list[Event]:
    """The events of a small file."""
    table = pattern_table()
    context = FileContext("run/file.log", FileKind(kind), FileHints(), RunHints(REFERENCE_NS))
    if context.kind in WHOLE_FILE:
        return WHOLE_FILE[context.kind](data, context)
    buffer = bytearray(data)
    index = SegmentIndex(buffer, len(buffer), open_end=True)
    dense = np.array([pattern.bulk for pattern in table.patterns])
    selector = Selector(table.patterns)
    selection = selector.select(find_matches(_engine(), buffer, len(buffer), index, dense), final=True)
    lines = ChunkSegments(buffer, index, offset=0, line_number=1, final=True)
    return FileParser(context, table).parse(lines, selection.hits).events


def describe(event: Event) -> str:
    """`name role`, then every fact that is not None, in the order of the table; attributes begin with `+`."""
    parts = [str(event.event_name), event.role.value]
    if event.timestamp_ns is not None:
        name = "time" if event.time_source is TimeSource.EXPLICIT else str(event.time_source)
        parts.append(f"{name}={_iso(event.timestamp_ns)}{event.time_zone or ''}/{event.time_granularity_ms:g}")
    if event.observed_timestamp_ns is not None:
        parts.append(f"other_time={_iso(event.observed_timestamp_ns)}")
    if event.severity is not None:
        parts.append(event.severity.value)
    if event.line_count != 1:
        parts.append(f"lines={event.line_count}")
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if field.name not in _LEFT_OUT and value is not None:
            parts.append(f"{_SHORT.get(field.name, field.name)}={_quoted(value)}")
    parts += (f"+{name}={_quoted(value)}" for name, value in event.attributes)
    return " ".join(parts)


def _iso(ns: int) -> str:
    fraction = f".{ns % 10**9:09d}".rstrip("0").rstrip(".")
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S") + fraction


def _quoted(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and text and not set(' "') & set(text) else json.dumps(text, ensure_ascii=False)
