"""How ranks, tasks, pods and processes are spelled in the names of files and folders (formats.md B5, C1, D, E1-E3)."""

from __future__ import annotations

import re
from typing import Final

PACKED: Final = re.compile(r"\.(?:gz|zst|zstd|tgz|tar|zip|tzst)$", re.IGNORECASE)
EXTENSION: Final = re.compile(
    r"\.(?:log|txt|out|err|json|jsonl|pkl|pickle|dump|trace|stdout|stderr|std)$", re.IGNORECASE
)
ROTATED: Final = re.compile(r"^(?P<base>.+\.(?:log|txt|out|err))[.-](?P<number>\d{1,6})$", re.IGNORECASE)
TORCHRUN_STREAM: Final = re.compile(r"(?:filtered_)?(stdout|stderr)(?:\.log|\.txt)?", re.IGNORECASE)
ATTEMPT_FOLDER: Final = re.compile(r"attempt[_-]?(\d{1,4})", re.IGNORECASE)
RANK: Final = re.compile(
    r"(?<![a-z])(?P<what>global[._-]?|local[._-]?|l|node[._-]?|group[._-]?|[tpdecmv]p[._-]?)?rank[._=-]?(?P<number>\d{1,6})(?!\d)"
    r"(?:of\d+)?",
    re.IGNORECASE,
)
WEAK_RANK: Final = re.compile(
    r"(?:(?P<process>worker|proc|process|procid|trainer)|w|r|p|log|logs|out|output|err|stdout|stderr|std|console|train)"
    r"[._-]?(?P<number>\d{1,5})",
    re.IGNORECASE,
)
BARE: Final = re.compile(r"\d{1,4}|0\d{4,5}")
DEVICE: Final = re.compile(r"(?:local|gpu|cuda|device|dev)[_]?(?P<number>\d|1[0-5])", re.IGNORECASE)
HOST_DEVICE: Final = re.compile(r"(?P<host>[a-z].*\d)[._-](?:gpu|cuda|local)[_]?(?P<number>\d|1[0-5])", re.IGNORECASE)
PID: Final = re.compile(r"(?<![a-z])pid[._=-]?(?P<number>\d{1,8})", re.IGNORECASE)
ATTEMPT: Final = re.compile(r"(?<![a-z])(?:attempt|restart|retry)[._=-]?(?P<number>\d{1,4})(?!\d)", re.IGNORECASE)
NODE_RANK: Final = re.compile(r"(?<![a-z])node_(?P<number>\d{1,4})(?!\d)", re.IGNORECASE)
STREAM: Final = re.compile(r"(?<![a-z])(?P<stream>stderr|stdout)(?![a-z])", re.IGNORECASE)
TASK: Final = r"(?:[._-](?:task[_-]?|t)?(?P<task>\d{1,6}))?"
SLURM: Final = (
    re.compile(
        r"(?:(?:slurm|sbatch|srun)[._-]?|(?:job|jobid)[._-]?(?=\d{3}))(?P<job>\d{1,12})"
        r"(?:[._-](?P<host>[a-z][a-z0-9-]*?\d[a-z0-9-]*?))??" + TASK,
        re.IGNORECASE,
    ),
    re.compile(r"(?P<job>\d{4,12})(?:[._-](?P<host>[a-z][a-z0-9-]*?))?" + TASK, re.IGNORECASE),
    re.compile(
        r"(?P<job>\d{3,12})(?:[._-](?P<host>[a-z][a-z0-9-]*?))?[._-](?:task[_-]?|t)?(?P<task>\d{1,6})",
        re.IGNORECASE,
    ),
    re.compile(r"[a-z][\w.-]*?[._-](?P<job>\d{5,12})(?:[._-](?P<host>[a-z][a-z0-9-]*?))??" + TASK, re.IGNORECASE),
)
NCCL: Final = re.compile(
    r"(?:nccl(?:[._-]?(?:debug|log|trace))?|py-?spy|stacks?)[._-](?:(?P<host>[a-z][a-z0-9.-]*?)(?:[._]|-(?=\d{4})))?(?P<pid>\d{2,8})",
    re.IGNORECASE,
)
HOST_PID: Final = re.compile(r"(?:[a-z]+[._-])?(?P<host>[a-z][a-z0-9-]*?)\.(?P<pid>\d{2,8})", re.IGNORECASE)
RAY_WORKER: Final = re.compile(
    r"(?:worker|io_worker|python-core-worker|python-core-driver|driver)-[0-9a-f]{8,}(?:[-_][0-9a-f]{8,})?[-_](?P<pid>\d{1,8})"
)
RUN_FOLDER: Final = re.compile(r".+_[A-Za-z0-9_]{8}")
JOB_FOLDER: Final = re.compile(r"(?:slurm|job|jobid)[._-]?(?P<job>\d{3,12})", re.IGNORECASE)
SPELLINGS: Final = (("pid", PID), ("attempt", ATTEMPT), ("node_rank", NODE_RANK))
POD_FOLDER: Final = re.compile(r"(?P<ns>[a-z0-9-]+)_(?P<pod>[a-z0-9.-]+)_(?P<uid>[0-9a-f]{8}[0-9a-f-]*)")
CONTAINER_LOG: Final = re.compile(r"(?P<pod>[a-z0-9.-]+)_(?P<ns>[a-z0-9-]+)_(?P<container>[a-z0-9.-]+)-[0-9a-f]{64}")
POD_PREFIX: Final = re.compile(r"(?:pod|kubectl[._-]logs?|logs?)[._-](?P<pod>[a-z0-9][a-z0-9.-]*)")
POD_FOLDERS: Final = frozenset({"pods", "pod", "pod_logs", "pod-logs", "kubectl", "k8s", "containers"})
_EDGE_WORDS: Final = (
    r"(?:kernel|kern|dmesg|journal(?:ctl)?(?:[._-]k)?|syslog|messages|launcher|agent|torchrun|torchelastic|elastic|logs?|"
    r"output|console|out|err|train|trainer|training|run|job|slurm|py-?spy|stacks?|fr|trace|nccl|"
    r"(?:nccl|fr|comm[._-]lib)[._-]trace|xid|nvidia|gpu[._-]errors|system|sys|node|host|previous|current|merged|all)"
)
HEAD_WORD: Final = re.compile(rf"^{_EDGE_WORDS}[._@-]", re.IGNORECASE)
TAIL_WORD: Final = re.compile(rf"[._@-]{_EDGE_WORDS}$", re.IGNORECASE)
