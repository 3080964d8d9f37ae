"""The raw lines before an event, for a person to read; read again from the file, so nothing is kept in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from correlator.core.files import LogFile, RunHints
from correlator.core.vocabulary import FileKind
from correlator.parsers.base import FileContext
from correlator.parsers.peel import clean, peel
from correlator.sources.streams import open_stream

MAX_LINE_BYTES = 4096
MOST_WRITERS = 64
"""Of a merged file so many times the lines asked for are searched for those of one writer."""
_MOST_SEARCHED = 20_000
_CHUNK = 1 << 20
_MERGED = frozenset({FileKind.NODE_LOG, FileKind.CONSOLE_LOG, FileKind.RAY_LOG})

_Writer = tuple[int | None, int | None, int | None, int | None]


def writer_lines_before(file: LogFile, line_number: int, count: int) -> list[tuple[int, str]]:
    """Up to `count` lines that end with `line_number` (1-based), of its writer alone where lines say who wrote them.

    In a file of many ranks the lines of the other ranks are left out, and lines without a name too; see lines_before.
    """
    searched = min(count * MOST_WRITERS, max(count, _MOST_SEARCHED)) if file.kind in _MERGED else count
    lines = lines_before(file, line_number, searched)
    return _of_one_writer(lines, file)[-count:] if file.kind in _MERGED else lines


def _of_one_writer(lines: Sequence[tuple[int, str]], file: LogFile) -> list[tuple[int, str]]:
    if not lines:
        return []
    context = FileContext(file.path, file.kind, file.hints, RunHints())
    writer = _writer(lines[-1][1], context)
    if not any(value is not None for value in writer):
        return list(lines)
    return [line for line in lines if _writer(line[1], context) == writer]


def _writer(text: str, context: FileContext) -> _Writer:
    """What the prefixes of a line say about who wrote it."""
    prefix, _ = peel(clean(text), context)
    pid = prefix.pid if prefix.rank is None and prefix.local_rank is None and prefix.task_id is None else None
    return (prefix.rank, prefix.local_rank, prefix.task_id, pid)


def lines_before(file: LogFile, line_number: int, count: int) -> list[tuple[int, str]]:
    """Up to `count` lines that end with `line_number` (1-based), as (number, text); empty where it cannot be read."""
    kept: deque[tuple[int, bytes]] = deque(maxlen=count)
    number, rest = 1, b""
    try:
        with open_stream(file) as stream:
            while chunk := stream.read(_CHUNK):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    kept.append((number, _shown(line)))
                    if number == line_number:
                        return _decoded(kept)
                    number += 1
                rest = _shown(rest)
    except OSError:
        return []
    kept.append((number, _shown(rest)))
    return _decoded(kept) if number >= line_number else []


def _shown(line: bytes) -> bytes:
    """The part of a line that is shown; a hole of NULs that a crash left in front of it is not."""
    return line.lstrip(b"\0")[:MAX_LINE_BYTES]


def _decoded(lines: deque[tuple[int, bytes]]) -> list[tuple[int, str]]:
    return [(number, line.rstrip(b"\r").decode("utf-8", "replace")) for number, line in lines]
