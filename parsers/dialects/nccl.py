"""NCCL's own log: who is which rank of which communicator, on which GPU and address (formats.md C2, C4, C5).

A rank in these lines is a rank of the communicator. NCCL's failure lines are in the fault catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Dialect, Hit, Layer, LinePattern
from correlator.parsers.dialects.scalars import numbers
from correlator.parsers.dialects.support import json_list, with_attributes
from correlator.parsers.pci import normalise_pci

_NCCL = frozenset({Layer.NCCL})
_HEAD = "node03:4245:4311 [2] NCCL INFO "
_COMM = "comm 0x55d0c0ffee00 rank 10 nranks 16 cudaDev 2 nvmlDev 2 busId 4b000 commId 0x9f8e7d6c5b4a3921"
_PHASES = {"init start": "start", "init complete": "complete", "abort start": "abort", "abort complete": "abort"}
_OPERATIONS = {
    "AllReduce": "ALLREDUCE",
    "AllGather": "ALLGATHER",
    "ReduceScatter": "REDUCE_SCATTER",
    "Broadcast": "BROADCAST",
    "Reduce": "REDUCE",
    "Send": "SEND",
    "Recv": "RECV",
    "AlltoAll": "ALLTOALL",
    "AllToAll": "ALLTOALL",
}


def _communicator(hit: Hit) -> Iterable[Event]:
    groups = hit.match.groupdict()
    event = hit.make(gpu=normalise_pci(groups["bus"]), attributes=())
    yield with_attributes(
        event,
        comm_id=groups["comm_id"],
        comm=groups["comm"],
        nranks=groups["nranks"],
        cuda_dev=groups["cuda_dev"],
        parent_comm=groups["parent"],
        color=groups["color"],
        phase=_PHASES.get(groups["phase"].lower(), "destroy"),
    )


def _collective(hit: Hit) -> Iterable[Event]:
    """opCount is hexadecimal and counts the calls of one communicator."""
    groups = hit.match.groupdict()
    event = hit.make(
        collective_seq=int(groups["op_count"], 16),
        collective_op=_OPERATIONS.get(groups["call"], groups["call"].upper()),
        attributes=(),
    )
    yield with_attributes(event, comm=groups["comm"], count=groups["count"], nranks=groups["nranks"], state="started")


def _dead_process(hit: Hit) -> Iterable[Event]:
    """RAS names a process, not a rank; the pid and address lead to it."""
    event = hit.make(process_pid=None, attributes=())
    peer, pid, device = hit.match["node"], hit.match["pid"], hit.match["device"]
    yield with_attributes(
        event, ranks=json_list([]), scope="global", reason="dead", peer=peer, peer_pid=pid, peer_device=device
    )


def _missing_rank(hit: Hit) -> Iterable[Event]:
    groups = hit.match.groupdict()
    event = hit.make(process_pid=None, attributes=())
    yield with_attributes(
        event,
        ranks=json_list(numbers(groups["named"])),
        scope="group",
        reason="named by RAS",
        peer=groups["node"],
        peer_pid=groups["pid"],
        peer_device=groups["device"],
    )


_IDENTITY = (
    LinePattern(
        id="nccl.communicator",
        event_name=Context.NCCL_COMM_INIT,
        regex=r"(?:\[Rank \d+\] )?(?:\w+ )?comm (?P<comm>0x[0-9a-f]+) rank (?P<group_rank>\d+) n[rR]anks (?P<nranks>\d+) "
        r"cudaDev (?P<cuda_dev>-?\d+)(?: nvmlDev -?\d+)? busId (?P<bus>[0-9a-f]+)"
        r"(?: parent (?P<parent>0x[0-9a-f]+))?(?:[^\n]*? color (?P<color>-?\d+))?"
        r"(?:[^\n]*? commId (?P<comm_id>0x[0-9a-f]+))?[^\n]*?- (?P<phase>(?:Init|Abort|Destroy|Finalize) (?:START|COMPLETE))",
        samples=(
            f"{_HEAD}ncclCommInitRankConfig {_COMM} - Init START",
            f"{_HEAD}ncclCommInitRankConfig {_COMM} - Init COMPLETE",
            f"{_HEAD}[Rank 10] ncclCommInitRank {_COMM} - Init START",
            f"{_HEAD}ncclCommSplit comm 0x55d0c0ffee99 rank 1 nranks 4 cudaDev 2 nvmlDev 2 busId 4b000 parent 0x55d0c0ffee00 "
            "splitCount 3 color 77 key 1- Init START",
            "11: node03:4245:4311 [3] NCCL INFO comm 0x55d0c0ffee00 rank 11 nranks 16 cudaDev 3 busId 5d000 - Abort COMPLETE",
            f"{_HEAD}{_COMM} localSize 8 used 123456 bytes on core 12 - Init COMPLETE",
        ),
        lookalikes=(
            f"{_HEAD}Init timings - ncclCommInitRank: rank 10 nranks 16 total 1.23 (kernels 0.10, alloc 0.2, bootstrap 0.5)",
            f"{_COMM} - Init START",
        ),
        requires=_NCCL,
        source="formats.md C2, C5",
        build=_communicator,
    ),
    LinePattern(
        id="nccl.bootstrap_address",
        event_name=Context.NODE_ADDRESS,
        regex=r"Bootstrap ?: Using (?P<interface>[^: \n]+):(?P<ip>[0-9a-fA-F.:]+)(?:%\w+)?<\d+>",
        samples=(
            f"{_HEAD}Bootstrap : Using eth0:10.0.0.3<0>",
            f"{_HEAD}Bootstrap: Using eth0:10.0.0.3<0>",
            f"{_HEAD}Bootstrap: Using eth0:fe80::42:acff:fe11:2%eth0<0>",
        ),
        lookalikes=(f"{_HEAD}Bootstrap : no socket interface found",),
        requires=_NCCL,
        source="formats.md C2",
    ),
    LinePattern(
        id="nccl.network_address",
        event_name=Context.NODE_ADDRESS,
        regex=r"NET/(?:IB|Socket) ?: Using (?:[^\n]*OOB |\[0\])(?P<interface>[^: \n\[]+):(?P<ip>[0-9a-fA-F.:]+)(?:%\w+)?<\d+>",
        samples=(
            f"{_HEAD}NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.3<0>",
            f"{_HEAD}NET/Socket : Using [0]eth0:10.0.0.3<0>",
        ),
        lookalikes=(f"{_HEAD}NET/IB : No device found.",),
        requires=_NCCL,
        source="formats.md C2",
    ),
    LinePattern(
        id="nccl.version",
        event_name=Context.RUN_CONFIG,
        regex=r"(?P<library>NCCL|RCCL) version ?:? ?(?P<nccl_version>\d+\.\d+[\w.+:-]*)",
        samples=("NCCL version 2.26.2+cuda12.8", "RCCL version : 2.21.5-HEAD:abc1234"),
        lookalikes=("RuntimeError: NCCL error: unhandled cuda error, NCCL version 2.26.2",),
        source="formats.md C2, C5",
    ),
)

_COLLECTIVES = (
    LinePattern(
        id="nccl.collective",
        event_name=Context.COLLECTIVE_ENTRY,
        regex=r"(?P<call>[A-Z]\w{2,20}): opCount (?P<op_count>[0-9a-f]{1,15}) sendbuff 0x[0-9a-f]+ recvbuff 0x[0-9a-f]+ "
        r"count (?P<count>\d+) datatype \d+ op \d+ root \d+ comm (?P<comm>0x[0-9a-f]+) \[nranks=(?P<nranks>\d+)\]",
        samples=(
            f"{_HEAD}AllReduce: opCount 12f sendbuff 0x7f00 recvbuff 0x7f00 count 1048576 datatype 7 op 0 root 0 comm 0x55d0c0ff "
            "[nranks=16] stream 0x55d0",
        ),
        lookalikes=(f"{_HEAD}AllReduce: 1048576 Bytes -> Algo 1 proto 2 time 3.1",),
        requires=_NCCL,
        priority=20,
        source="formats.md C2",
        build=_collective,
    ),
)

_RAS = (
    LinePattern(
        id="nccl.ras_dead",
        event_name=Context.NAMED_MISSING_RANKS,
        regex=r"[ \t]*Process (?P<pid>\d+) on node (?P<node>[^ \n]+) managing GPUs? (?P<device>[\d,-]+)",
        samples=("  Process 4246 on node 10.0.0.5 managing GPU 3",),
        lookalikes=("Process 4246 on node 10.0.0.5 finished",),
        source="formats.md C4",
        build=_dead_process,
    ),
    LinePattern(
        id="nccl.ras_rank",
        event_name=Context.NAMED_MISSING_RANKS,
        regex=r"[ \t]*Rank (?P<named>\d+) -- GPU (?P<device>\d+) managed by process (?P<pid>\d+) on node (?P<node>[^ \n]+)",
        samples=("  Rank 11 -- GPU 3 managed by process 4246 on node 10.0.0.5",),
        lookalikes=("  Rank 11 -- GPU 3",),
        source="formats.md C4: listed under INCOMPLETE (no data) and MISMATCH (the few that differ from the many)",
        build=_missing_rank,
    ),
)

DIALECT = Dialect(
    name="nccl",
    title="NCCL and RCCL debug log, RAS report",
    patterns=_IDENTITY + _COLLECTIVES + _RAS,
    source="formats.md C",
)
