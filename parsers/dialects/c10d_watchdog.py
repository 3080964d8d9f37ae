"""What the watchdog threads of ProcessGroupNCCL print (formats.md A3-A5).

A rank that prints a timeout was waiting: the lines are collateral. They say which group stood at which sequence number, and
since when, and that points at the rank that never came.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Context, Role
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.scalars import int64, numbers
from correlator.parsers.dialects.support import with_attributes

_HEAD = "[rank3]:[E1130 01:12:03.123456789 ProcessGroupNCCL.cpp:632] "
_GROUP = "[PG ID 2 PG GUID 5(mesh_dp) Rank 3] "
_WORK = "WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000)"
_RAN = " ran for 600012 milliseconds before timing out."

_WORK_FACT = re.compile(r"(SeqNum|OpType|NumelIn|NumelOut|TensorShape|Timeout\(ms\))=(\[[^\]\n]*\]|[^,\s)]+)")
_RAN_FOR = re.compile(r"\) ran for (\d+) milliseconds")
_PEER = re.compile(
    r"(?:Connection closed by remote peer|completion from peer|recv from|send to|Connect to) ([^<\s]+)<(\d+)>"
)


def grouped(event: Event, hit: Hit) -> Event:
    """The event with the description of the process group that the line's prefix names."""
    if event.attribute("pg_description") is not None:
        return event
    return with_attributes(event, pg_description=hit.line.prefix.process_group_description or None)


def with_group(hit: Hit) -> Iterable[Event]:
    """The default event of the line and the description of its group."""
    yield grouped(hit.make(), hit)


def _numel(shape: str | None) -> int | None:
    """Elements of a printed `TensorShape=[1024, 8]`."""
    if shape is None:
        return None
    elements = math.prod(numbers(shape)[:64])
    return elements if elements < 2**63 else None


def _work(hit: Hit) -> Iterable[Event]:
    """An event of the work that `WorkNCCL(...)` describes, in whatever order and version its fields come."""
    text = hit.match["work"] or ""
    work = dict(_WORK_FACT.findall(text))
    ran = _RAN_FOR.search(text)
    event = hit.make(
        collective_seq=int64(work.get("SeqNum")),
        collective_op=work.get("OpType"),
        attributes=(),
    )
    event = with_attributes(
        event,
        numel_in=work.get("NumelIn"),
        numel_out=work.get("NumelOut") or _numel(work.get("TensorShape")),
        tensor_shape=work.get("TensorShape"),
        timeout_ms=work.get("Timeout(ms)"),
        ran_ms=ran[1] if ran else None,
    )
    yield grouped(event, hit)


def _async_error(hit: Hit) -> Iterable[Event]:
    """A work that failed of a remote error; its peer is in the `Last error:` lines that follow."""
    lines = hit.record.messages if hit.record else ()
    peer = next((found for found in map(_PEER.search, lines) if found), None)
    for event in _work(hit):
        yield with_attributes(event, peer=peer[1], peer_port=peer[2]) if peer else event


_TIMEOUTS = (
    LinePattern(
        id="c10d.watchdog_timeout",
        event_name=CollateralKind.COLLECTIVE_TIMEOUT,
        role=Role.COLLATERAL,
        regex=r"(?:Watchdog caught|Caught) collective operation timeout(?:: WorkNCCL\((?P<work>[^\n]*))?",
        samples=(
            f"{_HEAD}[Rank 3] Watchdog caught collective operation timeout: {_WORK}{_RAN}",
            "[E ProcessGroupNCCL.cpp:828] [Rank 3] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, TensorShape=[1024, 8], Timeout(ms)=1800000) ran for 1804406 milliseconds "
            "before timing out.",
            "[Rank 3] Caught collective operation timeout: WorkNCCL(OpType=BARRIER, Timeout(ms)=1800000)",
        ),
        lookalikes=(
            f"{_HEAD}{_GROUP}Process group watchdog thread terminated with exception: [Rank 3] Watchdog caught collective "
            f"operation timeout: {_WORK}{_RAN}",
            "[rank0] INFO: previous run ended with: Watchdog caught collective operation timeout; resuming fresh",
        ),
        priority=60,
        source="formats.md A3",
        build=_work,
    ),
    LinePattern(
        id="c10d.blocking_wait_timeout",
        event_name=CollateralKind.COLLECTIVE_TIMEOUT,
        role=Role.COLLATERAL,
        regex=r"Work WorkNCCL\((?P<work>[^\n]*)\) timed out in blocking wait",
        samples=(f"{_HEAD}[Rank 3] Work {_WORK} timed out in blocking wait (TORCH_NCCL_BLOCKING_WAIT=1).",),
        lookalikes=(f"{_HEAD}[Rank 3] Work {_WORK} finished in blocking wait.",),
        priority=60,
        source="formats.md A3",
        build=_work,
    ),
    LinePattern(
        id="c10d.async_remote_error",
        event_name=CollateralKind.REMOTE_PEER_LOST,
        role=Role.COLLATERAL,
        regex=r"Collective WorkNCCL\((?P<work>[^\n]*)\) raised the following async exception: "
        r"NCCL error: remote process exited",
        samples=(
            f"{_HEAD}[Rank 3] Collective {_WORK} raised the following async exception: NCCL error: remote process exited or "
            "there was a network error, NCCL version 2.26.2",
        ),
        lookalikes=(
            f"{_HEAD}[Rank 3] Collective {_WORK} raised the following async exception: NCCL error: unhandled cuda error "
            "(run with NCCL_DEBUG=INFO for details), NCCL version 2.26.2",
        ),
        record="c10d_block",
        priority=60,
        source="formats.md A4, A5",
        build=_async_error,
    ),
)

_STATUS = (
    LinePattern(
        id="c10d.failure_detected",
        event_name=Context.WORK_STATUS,
        regex=r"[ \t]*failure detected by watchdog at work sequence id: (?P<collective_seq>-?\d+)"
        r"(?: PG status: last enqueued work: (?P<last_enqueued>-?\d+), last completed work: (?P<last_completed>-?\d+))?",
        samples=(
            f"{_HEAD}{_GROUP} failure detected by watchdog at work sequence id: 4711 PG status: last enqueued work: 4713, "
            "last completed work: 4710",
        ),
        lookalikes=("[rank3]: failure detected by the health check at work 4711",),
        source="formats.md A3",
        build=with_group,
    ),
    LinePattern(
        id="c10d.exception_at_work",
        event_name=Context.WORK_STATUS,
        regex=r"(?:Timeout at NCCL work|Exception \(either an error or timeout\) detected by watchdog at work): "
        r"(?P<collective_seq>-?\d+), last enqueued NCCL work: (?P<last_enqueued>-?\d+), "
        r"last completed NCCL work: (?P<last_completed>-?\d+)",
        samples=(
            f"{_HEAD}[PG ID 2 PG GUID 5 Rank 3] Exception (either an error or timeout) detected by watchdog at work: 4711, "
            "last enqueued NCCL work: 4713, last completed NCCL work: 4710.",
            f"{_HEAD}[PG 2 Rank 3] Timeout at NCCL work: 4711, last enqueued NCCL work: 4713, last completed NCCL work: 4710.",
        ),
        lookalikes=(f"{_HEAD}[PG 2 Rank 3] Timeout at NCCL works.",),
        source="formats.md A3",
        build=with_group,
    ),
    LinePattern(
        id="c10d.exception_hit",
        event_name=Context.WORK_STATUS,
        regex=r"Exception hit in NCCL work: (?P<collective_seq>-?\d+)",
        samples=(f"{_HEAD}[PG ID 2 PG GUID 5 Rank 3] Exception hit in NCCL work: 4711",),
        lookalikes=(f"{_HEAD}Exception hit in NCCL plugin",),
        source="formats.md A3; torch 2.4 and 2.5",
        build=with_group,
    ),
)

_ABORTS = (
    LinePattern(
        id="c10d.watchdog_terminated_timeout",
        event_name=CollateralKind.SECONDARY_ABORT,
        role=Role.COLLATERAL,
        regex=r"(?:[ \t]*what\(\):[^\n]*)?(?:Process group|NCCL) watchdog thread terminated with exception: "
        r"(?:\[Rank \d+\] )?(?:Watchdog caught|Caught) collective operation timeout",
        samples=(
            f"{_HEAD}{_GROUP}Process group watchdog thread terminated with exception: [Rank 3] Watchdog caught collective "
            f"operation timeout: {_WORK}{_RAN}",
            f"  what():  {_GROUP}Process group watchdog thread terminated with exception: [Rank 3] Watchdog caught "
            f"collective operation timeout: {_WORK}{_RAN}",
            f"  what():  [Rank 3] NCCL watchdog thread terminated with exception: [Rank 3] Watchdog caught collective "
            f"operation timeout: {_WORK}{_RAN}",
        ),
        lookalikes=(
            f"{_HEAD}{_GROUP}Process group watchdog thread terminated with exception: CUDA error: an illegal memory access "
            "was encountered",
        ),
        record="c10d_block",
        priority=60,
        source="formats.md A3",
        build=with_group,
    ),
)

DIALECT = Dialect(
    name="c10d_watchdog",
    title="PyTorch NCCL watchdog",
    patterns=_TIMEOUTS + _STATUS + _ABORTS,
    source="formats.md A3-A5",
)
