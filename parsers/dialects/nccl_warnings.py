"""NCCL's warnings that no fault is known for, its error trace, and what RAS says of groups and clocks (formats.md C3, C4)."""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Context, Role
from correlator.parsers.base import Anchor, Dialect, Hit, Layer, LinePattern
from correlator.parsers.dialects.support import with_attributes
from correlator.parsers.table import LOWEST_PRIORITY

_NCCL = frozenset({Layer.NCCL})
_HEAD = "node03:4245:4311 [2] "
_RESULTS = {
    "1": "unhandled_cuda_error",
    "2": "system_error",
    "3": "internal_error",
    "4": "invalid_argument",
    "5": "invalid_usage",
    "6": "remote_error",
    "8": "timeout",
}


def _trace(hit: Hit) -> Iterable[Event]:
    """How an error went up through NCCL's calls; the first of these lines after a warning is where it began."""
    result = hit.match["result"]
    yield with_attributes(hit.make(attributes=()), place=hit.match["place"], result=_RESULTS.get(result, result))


def _communicator(hit: Hit) -> Iterable[Event]:
    """A row of the RAS table that is not `RUNNING OK`."""
    if hit.match["errors"] != "OK":
        yield hit.make()


DIALECT = Dialect(
    name="nccl_warnings",
    title="NCCL warnings, error trace and RAS statuses",
    source="formats.md C3, C4",
    patterns=(
        LinePattern(
            id="nccl.warning",
            event_name=Context.NCCL_WARNING,
            regex=r"NCCL WARN ",
            samples=(
                f"{_HEAD}transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port error(10)",
                f'{_HEAD}init.cc:100 NCCL WARN Missing "HSA_FORCE_FINE_GRAIN_PCIE=1" from environment which can lead to low '
                "RCCL performance, system instablity or hang!",
            ),
            lookalikes=(
                f"{_HEAD}NCCL INFO NET/IB : No device found.",
                "export NCCL_DEBUG=WARN; NCCL WARN lines follow",
            ),
            anchor=Anchor.LINE,
            requires=_NCCL,
            priority=LOWEST_PRIORITY + 1,
            source="formats.md C3",
        ),
        LinePattern(
            id="nccl.error_trace",
            event_name=Context.NCCL_WARNING,
            regex=r"(?P<place>[\w./-]+\.(?:cc|h|cpp):\d{1,6}) -> (?P<result>[1-68])(?: \[Async [Tt]hread\])?",
            samples=(
                f"{_HEAD}NCCL INFO transport/net.cc:1134 -> 6",
                f"{_HEAD}NCCL INFO group.cc:72 -> 2 [Async Thread]",
            ),
            lookalikes=(f"{_HEAD}NCCL INFO Channel 00/0 : 10[2] -> 11[3] via P2P/CUMEM",),
            requires=_NCCL,
            priority=20,
            source="formats.md C3",
            build=_trace,
        ),
        LinePattern(
            id="nccl.plugin_failure",
            event_name=CollateralKind.REMOTE_PEER_LOST,
            role=Role.COLLATERAL,
            regex=r"NET/OFI Request 0x[0-9a-f]+ completed with error\. RC: (?P<status>\d+)\. Error: (?P<reason>[^\n]+)",
            samples=(
                f"{_HEAD}net.cc:1 NCCL WARN NET/OFI Request 0x7f00 completed with error. RC: 12. Error: transport retry "
                "counter exceeded",
            ),
            lookalikes=(f"{_HEAD}net.cc:1 NCCL INFO NET/OFI Request 0x7f00 completed",),
            requires=_NCCL,
            source="formats.md C3: the AWS plugin's completion error",
        ),
        LinePattern(
            id="nccl.ras_communicators",
            event_name=Context.MESSAGE,
            regex=(
                r"[ \t]+\d+(?:[ \t]+\d+){5}[ \t]+(?P<status>NOCOMM|INIT|RUNNING|FINALIZE|ABORT)[ \t]+"
                r"(?P<errors>OK|(?:MISMATCH|ERROR|INCOMPLETE)(?:,[A-Z]+)*)"
            ),
            samples=("    0         1         2         8        15        15   RUNNING  INCOMPLETE",),
            lookalikes=("    0         1         2         8        16        16   STOPPED  INCOMPLETE",),
            source="formats.md C4",
            build=_communicator,
        ),
        LinePattern(
            id="nccl.ras_finding",
            event_name=Context.MESSAGE,
            regex=(
                r"(?:#\d+-\d+ \((?P<comm_hash>[0-9a-f]{1,16})\) (?P<errors>(?:MISMATCH|ERROR|INCOMPLETE)(?:,[A-Z]+)*)"
                r"|[ \t]+(?P<dead_processes>\d+) job process(?:es)? (?:is|are) considered dead"
                r"|[ \t]+Missing communicator data from (?P<missing_ranks>\d+) ranks?"
                r"|[ \t]+(?P<finding>Communicator ranks have different collective operation counts))"
            ),
            samples=(
                "#0-0 (9f8e7d6c5b4a3921) MISMATCH",
                "  1 job process is considered dead (unreachable via the RAS network)",
                "  Missing communicator data from 1 rank",
                "  Communicator ranks have different collective operation counts",
            ),
            lookalikes=("#0-0 (9f8e7d6c5b4a3921) RUNNING", "Missing communicator"),
            source="formats.md C4",
        ),
        LinePattern(
            id="nccl.ras_clocks",
            event_name=Context.MESSAGE,
            regex=(
                r"(?:Warning: )?(?:negative travel times were observed[^\n]*clocks are \*?not\*? synchronized"
                r"|From node (?P<node>[^ \n]+) process (?P<peer_pid>\d+) to node (?P<peer>[^ \n]+) process \d+: observed travel "
                r"time of (?P<travel_s>-?\d+\.\d+)s)"
            ),
            samples=(
                "Warning: negative travel times were observed across 4 connections; system clocks are *not* synchronized.",
                "From node 10.0.0.3 process 4245 to node 10.0.0.5 process 4246: observed travel time of -0.123s",
            ),
            lookalikes=("From node 10.0.0.3 process 4245 to node 10.0.0.5: connected",),
            source="formats.md C4: a clock difference that NCCL itself measured",
        ),
    ),
)
