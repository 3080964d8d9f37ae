"""Open MPI, PRRTE, MPICH and UCX: which process ended, and where (formats.md E5)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FaultCode, Phase, Role
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import with_attributes

_SOURCE = "formats.md E5"
_SIGNAL_FAULTS: dict[int, FaultCode] = {
    4: FaultCode.ILLEGAL_INSTRUCTION,
    6: FaultCode.NATIVE_ABORT,
    7: FaultCode.NATIVE_BUS_ERROR,
    8: FaultCode.NATIVE_ABORT,
    11: FaultCode.NATIVE_SEGFAULT,
}


_WRAPPED_SIGNAL = re.compile(r"exited on signal (\d{1,2})\b")
_EXIT_CODE = re.compile(r"Exit code: +(-?\d{1,9})")
_ERROR_CODE = re.compile(r"with errorcode (-?\d{1,9})")
_MPICH_CODE = re.compile(r"= +EXIT CODE: (\d{1,9})")
_MPICH_SIGNAL = re.compile(r"= +KILLED BY SIGNAL: (\d{1,2})\b")


def _pid(text: str) -> int | None:
    """Open MPI 4.1 prints PID 0 where it does not know it."""
    return int(text[:9]) or None


def _process_ended(hit: Hit) -> Iterable[Event]:
    rank, pid, host, signal = hit.match.groups()
    if signal is None and (wrapped := _WRAPPED_SIGNAL.search(_rest_of_block(hit))):
        signal = wrapped[1]
    yield hit.make(
        rank=int(rank), process_pid=_pid(pid), host_name=host.rstrip("."), exit_code=-int(signal) if signal else None
    )


def _rest_of_block(hit: Hit) -> str:
    """The further lines of a report between two rulers; mpirun wraps its sentences there."""
    return "\n".join(hit.record.messages[1:]) if hit.record else ""


def _first_process(hit: Hit) -> Iterable[Event]:
    """`Exit code:` stands in the next line."""
    code = _EXIT_CODE.search(_rest_of_block(hit))
    yield hit.make(exit_code=int(code[1]) if code else None)


def _aborted(hit: Hit) -> Iterable[Event]:
    wrapped = _ERROR_CODE.search(_rest_of_block(hit)) if hit.match[2] is None else None
    code = wrapped[1] if wrapped else hit.match[2]
    yield with_attributes(hit.make(rank=int(hit.match[1]), exit_code=int(code) if code else None), reason="MPI_ABORT")


def _lost_daemon(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), node=hit.match[1].rstrip("."))


def _mpich_ended(hit: Hit) -> Iterable[Event]:
    rank, pid, host = hit.match.groups()
    rest = _rest_of_block(hit)
    code, signal = _MPICH_CODE.search(rest), _MPICH_SIGNAL.search(rest)
    exit_code = -int(signal[1]) if signal else int(code[1]) if code else None
    yield hit.make(rank=int(rank) if rank else None, process_pid=_pid(pid), host_name=host, exit_code=exit_code)


def _teardown(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), phase=Phase.TEARDOWN.value)


def _caught_signal(hit: Hit) -> Iterable[Event]:
    host, pid, number = hit.match.groups()
    code = _SIGNAL_FAULTS[int(number)]
    yield with_attributes(hit.make(event_name=code, host_name=host, process_pid=_pid(pid)), signal=number)


PATTERNS = (
    LinePattern(
        id="mpi.process_ended",
        event_name=Context.WORKER_FAILED,
        regex=(
            r"(?:process rank|due to process rank) ([0-9]{1,7}) with PID ([0-9]+) on node ([^ \n]+)"
            r"(?: exited on signal ([0-9]{1,2})| exiting improperly| exited)?"
        ),
        anchor=Anchor.ANYWHERE,
        samples=(
            "mpirun noticed that process rank 3 with PID 4245 on node node03 exited on signal 11 (Segmentation fault).",
            "mpirun noticed that process rank 3 with PID 0 on node node03",
            "prterun has exited due to process rank 2 with PID 4245 on node node03 exiting improperly. There are three",
        ),
        lookalikes=(
            "mpirun noticed that the job aborted, but has no info as to the process that caused that situation.",
            "[1,3]<stdout>:started process rank 3 of 16 on node node03",
        ),
        record="mpi_block",
        source=_SOURCE,
        build=_process_ended,
    ),
    LinePattern(
        id="mpi.abort",
        event_name=Context.WORKER_FAILED,
        regex=r"MPI_ABORT was invoked on rank ([0-9]{1,7}) in communicator [^ \n]+(?: with errorcode (-?[0-9]{1,9}))?",
        samples=(
            "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD with errorcode 1.",
            "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
        ),
        lookalikes=("NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.",),
        record="mpi_block",
        source=_SOURCE,
        build=_aborted,
    ),
    LinePattern(
        id="mpi.first_process",
        event_name=Context.WORKER_FAILED,
        regex=r"[ \t]*Process name: \[(?:\[[0-9]+,[0-9]+\],|[^ \n@]+@[0-9]+,)(?P<rank>[0-9]{1,7})\]",
        samples=("  Process name: [[12345,1],3]", "  Process name: [prterun-node01-4242@1,3]"),
        lookalikes=("  Process name: python3",),
        record="mpi_block",
        source=_SOURCE,
        build=_first_process,
    ),
    LinePattern(
        id="mpi.lost_daemon",
        event_name=Context.NODE_FAILURE_REPORTED,
        regex=r"[ \t]*Remote daemon: \[[^\n]+\] on node ([^ \n]+)",
        samples=(
            "  Remote daemon: [[12345,0],2] on node node03",
            "  Remote daemon: [prterun-node01-4242@0,1] on node node03",
        ),
        lookalikes=("  HNP daemon   : [[12345,0],0] on node node01",),
        source=_SOURCE,
        build=_lost_daemon,
    ),
    LinePattern(
        id="mpi.mpich_ended",
        event_name=Context.WORKER_FAILED,
        regex=r"=[ \t]+(?:RANK ([0-9]{1,7}) )?PID ([0-9]+) RUNNING AT ([^ \n]+)",
        samples=("=   PID 4245 RUNNING AT node03", "=   RANK 3 PID 4245 RUNNING AT node03"),
        lookalikes=("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",),
        record="mpi_block",
        source=_SOURCE,
        build=_mpich_ended,
    ),
    LinePattern(
        id="mpi.job_aborted",
        event_name=Context.PHASE,
        regex=r"(?:Primary job[ \t]+terminated normally, but \d+ process(?:es)? returned|=[ \t]+BAD TERMINATION OF ONE OF YOUR)",
        samples=(
            "Primary job  terminated normally, but 1 process returned",
            "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        ),
        lookalikes=("Primary job  terminated normally.",),
        priority=20,
        source=_SOURCE,
        build=_teardown,
    ),
    LinePattern(
        id="mpi.signal_block",
        event_name=FaultCode.NATIVE_SEGFAULT,
        role=Role.INITIATING,
        regex=r"\[([^ \n:\]]+):([0-9]+)\] Signal: [A-Za-z ]+\((4|6|7|8|11)\)",
        priority=45,
        samples=("[node03:04245] Signal: Segmentation fault (11)",),
        lookalikes=("[node03:04245] Signal code: Address not mapped (1)", "[node03:04245] Signal: Terminated (15)"),
        source=_SOURCE,
        build=_caught_signal,
    ),
    LinePattern(
        id="mpi.ucx_signal",
        event_name=FaultCode.NATIVE_SEGFAULT,
        role=Role.INITIATING,
        regex=r"\[([^ \n:\]]+):([0-9]+)[ \t]*:[0-9]+:[0-9]+\] Caught signal (4|6|7|8|11) \(",
        priority=45,
        samples=(
            "[node03:4245 :0:4245] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))",
        ),
        lookalikes=("[1764464523.123456] [node03:4245 :0]  ucp_worker.c:123  UCX  INFO  caught signal handler set",),
        record="signal_block",
        source=_SOURCE,
        build=_caught_signal,
    ),
)
DIALECT = Dialect(name="mpi", title="MPI launchers and UCX", patterns=PATTERNS, source=_SOURCE)
