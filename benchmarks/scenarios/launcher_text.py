"""Lines of torchrun's agents and of Slurm (formats.md B2, B3, E1)."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from benchmarks.scenarios.torch_text import SITE, Torch

API = "distributed/elastic/multiprocessing/api.py"
_SIGNAL_TEXT = {
    4: "Illegal instruction",
    6: "Aborted",
    7: "Bus error",
    9: "Killed",
    11: "Segmentation fault",
    15: "Terminated",
}
_DUMPED = frozenset({4, 6, 7, 11})


@dataclass(frozen=True, slots=True)
class Child:
    """A worker that ended by itself, as its agent learnt it."""

    rank: int
    local: int
    pid: int
    code: int
    seen: datetime


def sigterm(torch: Torch, now: datetime, agent_pid: int, pids: Sequence[int]) -> list[str]:
    """The agent ends the workers that are left."""
    return [
        torch.agent("W", now, agent_pid, (API, 897), f"Sending process {pid} closing signal SIGTERM") for pid in pids
    ]


def failed(torch: Torch, now: datetime, agent_pid: int, child: Child) -> str:
    """The agent names the first child that it saw end."""
    return torch.agent(
        "E", now, agent_pid, (API, 869),
        f"failed (exitcode: {child.code}) local_rank: {child.local} (pid: {child.pid}) of binary: "
        "/opt/venv/bin/python",
    )  # fmt: skip


def child_failed(host: str, root: Child, others: Sequence[Child]) -> list[str]:
    """The traceback of the agent with its table of failures (B3)."""
    bar, rule = "=" * 60, "-" * 60
    out = [
        "Traceback (most recent call last):",
        '  File "/opt/venv/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        f'  File "{SITE}/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 355, in wrapper',
        "    return f(*args, **kwargs)",
        f'  File "{SITE}/torch/distributed/launcher/api.py", line 269, in launch_agent',
        "    raise ChildFailedError(",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        bar, "train.py FAILED", rule, "Failures:",
    ]  # fmt: skip
    for number, child in enumerate(others, 1):
        out += _row(host, number, child)
    out += [] if others else ["  <NO_OTHER_FAILURES>"]
    return [*out, rule, "Root Cause (first observed failure):", *_row(host, 0, root), bar]


def _row(host: str, number: int, child: Child) -> list[str]:
    said = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    if child.code < 0:
        said = f"Signal {-child.code} ({signal.Signals(-child.code).name}) received by PID {child.pid}"
    return [
        f"[{number}]:",
        f"  time      : {child.seen:%Y-%m-%d_%H:%M:%S}",
        f"  host      : {host}",
        f"  rank      : {child.rank} (local_rank: {child.local})",
        f"  exitcode  : {child.code} (pid: {child.pid})",
        "  error_file: <N/A>",
        f"  traceback : {said}",
    ]


def agent_stopped(torch: Torch, now: datetime, agent_pid: int, pids: Sequence[int]) -> list[str]:
    """The agent itself is told to stop, passes it on, and leaves with a traceback of its own."""
    return [
        torch.agent("W", now, agent_pid, ("distributed/elastic/agent/server/api.py", 719),
                    "Received 15 death signal, shutting down workers"),
        *sigterm(torch, now, agent_pid, pids),
        "Traceback (most recent call last):",
        '  File "/opt/venv/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        f'  File "{SITE}/torch/distributed/elastic/multiprocessing/api.py", line 84, in _terminate_process_handler',
        '    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)',
        f"torch.distributed.elastic.multiprocessing.api.SignalException: Process {agent_pid} got signal: 15",
    ]  # fmt: skip


def rendezvous(
    torch: Torch, now: datetime, pid: int, node: int, ranks: Sequence[int], world: int, restart: int, master: str
) -> list[str]:
    """The INFO block that maps local to global ranks (B2)."""
    nodes = world // len(ranks)
    text = [
        "[default] Rendezvous complete for workers. Result:",
        f"  restart_count={restart}",
        f"  master_addr={master}",
        "  master_port=29500",
        f"  group_rank={node}",
        f"  group_world_size={nodes}",
        f"  local_ranks={list(range(len(ranks)))}",
        f"  role_ranks={list(ranks)}",
        f"  global_ranks={list(ranks)}",
        f"  role_world_sizes={[world] * len(ranks)}",
        f"  global_world_sizes={[world] * len(ranks)}",
        "",
    ]
    place = ("distributed/elastic/agent/server/api.py", 525)
    if torch.version < (2, 3):
        return [torch.agent("I", now, pid, place, text[0]), *text[1:]]
    return [torch.agent("I", now, pid, place, line) for line in text]


def task_exit(node: str, tasks: Sequence[int], code: int) -> str:
    """srun's word on tasks that ended alike."""
    what = f"task {tasks[0]}" if len(tasks) == 1 else f"tasks {folded(tasks)}"
    if code > 0:
        reason = f"Exited with exit code {code}"
    else:
        reason = _SIGNAL_TEXT[-code] + (" (core dumped)" if -code in _DUMPED else "")
    return f"srun: error: {node}: {what}: {reason}"


def folded(numbers: Sequence[int]) -> str:
    """Slurm's `0-3,7`."""
    out: list[list[int]] = []
    for number in sorted(numbers):
        if out and number == out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in out)


def cancelled(target: str, node: str, now: datetime, why: str = "") -> str:
    """slurmstepd's cancellation; `target` = `STEP 123.0` or `JOB 123`."""
    tail = f" DUE TO {why}" if why else ""
    return f"slurmstepd: error: *** {target} ON {node} CANCELLED AT {now:%Y-%m-%dT%H:%M:%S}{tail} ***"
