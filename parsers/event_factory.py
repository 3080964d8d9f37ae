"""The default event of a match: named groups, then the prefix, then the file (parsers/base.py has the names)."""

from __future__ import annotations

import re
from typing import Any

from correlator.core.event import Event
from correlator.core.vocabulary import FaultCode
from correlator.parsers.base import FileContext, Layer, Line, LinePattern, Prefix, Record
from correlator.parsers.groups import Attributes, read_groups
from correlator.parsers.table import CATALOGUE
from correlator.parsers.time_keeper import LineTime

MAX_BODY = 4_096
_RAISED = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*\.){0,8}[A-Z]\w*(?:Error|Exception|Interrupt|Exit))(?:: (?P<message>[^\n]*))?$"
)


# torch >= 2.2 prints tracebacks that nobody caught as `[rank3]: Traceback ...`, from the process group's setup on
# (formats.md A1): what stands behind that prefix and no logger's own head ended its process.


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
        "host_name": prefix.host or prefix.pod or prefix.ip,
        "process_pid": _own_pid(pattern, prefix),
        "body": line.message[:MAX_BODY].rstrip(),
    }
    groups, attributes = read_groups(match)
    fields.update(groups)
    python = Layer.KERNEL not in prefix.layers  # `LustreError: ...` is no exception
    if dialect == CATALOGUE and python and "exception_type" not in groups and (raised := _RAISED.match(line.message)):
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
    fields |= overrides
    fields["attributes"] = _with_prefix(fields["attributes"], prefix)
    if fields.get("exception_type") and record is not None and prefix.layers[-1:] == (Layer.RANK,):
        fields["attributes"] += (("excepthook", "torch"),)
    return Event(**fields)


def _own_pid(pattern: LinePattern, prefix: Prefix) -> int | None:
    """The pid of the line's writer, unless the event is about another process: `systemd-oomd[812]: Killed ...`."""
    reported = pattern.event_name == FaultCode.HOST_OOM_KILL and Layer.SYSLOG in prefix.layers
    return None if reported else prefix.pid


def _with_prefix(attributes: Attributes, prefix: Prefix) -> Attributes:
    """The facts of the prefix that no field of the event holds: pod, address, and how often Ray saw the line."""
    known = {name for name, _ in attributes}
    repeated = str(prefix.repeated) if prefix.repeated > 1 else None
    found = (("pod", prefix.pod), ("ip", prefix.ip), ("repeated", repeated))
    return attributes + tuple((name, text) for name, text in found if text is not None and name not in known)
