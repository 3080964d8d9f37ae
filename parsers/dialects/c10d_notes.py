"""What c10d prints beside its failures: teardown notes, missing stacks, name look-ups (formats.md A3, A4, A7)."""

from __future__ import annotations

from correlator.core.vocabulary import Context
from correlator.parsers.base import Dialect, LinePattern
from correlator.parsers.dialects.c10d_watchdog import with_group

_HEAD = "[rank3]:[E1130 01:12:03.123456789 ProcessGroupNCCL.cpp:670] "
_GROUP = "[PG ID 0 PG GUID 0(default_pg) Rank 3] "
_C10D = r"(?:\[c10d\] )?"

_TEARDOWN = (
    LinePattern(
        id="c10d.operations_failed",
        event_name=Context.MESSAGE,
        regex=r"Some NCCL operations have failed or timed out\. Due to the asynchronous nature",
        samples=(
            f"{_HEAD}[Rank 3] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, "
            "subsequent GPU operations might run on corrupted/incomplete data.",
            "[E ProcessGroupNCCL.cpp:455] Some NCCL operations have failed or timed out. Due to the asynchronous nature of "
            "CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.",
        ),
        lookalikes=("Some NCCL operations have finished. Due to the asynchronous nature of CUDA kernels",),
        priority=45,
        source="formats.md A3",
        build=with_group,
    ),
    LinePattern(
        id="c10d.no_stack",
        event_name=Context.MESSAGE,
        regex=r"Stack trace of the (?:failed|timed out) collective(?: operation)? not found, potentially because",
        samples=(
            f"{_HEAD}Stack trace of the failed collective not found, potentially because FlightRecorder is disabled.",
        ),
        lookalikes=(f"{_HEAD}Stack trace of the failed collective: ",),
        source="formats.md A3",
        build=with_group,
    ),
    LinePattern(
        id="c10d.dumping",
        event_name=Context.MESSAGE,
        regex=r"ProcessGroupNCCL (?:preparing to dump|dumping nccl trace to|dumping) ?(?:debug info|(?P<dump_file>/[^ \n]+))?",
        samples=(
            f"{_HEAD}{_GROUP}ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1",
            f"{_HEAD}{_GROUP}ProcessGroupNCCL dumping nccl trace to /tmp/nccl_trace_rank_3",
        ),
        lookalikes=("ProcessGroupGloo dumping debug info",),
        source="formats.md A3, D",
        build=with_group,
    ),
    LinePattern(
        id="c10d.dump_written",
        event_name=Context.MESSAGE,
        regex=r"Finished writing (?:Flight Recorder|NCCLPG) debug info to (?P<dump_file>[^ \n]+)",
        samples=(
            "[rank3]:[I1130 01:12:03.1 FlightRecorder.cpp:77] Finished writing Flight Recorder debug info to /tmp/nccl_trace_rank_3",
            "[rank3]:[I1130 01:12:03.1 NCCLUtils.cpp:77] Finished writing NCCLPG debug info to /tmp/nccl_trace_rank_3",
        ),
        lookalikes=("Finished writing checkpoint to /tmp/nccl_trace_rank_3",),
        source="formats.md D",
    ),
    LinePattern(
        id="c10d.dump_not_written",
        event_name=Context.MESSAGE,
        regex=r"Error opening file for writing (?:Flight Recorder|NCCLPG) debug info: (?P<dump_file>[^ \n]+)",
        samples=(
            "[rank3]:[E1130 01:12:03.1 FlightRecorder.cpp:70] Error opening file for writing Flight Recorder debug info: "
            "/nodir/nccl_trace_rank_3",
        ),
        lookalikes=("Error opening file for writing checkpoint: /tmp/x",),
        source="formats.md D",
    ),
    LinePattern(
        id="c10d.dump_timed_out",
        event_name=Context.MESSAGE,
        regex=r"Future for (?:F|f)light [Rr]ecorder dump[^\n]*? timed out after (?P<waited_ms>\d+) ms",
        samples=(f"{_HEAD}{_GROUP}Future for Flight recorder dump in heartbeatMonitor timed out after 60000 ms",),
        lookalikes=("Future for checkpoint dump timed out after 60000 ms",),
        source="formats.md A4",
        build=with_group,
    ),
)

_SOCKETS = (
    LinePattern(
        id="c10d.name_lookup",
        event_name=Context.MESSAGE,
        regex=_C10D
        + r"The IPv(?P<ip_version>[46]) network addresses of \((?P<remote>[^,)\n]*), (?P<remote_port>\d+)\) "
        r"cannot be retrieved \((?P<reason>[^)\n]*)\)",
        samples=(
            "[W1130 01:02:03.1 socket.cpp:759] [c10d] The IPv6 network addresses of (node01, 29500) cannot be retrieved "
            "(gai error: -2 - Name or service not known).",
        ),
        lookalikes=("[c10d] The IPv6 network addresses of (node01, 29500) are known",),
        source="torch/csrc/distributed/c10d/socket.cpp: the other family is tried next",
    ),
    LinePattern(
        id="c10d.bind_failed",
        event_name=Context.MESSAGE,
        regex=_C10D + r"The server socket has failed to bind to \[?(?P<own_host>[^\]\n]*)\]?:(?P<own_port>\d+) "
        r"\((?P<reason>[^)\n]*)\)",
        samples=(
            "[W1130 01:02:03.1 socket.cpp:436] [c10d] The server socket has failed to bind to [::]:29500 "
            "(errno: 98 - Address already in use).",
        ),
        lookalikes=("The server socket has failed to listen on any local network address.",),
        source="formats.md A7: the other family may still be free",
    ),
    LinePattern(
        id="c10d.store_wait_over",
        event_name=Context.MESSAGE,
        regex=_C10D + r"waitForInput: socket SocketImpl\(fd=\d+, addr=\[(?P<own_host>[^\]\n]*)\]:\d+, "
        r"remote=\[(?P<remote>[^\]\n]*)\]:(?P<remote_port>\d+)\) timed out after (?P<waited_ms>\d+)ms",
        samples=(
            "[W1130 01:02:05.1 socket.cpp:497] [c10d] waitForInput: socket SocketImpl(fd=13, addr=[node04]:60950, "
            "remote=[node01]:29500) timed out after 2000ms",
        ),
        lookalikes=("waitForInput: keyboard timed out after 2000ms",),
        source="formats.md A7",
    ),
    LinePattern(
        id="c10d.connect_timed_out",
        event_name=Context.MESSAGE,
        regex=_C10D + r"The client socket has timed out after (?P<timeout_ms>\d+)ms while trying to connect to "
        r"\((?P<remote>[^,)\n]*), (?P<remote_port>\d+)\)",
        samples=(
            "[E socket.cpp:922] [c10d] The client socket has timed out after 900000ms while trying to connect to "
            "(node01, 29500).",
        ),
        lookalikes=(
            "torch.distributed.DistNetworkError: The client socket has timed out after 900000ms while trying to connect to "
            "(node01, 29500).",
        ),
        source="formats.md A7; the Python exception that follows is in the catalogue",
    ),
)

DIALECT = Dialect(
    name="c10d_notes",
    title="PyTorch c10d, notes beside its failures",
    patterns=_TEARDOWN + _SOCKETS,
    source="formats.md A3, A4, A7, D",
)
