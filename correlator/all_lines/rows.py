"""Lines as rows of the event table: columns while a file is read, Arrow tables with their sort keys at the end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from correlator.all_lines.who import FileWriter, Known
from correlator.core.files import LogFile
from correlator.core.schema import arrow_schema
from correlator.core.vocabulary import SEVERITY_NUMBER, Context, Role, TimeSource
from correlator.ingest.columns import TEXT_LIMIT, event_id
from correlator.parsers.base import Prefix, Stamp

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
        self._clear()

    def __len__(self) -> int:
        return len(self._place)

    def _clear(self) -> None:
        self._place: list[int] = []
        self._ids: list[int] = []
        self._times: list[int | None] = []
        self._sources: list[str] = []
        self._grains: list[float | None] = []
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

    def set_time(self, row: int, stamp: Stamp, source: TimeSource) -> None:
        """Give a row its time; `row` counts from the last `take`, negative from the end."""
        self._times[row] = stamp.ns
        self._sources[row] = source
        self._grains[row] = stamp.granularity_ms

    def take(self) -> pa.Table:
        """All rows since the last call, in the order of their keys."""
        schema = spill_schema()
        count = len(self)
        values: dict[str, pa.Array] = {
            "event_id": pa.array(self._ids, pa.uint64()),
            "timestamp": pa.array(self._times, pa.int64()).cast(schema.field("timestamp").type),
            "time_source": pa.array(self._sources, pa.string()),
            "time_granularity_ms": pa.array(self._grains, pa.float32()),
            "line_count": pa.array(np.ones(count, dtype=np.int32)),
        }
        values |= {name: pa.array(column, schema.field(name).type) for name, column in self._columns.items()}
        values |= {name: pa.repeat(pa.scalar(value), count) for name, value in _CONSTANT.items()}
        values |= self._aligned(values)
        values |= {
            "_host": self._partitions(),
            "_time": sort_time(values["time_aligned"]),
            "_place": pa.array(self._place, pa.int64()),
        }
        arrays = [values[field.name] if field.name in values else pa.nulls(count, field.type) for field in schema]
        table = pa.Table.from_arrays(arrays, schema=schema)
        self._clear()
        return table.sort_by([(name, "ascending") for name in KEYS])

    def _partitions(self) -> pa.Array:
        hosts = self._known.hosts
        if not self._by_host:
            return pa.array(np.zeros(len(self), dtype=np.int64))
        return pa.array([hosts.get(str(host), 0) for host in self._columns["host_name"]], pa.int64())

    def _aligned(self, values: Mapping[str, pa.Array]) -> dict[str, pa.ChunkedArray]:
        """Aligned times and their uncertainties, by the rule that events follow."""
        import polars as pl

        from correlator.clocks.filling import filled

        names = ("clock_domain", "timestamp", "time_granularity_ms")
        frame = pl.DataFrame({name: pl.Series(values=values[name]) for name in names})
        schema = arrow_schema()
        columns = filled(frame, self._known.clocks).select(_ALIGNED).to_arrow()
        return {name: columns.column(name).cast(schema.field(name).type) for name in _ALIGNED}


_ALIGNED = ("time_aligned", "time_uncertainty_ms")
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
