"""Heartbeat monitor and dump signals of ProcessGroupNCCL, and its hints about the process (formats.md A4, A7).

A dump signal names the first rank that *observed* a timeout: an observer, not a culprit.
"""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Context, Role
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.c10d_watchdog import grouped, with_group
from correlator.parsers.dialects.scalars import numbers
from correlator.parsers.dialects.support import json_list, with_attributes

_HEAD = "[rank3]:[E1130 01:12:03.123456789 ProcessGroupNCCL.cpp:632] "
_GROUP = "[PG ID 2 PG GUID 5(mesh_dp) Rank 3] "


def _dump_signal(hit: Hit) -> Iterable[Event]:
    groups = hit.match.groupdict()
    event = with_attributes(
        hit.make(attributes=()),
        from_rank=groups.get("from_rank"),
        local=True if groups.get("local") else None,
        last_enqueued=groups.get("last_enqueued"),
        last_completed=groups.get("last_completed"),
    )
    yield grouped(event, hit)


def _remote_error(hit: Hit) -> Iterable[Event]:
    named = json_list(numbers(hit.match["named"]))
    event = with_attributes(hit.make(attributes=()), ranks=named, scope="group", reason="remote error")
    yield grouped(event, hit)


_HEARTBEAT = (
    LinePattern(
        id="c10d.heartbeat_exit",
        event_name=CollateralKind.HEARTBEAT_EXIT,
        role=Role.COLLATERAL,
        regex=r"(?:\[PG [^\]\n]*\] )?Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL "
        r"watchdog hang",
        samples=(
            f"{_HEAD}{_GROUP}{_GROUP}Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL "
            "watchdog hang.",
        ),
        lookalikes=("Terminating the process after attempting to save, due to ProcessGroupNCCL watchdog hang.",),
        source="formats.md A4",
        build=with_group,
    ),
)

_SIGNALS = (
    LinePattern(
        id="c10d.dump_signal",
        event_name=Context.DUMP_SIGNAL,
        regex=r"Received a (?:global )?dump signal(?: due to an? [^\n]+?)? from[ \t]+"
        r"(?:(?P<local>this local rank)|rank (?P<from_rank>\d+))"
        r"(?:[^\n]*Last enqueued NCCL work: (?P<last_enqueued>-?\d+), last completed NCCL work: (?P<last_completed>-?\d+))?",
        samples=(
            f"{_HEAD}[PG ID 0 PG GUID 0(default_pg) Rank 3] Received a dump signal due to a collective timeout from  rank 7 and "
            "we will try our best to dump the debug info. Last enqueued NCCL work: 4713, last completed NCCL work: 4710.This "
            "is most likely caused by incorrect usages of collectives",
            f"{_HEAD}[PG ID 0 PG GUID 0(default_pg) Rank 3] Received a dump signal due to a collective timeout from this local "
            "rank and we will try our best to dump the debug info. Last enqueued NCCL work: 4713, last completed NCCL work: -1.",
            f"{_HEAD}[PG 0 Rank 3] Received a dump signal from this local rank and will start to dump the debug info. "
            "Last enqueued NCCL work: 4713, last completed NCCL work: 4710.",
            f"{_HEAD}[PG 0 Rank 3] Received a global dump signal from rank 7, and will start to dump the debug info.",
        ),
        lookalikes=(f"{_HEAD}[PG 0 Rank 3] ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1",),
        source="formats.md A4",
        build=_dump_signal,
    ),
    LinePattern(
        id="c10d.dump_signal_observed",
        event_name=Context.DUMP_SIGNAL,
        regex=r"Observed flight recorder dump signal from another rank via TCPStore",
        samples=(
            f"{_HEAD}[PG ID 0 PG GUID 0(default_pg) Rank 3] Observed flight recorder dump signal from another rank via TCPStore.",
        ),
        lookalikes=(f"{_HEAD}Observed flight recorder dump file from another rank",),
        source="formats.md A4",
        build=_dump_signal,
    ),
    LinePattern(
        id="c10d.first_to_signal",
        event_name=Context.DUMP_SIGNAL,
        regex=r"(?P<local>First PG on this rank) to signal dumping",
        samples=(f"{_HEAD}{_GROUP}First PG on this rank to signal dumping.",),
        lookalikes=(f"{_HEAD}{_GROUP}First PG on this rank that detected no heartbeat of its watchdog.",),
        source="formats.md A3",
        build=_dump_signal,
    ),
    LinePattern(
        id="c10d.remote_error_rank",
        event_name=Context.NAMED_MISSING_RANKS,
        regex=r"[ \t]*remote error detected from rank: (?P<named>\d+)",
        samples=(f"{_HEAD}{_GROUP} remote error detected from rank: 5",),
        lookalikes=("remote error detected from host: node05",),
        source="formats.md A4",
        build=_remote_error,
    ),
)

_HINTS = (
    LinePattern(
        id="c10d.gil_blocked",
        event_name=Context.MESSAGE,
        regex=r"Could not acquire GIL within (?P<gil_wait_ms>\d+) ms on exit, possible GIL induced hang",
        samples=(f"{_HEAD}[PG 0 Rank 3] Could not acquire GIL within 300 ms on exit, possible GIL induced hang",),
        lookalikes=("Could not acquire lock within 300 ms on exit",),
        source="formats.md A4",
        build=with_group,
    ),
    LinePattern(
        id="c10d.unknown_device_barrier",
        event_name=Context.MESSAGE,
        regex=r"[ \t]*using GPU (?P<cuda_dev>\d+) (?:to perform barrier )?as devices? used by this process "
        r"(?:is|are) currently unknown",
        samples=(
            f"{_HEAD}[PG ID 0 PG GUID 0 Rank 3]  using GPU 3 to perform barrier as devices used by this process are currently "
            "unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect.",
            f"{_HEAD}[PG ID 0 PG GUID 0 Rank 3]  using GPU 3 as device used by this process is currently unknown.",
        ),
        lookalikes=("using GPU 3 as device for rank 3",),
        source="formats.md A7",
        build=with_group,
    ),
    LinePattern(
        id="c10d.interpreter_exit",
        event_name=Context.PROCESS_EXIT_CLEAN,
        regex=r"(?:Warning: )?WARNING: (?:destroy_process_group\(\) was not called before program exit"
        r"|process group has NOT been destroyed before we destruct ProcessGroupNCCL)",
        samples=(
            "[rank0]:[W1130 01:02:03.123456789 ProcessGroupNCCL.cpp:1476] Warning: WARNING: destroy_process_group() was not "
            "called before program exit, which can leak resources. (function operator())",
            "[rank0]:[W1130 01:02:03.123456789 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed "
            "before we destruct ProcessGroupNCCL. On normal program exit, the application should call destroy_process_group",
        ),
        lookalikes=("WARNING: destroy_process_group() was called twice",),
        source="formats.md A7: an orderly interpreter exit, also after an exception",
        build=with_group,
    ),
)

DIALECT = Dialect(
    name="c10d_signals",
    title="PyTorch NCCL heartbeat monitor, dump signals and process hints",
    patterns=_HEARTBEAT + _SIGNALS + _HINTS,
    source="formats.md A4, A7",
)
