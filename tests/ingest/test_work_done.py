"""What a run costs, counted rather than timed: a machine that is busy must not hide that work was doubled."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from benchmarks.corpus import write_corpus
from correlator.ingest import collect, engines, task
from correlator.ingest import ingest as read_files
from correlator.parsers.peel import peeler
from correlator.parsers.table import pattern_table
from correlator.sources import discover

BYTES = 6_000_000
FILES = 2


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, BYTES, FILES)
    return folder


@pytest.fixture
def work(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Read the corpus in this process, and count."""
    counted: Counter[str] = Counter()
    scan, peel, open_stream = engines.HyperscanEngine.scan, peeler.peel, task.open_stream

    def counting_scan(self: Any, buffer: Any, length: int, *, start: int = 0, thin: bool = False) -> Any:
        counted["scanned"] += length - start
        found = scan(self, buffer, length, start=start, thin=thin)
        counted["matches"] += len(found[0])
        return found

    def counting_peel(text: str, context: Any) -> Any:
        counted["peeled"] += 1
        return peel(text, context)

    def counting_open(file: Any, limits: Any = None) -> Any:
        counted[f"opened {file.path}"] += 1
        return open_stream(file, limits)

    monkeypatch.setattr(engines.HyperscanEngine, "scan", counting_scan)
    monkeypatch.setattr("correlator.parsers.chunk_view.peel", counting_peel)
    monkeypatch.setattr("correlator.parsers.interpret.peel", counting_peel)
    monkeypatch.setattr(task, "open_stream", counting_open)
    with discover([corpus]) as run:
        found = read_files(run.files, pattern_table(), run.hints, workers=1)
    counted["lines"] = sum(report.lines for report in found.reports)
    counted["events"] = found.events.height
    counted["progress"] = found.events.filter(pl.col("event_name") == "progress").height
    return counted


def test_each_byte_is_scanned_about_once(work: Counter[str]) -> None:
    """A little more than once: escapes are scanned without them again, and a stretch where training has stopped."""
    assert BYTES * 0.99 <= work["scanned"] <= 1.2 * BYTES


def test_each_file_is_opened_once(work: Counter[str]) -> None:
    opened = {name: count for name, count in work.items() if name.startswith("opened ")}
    assert len(opened) == FILES
    assert set(opened.values()) == {1}


def test_no_python_runs_for_each_progress_line(work: Counter[str]) -> None:
    """A fifth of the lines are progress; hardly any of them is matched twice, peeled or kept."""
    assert work["lines"] > 40_000
    assert work["matches"] < 0.15 * work["lines"]
    assert work["peeled"] < 0.03 * work["lines"]
    assert work["progress"] < 0.02 * work["lines"]


def test_an_event_is_peeled_about_once(work: Counter[str]) -> None:
    """Lines that became events, those around them that lend a time or belong to a record, and few others."""
    assert work["peeled"] < 3 * work["events"] + 200


def test_pandas_stays_out(corpus: Path) -> None:
    """pyarrow would import it to look at a list: half a second of each reading process."""
    import subprocess
    import sys

    code = (
        "import sys\nfrom correlator.ingest import ingest\nfrom correlator.parsers.table import pattern_table\n"
        "from correlator.sources import discover\n"
        "with discover([sys.argv[1]]) as run:\n    ingest(run.files, pattern_table(), run.hints, workers=1)\n"
        "print([name for name in ('pandas', 'networkx', 'rich', 'altair') if name in sys.modules])\n"
    )
    answer = subprocess.run([sys.executable, "-c", code, str(corpus)], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_the_rows_of_all_files_are_sorted_once(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: Counter[str] = Counter()
    together = collect._together

    def counting(tables: Any) -> pl.DataFrame:
        passes["together"] += 1
        return together(tables)

    monkeypatch.setattr(collect, "_together", counting)
    with discover([corpus]) as run:
        read_files(run.files, pattern_table(), run.hints, workers=1)
    assert passes == {"together": 1}


def test_a_short_read_is_no_second_scan() -> None:
    """The reader asks for as much as its buffer holds, however little a stream gives."""
    from correlator.ingest.reader import ChunkReader, Limits

    class Slow(io.RawIOBase):
        def __init__(self) -> None:
            self.left = 100_000

        def readinto(self, buffer: Any) -> int:
            count = min(1000, self.left, len(buffer))
            buffer[:count] = b"x" * (count - 1) + b"\n" if count else b""
            self.left -= count
            return count

    reader = ChunkReader(Limits(chunk_bytes=50_000))
    reader.open(Slow())
    lengths = []
    while (chunk := reader.next_chunk()) is not None:
        lengths.append(chunk.length)
        reader.consume(chunk.length, chunk)
    assert lengths == [50_000, 50_000, 0]
