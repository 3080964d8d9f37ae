"""What a path says about its writer. None of it is proof; content decides where they disagree (formats.md R4).

A file name is read as a set of spellings that each take a part away (rank_3, pid4245, slurm-123_4); what is left may
be a host or a pod.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from correlator.core.files import FileHints
from correlator.sources import spellings as spell
from correlator.sources.hosts import can_be_host, is_host_shape, is_pod_shape, short_host


@dataclass(frozen=True, slots=True)
class NameFacts:
    """The hints of one path, and the words of it that may be a host, nearest to the file first."""

    hints: FileHints
    hosts: tuple[str, ...] = ()
    stem: str = ""
    """The file's own name without its extensions."""


def read_name(path: str, known: AbstractSet[str] = frozenset()) -> NameFacts:
    """Facts of a path; `known` holds all paths of the run, to tell rotated files from ranks and streams from jobs."""
    reader = _Reader(path, known)
    reader.read()
    return NameFacts(FileHints(**reader.said), tuple(reader.hosts), reader.stem)


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
        self.number: int | None = None
        """A number with a word or none (worker3, 3): a rank, if nothing else says which."""
        self.guessed = True
        """The number has no word of a process with it (log3, 3): it may count anything."""

    def read(self) -> None:
        """The file speaks before its folders, the nearest folder before the others."""
        run_folder = self._read_torchrun_tree()
        for folder in self.folders:
            if pod := spell.POD_FOLDER.fullmatch(folder):
                self.say("pod", pod["pod"])
        self._read_file()
        for index in range(len(self.folders) - 1, -1, -1):
            if index != run_folder:
                self._read_folder(self.folders[index])
        if "rank" not in self.said and "local_rank" not in self.said:
            self._fall_back_to_numbers()

    def _fall_back_to_numbers(self) -> None:
        last = self.folders[-1] if self.folders else ""
        if self.number is not None:
            self.say("rank", self.number)
            if self.guessed:
                self.say("rank_guessed", value=True)
        elif spell.TORCHRUN_STREAM.fullmatch(self.name) and last.isascii() and last.isdigit() and len(last) < 4:
            self.say("local_rank", int(last))

    def say(self, field: str, value: str | int) -> None:
        """Note a fact; the first one said stays."""
        self.said.setdefault(field, value)

    # --- folders ---

    def _read_torchrun_tree(self) -> int | None:
        """`<run_id>_<random>/attempt_<n>/<local_rank>/` (formats.md B5); the index of the run folder."""
        for index, folder in enumerate(self.folders):
            attempt = spell.ATTEMPT_FOLDER.fullmatch(folder)
            if attempt is None:
                continue
            self.say("attempt", int(attempt[1]))
            below = self.folders[index + 1] if index + 1 < len(self.folders) else ""
            if below.isascii() and below.isdigit() and len(below) < 5:
                self.say("local_rank", int(below))
            if index and spell.RUN_FOLDER.fullmatch(self.folders[index - 1]):
                self.say("run_id", self.folders[index - 1])
                return index - 1
            return None
        return None

    def _read_folder(self, folder: str) -> None:
        if spell.POD_FOLDER.fullmatch(folder):
            return
        if slurm := spell.JOB_FOLDER.fullmatch(folder):
            self.say("job_id", slurm["job"])
            return
        for part in self._take_spellings(folder):
            self._offer_writer(part, in_folder=True)

    # --- the file ---

    def _read_file(self) -> None:
        self._cut_rotation()
        self._cut_extensions()
        if spell.TORCHRUN_STREAM.fullmatch(self.name):
            self._say_stream(self.name)
            return
        if worker := spell.RAY_WORKER.fullmatch(self.stem):
            self.say("pid", int(worker["pid"]))
            return
        if container := spell.CONTAINER_LOG.fullmatch(self.stem):
            self.say("pod", container["pod"])
            return
        for part in self._take_spellings(self.stem):
            self._read_part(part)

    def _cut_rotation(self) -> None:
        rotated = spell.ROTATED.fullmatch(self.name)
        if rotated is None:
            return
        base, number = rotated["base"], rotated["number"]
        ranks = f"{self.beside}{base}.0" in self.known and f"{self.beside}{base}" not in self.known
        if ranks and len(number) < 6:
            self.number = int(number)
        self.name = self.stem = base

    def _cut_extensions(self) -> None:
        stem = self.name
        while extension := spell.EXTENSION.search(stem):
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
        if stream := spell.STREAM.search(text):
            self.say("stream", stream["stream"].lower())

    def _take_spellings(self, text: str) -> list[str]:
        """Note every clear spelling in the text; the parts between them."""
        for match in spell.RANK.finditer(text):
            if hint := _rank_field(match["what"]):
                self.say(hint, int(match["number"]))
        rest = spell.RANK.sub(" ", text)
        for field, pattern in spell.SPELLINGS:
            if spelled := pattern.search(rest):
                self.say(field, int(spelled["number"]))
                rest = pattern.sub(" ", rest)
        return [part for piece in rest.split(" ") if (part := piece.strip("._@-+="))]

    def _read_part(self, part: str) -> None:
        if self._read_nccl(part) or (not is_host_shape(part) and self._read_slurm(part)):
            return
        if self._in_pod_folder() and "pod" in self.said and part.isdigit() and len(part) < 5:
            self.say("attempt", int(part))  # restarts of the container (formats.md E2)
            return
        if not self._in_pod_folder() and self._read_number(part):
            return
        self._say_stream(part)
        self._offer_writer(spell.STREAM.sub("", part).strip("._@-"), in_folder=False)

    def _read_nccl(self, part: str) -> bool:
        """`nccl.%h.%p` and kin (formats.md C1)."""
        match = spell.NCCL.fullmatch(part) or (spell.HOST_PID.fullmatch(part) if "nccl" in part.lower() else None)
        if match is None:
            return False
        self.say("pid", int(match["pid"]))
        if match["host"]:
            self.hosts.append(short_host(match["host"]))
        return True

    def _read_slurm(self, part: str) -> bool:
        """`%j`, `%j_%t`, `%j_%N_%t` behind any name (formats.md E1)."""
        match = next((found for pattern in spell.SLURM if (found := pattern.fullmatch(part))), None)
        if match is None or spell.BARE.fullmatch(part):
            return False
        self.say("job_id", match["job"])
        if match["task"]:
            self.say("task_id", int(match["task"]))
        if match["host"] and can_be_host(match["host"]):
            self.hosts.append(short_host(match["host"]))
        return True

    def _read_number(self, part: str) -> bool:
        """Note a device, or a number that may be a rank."""
        if device := spell.DEVICE.fullmatch(part):
            self.say("local_rank", int(device["number"]))
            return True
        match = spell.WEAK_RANK.fullmatch(part)
        number = match["number"] if match else part if spell.BARE.fullmatch(part) else None
        if number is None or not number.isascii():
            return False
        self.number = int(number)
        self.guessed = match is None or match["process"] is None
        self._say_stream(part.rstrip("0123456789._-"))
        return True

    # --- hosts and pods ---

    def _in_pod_folder(self) -> bool:
        return any(
            folder.lower() in spell.POD_FOLDERS or spell.POD_FOLDER.fullmatch(folder) for folder in self.folders[-3:]
        )

    def _offer_writer(self, part: str, *, in_folder: bool) -> None:
        """Note what may be the name of a pod or a host."""
        if device := spell.HOST_DEVICE.fullmatch(part):
            self.say("local_rank", int(device["number"]))
            part = device["host"]
        core = _without_edge_words(part)
        if not core:
            return
        named = spell.POD_PREFIX.fullmatch(part)
        if is_pod_shape(core) or (named and can_be_host(named["pod"])):
            self.say("pod", core if is_pod_shape(core) or named is None else named["pod"])
        elif not in_folder and self._in_pod_folder() and "pod" not in self.said:
            self.say("pod", core)
        else:
            self.hosts += [short_host(word) for word in dict.fromkeys((core, part)) if can_be_host(word)]


def _without_packing(name: str) -> str:
    return spell.PACKED.sub("", spell.PACKED.sub("", name)) or name


@lru_cache(maxsize=4096)
def _without_edge_words(part: str) -> str:
    """`gpu-044` of `kernel_gpu-044`, as far as what is left can still be a host or a pod."""
    for pattern in (spell.TAIL_WORD, spell.HEAD_WORD):
        while shorter := pattern.sub("", part, count=1).strip("._@-"):
            lost = any(shape(part) and not shape(shorter) for shape in (is_host_shape, is_pod_shape))
            if shorter == part or lost:
                break
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
