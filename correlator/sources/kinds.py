"""What a file is, from its content and its name together; where they disagree, content wins."""

from __future__ import annotations

import re
from typing import Final

from correlator.core.files import FileHints
from correlator.core.vocabulary import FileKind
from correlator.sources.binary import is_pickle
from correlator.sources.content import Traits

_DUMP_NAME: Final = re.compile(
    r"trace_rank_\d+(?:\.|$)|(?:^|[._-])(?:fr|flight[._-]?recorder)[._-]?(?:dump|trace)", re.IGNORECASE
)
_DUMP_KEYS: Final = re.compile(
    rb"collective_seq_id|pg_config|profiling_name|nccl_comm_state|pg_status|comm_lib_version"
)
_ERROR_FILE: Final = re.compile(rb'\s*\{\s*"message":\s*(?:\{|")')
_STACK_DUMP: Final = re.compile(rb"\s*Process \d+: [^\n]*\n(?:Python v|\s*\n?Thread )")
_POD_LISTING: Final = re.compile(rb"\s*(?:NAMESPACE +)?NAME +READY +STATUS +RESTARTS +AGE")
_DAEMON_WORDS: Final = re.compile(rb"JobId=|StepId=|slurm|_job_|sched|Nodes? \S+ not responding")

_LAUNCHER_NAME: Final = re.compile(
    r"(?:^|[._/-])(?:launcher|launch|agent|torchrun|torchelastic|elastic|deepspeed|accelerate|mpirun)(?:[._-]|$)",
    re.IGNORECASE,
)
_KERNEL_NAME: Final = re.compile(
    r"(?:^|[._/-])(?:kernel|kern|dmesg|journal|journalctl|syslog|messages)(?:[._/-]|$)", re.IGNORECASE
)
_SCHEDULER_NAME: Final = re.compile(
    r"(?:^|[._/-])(?:slurmctld|slurmd|slurmstepd|srun|sacct|scontrol)(?:[._-]|$)", re.IGNORECASE
)
_EXTENSION: Final = re.compile(r"\.(?:log|txt|out|err)(?:\.(?:gz|zst))?$", re.IGNORECASE)
_NCCL_NAME: Final = re.compile(r"(?:^|[._-])nccl(?:[._-]|$)", re.IGNORECASE)
_RAY_NAME: Final = re.compile(
    r"(?:^|/)session_[^/]+/logs/|(?:^|/)(?:worker-[0-9a-f]{8,}|io_worker-|python-core-|raylet|gcs_server|log_monitor|"
    r"job-driver-|dashboard(?:_agent)?\.|runtime_env_)[^/]*$"
)
_CONSOLE_NAME: Final = re.compile(
    r"(?:^|[._/-])(?:console|nohup|job|output|train|trainer|training|pretrain|main|run|stdout|stderr|stdin|slurm|log|out|err)"
    r"(?:[._/-]|\d|$)",
    re.IGNORECASE,
)


def whole_file_kind(name: str, head: bytes) -> FileKind | None:
    """Kinds whose whole content is one record or one table, or None."""
    if is_pickle(head):
        dump = _DUMP_KEYS.search(head) or _DUMP_NAME.search(name)
        return FileKind.FLIGHT_RECORDER if dump else None
    start = head[:4096].lstrip()
    if start[:1] in (b"{", b"["):
        if _DUMP_KEYS.search(head) and (b'"entries"' in head or b'"pg_' in head or b'"version"' in head):
            return FileKind.FLIGHT_RECORDER
        if _DUMP_NAME.search(name):
            return FileKind.FLIGHT_RECORDER
        said = name.startswith("error") or b'"extraInfo"' in head or b'"py_callstack"' in head
        if said and _ERROR_FILE.match(head):
            return FileKind.ERROR_FILE
        return FileKind.ERROR_FILE if name == "error.json" else None
    if _POD_LISTING.match(start):
        return FileKind.POD_LISTING
    return FileKind.STACK_DUMP if _STACK_DUMP.match(start) else None


def is_daemon_log(head: bytes) -> bool:
    """True where bracketed ISO stamps are those of slurmctld or slurmd, not of an application."""
    return _DAEMON_WORDS.search(head) is not None


def empty_file_kind(path: str, hints: FileHints) -> FileKind | None:
    """The kind of a file without content, where its name says who should have written it; None where it is no news."""
    if _DUMP_NAME.search(path):
        return FileKind.FLIGHT_RECORDER
    if _KERNEL_NAME.search(path) and hints.node:
        return FileKind.KERNEL_LOG
    if hints.rank is not None or hints.local_rank is not None or hints.task_id is not None:
        return FileKind.RANK_LOG
    return FileKind.NODE_LOG if hints.node or hints.pod else None


def line_file_kind(path: str, traits: Traits, hints: FileHints, *, named: bool) -> FileKind:
    """The kind of a file of lines. `hints.node` is already the writer's host, where the path has one."""
    kind = _system_kind(path, traits) or _merged_kind(traits, hints) or _nccl_kind(path, traits, hints)
    return kind or _single_kind(path, traits, hints, named=named)


def _system_kind(path: str, traits: Traits) -> FileKind | None:
    """Node, scheduler and Ray logs."""
    if traits.kernel and traits.kernel >= 0.5 * traits.lines and traits.kernel >= traits.application:
        return FileKind.KERNEL_LOG
    if traits.share("scheduler") >= 0.8 or traits.share("daemon") >= 0.5:
        return FileKind.SCHEDULER_LOG
    return FileKind.RAY_LOG if traits.share("ray") >= 0.3 or _RAY_NAME.search(path) else None


def _merged_kind(traits: Traits, hints: FileHints) -> FileKind | None:
    """One file of many ranks: of one node, or of all."""
    if (traits.share("label") >= 0.5 and len(traits.labels) > 1) or (
        traits.share("pdsh") >= 0.5 and len(traits.writers) > 1
    ):
        return FileKind.CONSOLE_LOG
    if not traits.many_ranks:
        return None
    if traits.several_nodes or len(traits.writers) > 1 or traits.share("mpi") >= 0.3:
        return FileKind.CONSOLE_LOG
    one_node = hints.node or hints.pod or hints.node_rank is not None or hints.task_id is not None or traits.locals
    return FileKind.NODE_LOG if one_node else FileKind.CONSOLE_LOG


def _nccl_kind(path: str, traits: Traits, hints: FileHints) -> FileKind | None:
    name = path.rpartition("/")[2]
    if traits.share("nccl") < (0.3 if _NCCL_NAME.search(name) else 0.8):
        return None
    of_rank = hints.rank is not None or hints.local_rank is not None or hints.stream is not None
    return None if of_rank and not _NCCL_NAME.search(name) else FileKind.NCCL_DEBUG_LOG


def _single_kind(path: str, traits: Traits, hints: FileHints, *, named: bool) -> FileKind:
    """One writer, or nothing in the lines that tells writers apart: the name decides more."""
    agent = traits.heads["agent"]
    if hints.rank is not None or hints.local_rank is not None:
        return FileKind.RANK_LOG
    if hints.task_id is not None:
        return FileKind.NODE_LOG if agent else FileKind.RANK_LOG
    if _is_launcher(path.rpartition("/")[2], traits):
        return FileKind.LAUNCHER_LOG
    if not agent and not traits.ranks:
        if _KERNEL_NAME.search(path):
            return FileKind.KERNEL_LOG
        if _SCHEDULER_NAME.search(path):
            return FileKind.SCHEDULER_LOG
    if hints.pod or hints.node:
        return FileKind.RANK_LOG if len(traits.ranks) == 1 and not agent and hints.pod else FileKind.NODE_LOG
    known = traits.heads.total() or traits.ranks or traits.application or traits.stamped >= 0.3 * max(traits.lines, 1)
    return FileKind.CONSOLE_LOG if known or named or _CONSOLE_NAME.search(path) else FileKind.TEXT


def _is_launcher(name: str, traits: Traits) -> bool:
    """True for the agent's own log: by name, or because little else is in it but tracebacks and tables."""
    if _LAUNCHER_NAME.search(name):
        return True
    agent, others = traits.heads["agent"], traits.lines - traits.heads["table"]
    return (
        agent > 0
        and agent + traits.heads["scheduler"] >= 0.7 * others
        and not _CONSOLE_NAME.search(_EXTENSION.sub("", name))
    )
