"""Events to columns: lists while a file is read, an Arrow table every quarter of a million events.

Log text is untrusted: a number that does not fit its column becomes null there (no rank is 10**12), text that is no
valid Unicode is repaired, and text is cut at a length that a person would still read.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from correlator.core.event import Event
from correlator.core.files import LogFile
from correlator.core.schema import COLUMNS, Kind, arrow_schema
from correlator.core.vocabulary import SEVERITY_NUMBER
from correlator.ingest.arrow import to_arrow

ROWS_PER_TABLE = 256 * 1024
FILE_INDEX = "file_index"
"""Extra first column while tables travel: the position of the file in the run; decides the order of rows."""
TEXT_LIMIT = 16 * 1024
"""Characters of a message or a label."""
STACK_LIMIT = 128 * 1024
"""Characters of a stack trace; its end says what happened, so the middle is left out."""

_RENAMED = {"timestamp": "timestamp_ns", "observed_timestamp": "observed_timestamp_ns"}
_OF_FILE = (
    "event_id", "severity_number", "severity_text", "log_file_path", "file_kind", "clock_domain", "log_iostream",
)  # fmt: skip
_LATER = ("time_aligned", "time_uncertainty_ms")
_OF_EVENT = tuple(column.name for column in COLUMNS if column.name not in (*_OF_FILE, *_LATER))
_copied = attrgetter(*(_RENAMED.get(name, name) for name in _OF_EVENT))
_ROW = (FILE_INDEX, *_OF_FILE, *_OF_EVENT)
"""The columns of a row while it is held."""
_INTEGER_BITS = {Kind.INT32: 31, Kind.INT64: 63, Kind.TIME: 63, Kind.UINT8: 8, Kind.UINT64: 64}


def event_id(path: str, byte_offset: int, signature: str, ordinal: int) -> int:
    """64 bits that name an event in every run over the same files; `ordinal` counts those of a place and signature."""
    name = f"{path}\0{byte_offset}\0{signature}\0{ordinal}".encode("utf-8", errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")


class ColumnBuilder:
    """Collects the events of several files and hands out Arrow tables."""

    def __init__(self, rows_per_table: int = ROWS_PER_TABLE) -> None:
        self._rows_per_table = rows_per_table
        self._full: list[pa.Table] = []
        self._clear()

    def _clear(self) -> None:
        self._rows: list[tuple[Any, ...]] = []

    def add(self, events: Iterable[Event], file: LogFile, file_index: int) -> None:
        """Append events of one file: all those of one place of it in one call, for their ids to be stable."""
        seen: Counter[tuple[int, str]] = Counter()
        path, kind, domain = file.path, file.kind, file.hints.node or file.path
        for event in events:
            place = (event.byte_offset, event.signature)
            severity = event.severity
            self._rows.append(
                (
                    file_index,
                    event_id(path, *place, seen[place]),
                    None if severity is None else SEVERITY_NUMBER[severity],
                    severity,
                    path,
                    kind,
                    domain,
                    event.log_iostream or file.hints.stream,
                    *_copied(event),
                )
            )
            seen[place] += 1
            if len(self._rows) >= self._rows_per_table:
                self._flush()

    def take(self) -> list[pa.Table]:
        """All tables since the last call."""
        self._flush()
        tables, self._full = self._full, []
        return tables

    def _flush(self) -> None:
        if not self._rows:
            return
        schema = arrow_schema()
        values = dict(zip(_ROW, zip(*self._rows, strict=True), strict=True))
        count = len(self._rows)
        arrays = [to_arrow(values[FILE_INDEX], Kind.INT32, pa.int32())]
        for column in COLUMNS:
            dtype = schema.field(column.name).type
            found = values.get(column.name)
            arrays.append(pa.nulls(count, dtype) if found is None else _array(found, column.name, column.kind, dtype))
        fields = [pa.field(FILE_INDEX, pa.int32()), *schema]
        self._full.append(pa.Table.from_arrays(arrays, schema=pa.schema(fields)))
        self._clear()


def _array(values: Sequence[Any], name: str, kind: Kind, dtype: pa.DataType) -> pa.Array:
    """The values as Arrow; cleaned one by one only if they do not fit as they are."""
    if kind in (Kind.TEXT, Kind.LABEL):
        limit = STACK_LIMIT if name == "exception_stacktrace" else TEXT_LIMIT
        values = [value if value is None or len(value) <= limit else _shortened(value, limit) for value in values]
    try:
        return to_arrow(values, kind, dtype)
    except (OverflowError, AttributeError, TypeError, ValueError):
        return to_arrow([_cleaned(value, kind) for value in values], kind, dtype)


def _shortened(text: str, limit: int) -> str:
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - limit} characters left out ...\n{text[-half:]}"


def _cleaned(value: Any, kind: Kind) -> Any:
    """A value that surely fits a column of this kind; None if it cannot."""
    if value is None:
        return None
    match kind:
        case Kind.TEXT | Kind.LABEL:
            return _valid(str(value))
        case Kind.ATTRIBUTES:
            return [(_valid(str(key)), _valid(str(text))) for key, text in value]
        case Kind.FLOAT32 | Kind.FLOAT64:
            return _fitting_float(value)
        case Kind.INT32 | Kind.INT64 | Kind.TIME | Kind.UINT8 | Kind.UINT64:
            return _fitting_integer(value, _INTEGER_BITS[kind], signed=kind not in (Kind.UINT8, Kind.UINT64))


def _valid(text: str) -> str:
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _fitting_float(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _fitting_integer(value: Any, bits: int, *, signed: bool) -> int | None:
    if not isinstance(value, int):
        return None
    low, high = (-(1 << bits), 1 << bits) if signed else (0, 1 << bits)
    return int(value) if low <= value < high else None
