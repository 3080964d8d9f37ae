"""On the lines of real and simulated runs the fast scan finds what plain `re` finds, and misses nothing that a pattern takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import FileKind
from correlator.ingest.engines import Engine, HyperscanEngine, ReEngine
from correlator.ingest.matches import find_matches
from correlator.ingest.segments import ChunkSegments, SegmentIndex
from correlator.parsers.base import FileContext
from correlator.parsers.interpret import FileParser
from correlator.parsers.table import pattern_table

RUNS = Path(__file__).resolve().parents[2] / "sample_runs"
TABLE = pattern_table()
DENSE = np.array([pattern.bulk for pattern in TABLE.patterns])
MOST_LINES = 2_500
"""`re` takes a millisecond a line for all patterns."""
NAMES = sorted(path.name for path in RUNS.iterdir() if (path / "run").is_dir()) if RUNS.is_dir() else []


@cache
def engines() -> tuple[Engine, Engine]:
    """Both engines with the whole table; compiling it takes a second."""
    return HyperscanEngine(TABLE.patterns), ReEngine(TABLE.patterns)


def lines_of(run: Path) -> Iterator[bytes]:
    """One line of each kind in a run: lines that differ in numbers only are alike to a pattern."""
    seen: set[bytes] = set()
    for file in sorted(run.rglob("*")):
        data = file.read_bytes() if file.is_file() else b""
        if b"\0" in data[:64]:
            continue  # a dump is not read by lines
        for line in data.split(b"\n"):
            shape = re.sub(rb"[0-9a-f]*\d[0-9a-f]*", b"0", line[-4_000:])
            if shape not in seen:
                seen.add(shape)
                yield line[-4_000:]


def sample(name: str) -> bytes:
    """The lines of a run, thinned evenly where they are too many."""
    lines = list(lines_of(RUNS / name / "run"))
    step = max(1, -(-len(lines) // MOST_LINES))
    return b"\n".join(lines[::step]) + b"\n"


def hits(engine: Engine, buffer: bytearray, index: SegmentIndex) -> list[tuple[int, int]]:
    """(segment, pattern) pairs of a scan."""
    found = find_matches(engine, buffer, len(buffer), index, DENSE)
    return list(zip(found.segments.tolist(), found.ids.tolist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_engines_agree_on_every_kind_of_line(name: str) -> None:
    """The same patterns in the same lines, whichever engine scans."""
    buffer = bytearray(sample(name))
    index = SegmentIndex(buffer, len(buffer), open_end=True)
    fast, slow = engines()
    assert hits(fast, buffer, index) == hits(slow, buffer, index)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_scan_misses_nothing(name: str) -> None:
    """The events are the same when every pattern is tried on every line: what the scan rules out cannot match."""
    buffer = bytearray(sample(name))
    index = SegmentIndex(buffer, len(buffer), open_end=True)
    grouped: dict[int, list[int]] = {}
    for segment, scan_id in hits(engines()[0], buffer, index):
        grouped.setdefault(segment, []).append(scan_id)
    everything = tuple(range(len(TABLE.patterns)))
    scanned = [(segment, tuple(ids)) for segment, ids in sorted(grouped.items())]
    tried = [(segment, everything) for segment in range(len(index))]
    results = []
    for chosen in (scanned, tried):
        context = FileContext("run/file.log", FileKind.CONSOLE_LOG, FileHints(), RunHints(1_764_464_523_000_000_000))
        lines = ChunkSegments(buffer, index, offset=0, line_number=1, final=True)
        results.append(FileParser(context, TABLE).parse(lines, chosen).events)
    assert results[0] == results[1]
