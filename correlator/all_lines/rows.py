"""Lines as rows of the event table: columns while a file is read, Arrow tables with their sort keys at the end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from correlator.all_lines.who import FileWriter, Known
from correlator.core.files import LogFile
from correlator.core.schema import arrow_schema
from correlator.core.vocabulary import SEVERITY_NUMBER, Context, Role, TimeSource
from correlator.ingest.columns import TEXT_LIMIT, event_id
from correlator.parsers.base import Prefix, Stamp

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEYS = ("_host", "_time", "_place")
"""What rows are ordered by: the partition (0 where there are none), the aligned time, and the place in the run."""
_PLACE_BITS = 43
"""Bits of a place in a file within `_place`, for files of 4 TiB."""
_LAST = np.iinfo(np.int64).max
_CAST = {pa.dictionary(pa.int32(), pa.string()): pa.string()}


def spill_schema() -> pa.Schema:
    """The event table with its sort keys in front, labels as plain text: dictionaries would differ from file to file."""
    keys = [pa.field(name, pa.int64(), nullable=False) for name in KEYS]
    plain = [pa.field(field.name, _CAST.get(field.type, field.type), field.nullable) for field in arrow_schema()]
    return pa.schema([*keys, *plain])


def place_of(file_index: int, byte_offset: int, *, event: bool = False) -> int:
    """One number that orders lines by file and by their place in it, and an event behind the line that it begins with."""
    return (file_index << _PLACE_BITS) | min(2 * byte_offset + event, (1 << _PLACE_BITS) - 1)


def sort_time(aligned: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Aligned times as integers; what has no time comes last."""
    import pyarrow.compute as pc

    return pc.fill_null(aligned.cast(pa.int64()), int(_LAST))


class LineRows:
    """Collects the lines of files; `take` gives them as a table of `spill_schema`."""

    def __init__(self, known: Known, *, by_host: bool) -> None:
        self._known = known
        self._by_host = by_host
        self._domains: dict[str, int] = {}
        self._clear()

    def __len__(self) -> int:
        return len(self._place)

    def _clear(self) -> None:
        self._place: list[int] = []
        self._ids: list[int] = []
        self._times: list[int | None] = []
        self._sources: list[str] = []
        self._grains: list[float | None] = []
        self._clock: list[int] = []
        self._columns: dict[str, list[object]] = {name: [] for name in _COPIED}

    def add(
        self, file: LogFile, index: int, writer: FileWriter, prefix: Prefix, text: str, line: int, offset: int
    ) -> None:
        """Append a line, without its time."""
        known = self._known
        node = writer.node_of_line(prefix, known)
        rank = writer.rank_of_line(prefix, node, known)
        if node is None and rank is not None:
            node = known.node_of.get(rank)
        zone = prefix.stamp.zone if prefix.stamp is not None else None
        domain = writer.domain_of_line(file, node, zoned=zone is not None)
        severity = prefix.severity
        place = bisect_right(writer.attempts, (offset, _LAST)) - 1
        values: tuple[object, ...] = (
            zone,
            None if severity is None else SEVERITY_NUMBER[severity],
            severity,
            text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT],
            node,
            prefix.pid,
            rank,
            prefix.local_rank,
            prefix.task_id,
            writer.attempts[max(place, 0)][1] if writer.attempts else None,
            file.path,
            line,
            offset,
            prefix.stream or file.hints.stream,
            file.kind,
            domain,
        )
        for name, value in zip(_COPIED, values, strict=True):
            self._columns[name].append(value)
        self._place.append(place_of(index, offset))
        self._ids.append(event_id(file.path, offset, Context.LINE, 0))
        self._times.append(None)
        self._sources.append(TimeSource.NONE)
        self._grains.append(None)
        self._clock.append(self._domains.setdefault(domain, len(self._domains)))

    def set_time(self, row: int, stamp: Stamp, source: TimeSource) -> None:
        """Give a row its time; `row` counts from the last `take`, negative from the end."""
        self._times[row] = stamp.ns
        self._sources[row] = source
        self._grains[row] = stamp.granularity_ms

    def take(self) -> pa.Table:
        """All rows since the last call, in the order of their keys."""
        schema = spill_schema()
        count = len(self)
        aligned, uncertainty = self._aligned()
        values: dict[str, pa.Array] = {
            "_host": self._partitions(),
            "_time": sort_time(aligned),
            "_place": pa.array(self._place, pa.int64()),
            "event_id": pa.array(self._ids, pa.uint64()),
            "timestamp": pa.array(self._times, pa.int64()).cast(schema.field("timestamp").type),
            "time_source": pa.array(self._sources, pa.string()),
            "time_granularity_ms": pa.array(self._grains, pa.float32()),
            "time_aligned": aligned,
            "time_uncertainty_ms": uncertainty,
            "line_count": pa.array(np.ones(count, dtype=np.int32)),
        }
        values |= {name: pa.repeat(pa.scalar(value), count) for name, value in _CONSTANT.items()}
        for name in _COPIED:
            values[name] = pa.array(self._columns[name], schema.field(name).type)
        arrays = [values[field.name] if field.name in values else pa.nulls(count, field.type) for field in schema]
        table = pa.Table.from_arrays(arrays, schema=schema)
        self._clear()
        return table.sort_by([(name, "ascending") for name in KEYS])

    def _partitions(self) -> pa.Array:
        hosts = self._known.hosts
        if not self._by_host:
            return pa.array(np.zeros(len(self), dtype=np.int64))
        return pa.array([hosts.get(str(host), 0) for host in self._columns["host_name"]], pa.int64())

    def _aligned(self) -> tuple[pa.Array, pa.Array]:
        """Aligned times and their uncertainties, by the clock of each row."""
        estimates = [self._known.clocks.get(domain) for domain in self._domains]
        offsets: NDArray[np.int64] = np.array([e.offset_ns if e else 0 for e in estimates], dtype=np.int64)
        halves = np.array([e.half_width_ms if e else np.nan for e in estimates], dtype=np.float64)
        clock = np.array(self._clock, dtype=np.int64)
        unknown = np.array([time is None for time in self._times], dtype=np.bool_)
        printed = np.array([time or 0 for time in self._times], dtype=np.int64)
        grains = np.array([grain or 0.0 for grain in self._grains], dtype=np.float64)
        moved = printed - (offsets[clock] if len(clock) else 0)
        wide = (halves[clock] if len(clock) else np.empty(0)) + grains
        kind = arrow_schema().field("time_aligned").type
        return (
            pa.array(moved, mask=unknown).cast(kind),
            pa.array(wide.astype(np.float32), mask=unknown | np.isnan(wide)),
        )


_COPIED = (
    "time_zone",
    "severity_number",
    "severity_text",
    "body",
    "host_name",
    "process_pid",
    "rank",
    "local_rank",
    "task_id",
    "attempt",
    "log_file_path",
    "line_number",
    "byte_offset",
    "log_iostream",
    "file_kind",
    "clock_domain",
)
_CONSTANT = {
    "event_name": str(Context.LINE),
    "role": str(Role.CONTEXT),
    "signature": str(Context.LINE),
    "dialect": "",
}


def with_keys(table: pa.Table, hosts: pa.Array, places: pa.Array) -> pa.Table:
    """Rows of the event table with their sort keys in front, in the order of these."""
    schema = spill_schema()
    values = (hosts, sort_time(table.column("time_aligned")), places)
    for number, (name, column) in enumerate(zip(KEYS, values, strict=True)):
        table = table.add_column(number, name, column)
    return table.cast(schema).sort_by([(name, "ascending") for name in KEYS])


def without_keys(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The tables as rows of the event table."""
    for table in tables:
        yield table.drop_columns(list(KEYS))
