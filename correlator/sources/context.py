"""The raw lines before an event, for a person to read; read again from the file, so nothing is kept in memory."""

from __future__ import annotations

from collections import deque

from correlator.core.files import LogFile
from correlator.sources.streams import open_stream

MAX_LINE_BYTES = 4096
_CHUNK = 1 << 20


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
