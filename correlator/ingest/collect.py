"""All files of a run: shared out to processes, and their rows brought together in the order of the files."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from correlator.core.files import Compression, FileReport, LogFile, RunHints, Skipped
from correlator.core.progress import NoProgress, Progress
from correlator.core.vocabulary import FileKind
from correlator.executors import MOST_WORKERS, Executor, Failed, Process, Serial, Task, usable_cpus
from correlator.ingest.task import BatchResult, Job, ReadTask
from correlator.sources import Limits

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from correlator.parsers.table import PatternTable

MANY_RANK_LOGS = 1 << 20
"""So many that each keeps the least of its progress."""
PARALLEL_FROM_BYTES = 64 * 1024 * 1024
"""Below this, starting processes costs more than it saves."""
SMALL_FILE_BYTES = 1024 * 1024
BATCH_BYTES = 8 * 1024 * 1024
"""Small files are read this much at a time, so that what a task costs is shared by many."""
_EXPANSION = 8
"""How much longer a packed log is than it looks."""
_PRELOAD = ("correlator.ingest.task", "hyperscan")

Batch = tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Ingested:
    """The files of a run, read: the event table before clocks and identities, and an account of every file."""

    events: pl.DataFrame
    """Columns of `core.schema`; `time_aligned` and `time_uncertainty_ms` are null. Ordered by file, then line."""
    reports: tuple[FileReport, ...]
    skipped: tuple[Skipped, ...]
    """Files, or parts of files, that could not be read."""
    warnings: tuple[str, ...] = ()
    """What was done in another way than planned (a pattern or the whole scan through the slow engine)."""


@dataclass(slots=True)
class _Gathered:
    """Results as they come in."""

    tables: list[pa.Table] = field(default_factory=list)
    reports: list[tuple[int, FileReport]] = field(default_factory=list)
    skipped: list[tuple[int, Skipped]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def take(self, result: BatchResult) -> None:
        self.tables += result.tables
        self.reports += result.reports
        self.skipped += result.skipped
        self.warnings += (warning for warning in result.warnings if warning not in self.warnings)

    def fail(self, job: Job, failed: Failed) -> None:
        self.skipped.append((job.index, Skipped(job.file.path, f"cannot be read: {failed.reason}")))


def ingest(
    files: Sequence[LogFile],
    table: PatternTable,
    hints: RunHints,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    force_re: bool = False,
    limits: Limits | None = None,
    only_tails: bool = False,
) -> Ingested:
    """Read all files once. Never raises for what files hold.

    `workers`: processes to use; None = as many as pay off. `only_tails`: of each file the last lines, for a first answer;
    line numbers then count from where that begins.
    """
    watcher = progress or NoProgress()
    gathered = _Gathered()
    rank_logs = sum(file.kind is FileKind.RANK_LOG for file in files)
    if only_tails:
        rank_logs = MANY_RANK_LOGS
    task = ReadTask(table, hints, rank_logs=rank_logs, force_re=force_re, limits=limits, only_tails=only_tails)
    executor, warning = _executor(files, task, workers)
    if warning is not None:
        gathered.warnings.append(warning)
    watcher.start(sum(file.size_bytes for file in files))
    try:
        _run(executor, task, batches(files), gathered, watcher.advance)
    finally:
        watcher.finish()
    return Ingested(
        _together(gathered.tables),
        tuple(report for _, report in sorted(gathered.reports, key=lambda pair: pair[0])),
        tuple(skipped for _, skipped in sorted(gathered.skipped, key=lambda pair: pair[0])),
        tuple(gathered.warnings),
    )


def batches(files: Sequence[LogFile]) -> list[Batch]:
    """The tasks: each big file alone, small ones together; the longest first, so that none is left for the end."""
    jobs = [Job(index, file) for index, file in enumerate(files)]
    shared = list(_joined(job for job in jobs if _weight(job.file) < SMALL_FILE_BYTES))
    alone = [(job,) for job in jobs if _weight(job.file) >= SMALL_FILE_BYTES]
    return sorted(alone + shared, key=lambda batch: (-sum(_weight(job.file) for job in batch), batch[0].index))


def _joined(jobs: Iterator[Job]) -> Iterator[Batch]:
    batch: list[Job] = []
    held = 0
    for job in jobs:
        batch.append(job)
        held += _weight(job.file)
        if held >= BATCH_BYTES:
            yield tuple(batch)
            batch, held = [], 0
    if batch:
        yield tuple(batch)


def _weight(file: LogFile) -> int:
    return file.size_bytes * (1 if file.compression is Compression.NONE else _EXPANSION)


def _executor(files: Sequence[LogFile], task: ReadTask, workers: int | None) -> tuple[Executor, str | None]:
    """Where to read, and a warning if that is not where it should be."""
    if workers is None:
        pays_off = sum(map(_weight, files)) > PARALLEL_FROM_BYTES
        workers = min(usable_cpus(), MOST_WORKERS) if pays_off else 1
    if min(workers, len(files)) <= 1:
        return Serial(), None
    try:
        pickle.dumps(task)
    except Exception as error:  # noqa: BLE001  (a pattern's own code may be anything)
        return Serial(), f"read in one process, because the patterns cannot be sent to others: {error}"
    return Process(min(workers, len(files)), _PRELOAD), None


def _run(
    executor: Executor,
    task: Task[Batch, BatchResult],
    tasks: list[Batch],
    gathered: _Gathered,
    advance: Callable[[int], None],
) -> None:
    """Run all batches; the files of one that failed are tried one by one, so that only the culprit is lost."""
    again: list[Batch] = []
    for batch, result in zip(tasks, executor.map(task, tasks, advance), strict=True):
        if not isinstance(result, Failed):
            gathered.take(result)
        elif len(batch) == 1:
            gathered.fail(batch[0], result)
        else:
            again += ((job,) for job in batch)
    for batch, result in zip(again, executor.map(task, again, advance), strict=True):
        if isinstance(result, Failed):
            gathered.fail(batch[0], result)
        else:
            gathered.take(result)


def _together(tables: list[pa.Table]) -> pl.DataFrame:
    """One polars table of all rows, ordered by file, line and place."""
    import polars as pl
    import pyarrow as pa

    from correlator.core.schema import polars_schema
    from correlator.ingest.columns import FILE_INDEX

    if not tables:
        return pl.DataFrame(schema=polars_schema())
    whole = pl.from_arrow(pa.concat_tables(tables))
    tables.clear()
    if not isinstance(whole, pl.DataFrame):
        raise TypeError(type(whole))
    return whole.sort([FILE_INDEX, "line_number", "byte_offset"], maintain_order=True).drop(FILE_INDEX)
