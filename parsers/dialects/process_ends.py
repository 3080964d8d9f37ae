"""How wrappers report that a process of theirs ended: Lightning, spawn, pdsh, horovodrun, shells (formats.md E4, E5, G1, I2)."""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Context, Phase, Role
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import SIGNAL_NUMBERS, json_list, with_attributes

_SOURCE = "formats.md E5"
_SIGNAL_NAMES: dict[str, int] = {
    "SIGHUP": 1,
    "SIGINT": 2,
    "SIGQUIT": 3,
    "SIGILL": 4,
    "SIGABRT": 6,
    "SIGBUS": 7,
    "SIGFPE": 8,
    "SIGKILL": 9,
    "SIGSEGV": 11,
    "SIGPIPE": 13,
    "SIGTERM": 15,
}


def _lightning_child(hit: Hit) -> Iterable[Event]:
    """`[rank: N]` of Lightning is the local rank of the observer, not of the dead child."""
    event = hit.make(process_pid=int(hit.match[2][:9]), exit_code=int(hit.match[3]))
    yield with_attributes(event, observer_local_rank=hit.match[1])


def _lightning_signal(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(local_rank=int(hit.match[1])), signal=hit.match[2])


def _spawn_ended(hit: Hit) -> Iterable[Event]:
    signal, code = hit.match[2], hit.match[3]
    number = _SIGNAL_NAMES.get(signal) if signal else None
    exit_code = -number if number is not None else int(code) if code else None
    yield hit.make(local_rank=int(hit.match[1]), exit_code=exit_code)


def _ssh_ended(hit: Hit) -> Iterable[Event]:
    event = hit.make(exit_code=int(hit.match[2]))
    yield with_attributes(event, nodes=json_list([hit.match[1]]), tasks="[]", reason="ssh exited")


def _horovod_ended(hit: Hit) -> Iterable[Event]:
    yield hit.make(rank=int(hit.match[1]), exit_code=int(hit.match[2]))


def _shell_killed(hit: Hit) -> Iterable[Event]:
    event = hit.make(process_pid=int(hit.match[1][:9]), exit_code=-SIGNAL_NUMBERS[hit.match[2]])
    yield with_attributes(event, reason=hit.match[2])


def _teardown(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), phase=Phase.TEARDOWN.value)


PATTERNS = (
    LinePattern(
        id="process_ends.lightning_child",
        event_name=Context.WORKER_FAILED,
        regex=r"(?:\[rank: ([0-9]{1,6})\] )?Child process with PID ([0-9]+) terminated with code (-?[0-9]{1,4})",
        samples=(
            "[rank: 3] Child process with PID 4245 terminated with code -11. "
            "Forcefully terminating all other processes to avoid zombies",
        ),
        lookalikes=("[rank: 3] Child process with PID 4245 started",),
        source=_SOURCE,
        build=_lightning_child,
    ),
    LinePattern(
        id="process_ends.lightning_signal",
        event_name=CollateralKind.TERMINATED_BY_LAUNCHER,
        role=Role.COLLATERAL,
        regex=r"\[rank: ([0-9]{1,6})\] Received (SIG[A-Z0-9]+): [0-9]+",
        samples=("[rank: 3] Received SIGTERM: 15",),
        lookalikes=("[rank: 3] Received 15 batches",),
        source=_SOURCE,
        build=_lightning_signal,
    ),
    LinePattern(
        id="process_ends.spawn",
        event_name=Context.WORKER_FAILED,
        regex=(
            r"(?:torch\.multiprocessing\.spawn\.ProcessExitedException: |-- )?[Pp]rocess ([0-9]{1,6}) terminated with "
            r"(?:signal (SIG[A-Z0-9]+)|exit code (-?[0-9]{1,4})|the following error:)"
        ),
        samples=(
            "torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGKILL",
            "torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with exit code 1",
            "-- Process 3 terminated with the following error:",
        ),
        lookalikes=(
            "Process 3 terminated normally",
            "2025-11-30 01:02:03,123 [INFO] pool: process 3 terminated with no jobs",
        ),
        source="formats.md G1",
        build=_spawn_ended,
    ),
    LinePattern(
        id="process_ends.pdsh",
        event_name=Context.TASK_EXIT,
        regex=r"(?:pdsh@[^ \n:]+: )?([^ \n:]+): ssh exited with exit code ([0-9]{1,3})",
        samples=("pdsh@login: node02: ssh exited with exit code 1",),
        lookalikes=("node02: ssh connection established",),
        source="formats.md E4",
        build=_ssh_ended,
    ),
    LinePattern(
        id="process_ends.horovodrun",
        event_name=Context.WORKER_FAILED,
        regex=r"Process ([0-9]{1,7}) exit with status code ([0-9]{1,3})",
        anchor=Anchor.ANYWHERE,
        samples=("Process 3 exit with status code 139.",),
        lookalikes=("Process 3 exits successfully.",),
        source="formats.md I2",
        build=_horovod_ended,
    ),
    LinePattern(
        id="process_ends.horovodrun_teardown",
        event_name=Context.PHASE,
        regex=r"Terminating remaining workers after failure of Process [0-9]+",
        anchor=Anchor.ANYWHERE,
        samples=("Terminating remaining workers after failure of Process 3.",),
        lookalikes=("Terminating idle workers",),
        source="formats.md I2",
        build=_teardown,
    ),
    LinePattern(
        id="process_ends.shell",
        event_name=Context.WORKER_FAILED,
        regex=(
            r": line [0-9]+:[ \t]+([0-9]{2,9}) "
            r"(Segmentation fault|Bus error|Killed|Aborted|Terminated|Illegal instruction|Floating point exception)[ \t]"
        ),
        anchor=Anchor.ANYWHERE,
        priority=40,
        samples=(
            "/bin/bash: line 12:  4245 Segmentation fault      (core dumped) python train.py",
            "/var/spool/slurmd/job77/slurm_script: line 31: 4245 Killed                  python train.py",
        ),
        lookalikes=("/workspace/run.sh: line 12: module: command not found",),
        source=_SOURCE,
        build=_shell_killed,
    ),
)
DIALECT = Dialect(name="process_ends", title="Process ends as wrappers see them", patterns=PATTERNS, source=_SOURCE)
