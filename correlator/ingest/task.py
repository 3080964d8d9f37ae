"""What a reading process does: a batch of files to Arrow tables. Imports neither polars nor networkx."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from correlator.core.files import FileReport, LogFile, RunHints, Skipped
from correlator.executors import Advance
from correlator.ingest.columns import ColumnBuilder
from correlator.ingest.database import Compiled, compile_patterns
from correlator.ingest.engines import Engine, make_engine
from correlator.ingest.filereader import FileReader, Interpreter
from correlator.ingest.reader import Limits as ReaderLimits
from correlator.ingest.selection import Selector
from correlator.ingest.transfer import PackedTable, pack_table, unpack_table
from correlator.parsers.dumps import WHOLE_FILE
from correlator.parsers.interpret import FileParser, stamp_of
from correlator.parsers.table import PatternTable
from correlator.sources import Limits, open_stream
from correlator.sources.tails import open_tail

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
    """Reads batches of files. It is sent to a process once; the engine and the buffer are made there, on first use."""

    def __init__(
        self,
        table: PatternTable,
        hints: RunHints,
        *,
        rank_logs: int = 1,
        force_re: bool = False,
        limits: Limits | None = None,
        only_tails: bool = False,
    ) -> None:
        """`rank_logs`: files of the run that belong to one rank each; `only_tails`: read the last lines of each file."""
        self._table = table
        self._hints = hints
        self._rank_logs = rank_logs
        self._force_re = force_re
        self._limits = limits or Limits()
        self._only_tails = only_tails
        self._compiled: Compiled | None = None
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

    def __getstate__(self) -> tuple[PackedTable, RunHints, int, bool, Limits, bool, Compiled | None]:
        """What travels: the patterns compiled, so that only one process does that."""
        compiled = None if self._force_re else _compiled(self._table)
        packed = pack_table(self._table)
        return packed, self._hints, self._rank_logs, self._force_re, self._limits, self._only_tails, compiled

    def __setstate__(self, state: tuple[PackedTable, RunHints, int, bool, Limits, bool, Compiled | None]) -> None:
        packed, self._hints, self._rank_logs, self._force_re, self._limits, self._only_tails, self._compiled = state
        self._table = unpack_table(packed)
        self._ready = None

    def _prepared(self) -> tuple[Engine, FileReader]:
        if self._ready is None:
            engine = make_engine(self._table, force_re=self._force_re, compiled=self._compiled)
            interpreter = Interpreter(
                self._table, lambda context: FileParser(context, self._table), WHOLE_FILE, stamp_of
            )
            sizes = ReaderLimits(line_bytes=self._limits.line_bytes, whole_file_bytes=self._limits.document_bytes)
            open_file = partial(open_tail if self._only_tails else open_stream, limits=self._limits)
            selector = Selector(self._table.patterns, self._rank_logs)
            self._ready = engine, FileReader(interpreter, engine, self._hints, open_file, sizes, selector)
        return self._ready


def _compiled(table: PatternTable) -> Compiled | None:
    try:
        return compile_patterns(table.patterns)
    except ImportError:
        return None
