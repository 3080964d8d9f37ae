"""Sort more rows than memory holds: sorted runs on disk, merged a block at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from correlator.all_lines.rows import KEYS

FAN_IN = 48
"""Runs that are merged at once; more are first merged into fewer."""
BLOCK_ROWS = 8_192

_ORDER = [(name, "ascending") for name in KEYS]


class Spills:
    """A folder of sorted runs. Several processes may write into it; names are unique by `writer`."""

    def __init__(self, folder: Path, writer: str) -> None:
        self._folder = folder
        self._writer = writer
        self._numbers = count()

    def write(self, tables: Iterable[pa.Table]) -> Path | None:
        """Write sorted tables that follow each other as one run; None for no table."""
        path = self._folder / f"{self._writer}-{next(self._numbers)}.arrow"
        sink = None
        try:
            for table in tables:
                if sink is None:
                    options = pa.ipc.IpcWriteOptions(compression="lz4")
                    sink = pa.ipc.new_file(str(path), table.schema, options=options)
                sink.write_table(table, max_chunksize=BLOCK_ROWS)
        finally:
            if sink is not None:
                sink.close()
        return None if sink is None else path


def merged(runs: Sequence[Path], spills: Spills) -> Iterator[pa.Table]:
    """All rows of the runs in the order of their keys, in blocks. The runs are removed as they are used up."""
    runs = list(runs)
    while len(runs) > FAN_IN:
        group, runs = runs[:FAN_IN], runs[FAN_IN:]
        path = spills.write(_merge(group))
        runs += [path] if path is not None else []
    yield from _merge(runs)


def _merge(paths: Sequence[Path]) -> Iterator[pa.Table]:
    runs = [_Run(path) for path in paths]
    try:
        while runs := [run for run in runs if run.fill()]:
            bounds = [run.last for run in runs if not run.exhausted]
            bound = min(bounds) if bounds else None
            parts = [run.take(bound) for run in runs]
            yield pa.concat_tables(parts).sort_by(_ORDER)
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


class _Run:
    """One sorted run, a block of it in memory."""

    def __init__(self, path: Path) -> None:
        self._source = pa.OSFile(str(path))
        self._file = pa.ipc.open_file(self._source)
        self._next = 0
        self._held: pa.Table | None = None

    @property
    def exhausted(self) -> bool:
        """Whether what is held is the end of the run."""
        return bool(self._next >= self._file.num_record_batches)

    @property
    def last(self) -> tuple[int, ...]:
        """The key of the last row that is held."""
        held = self._held
        return () if held is None else tuple(held.column(name)[held.num_rows - 1].as_py() for name in KEYS)

    def fill(self) -> bool:
        """Hold at least one row; False at the end of the run."""
        while (self._held is None or not self._held.num_rows) and not self.exhausted:
            self._held = pa.Table.from_batches([self._file.get_batch(self._next)])
            self._next += 1
        if self._held is None or not self._held.num_rows:
            self._source.close()
            return False
        return True

    def take(self, bound: tuple[int, ...] | None) -> pa.Table:
        """The rows that are held up to a key (None: all)."""
        held = self._held
        if held is None:
            message = "take before fill"
            raise RuntimeError(message)
        size = held.num_rows if bound is None else _up_to(held, bound)
        self._held = held.slice(size)
        return held.slice(0, size)


def _up_to(table: pa.Table, bound: tuple[int, ...]) -> int:
    """How many rows of a sorted table have a key that is not greater."""
    below = np.zeros(table.num_rows, dtype=np.bool_)
    equal = np.ones(table.num_rows, dtype=np.bool_)
    for name, value in zip(KEYS, bound, strict=True):
        column = table.column(name).to_numpy()
        below |= equal & (column < value)
        equal &= column == value
    return int(np.count_nonzero(below | equal))
