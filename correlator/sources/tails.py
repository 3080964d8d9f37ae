"""The end of a log, for an answer before the whole of it was read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from correlator.core.files import Compression, LogFile
from correlator.sources.limits import Limits
from correlator.sources.streams import LogStream, open_regular

TAIL_BYTES: Final = 256 * 1024
"""Long enough for what a rank prints while it fails, short enough to read of thousands of files in a second or two."""


def open_tail(file: LogFile, limits: Limits | None = None) -> LogStream:
    """The last bytes of a plain file from the first line that begins among them. Raises OSError."""
    raw = open_regular(file.location)
    try:
        size = os.fstat(raw.fileno()).st_size
        if size > TAIL_BYTES:
            raw.seek(size - TAIL_BYTES)
            head = raw.read(TAIL_BYTES) or b""
            raw.seek(size - TAIL_BYTES + head.find(b"\n") + 1)
    except BaseException:
        raw.close()
        raise
    return LogStream(raw, file.compression, limits)


def tails(files: Sequence[LogFile]) -> list[LogFile]:
    """The files whose end can be read alone, as if they were no longer; a packed one has to be read from its start."""
    plain = (file for file in files if file.compression is Compression.NONE)
    return [replace(file, size_bytes=min(file.size_bytes, TAIL_BYTES)) for file in plain]
