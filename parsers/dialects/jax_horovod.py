"""JAX's coordination service and Horovod's stall inspector: observers that name who is missing (formats.md I1, I2)."""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Context, Role
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import json_list, with_attributes

_TASK = r"/job:[A-Za-z0-9_-]+/replica:[0-9]+/task:([0-9]{1,7})"


def _missing_task(hit: Hit) -> Iterable[Event]:
    """One JAX process drives all devices of its host, unless the job runs one process for each."""
    yield with_attributes(hit.make(), ranks=json_list([int(hit.match[1])]), scope="global")


def _barrier_task(hit: Hit) -> Iterable[Event]:
    """The list of tasks that a barrier missed has one name a line and nothing else on it."""
    return _missing_task(hit) if not hit.line.message[hit.match.end() :].strip() else ()


def _stalled_rank(hit: Hit) -> Iterable[Event]:
    """`3: [...]` looks like an srun label, so the peeler may already have taken the rank off."""
    prefix = hit.line.prefix
    rank = int(hit.match[1]) if hit.match[1] else prefix.task_id if prefix.task_id is not None else prefix.rank
    if rank is not None:
        stalled = bool(hit.match[2])
        yield with_attributes(hit.make(), ranks=json_list([rank]), scope="global", stalled=stalled or None)


PATTERNS = (
    LinePattern(
        id="jax.task_error",
        event_name=Context.NAMED_MISSING_RANKS,
        regex=_TASK + r" has been set to ERROR in coordination service",
        anchor=Anchor.ANYWHERE,
        priority=60,
        samples=(
            "E1130 01:02:03.594192 1044529 coordination_service.cc:1170] /job:jax_worker/replica:0/task:37 has been set to "
            "ERROR in coordination service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:37 heartbeat timeout.",
        ),
        lookalikes=("I1130 01:02:03.594192 1044529 service.cc:77] /job:jax_worker/replica:0/task:37 has connected",),
        source="formats.md I1",
        build=_missing_task,
    ),
    LinePattern(
        id="jax.barrier_task",
        event_name=Context.NAMED_MISSING_RANKS,
        regex=r"[ \t]*" + _TASK,
        samples=("/job:jax_worker/replica:0/task:3",),
        lookalikes=("I1130 01:02:03.451247 1044529 service.cc:77] task /job:jax_worker/replica:0/task:3 connected",),
        source="formats.md I1: one line per timed-out task of a barrier",
        build=_barrier_task,
    ),
    LinePattern(
        id="jax.terminating",
        event_name=CollateralKind.REMOTE_PEER_LOST,
        role=Role.COLLATERAL,
        regex=(
            r"(?:Terminating process because the JAX distributed service detected fatal errors|"
            r"Polled an error from coordination service)"
        ),
        anchor=Anchor.ANYWHERE,
        priority=45,
        samples=(
            "F1130 01:02:03.594192 1044529 client.h:77] Terminating process because the JAX distributed service detected "
            "fatal errors. This most likely indicates that another task died",
        ),
        lookalikes=("I1130 01:02:03.594192 1044529 client.h:60] JAX distributed service connected",),
        source="formats.md I1",
    ),
    LinePattern(
        id="jax.barrier_timeout",
        event_name=CollateralKind.COLLECTIVE_TIMEOUT,
        role=Role.COLLATERAL,
        regex=(
            r"(?:DEADLINE_EXCEEDED: )?Barrier timed out\. (?:Barrier_id|Id): (?P<barrier>[^ \n]*[^ .\n])"
            r"|Stopping coordination service as cluster registration failed"
        ),
        anchor=Anchor.ANYWHERE,
        samples=(
            "DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: NAME. Timed out task names:",
            "Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0. This usually happens because a task triggered the "
            "barrier too early or too slowly.",
            "Stopping coordination service as cluster registration failed. This may be due to 1) some tasks crashed earlier",
        ),
        lookalikes=("Barrier passed. Id: [Init]Wait_for_all_tasks_to_register::0",),
        source="formats.md I1",
    ),
    LinePattern(
        id="jax.rendezvous_waits",
        event_name=Context.MESSAGE,
        regex=r"This thread has been waiting for `(?P<rendezvous>[^`\n]+)`? for (?P<waited_s>\d+) seconds and may be stuck",
        anchor=Anchor.ANYWHERE,
        samples=(
            "This thread has been waiting for `rendezvous` for 10 seconds and may be stuck. Expected 8 threads to join the "
            "rendezvous, but only 7 of them arrived on time.",
        ),
        lookalikes=("This thread has been waiting for `rendezvous`",),
        source="formats.md I1",
    ),
    LinePattern(
        id="jax.leader_lost",
        event_name=CollateralKind.STORE_LOST,
        role=Role.COLLATERAL,
        regex=r"Failed to send RPC to coordination service\. Either the leader task",
        anchor=Anchor.ANYWHERE,
        priority=62,
        samples=(
            "UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was preempted/died/restarted",
        ),
        lookalikes=("Sent RPC to coordination service",),
        source="formats.md I1",
    ),
    LinePattern(
        id="horovod.missing_rank",
        event_name=Context.NAMED_MISSING_RANKS,
        regex=r"(?:([0-9]{1,7})(!)?: )?\[(?:allreduce|allgather|broadcast|alltoall|reducescatter)\.[^\n]",
        samples=("3: [allreduce.grad_0, allreduce.grad_1 ...]", "5!: [allreduce.grad_0]"),
        lookalikes=("2025-11-30 01:02:03,123 [INFO] hooks: [allreduce hooks installed]",),
        source="formats.md I2",
        build=_stalled_rank,
    ),
    LinePattern(
        id="horovod.stall",
        event_name=CollateralKind.COLLECTIVE_TIMEOUT,
        role=Role.COLLATERAL,
        regex=r"One or more (?:tensors were submitted to be reduced|rank \(marked by \"!\"\) is stalled)",
        anchor=Anchor.ANYWHERE,
        samples=(
            "[2025-11-30 01:02:03.123456: W horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be "
            "reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.",
        ),
        lookalikes=("One or more tensors were fused",),
        source="formats.md I2",
    ),
    LinePattern(
        id="horovod.shut_down",
        event_name=CollateralKind.REMOTE_PEER_LOST,
        role=Role.COLLATERAL,
        regex=r"Horovod has been shut down\. This was caused by an exception on one of the ranks",
        anchor=Anchor.ANYWHERE,
        priority=45,
        samples=(
            "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was caused by an exception on "
            "one of the ranks or an attempt to allreduce",
        ),
        lookalikes=("Horovod shut down cleanly",),
        source="formats.md I2",
    ),
)
DIALECT = Dialect(name="jax_horovod", title="JAX coordination, Horovod", patterns=PATTERNS, source="formats.md I1, I2")
