"""Facts in pasted text that are no event of a log: what nvidia-smi prints about memory, and a bare exit code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from correlator.advice.codes import read_exit
from correlator.advice.gpu_tools import MemoryHealth, read_memory_health
from correlator.core.catalogue import Catalogue, Entry
from correlator.core.vocabulary import FaultCode

_OF_SIGNAL = {
    4: FaultCode.ILLEGAL_INSTRUCTION,
    6: FaultCode.NATIVE_ABORT,
    7: FaultCode.NATIVE_BUS_ERROR,
    9: FaultCode.PROCESS_KILLED,
    11: FaultCode.NATIVE_SEGFAULT,
    15: FaultCode.PREEMPTED,
}
_EXIT = re.compile(
    r"(?i)\b(?:exit(?:ed)?(?: with)?(?: (?:status|code))?|exit[_ -]?code|return[ _]?code|terminated with(?: exit)? code)"
    r"[\"']?[ \t:=]{1,12}(-?\d{1,3})\b"
)
_WORDS: tuple[tuple[re.Pattern[str], FaultCode, str], ...] = (
    (
        re.compile(r"\bOOMKilled\b"),
        FaultCode.HOST_OOM_KILL,
        "OOMKilled: Kubernetes ended the container because its memory limit was reached.",
    ),
    (
        re.compile(r"(?m)^(?:[\w./-]+: line \d+: +\d+ )?Killed\b[^\n]{0,200}$"),
        FaultCode.PROCESS_KILLED,
        "Killed: a shell prints this for SIGKILL, which came from outside; it does not say from whom.",
    ),
)
"""Single words that a container runtime or a shell prints for the end of a process."""


def code_of_exit(code: int | None) -> FaultCode | None:
    """The fault that an exit code alone points at; None for a good end or none."""
    if not code:
        return None
    signal = read_exit(code).signal
    return FaultCode.SILENT_EXIT if signal is None else _OF_SIGNAL.get(signal, FaultCode.SILENT_EXIT)


@dataclass(frozen=True, slots=True)
class PlainFact:
    """An entry that a text points at without being a log, and a sentence about it."""

    entry: Entry
    sentence: str
    sure: bool = True
    """False of an exit code, which says how a process ended and not why."""


def plain_facts(text: str, catalogue: Catalogue, *, alone: bool) -> Iterator[PlainFact]:
    """What the text points at by itself; an exit code only where nothing else was found (`alone`)."""
    health = read_memory_health(text)
    if (sentence := _health_words(health)) and health.advice in {"reset", "replace"}:
        name = "xid_64" if health.advice == "replace" else "xid_63" if health.pending else "xid_48"
        for entry in catalogue.keyed(f"{FaultCode.GPU_ECC_DBE}.{name}"):
            yield PlainFact(entry, sentence)
    if not alone:
        return
    for pattern, word, sentence in _WORDS:
        if pattern.search(text):
            yield PlainFact(catalogue.entry(word), sentence, sure=word is FaultCode.HOST_OOM_KILL)
            return
    for match in sorted(_EXIT.finditer(text), key=lambda found: _last_to_tell(found, text)):
        number = int(match[1])
        code = code_of_exit(number)
        if code is not None:
            end = read_exit(number)
            entry = catalogue.entry(code).specific("", {"reading": end.name}, "")
            yield PlainFact(entry, f"{match[0].strip()}: {end.name}, {end.meaning}.", sure=False)
            return


def _last_to_tell(found: re.Match[str], text: str) -> tuple[bool, bool]:
    """Of several exit codes the one under torchrun's root cause tells first; a SIGTERM was sent by somebody, and tells last."""
    return (found[1] in ("-15", "143"), found.start() < text.find("Root Cause"))


def _health_words(health: MemoryHealth) -> str:
    parts = []
    if health.uncorrectable_volatile is not None:
        parts.append(f"{health.uncorrectable_volatile} uncorrectable errors since the driver was loaded")
    if health.uncorrectable_aggregate is not None:
        parts.append(f"{health.uncorrectable_aggregate} over its life")
    if health.remapped_uncorrectable:
        parts.append(f"{health.remapped_uncorrectable} rows remapped for them")
    if health.pending is not None:
        parts.append("a remapping is pending: reset the GPU" if health.pending else "no remapping is pending")
    if health.failed:
        parts.append("a remapping failed: replace the GPU")
    return f"This GPU's memory: {', '.join(parts)}." if parts else ""
