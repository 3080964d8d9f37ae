"""What the agents of torchrun print (formats.md B1-B2): who failed, who was told to stop, when an attempt began.

An agent tells what it *saw*, at its own polling interval: its "first observed failure" is often a victim.
"""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, Phase
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.scalars import int64, signal_name
from correlator.parsers.dialects.support import with_attributes

_API = "torch/distributed/elastic/multiprocessing/api.py"
_AGENT = "torch/distributed/elastic/agent/server/api.py"
_W = "W1130 01:02:03.123000 12345 "
_I = "I1130 01:02:03.123000 12345 "
_ROLE = r"\[[^\]\n]+\] "


def _signalled(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(attributes=()), signal=signal_name(hit.match["signal"]))


def _restart(hit: Hit) -> Iterable[Event]:
    """`2/3 attempts left` is printed before the count goes down, so that attempt 3 - 2 + 1 begins now."""
    left, allowed = int64(hit.match["left"]), int64(hit.match["allowed"])
    begins = allowed - left + 1 if left is not None and allowed is not None and 0 <= left <= allowed < 10**6 else None
    event = hit.make(attempt=begins, attributes=())
    yield with_attributes(event, left=left, allowed=allowed, reason="worker group failed")


def _membership(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(attributes=()), reason="membership change", new_nodes=hit.match["new_nodes"])


def _teardown(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), phase=Phase.TEARDOWN.value)


_WORKERS = (
    LinePattern(
        id="elastic.worker_failed",
        event_name=Context.WORKER_FAILED,
        regex=r"failed \(exitcode: (?P<exit_code>-?\d+)\) local_rank: (?P<local_rank>\d+) \(pid: (?P<process_pid>\d+)\) of "
        r"(?:binary|fn): (?P<binary>[^\n]+)",
        samples=(
            f"E1130 01:02:03.123000 12345 {_API}:869] failed (exitcode: -11) local_rank: 3 (pid: 4243) of binary: "
            "/opt/venv/bin/python",
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 3 (pid: 4243) of fn: main "
            "(start_method: spawn)",
        ),
        lookalikes=("failed (exitcode: 1) while linting",),
        source="formats.md B2",
    ),
    LinePattern(
        id="elastic.worker_signalled",
        event_name=Context.WORKER_SIGNALLED,
        regex=r"(?:Sending|Closing) process (?P<process_pid>\d+) (?:closing|via) signal (?P<signal>[\w.]+)",
        samples=(
            f"{_W}{_API}:897] Sending process 4243 closing signal SIGTERM",
            "[2025-11-30 01:02:03,123] torch.distributed.elastic.multiprocessing.api: [WARNING] Closing process 4243 via signal "
            "SIGTERM",
            "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 4243 closing signal SIGHUP",
        ),
        lookalikes=(f"{_W}{_API}:897] Sending process group closing notice",),
        source="formats.md B2",
        build=_signalled,
    ),
    LinePattern(
        id="elastic.worker_killed",
        event_name=Context.WORKER_SIGNALLED,
        regex=r"Unable to shutdown process (?P<process_pid>\d+) via [\w.]+, forcefully exiting via (?P<signal>[\w.]+)",
        samples=(
            f"{_W}{_API}:916] Unable to shutdown process 4243 via 15, forcefully exiting via 9",
            f"{_W}{_API}:734] Unable to shutdown process 4243 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL",
        ),
        lookalikes=("Unable to shutdown process pool",),
        source="formats.md B2",
        build=_signalled,
    ),
    LinePattern(
        id="elastic.worker_reaped",
        event_name=Context.WORKER_SIGNALLED,
        regex=r"Successfully reaped worker=\[(?P<process_pid>\d+)\] with signal=(?P<signal>[\w.]+)",
        samples=(f"{_I}torch/distributed/elastic/timer/api.py:236] Successfully reaped worker=[4243] with signal=9",),
        lookalikes=("Successfully reaped worker threads",),
        source="formats.md B2",
        build=_signalled,
    ),
)

_STOPPED = (
    LinePattern(
        id="elastic.agent_signalled",
        event_name=Context.AGENT_SIGNALLED,
        regex=r"Received (?P<signal>[\w.]+) death signal, shutting down workers",
        samples=(
            f"{_W}{_AGENT}:753] Received 15 death signal, shutting down workers",
            f"{_W}{_AGENT}:739] Received Signals.SIGTERM death signal, shutting down workers",
            "WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting down workers",
        ),
        lookalikes=("Received 15 death certificates",),
        source="formats.md B2",
        build=_signalled,
    ),
    LinePattern(
        id="elastic.agent_signal_exception",
        event_name=Context.AGENT_SIGNALLED,
        regex=r"(?:torch\.distributed\.elastic\.multiprocessing\.api\.)?SignalException: Process (?P<process_pid>\d+) got signal: "
        r"(?P<signal>[\w.]+)",
        samples=(
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 12345 got signal: 15",
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 12345 got signal: Signals.SIGTERM",
        ),
        lookalikes=('    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)',),
        priority=60,
        source="formats.md B2",
        build=_signalled,
    ),
    LinePattern(
        id="elastic.launcher_signal",
        event_name=Context.AGENT_SIGNALLED,
        regex=r"Got termination signal: (?P<signal>[\w.]+)",
        samples=("Got termination signal: 15",),
        lookalikes=("Got termination signals: none",),
        source="formats.md B2",
        build=_signalled,
    ),
    LinePattern(
        id="elastic.stopping_workers",
        event_name=Context.PHASE,
        regex=_ROLE + r"Stopping worker group",
        samples=(f"{_I}{_AGENT}:931] [default] Stopping worker group",),
        lookalikes=("Stopping worker group metrics",),
        source="torch/distributed/elastic/agent/server/api.py",
        build=_teardown,
    ),
)

_LIFE = (
    LinePattern(
        id="elastic.rendezvous_started",
        event_name=Context.RENDEZVOUS_STARTED,
        regex=_ROLE + r"Rendezvous'ing worker group",
        samples=(f"{_I}{_AGENT}:525] [default] Rendezvous'ing worker group",),
        lookalikes=("Rendezvous'ing at the gate",),
        source="torch/distributed/elastic/agent/server/api.py",
    ),
    LinePattern(
        id="elastic.launcher_started",
        event_name=Context.LAUNCHER_STARTED,
        regex=_ROLE + r"starting workers for entrypoint: (?P<entrypoint>[^\n]+)",
        samples=(f"{_I}{_AGENT}:871] [default] starting workers for entrypoint: train.py",),
        lookalikes=("starting workers for entrypoint: data pool",),
        source="torch/distributed/elastic/agent/server/api.py",
    ),
    LinePattern(
        id="elastic.restart",
        event_name=Context.ATTEMPT_STARTED,
        regex=_ROLE
        + r"Worker group (?P<state>\w+)\. (?P<left>\d+)/(?P<allowed>\d+) attempts left; will restart worker group",
        samples=(f"{_I}{_AGENT}:941] [default] Worker group FAILED. 2/3 attempts left; will restart worker group",),
        lookalikes=("Worker group FAILED. No attempts left",),
        source="formats.md B2",
        build=_restart,
    ),
    LinePattern(
        id="elastic.membership_change",
        event_name=Context.ATTEMPT_STARTED,
        regex=_ROLE
        + r"Detected (?P<new_nodes>\d+) new nodes from group_rank=(?P<node_rank>\d+); will restart worker group",
        samples=(f"{_I}{_AGENT}:955] [default] Detected 1 new nodes from group_rank=0; will restart worker group",),
        lookalikes=("Detected 1 new nodes",),
        source="formats.md B2",
        build=_membership,
    ),
    LinePattern(
        id="elastic.group_finished",
        event_name=Context.TRAINING_FINISHED,
        regex=r"(?:Local worker group finished \(WorkerState\.SUCCEEDED\)|"
        + _ROLE
        + r"worker group successfully finished)",
        samples=(
            f"{_I}{_AGENT}:960] Local worker group finished (WorkerState.SUCCEEDED). Waiting 300 seconds for other agents to "
            "finish",
            f"{_I}{_AGENT}:899] [default] worker group successfully finished. Waiting 300 seconds for other agents to finish.",
        ),
        lookalikes=(
            f"{_I}{_AGENT}:960] Local worker group finished (WorkerState.FAILED). Waiting 300 seconds for other agents to finish",
        ),
        source="formats.md B2",
    ),
    LinePattern(
        id="elastic.group_ended",
        event_name=Context.MESSAGE,
        regex=r"(?:Local worker group finished \(WorkerState\.(?P<state>FAILED|UNHEALTHY|STOPPED)\)"
        r"|Error waiting on exit barrier\. Elapsed: (?P<waited_s>[\d.]+) seconds)",
        samples=(
            f"{_I}{_AGENT}:960] Local worker group finished (WorkerState.FAILED). Waiting 300 seconds for other agents to finish",
            f"{_W}{_AGENT}:975] Error waiting on exit barrier. Elapsed: 300.1 seconds",
        ),
        lookalikes=(f"{_I}{_AGENT}:970] Done waiting for other agents. Elapsed: 0.0005 seconds",),
        source="formats.md B2",
    ),
    LinePattern(
        id="elastic.first_error_file",
        event_name=Context.MESSAGE,
        regex=r"no error file defined for parent, to copy child error file \((?P<error_file>[^\n]+)\)",
        samples=(
            "E1130 01:02:03.123000 12345 torch/distributed/elastic/multiprocessing/errors/error_handler.py:141] no error file "
            "defined for parent, to copy child error file (/logs/none_x9y8z7/attempt_0/1/error.json)",
        ),
        lookalikes=("no error file defined for parent",),
        source="formats.md B2",
    ),
)

_NOTES = (
    LinePattern(
        id="elastic.log_tail_failed",
        event_name=Context.MESSAGE,
        regex=r"error in log tailor for (?:default|trainer|worker)(?P<local_rank>\d+)\. (?P<reason>\w+)",
        samples=("error in log tailor for default3. FileNotFoundError",),
        lookalikes=("error in log tailor for all",),
        source="formats.md B5",
    ),
)

DIALECT = Dialect(
    name="torch_elastic",
    title="torchrun agents (torch.distributed.elastic)",
    patterns=_WORKERS + _STOPPED + _LIFE + _NOTES,
    source="formats.md B1-B2",
)
