"""The rows of torchrun's ChildFailedError block (formats.md B3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

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
    told: list[str] = field(default_factory=list)
    """The lines that say who ended and how, as printed but for their indentation."""
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
        if match[1] in ("rank", "exitcode", "traceback"):
            row.told.append(message.strip())
        if match[1] == "traceback":
            row.traceback.append(match[2])
        else:
            row.fields[match[1]] = match[2].strip()


def final_exception(traceback: Sequence[str]) -> str | None:
    """`Type: message` that ends a printed traceback (indented or not), without later lines of the message."""
    heads = [index for index, line in enumerate(traceback) if line.strip() == _TRACEBACK_HEAD]
    if not heads:
        return None
    frame_indent: int | None = None
    for line in traceback[heads[-1] + 1 :]:
        if not (text := line.strip()):
            continue
        indent = len(line) - len(line.lstrip())
        if frame_indent is None:
            if not text.startswith('File "'):
                return None
            frame_indent = indent
        elif indent < frame_indent:
            return text
    return None


def child_rows(hit: Hit) -> Iterator[Event]:
    """`child_failed_row` events of the block that the hit begins; each stands at the line of its own `[n]:`."""
    for row in split_rows(hit.record.lines if hit.record else ()):
        yield _row_event(hit, row)


def _row_event(hit: Hit, row: ChildRow) -> Event:
    """The printed time is the agent's wall clock in whole seconds; the block's own stamp, if any, is a collector's."""
    rank, exit_ = _RANK.search(row.fields.get("rank", "")), _EXIT.search(row.fields.get("exitcode", ""))
    printed_ns = wall_clock_ns(row.fields.get("time", "").replace("_", "T", 1))
    exception = final_exception(row.traceback)
    kind, _, message = (exception or "").partition(": ")
    event = hit.make(
        line_number=row.line.line_number,
        byte_offset=row.line.byte_offset,
        line_count=row.line_count,
        rank=int32(rank[1]) if rank else None,
        local_rank=int32(rank[2]) if rank else None,
        host_name=row.fields.get("host") or None,
        exit_code=int32(exit_[1]) if exit_ else None,
        process_pid=int64(exit_[2]) if exit_ else None,
        exception_type=kind or None,
        exception_message=message or None,
        exception_stacktrace="\n".join(row.traceback) if exception else None,
        body=_body(row, exception),
        attributes=(),
    )
    if printed_ns is not None:
        event = _stamped(event, hit, printed_ns)
    error_file = row.fields.get("error_file")
    return with_attributes(
        event,
        root=row.root,
        error_file=error_file if error_file != _NO_FILE else None,
        traceback=exception or (row.traceback[0].strip() if row.traceback else None),
    )


def _stamped(event: Event, hit: Hit, printed_ns: int) -> Event:
    outer = hit.timestamp_ns if hit.time_source is TimeSource.EXPLICIT else None
    return replace(
        event,
        timestamp_ns=printed_ns,
        time_source=TimeSource.EXPLICIT,
        time_granularity_ms=1000.0,
        time_zone=None,
        observed_timestamp_ns=outer,
    )


def _body(row: ChildRow, exception: str | None) -> str:
    """The decisive lines of the row, as printed."""
    return "\n".join([*row.told, exception] if exception else row.told)
