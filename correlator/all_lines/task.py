"""What a reading process does with a batch of files: all their lines, as sorted runs in a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from correlator.all_lines.merge import Spills
from correlator.all_lines.reader import LineReader
from correlator.all_lines.rows import LineRows
from correlator.all_lines.who import FileWriter, Known
from correlator.core.files import LogFile, RunHints, Skipped
from correlator.executors import Advance


@dataclass(frozen=True, slots=True)
class LineJob:
    """A file, its position among those of the run, and who wrote it."""

    index: int
    file: LogFile
    writer: FileWriter


@dataclass(frozen=True, slots=True)
class LineRuns:
    """What came of a batch."""

    runs: tuple[Path, ...]
    skipped: tuple[Skipped, ...]


class LineTask:
    """Reads batches of files. `folder` takes the runs; it is the caller's to remove."""

    def __init__(self, known: Known, hints: RunHints, folder: Path, *, by_host: bool) -> None:
        self._known = known
        self._hints = hints
        self._folder = folder
        self._by_host = by_host

    def __call__(self, batch: tuple[LineJob, ...], advance: Advance, /) -> LineRuns:
        """Read the files of a batch."""
        spills = Spills(self._folder, f"lines-{batch[0].index}")
        runs: list[Path] = []
        skipped: list[Skipped] = []

        def spill(rows: LineRows) -> None:
            path = spills.write([rows.take()])
            if path is not None:
                runs.append(path)

        reader = LineReader(self._known, self._hints, spill, by_host=self._by_host)
        for job in batch:
            reason = reader.read(job.file, job.index, job.writer)
            if reason is not None:
                skipped.append(Skipped(job.file.path, f"its lines cannot all be read: {reason}"))
            advance(job.file.size_bytes)
        reader.finish()
        return LineRuns(tuple(runs), tuple(skipped))
