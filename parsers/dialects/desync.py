"""Observers that name who did not come: the desync report, monitoredBarrier, mismatch checks (formats.md A6, A8).

The ranks in these texts are ranks inside the group. The lines of a desync report after the first carry no prefix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Context, FaultCode, Role
from correlator.parsers.base import Anchor, Build, Dialect, Hit, LinePattern
from correlator.parsers.dialects.c10d_watchdog import grouped
from correlator.parsers.dialects.scalars import int64, numbers
from correlator.parsers.dialects.support import json_list, with_attributes

_GLOO = "[rank0]:[E1130 01:02:03.123456789 ProcessGroupGloo.cpp:71] "
_FINGERPRINT = (
    "CollectiveFingerPrint(SequenceNumber=12, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float, "
    "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda, layout=Strided (default)))"
)
_OTHER_FINGERPRINT = _FINGERPRINT.replace("12", "13").replace("ALLREDUCE", "BROADCAST")


def _missing(reason: str) -> Build:
    """Builds `named_missing_ranks` from the groups `named`, `missed_seq` and `waited_ms`."""

    def build(hit: Hit) -> Iterable[Event]:
        groups = hit.match.groupdict()
        event = with_attributes(
            hit.make(collective_seq=int64(groups.get("missed_seq")), attributes=()),
            ranks=json_list(numbers(groups["named"])),
            scope="group",
            reason=reason,
            timeout_ms=groups.get("waited_ms"),
        )
        yield grouped(event, hit)

    return build


def _report(hit: Hit) -> Iterable[Event]:
    """The ranks that stand lowest: those that did not join the next collective, else those that did not finish theirs."""
    text = "\n".join(hit.record.messages) if hit.record else hit.line.message
    missed, unfinished = _NOT_JOINED.search(text), _NOT_FINISHED.search(text)
    found = missed or unfinished
    event = hit.make(collective_seq=int64(found[2]) if found else None, attributes=())
    yield with_attributes(
        event,
        ranks=json_list(numbers(found[1])) if found else "[]",
        scope="group",
        reason="did not join" if missed else "did not finish",
        joined_ranks=json_list(numbers(unfinished[1])) if missed and unfinished else None,
    )


def _headed(hit: Hit) -> Iterable[Event]:
    """The whole report under its first line, the only one that says whose it is."""
    text = "\n".join(hit.record.messages[1:]) if hit.record else ""
    timeout, never = _TIMEOUT_AT.search(text), _NEVER_JOINED.search(text)
    missed, unfinished = _NOT_JOINED.search(text), _NOT_FINISHED.search(text)
    size = len(hit.record.lines) if hit.record else 1
    if timeout:
        yield hit.make(
            event_name=Context.WORK_STATUS,
            group_rank=int64(timeout[1]),
            collective_op=timeout[2],
            collective_seq=int64(timeout[3]),
            line_count=size,
        )
    if found := never or missed or unfinished:
        reason = "never joined any collective" if never else "did not join" if missed else "did not finish"
        yield with_attributes(
            hit.make(collective_seq=None if never else int64(found[2]), line_count=size),
            ranks=json_list(numbers(found[1])),
            scope="group",
            reason=reason,
            joined_ranks=json_list(numbers(unfinished[1])) if missed and unfinished else None,
        )


def _waiting_ranks(hit: Hit) -> Iterable[Event]:
    yield with_attributes(
        hit.make(collective_seq=int64(hit.match["joined_seq"]), attributes=()),
        joined_ranks=json_list(numbers(hit.match["named"])),
        scope="group",
    )


def _mismatch(hit: Hit) -> Iterable[Event]:
    """Both ranks and operations; the check cannot say which of the two is wrong."""
    groups = hit.match.groupdict()
    event = with_attributes(
        hit.make(collective_seq=int64(groups["one_seq"]), collective_op=groups["one_op"], attributes=()),
        ranks=json_list(numbers(f"{groups['one_rank']} {groups['other_rank']}")),
        scope="group",
        ops=json_list([groups["one_op"], groups["other_op"]]),
        seqs=json_list(numbers(f"{groups['one_seq']} {groups['other_seq']}")),
    )
    yield grouped(event, hit)


_TIMEOUT_AT = re.compile(r"\[(\d{1,9})\] Timeout at collective: (\w+), #(\d+)")
_NEVER_JOINED = re.compile(r"ranks \[(\d[\d, ]*)\] are the lagging ranks")
_NOT_JOINED = re.compile(r"\[(\d[\d, ]*)\] finished collective #\d+, but didn't join collective #(\d+)")
_NOT_FINISHED = re.compile(r"\[(\d[\d, ]*)\] joined but didn't finish collective #(\d+)")

_DESYNC = (
    LinePattern(
        id="desync.head",
        event_name=Context.NAMED_MISSING_RANKS,
        regex=r"ProcessGroup\w+\.cpp:\d+\] (?:\[[^\]\n]*\] )*Rank (?P<group_rank>\d+)[ \t]*$",
        samples=("[rank3]:[E1130 01:12:03.323456789 ProcessGroupNCCL.cpp:1937] Rank 3",),
        lookalikes=("[rank3]:[E1130 01:12:03.323456789 ProcessGroupNCCL.cpp:1937] Rank 3 is ready",),
        anchor=Anchor.LINE,
        record="desync_report",
        source="formats.md A6: the lines of the report have no prefix of their own",
        build=_headed,
    ),
    LinePattern(
        id="desync.report",
        event_name=Context.NAMED_MISSING_RANKS,
        regex=r"To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
        samples=("\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",),
        lookalikes=("To our best knowledge, nothing caused the desync",),
        anchor=Anchor.ANYWHERE,
        record="desync_report",
        source="formats.md A6",
        build=_report,
    ),
    LinePattern(
        id="desync.not_joined",
        event_name=Context.NAMED_MISSING_RANKS,
        regex=r"\[(?P<named>\d[\d, ]*)\] finished collective #\d+, but didn't join collective #(?P<missed_seq>\d+)",
        samples=("\t     [5] finished collective #4710, but didn't join collective #4711 (count from 1)",),
        lookalikes=("\t   - [0, 1, 2, 3] joined but didn't finish collective #4711 (count from 1)",),
        anchor=Anchor.ANYWHERE,
        source="formats.md A6",
        build=_missing("did not join"),
    ),
    LinePattern(
        id="desync.never_joined",
        event_name=Context.NAMED_MISSING_RANKS,
        regex=r"To our best knowledge, ranks \[(?P<named>\d[\d, ]*)\] are the lagging ranks that caused this timeout",
        samples=(
            "\t - To our best knowledge, ranks [5, 6] are the lagging ranks that caused this timeout. They never joined any "
            "collectives",
        ),
        lookalikes=("\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",),
        anchor=Anchor.ANYWHERE,
        source="formats.md A6",
        build=_missing("never joined any collective"),
    ),
    LinePattern(
        id="desync.not_finished",
        event_name=Context.MESSAGE,
        regex=r"\[(?P<named>\d[\d, ]*)\] joined but didn't finish collective #(?P<joined_seq>\d+)",
        samples=("\t   - [0, 1, 2, 3] joined but didn't finish collective #4711 (count from 1)",),
        lookalikes=("\t     [5] finished collective #4710, but didn't join collective #4711 (count from 1)",),
        anchor=Anchor.ANYWHERE,
        source="formats.md A6",
        build=_waiting_ranks,
    ),
    LinePattern(
        id="desync.timeout_at",
        event_name=Context.WORK_STATUS,
        regex=r"\[(?P<group_rank>\d+)\] Timeout at collective: (?P<collective_op>\w+), #(?P<collective_seq>\d+)",
        samples=("\t - [3] Timeout at collective: ALLREDUCE, #4711",),
        lookalikes=("\t - [3] Timeout at collective store",),
        anchor=Anchor.ANYWHERE,
        source="formats.md A6",
    ),
)

_BARRIER = (
    LinePattern(
        id="gloo.monitored_barrier_missing",
        event_name=Context.NAMED_MISSING_RANKS,
        regex=r"Ranks? (?P<named>\d[\d, ]*) failed to pass monitoredBarrier in (?P<waited_ms>\d+) ms",
        samples=(
            f"{_GLOO}[Rank 0]: Rank 5 failed to pass monitoredBarrier in 300000 ms",
            f"{_GLOO}[Rank 0]: Ranks 5, 6 failed to pass monitoredBarrier in 300000 ms",
        ),
        lookalikes=(f"{_GLOO}Rank 0 timed out in monitoredBarrier after 300000 ms.",),
        anchor=Anchor.ANYWHERE,
        priority=60,
        source="formats.md A8",
        build=_missing("did not reach monitoredBarrier"),
    ),
    LinePattern(
        id="gloo.monitored_barrier_timeout",
        event_name=CollateralKind.COLLECTIVE_TIMEOUT,
        role=Role.COLLATERAL,
        regex=r"Rank (?P<group_rank>\d+) timed out in monitoredBarrier after (?P<timeout_ms>\d+) ms",
        samples=(f"{_GLOO}Rank 0 timed out in monitoredBarrier after 300000 ms.",),
        lookalikes=(f"{_GLOO}[Rank 0]: Rank 5 failed to pass monitoredBarrier in 300000 ms",),
        source="formats.md A8",
    ),
    LinePattern(
        id="gloo.monitored_barrier_peer",
        event_name=CollateralKind.REMOTE_PEER_LOST,
        role=Role.COLLATERAL,
        regex=r"Rank (?P<group_rank>\d+) successfully reached monitoredBarrier, but received errors while waiting for send/recv "
        r"from rank (?P<peer_rank>\d+)",
        samples=(
            f"{_GLOO.replace('rank0', 'rank3')}Rank 3 successfully reached monitoredBarrier, but received errors while waiting "
            "for send/recv from rank 0. Please check rank 0 logs for faulty rank.",
        ),
        lookalikes=("Rank 3 successfully reached monitoredBarrier",),
        source="formats.md A8",
    ),
)

_WRAPPER = (
    LinePattern(
        id="c10d.collective_mismatch",
        event_name=FaultCode.COLLECTIVE_MISMATCH,
        role=Role.INITIATING,
        regex=r"Detected mismatch between collectives on ranks\. Rank (?P<one_rank>\d+) is running collective: "
        r"CollectiveFingerPrint\(SequenceNumber=(?P<one_seq>\d+), OpType=(?P<one_op>\w+)[^\n]*?but Rank (?P<other_rank>\d+) "
        r"is running collective: CollectiveFingerPrint\(SequenceNumber=(?P<other_seq>\d+), OpType=(?P<other_op>\w+)",
        samples=(
            "[rank0]:[E1130 01:02:03.123456789 ProcessGroupWrapper.cpp:76] [Rank 0] Detected mismatch between collectives on "
            f"ranks. Rank 0 is running collective: {_FINGERPRINT}, but Rank 1 is running collective: {_OTHER_FINGERPRINT}."
            "Collectives differ in the following aspects: \t Sequence number: 12vs 13  Op type: ALLREDUCEvs BROADCAST",
        ),
        lookalikes=(
            f"[rank0]:[I1130 01:02:03.1 ProcessGroupWrapper.cpp:562] [Rank 0] Running collective: {_FINGERPRINT}",
        ),
        priority=60,
        source="formats.md A8; as a Python exception it is in the catalogue",
        build=_mismatch,
    ),
    LinePattern(
        id="c10d.running_collective",
        event_name=Context.COLLECTIVE_ENTRY,
        regex=r"Running collective: CollectiveFingerPrint\(SequenceNumber=(?P<collective_seq>\d+), "
        r"OpType=(?P<collective_op>\w+)",
        samples=(
            f"[rank0]:[I1130 01:02:03.1 ProcessGroupWrapper.cpp:562] [Rank 0] Running collective: {_FINGERPRINT}",
        ),
        lookalikes=("Running collective: warm-up of SequenceNumber=12",),
        source="formats.md A8",
    ),
)

DIALECT = Dialect(
    name="desync",
    title="Desync report, monitoredBarrier and collective fingerprints",
    patterns=_DESYNC + _BARRIER + _WRAPPER,
    source="formats.md A6, A8",
)
