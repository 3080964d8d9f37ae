"""Rows of `sacct`: how Slurm's database says that a job or step ended (formats.md E1).

A table may list other jobs of the user too; where the file's name says which job the run was, only its rows count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FaultCode, Role, TimeSource
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import expand_hosts, json_list, wall_clock_ns, with_attributes

_SOURCE = "formats.md E1"
_JOB = r"[ \t]*(?P<job>\d{1,10}(?:_\d{1,9})?)(?P<step>\.\w{1,12})?[ \t|][^\n]*?"
_CODE = r"[ \t|]+(?P<code>\d{1,3}):(?P<signal_number>\d{1,3})(?:[ \t|]|$)"
_REASONS = {"TIMEOUT": "time_limit", "DEADLINE": "time_limit", "PREEMPTED": "preemption", "NODE_FAIL": "node_failure"}
_OUT_OF_MEMORY = 125
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_NODES = re.compile(
    r"[ \t|]((?:[A-Za-z][\w-]{0,60}\[[0-9,-]{1,200}\]|[A-Za-z][A-Za-z-]{0,40}\d{1,8})(?:,[\w\[\],-]{1,200})?)(?=[ \t|]|$)"
)


def _row(hit: Hit) -> Event | None:
    """The facts of a row, its end as the time; None where it is another job's."""
    job = hit.match["job"]
    known = hit.context.hints.job_id
    if known is not None and known != job:
        return None
    text = hit.line.message
    ends = [ns for ns in map(wall_clock_ns, _ISO.findall(text)) if ns is not None]
    hosts = _NODES.search(text, hit.match.start("job"))
    code, number = int(hit.match["code"]), int(hit.match["signal_number"])
    facts: dict[str, object] = {"attributes": (), "exit_code": _exit_code(code, number)}
    if ends:
        facts |= {
            "timestamp_ns": max(ends),
            "time_source": TimeSource.EXPLICIT,
            "time_granularity_ms": 1000.0,
            "time_zone": None,
        }
    event = hit.make(**facts)
    return with_attributes(
        event,
        state=hit.match["state"].split(" ")[0].rstrip("+"),
        job=job,
        target="step" if hit.match["step"] else "job",
        nodes=json_list(expand_hosts(hosts[1])) if hosts else None,
    )


def _exit_code(code: int, number: int) -> int:
    """`0:9` is a signal; `0:125` is Slurm's mark for a step that ran out of memory, which SIGKILL ended."""
    if number == _OUT_OF_MEMORY:
        return -9
    return -number if 0 < number < 65 else code


def _cancelled(hit: Hit) -> Iterable[Event]:
    event = _row(hit)
    if event is not None:
        state = event.attribute("state") or ""
        yield with_attributes(event, reason=_REASONS.get(state, "requeue" if state == "REQUEUED" else "cancelled"))


def _memory(hit: Hit) -> Iterable[Event]:
    event = _row(hit)
    if event is not None:
        yield with_attributes(event, scope="step")


def _ended(hit: Hit) -> Iterable[Event]:
    event = _row(hit)
    if event is not None:
        yield event


PATTERNS = (
    LinePattern(
        id="slurm.sacct_cancelled",
        event_name=Context.SCHEDULER_CANCELLED,
        regex=_JOB + r"(?P<state>TIMEOUT|DEADLINE|PREEMPTED|NODE_FAIL|REQUEUED|CANCELLED(?: by \d{1,10}|\+)?)" + _CODE,
        samples=(
            "123458            train        gpu    research         64    TIMEOUT      0:0 ",
            "123457            train        gpu    research         64 CANCELLED by 1000      0:0 ",
            "123456.0|train|NODE_FAIL|1:0|node[03-04]|2025-11-30T00:02:03|2025-11-30T01:02:03",
        ),
        lookalikes=("123456            train        gpu    research         64     FAILED      1:0 ", "123 TIMEOUT"),
        priority=55,
        source=_SOURCE,
        build=_cancelled,
    ),
    LinePattern(
        id="slurm.sacct_memory",
        event_name=FaultCode.HOST_OOM_KILL,
        role=Role.INITIATING,
        regex=_JOB + r"(?P<state>OUT_OF_ME(?:MORY|M|\+))" + _CODE,
        samples=(
            "123456.0          train               research         64 OUT_OF_ME+    0:125 ",
            "123456|train|OUT_OF_MEMORY|0:125|node[03-04]|2025-11-30T00:02:03|2025-11-30T01:02:03",
        ),
        lookalikes=("123456            train        gpu    research         64     FAILED      1:0 ",),
        priority=55,
        source=_SOURCE,
        build=_memory,
    ),
    LinePattern(
        id="slurm.sacct_ended",
        event_name=Context.MESSAGE,
        regex=_JOB + r"(?P<state>COMPLETED|FAILED|BOOT_FAIL)" + _CODE,
        samples=(
            "123456            train        gpu    research         64     FAILED      1:0 ",
            "123460            train        gpu    research         64  COMPLETED      0:0 ",
        ),
        lookalikes=("task 12 FAILED 1:0:3",),
        priority=45,
        source=_SOURCE,
        build=_ended,
    ),
)
DIALECT = Dialect(name="slurm_accounting", title="Slurm accounting (sacct)", patterns=PATTERNS, source=_SOURCE)
