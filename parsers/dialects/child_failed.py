"""The rows of torchrun's ChildFailedError block (formats.md B3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from correlator.core.event import Event
from correlator.core.vocabulary import TimeSource
from correlator.parsers.base import Hit, Line
from correlator.parsers.dialects.scalars import int32, int64
from correlator.parsers.dialects.support import wall_clock_ns, with_attributes

_ROW = re.compile(r"[ \t]*\[(\d{1,9})\]:[ \t]*$")
_BORDER = re.compile(r"[ \t]*(?:-{10,}|={10,})[ \t]*$")
_ROOT = re.compile(r"[ \t]*Root Cause \(first observed failure\):")
_FIELD = re.compile(r"[ \t]*(time|host|rank|exitcode|error_file|traceback)[ \t]*:[ \t]?(.*)$")
_RANK = re.compile(r"(\d{1,9}) \(local_rank: (\d{1,9})\)")
_EXIT = re.compile(r"(-?\d{1,9}) \(pid: (\d{1,9})\)")
_TRACEBACK_HEAD = "Traceback (most recent call last):"
_NO_FILE = "<N/A>"


@dataclass(slots=True)
class ChildRow:
    """One row as printed; `traceback` holds its lines, the first without its label."""

    line: Line
    root: bool
    fields: dict[str, str] = field(default_factory=dict)
    traceback: list[str] = field(default_factory=list)
    line_count: int = 1


def split_rows(lines: Sequence[Line]) -> list[ChildRow]:
    """The rows of a block, in print order; a torn row keeps what it has."""
    rows: list[ChildRow] = []
    root, row = False, None
    for line in lines:
        if _ROOT.match(line.message):
            root, row = True, None
        elif _ROW.match(line.message):
            row = ChildRow(line, root)
            rows.append(row)
        elif _BORDER.match(line.message):
            row = None
        elif row is not None:
            _add(row, line.message)
    return rows


def _add(row: ChildRow, message: str) -> None:
    row.line_count += 1
    if row.traceback:
        row.traceback.append(message)
    elif match := _FIELD.match(message):
        if match[1] == "traceback":
            row.traceback.append(match[2])
        else:
            row.fields[match[1]] = match[2].strip()
