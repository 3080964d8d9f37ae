"""How stitchers see the lines after a record's head, and who a line belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from correlator.core.event import Event
from correlator.parsers.base import Hit, Layer, Line, Record

if TYPE_CHECKING:
    from correlator.parsers.table import PatternTable

MAX_LINES = 2_000
MAX_BYTES = 1 << 20
_MAX_HELD = 4
_MAX_GAP = 1_000
"""Lines of other writers between two of one record. Past it the writer is taken to be silent."""

VOICES = frozenset(
    {
        Layer.C10D,
        Layer.TORCH_PYTHON,
        Layer.GLOG,
        Layer.NCCL,
        Layer.SLURM,
        Layer.SLURM_DAEMON,
        Layer.KERNEL,
        Layer.SYSLOG,
        Layer.JSON_LOG,
        Layer.LOGGING,
        Layer.DEEPSPEED,
        Layer.HOROVOD,
        Layer.VLLM,
    }
)
"""Layers that begin a message of their own; a continuation line has none that its head lacks."""


class Verdict(Enum):
    """What a stitcher makes of a line of the same writer."""

    TAKE = auto()
    LAST = auto()  # take it, and the record is complete
    HOLD = auto()  # belongs to the record only if a later line does (empty lines)
    SKIP = auto()  # torn in: somebody else's
    STOP = auto()  # the record ended before it


class Window(Protocol):
    """The lines of a chunk after a head."""

    def after(self, head: Line) -> Iterator[Line]:
        """The segments that follow and belong to no record yet, in order."""
        ...

    def begins(self, line: Line) -> str | None:
        """The kind of record that a line begins; "" for a recognised line without one; None for a plain one."""
        ...

    @property
    def exhausted(self) -> bool:
        """Whether the last `after` ran into the end of a chunk that is not the file's last."""
        ...


Collect = Callable[[Line, Window], Record]
Describe = Callable[[Hit, "PatternTable"], Iterable[Event]]
Decide = Callable[[Line], Verdict]


@dataclass(frozen=True, slots=True)
class Stitcher:
    """One kind of record: how its lines are collected, and the events it makes where its pattern has no `build`."""

    name: str
    collect: Collect
    describe: Describe | None = None


def carrier(line: Line) -> tuple[object, ...]:
    """What tells writers apart before a program's own words: label, tee, host, pod, actor, stream."""
    prefix = line.prefix
    layers = prefix.layers
    host = prefix.host if Layer.PDSH in layers or Layer.MPI_TAG in layers or Layer.KERNEL in layers else None
    pid = prefix.pid if Layer.RAY in layers else None
    return (prefix.task_id, prefix.local_rank, prefix.pod, prefix.stream, host, pid)


def writer(line: Line) -> tuple[object, ...]:
    """`carrier` and the rank: for programs that print their rank on every line."""
    return (*carrier(line), line.prefix.rank)


def voice(line: Line) -> frozenset[Layer]:
    """The layers of a line that begin a message."""
    return VOICES.intersection(line.prefix.layers)


def collect(
    kind: str, head: Line, window: Window, decide: Decide, *, key: Callable[[Line], tuple[object, ...]] = writer
) -> Record:
    """Gather the lines of the head's writer that `decide` takes, within the bounds of a record."""
    taken = [head]
    held: list[Line] = []
    size = len(head.text)
    gap = 0
    own = key(head)
    stopped = False
    for line in window.after(head):
        blank = not line.message.strip()
        if key(line) != own and not (blank and carrier(line) == carrier(head)):
            gap += 1
        else:
            verdict = decide(line)
            if verdict is Verdict.STOP:
                stopped = True
            elif verdict is Verdict.HOLD:
                held.append(line)
                stopped = len(held) > _MAX_HELD
            elif verdict is Verdict.SKIP:
                gap += 1
            else:
                taken += [*held, line]
                held.clear()
                gap = 0
                size += len(line.text)
                stopped = verdict is Verdict.LAST
        if stopped or gap > _MAX_GAP or len(taken) >= MAX_LINES or size > MAX_BYTES:
            return Record(kind, tuple(taken), complete=True)
    return Record(kind, tuple(taken), complete=not window.exhausted)
