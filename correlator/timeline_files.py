"""Parquet files of timelines: one, or a folder with one for each node, written a block at a time and in one piece."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from correlator.core.errors import InputError, OutputError
from correlator.core.schema import SCHEMA_VERSION, arrow_schema
from correlator.core.vocabulary import Context

if TYPE_CHECKING:
    import pyarrow as pa

VERSION_KEY = b"correlator.schema_version"
STORED_KEY = b"correlator.stored"
_CONTENT_KEY = b"correlator.content"

BLOCK_ROWS = 128 * 1024
"""Rows that are held before they are written."""
PARTITION = "host_name"
NO_HOST = "(none)"
"""Partition of rows without a node: pandas cannot read a null partition, and no node has such a name."""
_LONGEST_NAME = 200

Metadata = Mapping[bytes, bytes]


class Content(StrEnum):
    """What the rows of a timeline are."""

    EVENTS = "events"
    ALL_LINES = "all_lines"


@dataclass(frozen=True, slots=True)
class TimelineFiles:
    """A timeline on disk."""

    path: Path
    parts: tuple[Path, ...]
    """Its Parquet files; several where it is partitioned by node."""
    content: Content
    stored: bytes
    """JSON of `timeline.Stored`."""


def write_file(path: Path, tables: Iterable[pa.Table], metadata: Metadata) -> None:
    """Write tables that follow each other as one file. Raises OutputError."""

    def write(draft: Path) -> None:
        file = draft / "timeline.parquet"
        _write_part(file, _fitted(_blocks(tables), drop=None), metadata)
        file.replace(path)

    _in_draft(path, write)


def write_dataset(path: Path, tables: Iterable[pa.Table], metadata: Metadata) -> None:
    """Write tables that are ordered by `host_name` as a folder of folders, as Hive does. Raises OutputError.

    A file or an earlier dataset at `path` is replaced; any other folder there is an InputError.
    """

    def write(draft: Path) -> None:
        folder = draft / "dataset"
        folder.mkdir(mode=0o755)
        carried = dict(metadata)
        for host, blocks in _by_host(tables):
            part = folder / f"{PARTITION}={quote(host, safe='()')}"
            part.mkdir(exist_ok=True)  # names that no file system takes share one, and need not be neighbours
            number = sum(1 for _ in part.iterdir())
            _write_part(part / f"part-{number}.parquet", _fitted(blocks, drop=PARTITION), carried)
            carried.pop(STORED_KEY, None)  # once is enough; it may be large
        if path.is_dir():
            describe_timeline(path)  # raises where the folder is something else
        if path.exists():
            path.rename(draft / "former")
        folder.rename(path)

    _in_draft(path, write)


def _in_draft(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` work in a folder beside `path` that vanishes afterwards."""
    import pyarrow as pa

    try:
        draft = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:100]}."))
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
    try:
        write(draft)
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write_part(path: Path, blocks: Iterator[pa.Table], metadata: Metadata) -> None:
    import pyarrow.parquet as pq

    first = next(blocks)
    schema = first.schema.with_metadata(dict(metadata))
    with pq.ParquetWriter(path, schema, compression="zstd", compression_level=1) as writer:
        for block in chain([first], blocks):
            writer.write_table(block, row_group_size=BLOCK_ROWS)


def _fitted(blocks: Iterator[pa.Table], drop: str | None) -> Iterator[pa.Table]:
    """The blocks with the declared types (labels as dictionaries); at least one, be it empty."""
    import pyarrow as pa

    schema = arrow_schema()
    if drop is not None:
        schema = schema.remove(schema.get_field_index(drop))
    empty = True
    for block in blocks:
        empty = False
        columns = []
        for field in schema:
            column = block.column(field.name)
            if pa.types.is_dictionary(field.type):
                column = column.cast(pa.string()).combine_chunks().dictionary_encode()
            columns.append(column.cast(field.type))
        yield pa.table(columns, schema=schema)
    if empty:
        yield schema.empty_table()


def _blocks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in blocks of a good size: neither thousands of small ones nor one that is too large."""
    import pyarrow as pa

    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(part.num_rows for part in held) >= BLOCK_ROWS:
            whole = pa.concat_tables(held)
            cut = whole.num_rows - whole.num_rows % BLOCK_ROWS
            for start in range(0, cut, BLOCK_ROWS):
                yield whole.slice(start, BLOCK_ROWS)
            held = [whole.slice(cut)]
    if any(part.num_rows for part in held):
        yield pa.concat_tables(held)


def _by_host(tables: Iterable[pa.Table]) -> Iterator[tuple[str, Iterator[pa.Table]]]:
    """The rows of each node; its blocks must be used up before the next node is asked for."""
    pieces = _of_one_host(tables)
    upcoming = next(pieces, None)
    if upcoming is None:
        yield NO_HOST, iter(())
    while upcoming is not None:
        host = upcoming[0]

        def rest(host: str = host) -> Iterator[pa.Table]:
            nonlocal upcoming
            while upcoming is not None and upcoming[0] == host:
                yield upcoming[1]
                upcoming = next(pieces, None)

        yield host, _blocks(rest())


def _of_one_host(tables: Iterable[pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    """Runs of rows of the same node."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for table in tables:
        hosts = pc.fill_null(table.column(PARTITION).cast(pa.string()), "").combine_chunks()
        ends = pc.run_end_encode(hosts)
        start = 0
        for host, end in zip(ends.values.to_pylist(), ends.run_ends.to_pylist(), strict=True):
            yield partition_of(host or None), table.slice(start, end - start)
            start = end


def partition_of(host: str | None) -> str:
    """The partition of a node's rows. A name that no file system takes is hostile, and shares the one of no node."""
    return NO_HOST if host is None or len(quote(host)) > _LONGEST_NAME else host


def describe_timeline(path: Path) -> TimelineFiles:
    """What a timeline is. Raises InputError for what is none of this version."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = sorted(path.glob(f"{PARTITION}=*/*.parquet")) if path.is_dir() else [path]
    if not parts:
        raise InputError(f"{path} is a folder without a timeline in it")
    found: dict[bytes, bytes] = {}
    for part in parts:
        try:
            metadata = pq.read_metadata(part).metadata or {}
        except FileNotFoundError as error:
            raise InputError(f"no such file: {part}") from error
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"cannot read {part} as Parquet") from error
        found |= metadata
        if STORED_KEY in found:
            break
    if found.get(VERSION_KEY) != SCHEMA_VERSION.encode() or STORED_KEY not in found:
        hint = "write one with: correlator timeline RUN -o timeline.parquet"
        raise InputError(f"{path} is no timeline of this version of correlator", hint=hint)
    content = Content.ALL_LINES if found.get(_CONTENT_KEY) == Content.ALL_LINES.value.encode() else Content.EVENTS
    return TimelineFiles(path, tuple(parts), content, found[STORED_KEY])


def read_event_rows(timeline: TimelineFiles) -> pa.Table:
    """All rows that are events. Raises InputError where a file is damaged."""
    import pyarrow as pa

    parts = (_read(part, timeline, lines=False) for part in timeline.parts)
    return pa.concat_tables(chain.from_iterable(parts))


def read_line_rows(part: Path, timeline: TimelineFiles) -> Iterator[pa.Table]:
    """The rows of a part that are plain lines, in its order, a block at a time. Raises InputError."""
    return _read(part, timeline, lines=True)


def _read(part: Path, timeline: TimelineFiles, *, lines: bool) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    schema = arrow_schema()
    try:
        with pq.ParquetFile(part) as file:
            if not lines:
                yield _shaped(file.schema_arrow.empty_table(), part, timeline, schema)
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                is_line = pc.equal(table.column("event_name").cast(pa.string()), str(Context.LINE))
                yield _shaped(table.filter(is_line if lines else pc.invert(is_line)), part, timeline, schema)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise InputError(f"{part} cannot be read: {error}") from error


def _shaped(table: pa.Table, part: Path, timeline: TimelineFiles, schema: pa.Schema) -> pa.Table:
    """Rows with the declared columns, the node of a partition put back."""
    import pyarrow as pa

    if part != timeline.path:
        host = unquote(part.parent.name.removeprefix(f"{PARTITION}="))
        value = None if host == NO_HOST else host
        table = table.append_column(PARTITION, pa.array([value] * table.num_rows, pa.string()))
    for field in schema:  # a column that came later is unknown in a timeline from before
        if field.name not in table.column_names and field.nullable:
            table = table.append_column(field.name, pa.nulls(table.num_rows, pa.string()))
    types = [pa.string() if pa.types.is_dictionary(field.type) else field.type for field in schema]
    columns = [table.column(field.name).cast(dtype) for field, dtype in zip(schema, types, strict=True)]
    return pa.table(columns, names=schema.names)
