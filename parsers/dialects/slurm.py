"""Slurm's own words: srun, slurmstepd and the daemons (formats.md E1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FaultCode, Phase, Role, TimeSource
from correlator.parsers.base import Anchor, Build, Dialect, Hit, Layer, LinePattern
from correlator.parsers.dialects.support import (
    SIGNAL_NUMBERS,
    expand_hosts,
    expand_ids,
    json_list,
    wall_clock_ns,
    with_attributes,
)

_TOOL = frozenset({Layer.SLURM})
_ANY = frozenset({Layer.SLURM, Layer.SLURM_DAEMON})
_SOURCE = "formats.md E1"
_STEP = r"\*\*\* (STEP|JOB) ([^ \n]+) ON ([^ \n]+) "
_CANCELLED = _STEP + r"CANCELLED AT ([^ \n]+)(?: DUE (?:TO|to) ([^*\n]+))? \*\*\*"
_REASONS: tuple[tuple[str, str], ...] = (
    ("TIME LIMIT", "time_limit"),
    ("PREEMPTION", "preemption"),
    ("NODE FAILURE", "node_failure"),
    ("JOB REQUEUE", "requeue"),
    ("TASK FAILURE", "task_failure"),
    ("SIGNAL", "signal"),
)


def _task_exit(hit: Hit) -> Iterable[Event]:
    hosts, tasks, printed = hit.match[1] or hit.line.prefix.host or "", hit.match[2], hit.match[3].strip()
    reason = printed.removesuffix(" (core dumped)")
    yield with_attributes(
        hit.make(exit_code=_exit_code(reason)),
        nodes=json_list(expand_hosts(hosts)),
        tasks=json_list(expand_ids(tasks)),
        reason=reason,
        core_dumped=True if reason != printed else None,
    )


def _exit_code(reason: str) -> int | None:
    """The exit code that a REASON text states; negative for a signal, None for words that state none."""
    if exited := re.match(r"Exited with exit code (\d{1,9})", reason):
        return int(exited[1])
    if reason.startswith("Out Of Memory"):
        return -SIGNAL_NUMBERS["Killed"]
    number = SIGNAL_NUMBERS.get(reason)
    return -number if number is not None else None


def _launch_failed(hit: Hit) -> Iterable[Event]:
    tasks = json_list(expand_ids(hit.match[1]))
    yield with_attributes(hit.make(), nodes="[]", tasks=tasks, reason=f"launch failed: {hit.match[2].strip()}")


def _cancelled(hit: Hit) -> Iterable[Event]:
    """The line itself has no stamp; the time inside is the step daemon's own clock, in whole seconds."""
    target, _, node, printed_time, cause = hit.match.groups()
    reason = next((name for words, name in _REASONS if words in (cause or "").upper()), "cancelled")
    yield with_attributes(_at(hit.make(host_name=node), printed_time), reason=reason, target=target.lower())


def _at(event: Event, printed: str) -> Event:
    """The event at the time that the line prints inside its words."""
    time_ns = wall_clock_ns(printed)
    if time_ns is None:
        return event
    return replace(
        event, timestamp_ns=time_ns, time_source=TimeSource.EXPLICIT, time_granularity_ms=1000.0, time_zone=None
    )


def _stepd_terminated(hit: Hit) -> Iterable[Event]:
    target, _, node, printed = hit.match.groups()
    yield with_attributes(_at(hit.make(host_name=node), printed), reason="cancelled", target=target.lower())


def _step_ended(reason: str) -> Build:
    def build(hit: Hit) -> Iterable[Event]:
        yield with_attributes(hit.make(host_name=hit.match[3]), reason=reason, target=hit.match[1].lower())

    return build


def _teardown(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), phase=Phase.TEARDOWN.value)


def _step_oom(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), scope="step", count=hit.match[1])


PATTERNS = (
    LinePattern(
        id="slurm.task_exit",
        event_name=Context.TASK_EXIT,
        regex=r"(?:([^ :\n]+): )?tasks? ([0-9][0-9,-]*): ([A-Z][^\n]*)",
        requires=_TOOL,
        samples=(
            "srun: error: node03: task 11: Segmentation fault (core dumped)",
            "srun: error: node03: tasks 8-15: Exited with exit code 1",
            "srun: error: node[03-04]: tasks 8-10,12-23: Terminated",
            "srun: error: node05: task 31: Out Of Memory",
            "17: srun: error: node04: task 1: Aborted",
        ),
        lookalikes=(
            "2025-11-30 01:02:03,123 [INFO] pool: node03: task 11: Finished in 3 s",
            "srun: error: Unable to create step for job 77: Job/step already completing or completed",
        ),
        source=_SOURCE,
        build=_task_exit,
    ),
    LinePattern(
        id="slurm.launch_failed",
        event_name=Context.TASK_EXIT,
        regex=r"task ([0-9][0-9,-]*) launch failed: ([^\n]+)",
        requires=_TOOL,
        samples=("srun: error: task 11 launch failed: Unspecified error",),
        lookalikes=("2025-11-30 01:02:03,123 [INFO] queue: task 11 launch failed: retrying",),
        source=_SOURCE,
        build=_launch_failed,
    ),
    LinePattern(
        id="slurm.cancelled",
        event_name=Context.SCHEDULER_CANCELLED,
        regex=_CANCELLED,
        anchor=Anchor.ANYWHERE,
        requires=_ANY,
        priority=60,
        samples=(
            "slurmstepd: error: *** STEP 123456.0 ON node03 CANCELLED AT 2025-11-30T01:02:03 DUE TO TIME LIMIT ***",
            "slurmstepd: error: *** JOB 123456 ON node01 CANCELLED AT 2025-11-30T01:02:03 ***",
            "3: slurmstepd: error: *** STEP 7.1 ON node03 CANCELLED AT 2025-11-30T01:02:03 DUE to SIGNAL Terminated ***",
        ),
        lookalikes=("2025-11-30 01:02:03,123 [INFO] last run: *** STEP 5.0 ON a CANCELLED AT 2025-11-29T01:02:03 ***",),
        source=_SOURCE,
        build=_cancelled,
    ),
    LinePattern(
        id="slurm.cancelled_torn",
        event_name=Context.SCHEDULER_CANCELLED,
        regex=r"slurmstepd[^ \n]*: error: " + _CANCELLED,
        anchor=Anchor.ANYWHERE,
        priority=58,
        samples=(
            "  1%|1         | 97/7800 [02:07<2:43:22,  1.31s/it]slurmstepd: error: "
            "*** STEP 77.0 ON node03 CANCELLED AT 2025-11-30T01:02:03 ***",
        ),
        lookalikes=(
            "slurmstepd: error: *** STEP 77.0 ON node03 FAILED (non-zero exit code or other failure mode) ***",
        ),
        source="formats.md R6, E1: the step daemon writes into the tasks' stderr",
        build=_cancelled,
    ),
    LinePattern(
        id="slurm.step_failed",
        event_name=Context.SCHEDULER_CANCELLED,
        regex=_STEP + r"FAILED \(",
        anchor=Anchor.ANYWHERE,
        requires=_ANY,
        samples=(
            "slurmstepd: error: *** STEP 123456.0 ON node03 FAILED (non-zero exit code or other failure mode) ***",
        ),
        lookalikes=("slurmstepd: error: *** STEP 123456.0 ON node03 CANCELLED AT 2025-11-30T01:02:03 ***",),
        source=_SOURCE,
        build=_step_ended("task_failure"),
    ),
    LinePattern(
        id="slurm.stepd_terminated",
        event_name=Context.SCHEDULER_CANCELLED,
        regex=r"\*\*\* (STEP|JOB) ([^ \n]+) STEPD TERMINATED ON ([^ \n]+) AT ([^ \n]+)",
        anchor=Anchor.ANYWHERE,
        requires=_ANY,
        samples=(
            "slurmstepd: error: *** STEP 123456.0 STEPD TERMINATED ON node03 AT 2025-11-30T01:02:03 "
            "DUE TO JOB NOT ENDING WITH SIGNALS ***",
        ),
        lookalikes=("slurmstepd: error: *** STEP 123456.0 ON node03 CANCELLED AT 2025-11-30T01:02:03 ***",),
        source=_SOURCE,
        build=_stepd_terminated,
    ),
    LinePattern(
        id="slurm.teardown",
        event_name=Context.PHASE,
        regex=r"(?:Job step aborted: |Force Terminated |Terminating StepId|Timed out waiting for job step to complete)",
        requires=_TOOL,
        samples=(
            "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
            "srun: Force Terminated StepId=123456.0",
            "srun: Terminating StepId=123456.0",
            "srun: error: Timed out waiting for job step to complete",
        ),
        lookalikes=(
            "srun: job 123456 queued and waiting for resources",
            "srun: Job step creation temporarily disabled",
        ),
        source=_SOURCE,
        build=_teardown,
    ),
    LinePattern(
        id="slurm.oom_kill",
        event_name=FaultCode.HOST_OOM_KILL,
        role=Role.INITIATING,
        regex=r"Detected ([0-9]+) oom[_-]kill event(?:s|\(s\))? in StepId=",
        requires=_ANY,
        samples=(
            "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.",
            "10: slurmstepd: error: Detected 1 oom-kill event(s) in StepId=77.0 cgroup. "
            "Some of your processes may have been killed by the cgroup out-of-memory handler.",
        ),
        lookalikes=("2025-11-30 01:02:03,123 [INFO] monitor: Detected 0 oom_kill events in StepId=77.0",),
        source=_SOURCE,
        build=_step_oom,
    ),
    LinePattern(
        id="slurm.step_io_error",
        event_name=Context.NODE_FAILURE_REPORTED,
        regex=r"Aborting, (?:step missing and )?io error on node (?P<node_index>[0-9]+)",
        requires=_TOOL,
        samples=("srun: error: Aborting, step missing and io error on node 3",),
        lookalikes=("srun: error: Aborting, signal 15 received",),
        source=_SOURCE,
    ),
)
DIALECT = Dialect(name="slurm", title="Slurm (srun, slurmstepd, slurmctld)", patterns=PATTERNS, source=_SOURCE)
