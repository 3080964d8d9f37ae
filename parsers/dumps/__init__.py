"""Files that are read whole and not line by line: flight-recorder dumps, error.json, stack dumps."""

from __future__ import annotations

from collections.abc import Callable

from correlator.core.event import Event
from correlator.core.vocabulary import FileKind
from correlator.parsers.base import FileContext
from correlator.parsers.dumps.error_file import parse_error_file
from correlator.parsers.dumps.flight_recorder import parse_flight_recorder
from correlator.parsers.dumps.stack_dump import parse_stack_dump

WholeFile = Callable[[bytes, FileContext], list[Event]]

WHOLE_FILE: dict[FileKind, WholeFile] = {
    FileKind.FLIGHT_RECORDER: parse_flight_recorder,
    FileKind.ERROR_FILE: parse_error_file,
    FileKind.STACK_DUMP: parse_stack_dump,
}
"""By kind of file: what turns its (decompressed) bytes into events. None of them raises on any bytes."""

__all__ = ["WHOLE_FILE", "WholeFile"]
