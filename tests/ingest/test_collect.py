"""A run from files to the table, with the real patterns: the same rows by either engine, any chunk size, any number of processes."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from correlator.core.files import Compression, FileHints, LogFile, RunHints
from correlator.core.schema import validate
from correlator.core.vocabulary import FileKind, Role
from correlator.executors import Failed
from correlator.ingest import Ingested, ingest
from correlator.ingest.collect import BATCH_BYTES, SMALL_FILE_BYTES, batches
from correlator.ingest.columns import ColumnBuilder
from correlator.ingest.engines import HyperscanEngine
from correlator.ingest.filereader import FileReader, Interpreter
from correlator.ingest.reader import Limits
from correlator.ingest.transfer import pack_table, unpack_table
from correlator.parsers.base import LinePattern
from correlator.parsers.dumps import WHOLE_FILE
from correlator.parsers.interpret import FileParser
from correlator.parsers.table import PatternTable, pattern_table
from correlator.sources import open_stream

HINTS = RunHints(reference_ns=1_764_464_523_000_000_000)
TRACEBACK = """\
Traceback (most recent call last):
  File "/workspace/train.py", line 212, in <module>
    main()
  File "/workspace/train.py", line 187, in main
    loss = step(model, batch)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.11 GiB.
"""
WATCHDOG = (
    "[rank{rank}]:[E1130 01:12:03.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
)


def _log(rank: int) -> bytes:
    lines = [
        f" [2025-11-30 01:02:{step:02d}.000000] iteration {step:8d}/  50000 | elapsed time per iteration (ms): 1000.0 | lm loss: 2.5E+00 |\n"
        for step in range(1, 60)
    ]
    end = TRACEBACK if rank == 3 else WATCHDOG.format(rank=rank)
    return ("".join(lines) + "plain\rtalk\n" + end + "last words").encode() + b"\xff\0\n"


def _files(folder: Path, ranks: int) -> list[LogFile]:
    files = []
    for rank in range(ranks):
        place = folder / f"rank_{rank}.log"
        place.write_bytes(_log(rank))
        hints = FileHints(rank=rank, node=f"node{rank // 2:02d}")
        size = place.stat().st_size
        files.append(LogFile(place.name, str(place), FileKind.RANK_LOG, hints, size_bytes=size))
    return files


@pytest.fixture
def files(tmp_path: Path) -> list[LogFile]:
    return _files(tmp_path, 5)


@pytest.fixture(scope="module")
def patterns() -> PatternTable:
    return pattern_table()


def _check(found: Ingested) -> None:
    assert validate(found.events) == []
    assert found.events["event_id"].n_unique() == found.events.height
    for report in found.reports:
        assert report.lines + report.cr_splits == report.events + report.folded + report.thinned + report.plain


def test_a_run_becomes_a_table_with_an_account(files: list[LogFile], patterns: PatternTable) -> None:
    found = ingest(files, patterns, HINTS)
    _check(found)
    assert (found.skipped, found.warnings) == ((), ())
    assert [report.path for report in found.reports] == [file.path for file in files]
    oom = found.events.filter(pl.col("event_name") == "cuda_oom")
    assert oom["log_file_path"].to_list() == ["rank_3.log"]
    assert oom["clock_domain"].to_list() == ["node01"]
    assert oom["role"].to_list() == [Role.INITIATING.value]
    report = found.reports[3]
    assert (report.lines, report.cr_splits, report.repaired, report.folded) == (67, 1, 1, 5)
    assert found.events["time_aligned"].null_count() == found.events.height


def test_rows_are_ordered_by_file_then_line(files: list[LogFile], patterns: PatternTable) -> None:
    found = ingest(files[::-1], patterns, HINTS)
    keys = [(-int(path[5]), line) for path, line in found.events.select("log_file_path", "line_number").iter_rows()]
    assert keys == sorted(keys)


def test_processes_give_the_same_rows_in_the_same_order(files: list[LogFile], patterns: PatternTable) -> None:
    alone, together = ingest(files, patterns, HINTS, workers=1), ingest(files, patterns, HINTS, workers=2)
    assert_frame_equal(alone.events, together.events)
    assert (alone.reports, alone.skipped, alone.warnings) == (together.reports, together.skipped, together.warnings)


def test_both_engines_give_the_same_rows(files: list[LogFile], patterns: PatternTable) -> None:
    fast, slow = ingest(files[2:4], patterns, HINTS), ingest(files[2:4], patterns, HINTS, force_re=True)
    assert_frame_equal(fast.events, slow.events)
    assert fast.reports == slow.reports


def _read(file: LogFile, patterns: PatternTable, chunk_bytes: int) -> pl.DataFrame:
    interpreter = Interpreter(patterns, lambda context: FileParser(context, patterns), WHOLE_FILE)
    reader = FileReader(
        interpreter, HyperscanEngine(patterns.patterns), HINTS, open_stream, Limits(chunk_bytes=chunk_bytes)
    )
    builder = ColumnBuilder()
    reader.read(file, 0, builder, lambda _: None)
    frame = pl.from_arrow(pa.concat_tables(builder.take()))
    assert isinstance(frame, pl.DataFrame)
    return frame


@pytest.mark.parametrize("chunk_bytes", [64, 500, 4096])
@pytest.mark.parametrize("rank", [2, 3])
def test_chunk_borders_change_no_event(
    files: list[LogFile], patterns: PatternTable, chunk_bytes: int, rank: int
) -> None:
    assert_frame_equal(_read(files[rank], patterns, chunk_bytes), _read(files[rank], patterns, 1 << 20))


def test_hyperscan_takes_every_pattern(patterns: PatternTable) -> None:
    assert HyperscanEngine(patterns.patterns).warnings == ()


def test_every_sample_is_hit_in_raw_bytes(patterns: PatternTable) -> None:
    """The scan must not lose what a pattern takes: each sample hits its pattern, behind any prefix."""
    engine = HyperscanEngine(patterns.patterns)
    samples = [(number, sample) for number, pattern in enumerate(patterns.patterns) for sample in pattern.samples]
    for prefix in (b"", b"[rank3]: ", b"2025-11-30T01:02:03Z stderr F ", b"node03 kernel: " * 20):
        data = b""
        starts = [0]
        for _, sample in samples:
            data += prefix + sample.encode() + b"\r\n"
            starts.append(len(data))
        ends, ids = engine.scan(data, len(data))
        hit = set(zip(np.searchsorted(starts, ends).tolist(), ids.tolist(), strict=True))
        lost = [
            (patterns.patterns[number].id, sample)
            for place, (number, sample) in enumerate(samples, 1)
            if (place, number) not in hit
        ]
        assert lost == []


def test_a_gzipped_file_gives_the_same_rows(files: list[LogFile], patterns: PatternTable, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(_log(3)))
    file = replace(files[3], location=str(packed), compression=Compression.GZIP, size_bytes=packed.stat().st_size)
    assert_frame_equal(ingest([file], patterns, HINTS).events, ingest([files[3]], patterns, HINTS).events)


def test_files_that_cannot_be_read_are_rows(files: list[LogFile], patterns: PatternTable, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(_log(3))[:-20])
    Path(files[1].location).unlink()
    broken = LogFile("cut.gz", str(cut), FileKind.RANK_LOG, compression=Compression.GZIP, size_bytes=100)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    found = ingest([*files, broken, LogFile("fifo", str(fifo), FileKind.TEXT)], patterns, HINTS)
    _check(found)
    assert [row.path for row in found.skipped] == ["rank_1.log", "cut.gz", "fifo"]
    assert [report.path for report in found.reports][-1] == "cut.gz"
    assert found.reports[-1].cut_off


def test_nothing_gives_an_empty_table(patterns: PatternTable) -> None:
    found = ingest([], patterns, HINTS)
    assert validate(found.events) == []
    assert (found.events.height, found.reports) == (0, ())


class Watcher:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def step(self, name: str) -> None:
        self.calls.append((name, 0))

    def start(self, total_bytes: int) -> None:
        self.calls.append(("start", total_bytes))

    def advance(self, bytes_read: int) -> None:
        self.calls.append(("advance", bytes_read))

    def finish(self) -> None:
        self.calls.append(("finish", 0))


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_reaches_its_total(files: list[LogFile], patterns: PatternTable, workers: int) -> None:
    watcher = Watcher()
    ingest(files, patterns, HINTS, workers=workers, progress=watcher)
    names = [name for name, _ in watcher.calls]
    assert (names[0], names[-1]) == ("start", "finish")
    assert sum(count for name, count in watcher.calls if name == "advance") == watcher.calls[0][1]


class Failing:
    """An executor in which some files bring their process down."""

    def __init__(self, bad: str) -> None:
        self.bad = bad
        self.tasks: list[int] = []

    def map(self, task: Any, items: Sequence[Any], advance: Any) -> Iterator[Any]:
        for batch in items:
            self.tasks.append(len(batch))
            bad = any(job.file.path == self.bad for job in batch)
            yield Failed("the process that read it was killed") if bad else task(batch, advance)


def test_only_the_file_that_kills_its_process_is_lost(
    files: list[LogFile], patterns: PatternTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = Failing("rank_2.log")
    monkeypatch.setattr("correlator.ingest.collect._executor", lambda *_: (executor, None))
    found = ingest(files, patterns, HINTS)
    assert executor.tasks == [5, 1, 1, 1, 1, 1]
    assert [row.path for row in found.skipped] == ["rank_2.log"]
    assert "killed" in found.skipped[0].reason
    assert len(found.reports) == 4


def _sizes(found: Sequence[tuple[object, ...]]) -> list[int]:
    return [len(batch) for batch in found]


def test_small_files_share_a_task_and_big_ones_have_their_own() -> None:
    def file(name: str, size: int) -> LogFile:
        return LogFile(name, name, FileKind.RANK_LOG, size_bytes=size)

    small = [file(f"small{n}", BATCH_BYTES // 100) for n in range(250)]
    big = [file("big", 10 * BATCH_BYTES), file("edge", SMALL_FILE_BYTES)]
    tasks = batches([*small, *big])
    assert sorted(job.index for task in tasks for job in task) == list(range(252))
    assert _sizes(tasks) == [1, 101, 101, 48, 1]
    assert tasks[0][0].file.path == "big"


def test_a_table_survives_the_way_to_another_process(patterns: PatternTable) -> None:
    own = LinePattern(id="mine", event_name="message", regex="my fault", samples=("my fault",), lookalikes=())
    table = PatternTable((*patterns.patterns[::-1], own), (*patterns.dialect_of[::-1], "mine"), "other")
    packed = pack_table(table)
    assert sum(isinstance(item, LinePattern) for item in packed.patterns) == 1
    assert unpack_table(packed) == table


def test_a_reading_process_loads_neither_polars_nor_networkx() -> None:
    code = "import sys, correlator.ingest.task; print({'polars', 'networkx', 'typer', 'rich'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "set()"
