"""How to go on: which checkpoint, how far it can be trusted after this fault, and the option that the trainer takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from correlator.advice.lines import Line
from correlator.core.catalogue import CheckpointTrust, Entry
from correlator.core.model import Checkpoint
from correlator.core.vocabulary import Context

_SAVES = (Context.CHECKPOINT_SAVE_STARTED, Context.CHECKPOINT_SAVED, Context.CHECKPOINT_LOADED)
_TARGET = re.compile(r"(?:\bto|\bin|\bfrom) '?(/?[\w.+@%=:,~-]*/[\w.+@%=:,~/-]*)")


@dataclass(frozen=True, slots=True)
class Trainer:
    """A trainer that the logs show, and how it is told where to resume. The option may need a folder or a step."""

    name: str
    signatures: tuple[str, ...]
    """Beginnings of the ids of the patterns that know its lines."""
    option: Callable[[str, str | None], str | None]
    """(checkpoint name, folder or path as printed) -> the option; None where a value is missing."""


def _digits(name: str) -> str | None:
    found = re.findall(r"\d+", name)
    return str(int(found[-1])) if found else None


def _megatron(name: str, path: str | None) -> str | None:
    step = _digits(name)
    if step is None:
        return None
    return f"--load {_parent(path, name)} --ckpt-step {step}" if path else f"--ckpt-step {step}"


def _parent(path: str, name: str) -> str:
    """The folder that holds the checkpoint; Megatron prints the folder, others the checkpoint itself."""
    trimmed = path.rstrip("/")
    return trimmed.removesuffix(f"/{name}") or "/"


def _full(path: str | None, name: str) -> str | None:
    return path.rstrip("/.") if path and path.rstrip("/.").endswith(name) else None


def _option(text: str) -> Callable[[str, str | None], str | None]:
    def make(name: str, path: str | None) -> str | None:
        full = _full(path, name)
        return None if full is None else f"{text}{full}"

    return make


def _torchtitan(name: str, _path: str | None) -> str | None:
    step = _digits(name)
    return None if step is None else f"--checkpoint.load_step {step}"


def _deepspeed(name: str, _path: str | None) -> str | None:
    return f'load_checkpoint(..., tag="{name}")' if name.startswith("global_step") else None


TRAINERS: tuple[Trainer, ...] = (
    Trainer("the Hugging Face Trainer", ("hf.",), _option("--resume_from_checkpoint ")),
    Trainer("Megatron-LM", ("megatron.",), _megatron),
    Trainer("torchtitan", ("torchtitan.",), _torchtitan),
    Trainer("Lightning", ("lightning.",), _option("ckpt_path=")),
    Trainer("Composer", ("composer.",), _option("load_path=")),
    Trainer("DeepSpeed", ("deepspeed.",), _deepspeed),
)
"""In this order: a trainer that stands on another one's engine comes before it."""


def trainer_of(name: str, lines: Sequence[Line]) -> tuple[Trainer, str | None] | None:
    """The trainer that printed a checkpoint's name, and the path that it printed with it; None where none is known."""
    told = [line for line in lines if line.name in _SAVES and _named(line, name)]
    for trainer in TRAINERS:
        ours = [line for line in told if line.signature.startswith(trainer.signatures)]
        if ours:
            paths = [match[1] for line in ours if (match := _TARGET.search(line.body))]
            return trainer, next(iter(paths), None)
    return None


def _named(line: Line, name: str) -> bool:
    if line.attributes.get("checkpoint") == name or line.attributes.get("tag") == name:
        return True
    naming = line.attributes.get("naming", "")
    return bool(naming) and naming.partition("{")[0] == name.rstrip("0123456789")


def resume_words(checkpoint: Checkpoint, entry: Entry | None, lines: Sequence[Line]) -> str:
    """From where to resume, with which option, and how far to trust it."""
    name = checkpoint.safe_to_resume_from
    if name is None:
        why = f": {checkpoint.why}" if checkpoint.why else ""
        what = "can be trusted" if checkpoint.last_complete is not None else "is known to be complete"
        return f"No checkpoint here {what}{why}."
    words = f"Resume from {name}: {checkpoint.why}." if checkpoint.why else f"Resume from {name}."
    if (found := trainer_of(name, lines)) is not None:
        trainer, path = found
        option = trainer.option(name, path)
        if option is not None:
            words += f" {trainer.name[:1].upper()}{trainer.name[1:]} takes it with {option}"
            words += "." if not option.endswith(".") else ""
    return f"{words} {_trust(entry)}".rstrip()


def _trust(entry: Entry | None) -> str:
    if entry is None:
        return ""
    match entry.checkpoint_trust:
        case CheckpointTrust.COMPLETED:
            return ""
        case CheckpointTrust.BEFORE_FIRST_SIGN:
            return (
                "Values may have been wrong before the first sign of this fault: compare its loss with the curve before, "
                "and go one checkpoint further back if it bends."
            )
        case CheckpointTrust.VERIFY_FILES:
            return "The fault touches files: see that this one reads back before anything older is deleted."
