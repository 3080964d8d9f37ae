"""LSF and PBS: limits that ended a job (formats.md E5)."""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FaultCode, Role
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import with_attributes

_SOURCE = "formats.md E5"
_LSF_REASONS = {
    "RUNLIMIT": "time_limit",
    "PREEMPT": "preemption",
    "REQUEUE_OWNER": "requeue",
    "REQUEUE_ADMIN": "requeue",
}


def _lsf(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), reason=_LSF_REASONS.get(hit.match[1], "cancelled"), target="job")


def _pbs(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), reason="time_limit" if hit.match[1] else "preemption", target="job")


def _timeout_tool(hit: Hit) -> Iterable[Event]:
    """coreutils' `timeout -v` around the command: a limit that the user set."""
    yield with_attributes(hit.make(), reason="time_limit", target="step")


def _memory(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), scope="job")


PATTERNS = (
    LinePattern(
        id="batch.lsf_term",
        event_name=Context.SCHEDULER_CANCELLED,
        regex=r"TERM_(RUNLIMIT|PREEMPT|REQUEUE_OWNER|REQUEUE_ADMIN|OWNER|ADMIN|FORCE_OWNER|FORCE_ADMIN): job killed",
        samples=("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "TERM_OWNER: job killed by owner."),
        lookalikes=("TERM_RUNLIMIT is 3600 s for this queue",),
        source=_SOURCE,
        build=_lsf,
    ),
    LinePattern(
        id="batch.lsf_exit",
        event_name=Context.MESSAGE,
        regex=r"Exited with exit code (?P<exit_code>\d{1,3})\.",
        samples=("Exited with exit code 139.",),
        lookalikes=("Exited with exit code 139, retrying",),
        source=_SOURCE,
    ),
    LinePattern(
        id="batch.timeout_tool",
        event_name=Context.SCHEDULER_CANCELLED,
        regex=r"timeout: sending signal (?P<signal>[A-Z]+) to command",
        samples=("timeout: sending signal TERM to command 'python'",),
        lookalikes=("timeout: failed to run command 'pyhton'",),
        source=_SOURCE,
        build=_timeout_tool,
    ),
    LinePattern(
        id="batch.pbs_killed",
        event_name=Context.SCHEDULER_CANCELLED,
        regex=r"=>> PBS: job killed: (?:(walltime|cput) [0-9]+ exceeded limit|(?:preempted|node [^\n]+ preempted))",
        samples=("=>> PBS: job killed: walltime 3612 exceeded limit 3600",),
        lookalikes=("=>> PBS: job queued: walltime 3600",),
        source=_SOURCE,
        build=_pbs,
    ),
    LinePattern(
        id="batch.memory_limit",
        event_name=FaultCode.HOST_OOM_KILL,
        role=Role.INITIATING,
        regex=r"(?:TERM_MEMLIMIT: job killed after|=>> PBS: job killed: v?mem [0-9]+[a-z]* exceeded limit)",
        samples=(
            "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
            "=>> PBS: job killed: mem 12345kb exceeded limit 12000kb",
        ),
        lookalikes=("TERM_MEMLIMIT is 512 GB for this queue",),
        source=_SOURCE,
        build=_memory,
    ),
)
DIALECT = Dialect(name="batch_systems", title="LSF and PBS", patterns=PATTERNS, source=_SOURCE)
