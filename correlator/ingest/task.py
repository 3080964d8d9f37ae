"""What a reading process does: a batch of files to Arrow tables. Imports neither polars nor networkx."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from correlator.core.files import FileReport, LogFile, RunHints, Skipped
from correlator.executors import Advance
from correlator.ingest.columns import ColumnBuilder
from correlator.ingest.engines import Engine, make_engine
from correlator.ingest.filereader import FileReader, Interpreter
from correlator.ingest.reader import Limits
from correlator.parsers.dumps import WHOLE_FILE
from correlator.parsers.interpret import FileParser
from correlator.parsers.table import PatternTable
from correlator.sources import open_stream

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Job:
    """A file, and its position among those of the run."""

    index: int
    file: LogFile


@dataclass(slots=True)
class BatchResult:
    """What came of a batch; reports and skipped rows with the position of their file."""

    tables: list[pa.Table] = field(default_factory=list)
    reports: list[tuple[int, FileReport]] = field(default_factory=list)
    skipped: list[tuple[int, Skipped]] = field(default_factory=list)
    warnings: tuple[str, ...] = ()


class ReadTask:
    """Reads batches of files. Sent to a process once; the compiled patterns and the buffer are made there, on first use."""

    def __init__(self, table: PatternTable, hints: RunHints, *, force_re: bool = False, limits: Limits | None = None) -> None:
        self._table = table
        self._hints = hints
        self._force_re = force_re
        self._limits = limits
        self._ready: tuple[Engine, FileReader] | None = None

    def __call__(self, batch: tuple[Job, ...], advance: Advance, /) -> BatchResult:
        """Read the files of a batch."""
        engine, reader = self._prepared()
        builder = ColumnBuilder()
        result = BatchResult(warnings=engine.warnings)
        for job in batch:
            outcome = reader.read(job.file, job.index, builder, advance)
            if outcome.report is not None:
                result.reports.append((job.index, outcome.report))
            result.skipped += ((job.index, skipped) for skipped in outcome.skipped)
        result.tables = builder.take()
        return result

    def _prepared(self) -> tuple[Engine, FileReader]:
        if self._ready is None:
            engine = make_engine(self._table, self._force_re)
            interpreter = Interpreter(self._table, lambda context: FileParser(context, self._table), WHOLE_FILE)
            self._ready = engine, FileReader(interpreter, engine, self._hints, open_stream, self._limits)
        return self._ready
