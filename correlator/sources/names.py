"""What a path says about its writer. None of it is proof; content decides where they disagree (formats.md R4, B5, C1, E1-E3).

A file name is read as a set of spellings that each take a part away (rank_3, pid4245, slurm-123_4); what is left may be a host or a pod.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from correlator.core.files import FileHints
from correlator.sources.hosts import can_be_host, is_host_shape, is_pod_shape, short_host

_PACKED: Final = re.compile(r"\.(?:gz|zst|zstd|tgz|tar|zip|tzst)$", re.IGNORECASE)
_EXTENSION: Final = re.compile(r"\.(?:log|txt|out|err|json|jsonl|pkl|pickle|dump|trace|stdout|stderr|std)$", re.IGNORECASE)
_ROTATED: Final = re.compile(r"^(?P<base>.+\.(?:log|txt|out|err))[.-](?P<number>\d{1,6})$", re.IGNORECASE)
_TORCHRUN_STREAM: Final = re.compile(r"(?:filtered_)?(stdout|stderr)(?:\.log|\.txt)?", re.IGNORECASE)
_ATTEMPT_FOLDER: Final = re.compile(r"attempt[_-]?(\d{1,4})", re.IGNORECASE)
_RANK: Final = re.compile(
    r"(?<![a-z])(?P<what>global[._-]?|local[._-]?|l|node[._-]?|group[._-]?|[tpdecmv]p[._-]?)?rank[._=-]?(?P<number>\d{1,6})(?!\d)"
    r"(?:of\d+)?",
    re.IGNORECASE,
)
_WEAK_RANK: Final = re.compile(
    r"(?:worker|w|r|proc|process|procid|p|log|logs|out|output|err|stdout|stderr|std|console|trainer|train)[._-]?(?P<number>\d{1,5})",
    re.IGNORECASE,
)
_BARE: Final = re.compile(r"\d{1,4}|0\d{4,5}")
_DEVICE: Final = re.compile(r"(?:local|gpu|cuda|device|dev)[_]?(?P<number>\d|1[0-5])", re.IGNORECASE)
_PID: Final = re.compile(r"(?<![a-z])pid[._=-]?(?P<number>\d{1,8})", re.IGNORECASE)
_ATTEMPT: Final = re.compile(r"(?<![a-z])(?:attempt|restart|retry)[._=-]?(?P<number>\d{1,4})(?!\d)", re.IGNORECASE)
_NODE_RANK: Final = re.compile(r"(?<![a-z])node_(?P<number>\d{1,4})(?!\d)", re.IGNORECASE)
_STREAM: Final = re.compile(r"(?<![a-z])(?P<stream>stderr|stdout)(?![a-z])", re.IGNORECASE)
_TASK: Final = r"(?:[._-](?:task[_-]?|t)?(?P<task>\d{1,6}))?"
_SLURM: Final = (
    re.compile(
        r"(?:slurm|sbatch|srun|job|jobid)[._-]?(?P<job>\d{3,12})(?:[._-](?P<host>[a-z][a-z0-9-]*?\d[a-z0-9-]*?))??" + _TASK,
        re.IGNORECASE,
    ),
    re.compile(r"(?P<job>\d{4,12})(?:[._-](?P<host>[a-z][a-z0-9-]*?))?" + _TASK, re.IGNORECASE),
    re.compile(r"(?P<job>\d{3,12})(?:[._-](?P<host>[a-z][a-z0-9-]*?))?[._-](?:task[_-]?|t)?(?P<task>\d{1,6})", re.IGNORECASE),
    re.compile(r"[a-z][\w.-]*?[._-](?P<job>\d{5,12})(?:[._-](?P<host>[a-z][a-z0-9-]*?))??" + _TASK, re.IGNORECASE),
)
_NCCL: Final = re.compile(
    r"nccl(?:[._-]?(?:debug|log|trace))?[._-](?:(?P<host>[a-z][a-z0-9.-]*?)[._-])?(?P<pid>\d{2,8})", re.IGNORECASE
)
_HOST_PID: Final = re.compile(r"(?:[a-z]+[._-])?(?P<host>[a-z][a-z0-9-]*?)\.(?P<pid>\d{2,8})", re.IGNORECASE)
_RAY_WORKER: Final = re.compile(
    r"(?:worker|io_worker|python-core-worker|python-core-driver|driver)-[0-9a-f]{8,}(?:[-_][0-9a-f]{8,})?[-_](?P<pid>\d{1,8})"
)
_RUN_FOLDER: Final = re.compile(r".+_[A-Za-z0-9_]{8}")
_JOB_FOLDER: Final = re.compile(r"(?:slurm|job|jobid)[._-]?(?P<job>\d{3,12})", re.IGNORECASE)
_SPELLINGS: Final = (("pid", _PID), ("attempt", _ATTEMPT), ("node_rank", _NODE_RANK))
_POD_FOLDER: Final = re.compile(r"(?P<ns>[a-z0-9-]+)_(?P<pod>[a-z0-9.-]+)_(?P<uid>[0-9a-f]{8}[0-9a-f-]*)")
_CONTAINER_LOG: Final = re.compile(r"(?P<pod>[a-z0-9.-]+)_(?P<ns>[a-z0-9-]+)_(?P<container>[a-z0-9.-]+)-[0-9a-f]{64}")
_POD_PREFIX: Final = re.compile(r"(?:pod|kubectl[._-]logs?|logs?)[._-](?P<pod>[a-z0-9][a-z0-9.-]*)")
_POD_FOLDERS: Final = frozenset({"pods", "pod", "pod_logs", "pod-logs", "kubectl", "k8s", "containers"})
_EDGE_WORD: Final = re.compile(
    r"^(?:kernel|kern|dmesg|journal(?:ctl)?(?:[._-]k)?|syslog|messages|launcher|agent|torchrun|elastic|torchelastic|nccl|log|logs|"
    r"output|console|out|err|train|trainer|training|run|job|slurm|node|host|pyspy|py-spy|stack|stacks|fr|trace|nccl[._-]trace|"
    r"comm[._-]lib[._-]trace|fr[._-]trace|xid|nvidia|gpu[._-]errors|system|sys)[._@-]"
    r"|[._@-](?:kernel|kern|dmesg|journal(?:ctl)?(?:[._-]k)?|syslog|messages|launcher|agent|torchrun|elastic|nccl|log|logs|output|"
    r"console|out|err|train|trainer|training|pyspy|py-spy|stack|stacks|fr|trace|nccl[._-]trace|comm[._-]lib[._-]trace|fr[._-]trace|"
    r"previous|current|merged|all|system|sys)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class NameFacts:
    """The hints of one path, and the words of it that may be a host, nearest to the file first."""

    hints: FileHints
    hosts: tuple[str, ...] = ()
    stem: str = ""
    weak_rank: bool = False
    """The rank is only a number behind a vague word (worker3, r3, log.3, 3): it may be a local rank or an index."""


def read_name(path: str, known: AbstractSet[str] = frozenset()) -> NameFacts:
    """Facts of a path; `known` holds all paths of the run, to tell rotated files from ranks and streams from jobs."""
    reader = _Reader(path, known)
    reader.read_folders()
    reader.read_file()
    return NameFacts(FileHints(**reader.said), tuple(reader.hosts), reader.stem, reader.weak_rank)


class _Reader:
    """Reads one path; `said` collects the fields of its FileHints."""

    def __init__(self, path: str, known: AbstractSet[str]) -> None:
        folder, _, name = path.rpartition("/")
        self.folders = [_without_packing(part) for part in folder.split("/")] if folder else []
        self.name = _without_packing(name)
        self.beside = f"{folder}/" if folder else ""
        self.known = known
        self.said: dict[str, Any] = {}
        self.hosts: list[str] = []
        self.stem = self.name
        self.weak_rank = False

    def say(self, field: str, value: str | int) -> None:
        """Note a fact; the first one said stays."""
        self.said.setdefault(field, value)

    # --- folders ---

    def read_folders(self) -> None:
        run_folder = self._read_torchrun_tree()
        for index in range(len(self.folders) - 1, -1, -1):
            if index != run_folder:
                self._read_folder(self.folders[index])
        if self.folders and "local_rank" not in self.said and "rank" not in self.said:
            last = self.folders[-1]
            if _TORCHRUN_STREAM.fullmatch(self.name) and last.isascii() and last.isdigit() and len(last) < 4:
                self.say("local_rank", int(last))

    def _read_torchrun_tree(self) -> int | None:
        """`<run_id>_<random>/attempt_<n>/<local_rank>/` (formats.md B5); the index of the run folder."""
        for index, folder in enumerate(self.folders):
            attempt = _ATTEMPT_FOLDER.fullmatch(folder)
            if attempt is None:
                continue
            self.say("attempt", int(attempt[1]))
            below = self.folders[index + 1] if index + 1 < len(self.folders) else ""
            if below.isascii() and below.isdigit() and len(below) < 5:
                self.say("local_rank", int(below))
            if index and _RUN_FOLDER.fullmatch(self.folders[index - 1]):
                self.say("run_id", self.folders[index - 1])
                return index - 1
            return None
        return None

    def _read_folder(self, folder: str) -> None:
        if pod := _POD_FOLDER.fullmatch(folder):
            self.say("pod", pod["pod"])
            return
        if slurm := _JOB_FOLDER.fullmatch(folder):
            self.say("job_id", slurm["job"])
            return
        rest = self._take_spellings(folder)
        for part in rest:
            self._offer_writer(part, in_folder=True)

    # --- the file ---

    def read_file(self) -> None:
        self._cut_rotation()
        self._cut_extensions()
        if _TORCHRUN_STREAM.fullmatch(self.name):
            self._say_stream(self.name)
            return
        if worker := _RAY_WORKER.fullmatch(self.stem):
            self.say("pid", int(worker["pid"]))
            return
        if container := _CONTAINER_LOG.fullmatch(self.stem):
            self.say("pod", container["pod"])
            return
        for part in self._take_spellings(self.stem):
            self._read_part(part)

    def _cut_rotation(self) -> None:
        rotated = _ROTATED.fullmatch(self.name)
        if rotated is None:
            return
        base, number = rotated["base"], rotated["number"]
        ranks = f"{self.beside}{base}.0" in self.known and f"{self.beside}{base}" not in self.known
        if ranks and len(number) < 6:
            self.say("rank", int(number))
            self.weak_rank = True
        self.name = self.stem = base

    def _cut_extensions(self) -> None:
        stem = self.name
        while extension := _EXTENSION.search(stem):
            word = extension[0][1:].lower()
            stem = stem[: extension.start()]
            if word in {"err", "stderr"}:
                self.say("stream", "stderr")
            elif word == "stdout" or (word == "out" and self._has_error_twin(stem)):
                self.say("stream", "stdout")
        self.stem = stem

    def _has_error_twin(self, stem: str) -> bool:
        return any(f"{self.beside}{stem}.{word}" in self.known for word in ("err", "err.gz"))

    def _say_stream(self, text: str) -> None:
        if stream := _STREAM.search(text):
            self.say("stream", stream["stream"].lower())

    def _take_spellings(self, text: str) -> list[str]:
        """Note every clear spelling in the text; the parts between them."""
        for match in _RANK.finditer(text):
            if field := _rank_field(match["what"]):
                self.say(field, int(match["number"]))
        rest = _RANK.sub(" ", text)
        for field, pattern in _SPELLINGS:
            if match := pattern.search(rest):
                self.say(field, int(match["number"]))
                rest = pattern.sub(" ", rest)
        return [part for piece in rest.split(" ") if (part := piece.strip("._@-+="))]

    def _read_part(self, part: str) -> None:
        if not is_host_shape(part) and (self._read_nccl(part) or self._read_slurm(part)):
            return
        if self._in_pod_folder() and "pod" in self.said and part.isdigit() and len(part) < 5:
            self.say("attempt", int(part))  # restarts of the container (formats.md E2)
            return
        if not self._in_pod_folder() and self._read_number(part):
            return
        self._say_stream(part)
        self._offer_writer(_STREAM.sub("", part).strip("._@-"), in_folder=False)

    def _read_nccl(self, part: str) -> bool:
        """`nccl.%h.%p` and kin (formats.md C1)."""
        match = _NCCL.fullmatch(part) or (_HOST_PID.fullmatch(part) if "nccl" in part.lower() else None)
        if match is None:
            return False
        self.say("pid", int(match["pid"]))
        if match["host"]:
            self.hosts.append(short_host(match["host"]))
        return True

    def _read_slurm(self, part: str) -> bool:
        """`%j`, `%j_%t`, `%j_%N_%t` behind any name (formats.md E1)."""
        match = next((found for pattern in _SLURM if (found := pattern.fullmatch(part))), None)
        if match is None or _BARE.fullmatch(part):
            return False
        self.say("job_id", match["job"])
        if match["task"]:
            self.say("task_id", int(match["task"]))
        if match["host"] and can_be_host(match["host"]):
            self.hosts.append(short_host(match["host"]))
        return True

    def _read_number(self, part: str) -> bool:
        """A number with a vague word or none: a rank, if nothing better was said."""
        if device := _DEVICE.fullmatch(part):
            self.say("local_rank", int(device["number"]))
            return True
        match = _WEAK_RANK.fullmatch(part)
        number = match["number"] if match else part if _BARE.fullmatch(part) else None
        if number is None or not number.isascii():
            return False
        if "rank" not in self.said and "local_rank" not in self.said:
            self.say("rank", int(number))
            self.weak_rank = True
        self._say_stream(part.rstrip("0123456789._-"))
        return True

    # --- hosts and pods ---

    def _in_pod_folder(self) -> bool:
        return any(folder.lower() in _POD_FOLDERS or _POD_FOLDER.fullmatch(folder) for folder in self.folders[-3:])

    def _offer_writer(self, part: str, *, in_folder: bool) -> None:
        """Note what may be the name of a pod or a host."""
        core = _without_edge_words(part)
        if not core:
            return
        named = _POD_PREFIX.fullmatch(part)
        if is_pod_shape(core) or (named and can_be_host(named["pod"])):
            self.say("pod", core if is_pod_shape(core) or named is None else named["pod"])
        elif not in_folder and self._in_pod_folder() and "pod" not in self.said:
            self.say("pod", core)
        elif can_be_host(core):
            self.hosts.append(short_host(core))


def _without_packing(name: str) -> str:
    return _PACKED.sub("", _PACKED.sub("", name)) or name


def _without_edge_words(part: str) -> str:
    """`gpu-044` of `kernel_gpu-044`; a part that is built like a host is left whole."""
    while not is_host_shape(part):
        shorter = _EDGE_WORD.sub("", part, count=1).strip("._@-")
        if shorter == part or not shorter:
            return part
        part = shorter
    return part


def _rank_field(what: str | None) -> str | None:
    """The hint that a spelling of rank means; None for ranks inside a parallel group (tp_rank)."""
    word = (what or "global").lower().rstrip("._-")
    if word == "global":
        return "rank"
    if word in {"local", "l"}:
        return "local_rank"
    return "node_rank" if word in {"node", "group"} else None
