"""What Slurm says of nodes and of whole jobs: node failures, time limits, preemption (formats.md E1)."""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Anchor, Dialect, Hit, Layer, LinePattern
from correlator.parsers.dialects.support import expand_hosts, with_attributes

_ANY = frozenset({Layer.SLURM, Layer.SLURM_DAEMON})
_DAEMON = frozenset({Layer.SLURM_DAEMON})
_SOURCE = "formats.md E1"


def _nodes_failed(hit: Hit) -> Iterable[Event]:
    names = next(group for group in hit.match.groups() if group)
    for node in expand_hosts(names.rstrip(",.")):
        yield with_attributes(hit.make(), node=node)


def _job_ended(hit: Hit) -> Iterable[Event]:
    reason = "preemption" if "reempt" in hit.match[0] else "time_limit"
    yield with_attributes(hit.make(), reason=reason, target="job")


PATTERNS = (
    LinePattern(
        id="slurm.node_failure",
        event_name=Context.NODE_FAILURE_REPORTED,
        regex=r"(?:error: )?(?:Node failure on ([^ \n]+)|Nodes? ([^ \n]+) not responding)",
        requires=_ANY,
        samples=(
            "srun: error: Node failure on node05",
            "[2025-11-30T01:02:03.123] error: Nodes node[05-06] not responding, setting DOWN",
        ),
        lookalikes=(
            "[2025-11-30T01:02:03.123] Node node05 now responding",
            "srun: Nodes node[01-04] are ready for job",
        ),
        source=_SOURCE,
        build=_nodes_failed,
    ),
    LinePattern(
        id="slurm.node_requeue",
        event_name=Context.NODE_FAILURE_REPORTED,
        regex=r"[Rr]equeue job JobId=[^ \n]+ due to failure of node ([^ \n]+)",
        anchor=Anchor.ANYWHERE,
        requires=_ANY,
        samples=("[2025-11-30T01:02:03.123] requeue job JobId=77 due to failure of node node05",),
        lookalikes=("[2025-11-30T01:02:03.123] requeue job JobId=77 by user request",),
        source="slurmctld job_mgr.c",
        build=_nodes_failed,
    ),
    LinePattern(
        id="slurm.job_ended",
        event_name=Context.SCHEDULER_CANCELLED,
        regex=r"(?:Time limit exhausted for JobId=|preempted JobId=|Preempted JobId=)[0-9]+",
        anchor=Anchor.ANYWHERE,
        requires=_DAEMON,
        samples=(
            "[2025-11-30T01:02:03.123] slurmctld: Time limit exhausted for JobId=123456",
            "[2025-11-30T01:02:03.123] preempted JobId=77 has been requeued to reclaim resources for JobId=78",
        ),
        lookalikes=("[2025-11-30T01:02:03.123] sched: Allocate JobId=123456 NodeList=node[01-08] #CPUs=512",),
        source=_SOURCE,
        build=_job_ended,
    ),
)
DIALECT = Dialect(name="slurm_control", title="Slurm, nodes and jobs", patterns=PATTERNS, source=_SOURCE)
