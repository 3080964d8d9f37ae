"""Does the answer name anything that the input does not hold?

    python -m benchmarks.named_values                          # the sample runs
    python -m benchmarks.named_values ../shared/cases/*/run    # any runs

Looks at every sentence and command of actions, hypotheses, checkpoint and context, and prints each file, line, rank, node,
GPU, pid, path and checkpoint that occurs nowhere in the files of the run. The exit code is 1 where there is one.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import correlator
from correlator.core.model import Diagnosis
from correlator.core.ranges import unfold_hosts, unfold_numbers

_PLACE = re.compile(r"(?<![\w/])([\w.-]+(?:/[\w.-]+)*\.(?:log|out|err|txt|json)(?:\.gz)?):(\d+)")
_RANKS = re.compile(r"(?<!\bother )\branks? (\d[\d,-]*)")
_NODES = re.compile(
    r'(?:ssh |NodeName="|--exclude="|--nodelist=|cordon |describe node |\brank \d+ on (?!another\b))([\w.,\[\]-]+)'
)
_GPUS = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?\b")
_PIDS = re.compile(r"(?:--pid |/proc/|\binfo |\bpid )(\d+)")
_PATHS = re.compile(r"(?<![\w.~<$])(/(?!dev/|proc/|etc/|tmp|var/)[\w.+@%=:,-]+(?:/[\w.+@%=:,-]+)+)")
_FRAME = re.compile(r"(.+):(\d+)$")
_INFERRED = ("resumed after it", "saves run every")
"""Words of a checkpoint whose name follows from the interval of the saves: only its step is in the files."""


@dataclass(slots=True)
class Given:
    """What a run holds: the names of its files, and their text."""

    folder: Path
    lines: dict[str, list[str]] = field(default_factory=dict)
    text: str = ""
    lowered: str = ""
    """The text in small letters."""

    def has(self, words: str) -> bool:
        """Whether the words occur anywhere, in capitals or not."""
        return words in self.text or words.lower() in self.lowered


def read_given(folder: Path) -> Given:
    """All that a run directory holds."""
    given = Given(folder)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
            given.lines[path.relative_to(folder).as_posix()] = data.decode("utf-8", "replace").split("\n")
    given.text = "\n".join(name + "\n" + "\n".join(lines) for name, lines in given.lines.items())
    given.lowered = given.text.lower()
    return given


def words_of(diagnosis: Diagnosis) -> str:
    """Every sentence and command of an answer that is ours, not a quotation."""
    actions, checkpoint = diagnosis.actions, diagnosis.checkpoint
    parts = [
        diagnosis.verdict.summary,
        actions.first,
        *actions.commands,
        actions.verify,
        actions.resume,
        checkpoint.why,
    ]
    for hypothesis in diagnosis.hypotheses:
        parts += [*hypothesis.initiators, *hypothesis.contradicts, hypothesis.control]
        parts += [words for words in hypothesis.supports if not _PLACE.match(words)]
    return "\n".join(parts)


def unfounded(diagnosis: Diagnosis, given: Given) -> list[str]:
    """What the answer names and the run does not hold; empty where all is found."""
    return [*_in_words(words_of(diagnosis), diagnosis.run.world_size, given), *_in_values(diagnosis, given)]


def _in_words(words: str, world: int | None, given: Given) -> Iterator[str]:
    if "{" in re.sub(r"\$\{|\{\d", "", words):
        yield "a placeholder"
    for name, number in _PLACE.findall(words):
        if name not in given.lines or int(number) > len(given.lines[name]):
            yield f"place {name}:{number}"
    for listed in _RANKS.findall(words):
        if world is not None and max(unfold_numbers(listed.rstrip(",-"))) >= world:
            yield f"rank {listed}"
    for pattern, kind in ((_NODES, "node"), (_GPUS, "GPU"), (_PIDS, "pid"), (_PATHS, "path")):
        for match in pattern.findall(words):
            for value in unfold_hosts(match) if kind == "node" else [match]:
                if not _held(value.rstrip(".,:;"), kind, given):
                    yield f"{kind} {value}"


def _held(value: str, kind: str, given: Given) -> bool:
    if kind == "GPU":
        return _gpu_held(value.partition(".")[0], given)
    if kind != "path" or given.has(value):
        return given.has(value)
    frame = _FRAME.fullmatch(value)
    return frame is not None and given.has(f'"{frame[1]}", line {frame[2]}')


def _gpu_held(address: str, given: Given) -> bool:
    """As the kernel prints it (0000:3b:00), or as NCCL does (busId 3b000)."""
    return given.has(address) or given.has(f"busId {address.partition(':')[2].replace(':', '').lstrip('0')}0")


def _in_values(diagnosis: Diagnosis, given: Given) -> Iterator[str]:
    """Initiators, checkpoint and context, as JSON has them."""
    for initiator in diagnosis.verdict.initiators:
        if initiator.node is not None and not given.has(initiator.node):
            yield f"node {initiator.node}"
        if initiator.pid is not None and not given.has(str(initiator.pid)):
            yield f"pid {initiator.pid}"
        if initiator.gpu is not None and not _gpu_held(initiator.gpu, given):
            yield f"GPU {initiator.gpu}"
    checkpoint = diagnosis.checkpoint
    for name in (checkpoint.last_complete, checkpoint.safe_to_resume_from):
        inferred = any(words in checkpoint.why for words in _INFERRED)
        if name is not None and not given.has(name) and not inferred:
            digits = re.findall(r"\d+", name)
            if not digits or not given.has(digits[-1].lstrip("0")):
                yield f"checkpoint {name}"
    for line in diagnosis.context:
        lines = given.lines.get(line.file, [])
        held = lines[line.line - 1] if 0 < line.line <= len(lines) else ""
        if not held.lstrip("\0").startswith(line.text[:2_000].rstrip("\ufffd")):
            yield f"context {line.file}:{line.line}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check runs; the number of unfounded values decides the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="run directories (default: the sample runs)")
    runs = parser.parse_args(arguments).runs
    runs = runs or sorted((Path(__file__).parent.parent / "sample_runs").glob("*/run"))
    began, wrong, named = time.process_time(), 0, 0
    for run in runs:
        diagnosis = correlator.open_run(run, workers=1).diagnosis
        found = unfounded(diagnosis, read_given(run))
        wrong += len(found)
        named += len(diagnosis.actions.commands) + len(diagnosis.hypotheses) + len(diagnosis.context)
        for value in dict.fromkeys(found):
            print(f"{run.parent.name}: {value} is nowhere in the input")
    print(f"{len(runs)} runs, {named:,} commands, explanations and context lines: {wrong} values that the input lacks")
    print(f"{time.process_time() - began:.0f} s of CPU")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
