"""From a run to the stream of all its lines: read by as many processes as pay off, merged by time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from correlator.all_lines.merge import Spills, merged
from correlator.all_lines.rows import place_of, with_keys, without_keys
from correlator.all_lines.task import LineJob, LineRuns, LineTask
from correlator.all_lines.who import Known, known_of, writers_of
from correlator.core.errors import UsageError
from correlator.core.files import LogFile, RunHints, Skipped
from correlator.core.model import ClockModel, Topology
from correlator.core.progress import NoProgress, Progress
from correlator.executors import MOST_WORKERS, Executor, Failed, Process, Serial, usable_cpus
from correlator.sources import Limits, discover
from correlator.timeline import TIMELINE_SUFFIXES, stored_in, to_arrow
from correlator.timeline_files import Content, describe_timeline, read_line_rows

if TYPE_CHECKING:
    import polars as pl

STDIN = "-"
PARALLEL_FROM_BYTES = 16 << 20
BATCH_BYTES = 4 << 20
_FOLDER = "correlator-lines-"
_PRELOAD = ("correlator.all_lines.task",)


class Identified(Protocol):
    """What of a `correlator.Run` is needed to place its lines."""

    @property
    def events(self) -> pl.DataFrame:
        """The event table."""

    @property
    def topology(self) -> Topology:
        """Ranks and nodes."""

    @property
    def clocks(self) -> ClockModel:
        """Clock estimates."""


@dataclass(slots=True)
class AllLines:
    """The lines of a run while its files are open. `skipped` fills as they are read."""

    tables: Iterator[pa.Table]
    """Rows of the event table (core.schema; labels as plain text), `event_name` is `line`, ordered by `time_aligned`
    (null last), then file, then place."""
    skipped: list[Skipped] = field(default_factory=list)


@contextmanager
def open_lines(
    targets: Sequence[str | Path],
    run: Identified,
    *,
    with_events: bool = False,
    by_host: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> Iterator[AllLines]:
    """All lines of a run that was opened from the same targets.

    Args:
        targets: what the run was opened from; files are read a second time.
        run: the opened run, which knows ranks and clocks.
        with_events: the rows of `run.events` are in the stream too, each behind the line that it begins with.
        by_host: order by node first.
        workers: processes that read; None = as many as pay off.
        progress: told how far the reading is.
        limits: what hostile or huge input may take, as for `open_run`.

    Raises UsageError where the lines are not there to be read: standard input, or a timeline without them.
    """
    paths = [os.fspath(target) for target in targets]
    if len(paths) == 1 and paths[0].endswith(TIMELINE_SUFFIXES):
        with _stored(Path(paths[0]), run, with_events=with_events, by_host=by_host) as lines:
            yield lines
        return
    if STDIN in paths:
        raise UsageError("standard input can be read only once", hint="save it to a file, and name that")
    with discover(paths, limits=limits) as found, tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        reading = _Reading(found.files, found.hints, run, Path(folder), by_host=by_host)
        result = AllLines(iter(()))
        watcher = progress or NoProgress()
        watcher.start(sum(file.size_bytes for file in found.files))
        try:
            runs = reading.read(_executor(found.files, workers), watcher, result.skipped)
        finally:
            watcher.finish()
        if with_events:
            runs += reading.spill_events()
        result.tables = without_keys(merged(runs, Spills(Path(folder), "merged")))
        yield result


class _Reading:
    """The files of a run, and what is known of their writers."""

    def __init__(
        self, files: Sequence[LogFile], hints: RunHints, run: Identified, folder: Path, *, by_host: bool
    ) -> None:
        self._files = files
        self._events = run.events
        self._known: Known = known_of(run.events, run.topology, run.clocks)
        self._by_host = by_host
        self._folder = folder
        self._task = LineTask(self._known, hints, folder, by_host=by_host)

    def read(self, executor: Executor, watcher: Progress, skipped: list[Skipped]) -> list[Path]:
        """Spill the lines of all files; returns the runs."""
        batches = list(_batches(self._files, self._events, self._known))
        runs: list[Path] = []
        for batch, result in zip(batches, executor.map(self._task, batches, watcher.advance), strict=True):
            if isinstance(result, LineRuns):
                runs += result.runs
                skipped += result.skipped
            elif isinstance(result, Failed):
                reason = f"its lines cannot be read: {result.reason}"
                skipped += (Skipped(job.file.path, reason) for job in batch)
        return runs

    def spill_events(self) -> list[Path]:
        """The event table as one more run."""
        table = to_arrow(self._events)
        index = {file.path: number for number, file in enumerate(self._files)}
        hosts = self._known.hosts if self._by_host else {}
        path = Spills(self._folder, "events").write([_keyed(table, index, hosts, event=True)])
        return [] if path is None else [path]


def _batches(files: Sequence[LogFile], events: pl.DataFrame, known: Known) -> Iterator[tuple[LineJob, ...]]:
    """Tasks of some MiB, in the order of the files."""
    writers = writers_of(events, files, known)
    batch: list[LineJob] = []
    held = 0
    for index, file in enumerate(files):
        batch.append(LineJob(index, file, writers[file.path]))
        held += file.size_bytes
        if held >= BATCH_BYTES:
            yield tuple(batch)
            batch, held = [], 0
    if batch:
        yield tuple(batch)


def _executor(files: Sequence[LogFile], workers: int | None) -> Executor:
    if workers is None:
        pays_off = sum(file.size_bytes for file in files) > PARALLEL_FROM_BYTES
        workers = min(usable_cpus(), MOST_WORKERS) if pays_off else 1
    workers = min(workers, len(files))
    return Process(workers, _PRELOAD) if workers > 1 else Serial()


def _keyed(table: pa.Table, index: Mapping[str, int], hosts: Mapping[str, int], *, event: bool) -> pa.Table:
    """Rows of the event table with their sort keys; `index` has the position of each file in the run."""
    files = table.column("log_file_path").cast(pa.string()).to_pylist()
    offsets = table.column("byte_offset").to_pylist()
    nodes = table.column("host_name").cast(pa.string()).to_pylist()
    places = [place_of(index.get(path, len(index)), at, event=event) for path, at in zip(files, offsets, strict=True)]
    partitions = pa.array([hosts.get(node, 0) for node in nodes], pa.int64())
    return with_keys(table, partitions, pa.array(places, pa.int64()))


@contextmanager
def _stored(path: Path, run: Identified, *, with_events: bool, by_host: bool) -> Iterator[AllLines]:
    """The lines of a timeline that has them, sorted anew where they do not lie as they are wanted."""
    timeline = describe_timeline(path)
    if timeline.content is not Content.ALL_LINES:
        hint = "name the run directory, or write it anew with --all-lines"
        raise UsageError(f"{path} holds events only, no other lines", hint=hint)
    if len(timeline.parts) == 1 and not with_events and not by_host:
        yield AllLines(read_line_rows(timeline.parts[0], timeline))
        return
    index = {report.path: number for number, report in enumerate(stored_in(timeline).reports)}
    hosts = known_of(run.events, run.topology, run.clocks).hosts if by_host else {}
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        spills = Spills(Path(folder), "stored")
        blocks = (block for part in timeline.parts for block in read_line_rows(part, timeline))
        runs = [spills.write([_keyed(block, index, hosts, event=False)]) for block in blocks]
        if with_events:
            runs.append(spills.write([_keyed(to_arrow(run.events), index, hosts, event=True)]))
        yield AllLines(without_keys(merged([found for found in runs if found is not None], spills)))
