"""The values of this very run that advice may name, and how they are put into its words.

Log text is untrusted: into a command goes only a value that a shell takes as one plain word, and a command that needs
a value which nobody printed is left out. Nothing is ever guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from correlator.advice.lines import Line
from correlator.core.model import Checkpoint, Initiator
from correlator.core.vocabulary import Context

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_IN_PROSE = re.compile(r"(?:\b(rank|GPU|pid|step|checkpoint|node|job) )?\{([a-z_]+)\}")
_SHELL_WORD = re.compile(r"[A-Za-z0-9_@%+=:,./][A-Za-z0-9_@%+=:,./-]{0,255}")
_QUOTED_PATH = re.compile(r"[\x27\"<`](/[^\x27\"<>`\n]{1,300})[\x27\">`]|(?:^|[ \t])(/[\w.+@%=:,/-]{2,300})")
_JOB = re.compile(r"(?:StepId=|JobId=|\bSTEP |\bJOB )(\d{2,12})\b")
_JOB_FILE = re.compile(r"(?:^|/)slurm-(\d{2,12})(?:_\d+)?\.")
_DUMP_FILE = re.compile(r"(?:(?P<folder>.*)/)?(?P<prefix>[\w.-]*rank_)\d+")
_GENERAL = {
    "pci": "the GPU", "gpu": "the GPU", "device": "the GPU", "frame": "the line that the traceback shows",
    "worker_pid": "the worker's pid", "peer": "the peer that it names", "path": "the path that the message names",
    "file": "the log", "folder": "the folder that the message names",
    "dumps": "the folder of the dumps", "dump_prefix": "the prefix of the dumps",
}  # fmt: skip


def is_shell_word(text: str) -> bool:
    """Whether a shell takes the text as one plain word, and as no option."""
    return _SHELL_WORD.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Known:
    """Values by placeholder; what is not here, nobody printed."""

    values: dict[str, str] = field(default_factory=dict)

    def command(self, text: str) -> str | None:
        """A command with its values, or None where one is missing or is no plain word."""
        values = {name: self.values.get(name, "") for name in _PLACEHOLDER.findall(text)}
        if not all(map(is_shell_word, values.values())):
            return None
        return _PLACEHOLDER.sub(lambda match: values[match[1]], text)

    def prose(self, text: str) -> str:
        """A sentence with its values; what is not known is said in general words (`that rank`, `the node`)."""

        def put(match: re.Match[str]) -> str:
            noun, name = match[1], match[2]
            if name in self.values:
                return f"{noun} {self.values[name]}" if noun else self.values[name]
            return f"that {noun}" if noun else _GENERAL.get(name, f"the {name.replace('_', ' ')}")

        return _IN_PROSE.sub(put, text)


def known_of(initiator: Initiator, line: Line | None, lines: Sequence[Line], checkpoint: Checkpoint) -> Known:
    """What the run tells about one initiator; `line` is the event that names its fault."""
    values: dict[str, object | None] = {
        "rank": initiator.rank,
        "local_rank": initiator.local_rank,
        "node": initiator.node,
        "gpu": initiator.gpu,
        "pci": _with_function(initiator.gpu),
        "device": _uuid(initiator.gpu, lines) or initiator.local_rank,
        "pid": initiator.pid,
        "step": initiator.step,
        "checkpoint": checkpoint.safe_to_resume_from,
        "job": job_of(lines),
    }
    if initiator.evidence:
        values |= {"file": initiator.evidence[0].file, "line": initiator.evidence[0].line}
    if line is not None:
        values |= {
            "file": line.file,
            "line": line.number,
            "frame": line.frame,
            **_around(line.frame),
            "worker_pid": line.attributes.get("worker_pid"),
            "peer": line.attributes.get("peer"),
            "path": _path(line),
            "folder": _folder(_path(line)),
        }
    return Known({name: str(value) for name, value in (values | _dumps(lines)).items() if value is not None})


def job_of(lines: Sequence[Line]) -> str | None:
    """The Slurm job id: as its own lines print it, else from the default names of output files; None if not one."""
    printed = {match[1] for line in lines if (match := _JOB.search(line.body))}
    found = printed or {match[1] for line in lines if (match := _JOB_FILE.search(line.file))}
    return found.pop() if len(found) == 1 else None


def _with_function(gpu: str | None) -> str | None:
    return None if gpu is None else gpu if "." in gpu else f"{gpu}.0"


def _uuid(gpu: str | None, lines: Sequence[Line]) -> str | None:
    found = {line.attributes.get("uuid") for line in lines if line.name == Context.GPU_IDENTITY and line.gpu == gpu}
    found.discard(None)
    return found.pop() if gpu is not None and len(found) == 1 else None


def _path(line: Line) -> str | None:
    match = _QUOTED_PATH.search(line.body)
    return None if match is None else (match[1] or match[2]).rstrip(".,:;")


def _folder(path: str | None) -> str | None:
    """The folder that a path lies in: what was to be written there may not exist."""
    return None if path is None else path.rstrip("/").rpartition("/")[0] or "/"


_AROUND = 5


def _around(frame: str | None) -> dict[str, str]:
    """File and lines of a frame, for a tool that prints them; nothing where its path is not a whole one."""
    file, _, number = (frame or "").rpartition(":")
    if not file.startswith("/") or not number.isdigit():
        return {}
    line = int(number)
    return {"frame_file": file, "frame_lines": f"{max(1, line - _AROUND)},{line + _AROUND}"}


def _dumps(lines: Sequence[Line]) -> dict[str, str]:
    """Folder and name prefix of the flight-recorder dumps, where all lie in one folder and can be read as they are."""
    dumps = [_DUMP_FILE.fullmatch(line.file) for line in lines if line.name == Context.FLIGHT_RECORDER_DUMP]
    places = {(match["folder"] or ".", match["prefix"]) if match else None for match in dumps}
    if len(places) != 1 or (place := places.pop()) is None:
        return {}
    return {"dumps": place[0], "dump_prefix": place[1]}
