"""The default event of a match: named groups, then the prefix, then the file (parsers/base.py has the names)."""

from __future__ import annotations

import re
from typing import Any

from correlator.core.event import Event
from correlator.parsers.base import FLOAT_FIELDS, INTEGER_FIELDS, TEXT_FIELDS, FileContext, Line, LinePattern, Record
from correlator.parsers.pci import normalise_pci
from correlator.parsers.table import CATALOGUE
from correlator.parsers.time_keeper import LineTime

MAX_BODY = 4_096
_INT32_LIMIT = 1 << 31
_INT64_LIMIT = 1 << 63
_INT64_FIELDS = frozenset({"process_pid", "collective_seq", "step"})
_RAISED = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*\.){0,8}[A-Z]\w*(?:Error|Exception|Interrupt|Exit))(?:: (?P<message>[^\n]*))?$"
)


def default_event(
    pattern: LinePattern,
    dialect: str,
    line: Line,
    match: re.Match[str],
    record: Record | None,
    context: FileContext,
    time: LineTime,
    overrides: dict[str, Any],
) -> Event:
    """The event that a match is where nothing else builds it. `overrides` are fields that win over all of it."""
    prefix = line.prefix
    fields: dict[str, Any] = {
        "rank": prefix.rank,
        "local_rank": prefix.local_rank,
        "task_id": prefix.task_id,
        "group_rank": prefix.group_rank,
        "process_group": prefix.process_group,
        "host_name": prefix.host,
        "process_pid": prefix.pid,
        "body": line.message[:MAX_BODY].rstrip(),
    }
    groups, attributes = read_groups(match)
    fields.update(groups)
    if dialect == CATALOGUE and "exception_type" not in groups and (raised := _RAISED.match(line.message)):
        fields |= {"exception_type": raised["type"], "exception_message": raised["message"]}
    stamp, outer = prefix.stamp, prefix.outer_stamp
    fields |= {
        "event_name": pattern.event_name,
        "role": pattern.role,
        "signature": pattern.id,
        "dialect": dialect,
        "line_number": line.line_number,
        "byte_offset": line.byte_offset,
        "line_count": len(record.lines) if record is not None else 1,
        "timestamp_ns": time.ns,
        "time_source": time.source,
        "time_granularity_ms": time.granularity_ms,
        "time_zone": time.zone,
        "observed_timestamp_ns": outer.ns if outer is not None else None,
        "boot_seconds": stamp.boot_seconds if stamp is not None else None,
        "severity": pattern.severity or prefix.severity,
        "log_iostream": prefix.stream or context.hints.stream,
        "attributes": attributes,
    }
    return Event(**(fields | overrides))


def read_groups(match: re.Match[str]) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
    """Named groups as fields (with their types) and attributes; a number that fits no column is left out."""
    fields: dict[str, Any] = {}
    attributes: list[tuple[str, str]] = []
    for name, text in match.groupdict().items():
        if text is None:
            continue
        if name in INTEGER_FIELDS:
            if (value := _integer(name, text)) is not None:
                fields[name] = value
        elif name in FLOAT_FIELDS:
            if (loss := _decimal(text)) is not None:
                fields[name] = loss
        elif name == "gpu":
            fields[name] = normalise_pci(text) or text
        elif name in TEXT_FIELDS:
            fields[name] = text
        else:
            attributes.append((name, text))
    return fields, tuple(attributes)


def _integer(name: str, text: str) -> int | None:
    digits = text.strip().replace(",", "")
    if not digits.lstrip("+-").isdecimal() or len(digits) > 20:
        return None
    try:
        value = int(digits)
    except ValueError:
        return None
    limit = _INT64_LIMIT if name in _INT64_FIELDS else _INT32_LIMIT
    return value if -limit <= value < limit else None


def _decimal(text: str) -> float | None:
    try:
        return float(text.strip().replace(",", ""))
    except ValueError:
        return None
