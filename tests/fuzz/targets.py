"""What is fuzzed: for each part that reads bytes of others, one function that takes any bytes and must not raise.

Each states what has to hold beside that: no lost line, no absurd time, no text that cannot be written down, and no more
time than the size of the input explains. `python -m tests.fuzz` searches, `test_found.py` keeps what was found.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from correlator.core.catalogue.loader import load_catalogue
from correlator.core.errors import CatalogueError, CorrelatorError
from correlator.core.event import Event
from correlator.core.files import FileHints, LogFile, RunHints
from correlator.core.vocabulary import FileKind
from correlator.ingest.columns import ColumnBuilder
from correlator.ingest.engines import Engine, HyperscanEngine, ReEngine
from correlator.ingest.filereader import FileReader, Interpreter
from correlator.ingest.reader import Limits as ReaderLimits
from correlator.parsers.base import FileContext
from correlator.parsers.dumps import WHOLE_FILE
from correlator.parsers.dumps.plain_pickle import PickleError, load
from correlator.parsers.interpret import NOTE, FileParser, stamp_of
from correlator.parsers.peel import peel, segments
from correlator.parsers.table import pattern_table
from correlator.parsers.timestamps import parse_stamp
from correlator.parsers.timestamps_discovery import discover as discover_layout
from correlator.sources import Limits, discover, open_stream

REFERENCE_NS = 1_764_464_523_000_000_000
KINDS = tuple(kind for kind in FileKind if kind not in WHOLE_FILE)
_NS = range(-(1 << 63), 1 << 63)
_SMALL = Limits(files=200, members=50, expanded_bytes=8 << 20, ratio=100, ratio_from_bytes=1 << 20)


def context_of(kind: FileKind = FileKind.TEXT) -> FileContext:
    """A file of which nothing but its kind is known."""
    return FileContext("run/file.log", kind, FileHints(), RunHints(REFERENCE_NS))


def peeler(data: bytes) -> None:
    """Prefixes come off line by line, and what is left is a part of the line."""
    context = context_of(KINDS[data[0] % len(KINDS)] if data else FileKind.TEXT)
    for raw in data.split(b"\n"):
        for _, text in segments(raw):
            prefix, message = peel(text, context)
            assert len(message) <= len(text)
            message.encode()
            if prefix.stamp is not None and prefix.stamp.ns is not None:
                assert prefix.stamp.ns in _NS
        stamp = stamp_of(raw, context)
        assert stamp is None or isinstance(stamp, int)


def timestamps(data: bytes) -> None:
    """A text is a time that fits the event table, or none; so is a layout learnt from lines."""
    lines = data.decode("utf-8", errors="replace").split("\n")
    for line in lines:
        stamp = parse_stamp(line, context_of())
        assert stamp is None or stamp.ns is None or stamp.ns in _NS
    layout = discover_layout(lines[:60], context_of())
    if layout is not None:
        context = context_of()
        context.layout = layout
        for line in lines:
            peel(line, context)


def pickles(data: bytes) -> None:
    """Plain values or one error, whatever the opcodes say."""
    with suppress(PickleError):
        load(data)


def _whole_file(kind: FileKind, data: bytes) -> None:
    """A document becomes a bounded number of events that can be written down."""
    events = WHOLE_FILE[kind](data, context_of(kind))
    assert len(events) <= 20_000
    for event in events:
        _check(event)


def flight_recorder(data: bytes) -> None:
    """Binary or JSON, torn or not."""
    _whole_file(FileKind.FLIGHT_RECORDER, data)


def documents(data: bytes) -> None:
    """error.json and stack dumps."""
    _whole_file(FileKind.ERROR_FILE, data)
    _whole_file(FileKind.STACK_DUMP, data)


def catalogue(data: bytes) -> None:
    """A user's catalogue is taken or refused in words."""
    with tempfile.TemporaryDirectory(dir=_room()) as folder:
        path = Path(folder) / "mine.toml"
        path.write_bytes(data)
        with suppress(CatalogueError):
            load_catalogue((path,))


def lines(data: bytes) -> None:
    """The pattern table and all record builders: each segment is counted once, and no builder fails."""
    kind = KINDS[data[0] % len(KINDS)] if data else FileKind.TEXT
    reader, builder = _reader(FileReader, _hyperscan()), ColumnBuilder()
    outcome = reader(io.BytesIO(data)).read(
        LogFile("a.log", "/nowhere", kind, size_bytes=len(data)), 0, builder, _ignore
    )
    assert not outcome.skipped, outcome.skipped
    report = outcome.report
    assert report is not None
    assert report.lines + report.cr_splits == report.events + report.folded + report.thinned + report.plain
    for table in builder.take():
        assert NOTE not in str(table.column("attributes").to_pylist())


def engines(data: bytes) -> None:
    """Hyperscan and `re` find the same events."""
    found = []
    for engine in (_hyperscan(), _plain_re()):
        builder = ColumnBuilder()
        file = LogFile("a.log", "/nowhere", FileKind.TEXT, size_bytes=len(data))
        _reader(FileReader, engine)(io.BytesIO(data)).read(file, 0, builder, _ignore)
        found.append([table.to_pylist() for table in builder.take()])
    assert found[0] == found[1]


def archives(data: bytes) -> None:
    """Packed or archived bytes become files of the private folder, rows with reasons, or one error of ours."""
    name = ("run.tar", "run.tar.gz", "run.zip", "run.zst", "a.log.gz")[data[0] % 5 if data else 0]
    with tempfile.TemporaryDirectory(dir=_room()) as folder:
        path = Path(folder) / name
        path.write_bytes(data[1:])
        with suppress(CorrelatorError), discover([path], limits=_SMALL) as run:
            for file in run.files:
                with open_stream(file, _SMALL) as stream:
                    while stream.read(1 << 16):
                        pass
        assert sorted(os.listdir(folder)) == [name]


def whole_run(data: bytes) -> None:
    """From bytes to every report: a verdict, or one clear error. `NUL FILE name` begins another file."""
    import correlator
    from correlator.reports import DETAILED, ReportFormat, render
    from correlator.reports.details import Details

    with tempfile.TemporaryDirectory(dir=_room()) as folder:
        for number, part in enumerate(re.split(rb"\0FILE ", data)[:8]):
            name, _, content = part.partition(b"\n") if number else (b"rank_0.log", b"", part)
            safe = re.sub(rb"[/\0]", b"_", name)[:80].decode("utf-8", errors="surrogateescape")
            if safe not in {"", ".", ".."}:
                (Path(folder) / safe).write_bytes(content)
        with suppress(CorrelatorError):
            run = correlator.open_run(folder, workers=1, limits=_SMALL)
            details = Details(run.events, run.graph, run.catalogue)
            for report in ReportFormat:
                out = io.StringIO()
                render(
                    run.diagnosis,
                    out,
                    report=report,
                    width=80,
                    color=False,
                    verbose=True,
                    details=details if report in DETAILED else None,
                )
                out.getvalue().encode()


def _check(event: Event) -> None:
    assert event.attribute(NOTE) is None, event
    event.body.encode()
    assert event.timestamp_ns is None or event.timestamp_ns in _NS


def _ignore(_count: int) -> None:
    """Progress is nobody's business here."""


@cache
def _hyperscan() -> Engine:
    return HyperscanEngine(pattern_table().patterns)


@cache
def _plain_re() -> Engine:
    return ReEngine(pattern_table().patterns)


def _reader(make: type[FileReader], engine: Engine) -> Callable[[io.BytesIO], FileReader]:
    table = pattern_table()
    interpreter = Interpreter(table, lambda context: FileParser(context, table), WHOLE_FILE, stamp_of)
    sizes = ReaderLimits(chunk_bytes=4096, line_bytes=4096, record_bytes=4096)

    def over(stream: io.BytesIO) -> FileReader:
        return make(interpreter, engine, RunHints(REFERENCE_NS), partial(_opened, stream), sizes)

    return over


def _opened(stream: io.BytesIO, _file: LogFile) -> io.BytesIO:
    stream.seek(0)
    return stream


def _room() -> str | None:
    """Memory, where the system has such a folder: a million small files wear out a disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


Target = Callable[[bytes], None]

TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        peeler, timestamps, pickles, flight_recorder, documents, catalogue, lines, engines, archives, whole_run,
    )
}  # fmt: skip
"""By name, as in the folders of kept inputs."""
