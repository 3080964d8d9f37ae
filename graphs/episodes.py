"""Episodes: what happened to one process, node or device, merged from all the lines that repeat it (formats.md R8).

A traceback, its `terminate called` and the abort that follows are one episode; so are an agent's two reports of one exit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from correlator.core.model import ClockModel, Evidence
from correlator.core.vocabulary import CollateralKind, FaultCode, FileKind, Order, Role, Severity
from correlator.graphs.facts import CODES, Fact, Window, order_of_windows, same_writer_order, window_of

MERGE_WITHIN_S = 30.0
SHARPER_WITHIN_NS = 2_000_000_000
"""A better stamp of the same episode may stand this long after its first line."""

HARDWARE_KERNEL = frozenset(
    {
        FaultCode.GPU_OFF_BUS,
        FaultCode.GPU_ECC_DBE,
        FaultCode.GPU_NVLINK,
        FaultCode.GPU_GSP_TIMEOUT,
        FaultCode.GPU_THERMAL,
    }
)
STICKY_CUDA = frozenset(
    {
        FaultCode.CUDA_ILLEGAL_ADDRESS,
        FaultCode.CUDA_DEVICE_ASSERT,
        FaultCode.CUDA_LAUNCH_FAILURE,
        FaultCode.CUDA_MISALIGNED_ADDRESS,
        FaultCode.CUDA_ECC_UNCORRECTABLE,
    }
)
"""Errors that poison the CUDA context: every later CUDA or NCCL error of the process only repeats them (formats.md A10)."""


@dataclass(frozen=True, slots=True)
class Episode:
    """Something that happened once, with all the lines that say so, the first one first."""

    id: str
    code: str
    role: Role
    attempt: int
    rank: int | None
    node: str | None
    gpu: str | None
    pid: int | None
    facts: tuple[Fact, ...]
    inferred: str = ""
    """How it was concluded, where no line states it."""
    began: Window | None = None
    """When it began, where that is known better than from its lines (a stall begins when its peers begin to wait)."""
    specificity: float = 1.0
    """How sure the lines are about what happened, 0..1; a warning that merely mentions a fault is low."""

    @property
    def head(self) -> Fact:
        """The first line that tells of it."""
        return self.facts[0]

    @property
    def onset_ns(self) -> int | None:
        """Earliest aligned time of a stamped line; where none is stamped, of an inherited one; or None."""
        if self.began is not None:
            shift = next((f.aligned_ns - f.printed_ns for f in self.facts if _same_clock(f, self.began)), 0)  # type: ignore[operator]
            return self.began.low_ns + shift
        timed = [fact for fact in self.facts if fact.aligned_ns is not None]
        stamped = [fact for fact in timed if not fact.inherited] or timed
        return min((fact.aligned_ns for fact in stamped if fact.aligned_ns is not None), default=None)

    @property
    def step(self) -> int | None:
        """The step that its lines name, or None."""
        return next((fact.step for fact in self.facts if fact.step is not None), None)

    @property
    def from_kernel(self) -> bool:
        """Told by a kernel log, not by a process of the job."""
        return self.head.file_kind is FileKind.KERNEL_LOG

    @property
    def bare_exception(self) -> bool:
        """A raised exception whose lines carry no time of their own."""
        return any(f.exception_type is not None for f in self.facts) and all(
            f.inherited or f.printed_ns is None for f in self.facts
        )

    @property
    def uncaught(self) -> bool:
        """Printed by torch's hook, or kept as the error of a dead process: it ended its process."""
        return any(f.file_kind is FileKind.ERROR_FILE or f.attribute("excepthook") is not None for f in self.facts)

    @property
    def where(self) -> str:
        """`rank 17 on node02`, as a person would say it."""
        if self.rank is not None:
            return f"rank {self.rank}" + (f" on {self.node}" if self.node else "")
        return self.node or "the run"


def _same_clock(fact: Fact, window: Window) -> bool:
    return fact.domain == window.domain and fact.aligned_ns is not None and fact.printed_ns is not None


@dataclass(frozen=True, slots=True)
class Mark:
    """Where an episode stands in time: its most precise line, and the window of its beginning."""

    fact: Fact
    window: Window | None
    concluded: bool
    """The window is not that of the line but was concluded (a stall begins when its peers begin to wait)."""


def mark_of(episode: Episode, lives: Mapping[Place, Life]) -> Mark:
    """The mark of an episode.

    `lives` bounds what carries no time of its own: a process' last words stand between its last step and its end.
    """
    fact = _sharpest(episode)
    return Mark(fact, _window(episode, fact, lives), episode.began is not None)


def precedes(a: Mark, b: Mark, clocks: ClockModel) -> Order:
    """Whether a began before b, beyond what file order, stamps and clocks leave open."""
    same = None if a.concluded or b.concluded else same_writer_order(a.fact, b.fact)
    return same or order_of_windows(a.window, b.window, clocks)


Place = tuple[int | None, str | None]
"""Rank and clock domain."""


@dataclass(frozen=True, slots=True)
class Life:
    """The last step that a rank printed in any of its files, and when a launcher saw its process end, on one clock."""

    last_step_ns: int | None = None
    ended_ns: int | None = None


def _window(episode: Episode, fact: Fact, lives: Mapping[Place, Life]) -> Window | None:
    life = lives.get((episode.rank, fact.domain), Life())
    untimed = fact.printed_ns is None and fact.exception_type is not None and life.last_step_ns is not None
    if untimed and episode.began is None:
        return Window(fact.domain, life.last_step_ns or 0, life.ended_ns)
    return episode.began or window_of(fact, life.ended_ns)


def _sharpest(episode: Episode) -> Fact:
    timed = [fact for fact in episode.facts if fact.printed_ns is not None]
    if not timed:
        return episode.head
    stamped = [fact for fact in timed if not fact.inherited] or timed
    first = min(_time(fact) for fact in stamped)
    near = [fact for fact in stamped if _time(fact) - first < SHARPER_WITHIN_NS]
    return min(near, key=lambda fact: (fact.granularity_ms + fact.uncertainty_ms, fact.file, fact.line))


def _time(fact: Fact) -> int:
    return fact.aligned_ns if fact.aligned_ns is not None else fact.printed_ns or 0


def onset_window(episode: Episode) -> Window | None:
    """When an episode began, by its most precise line; None where no line of it has a time."""
    return episode.began or window_of(_sharpest(episode))


def gap_of_windows(a: Window | None, b: Window | None, clocks: ClockModel) -> tuple[float, float] | None:
    """Interval of the true time from a to b in s; None where the clocks cannot say."""
    if a is None or b is None:
        return None
    gap = clocks.gap_ms(a.domain, a.low_ns, b.domain, b.low_ns)
    if gap is None:
        return None
    low = -math.inf if a.high_ns is None else gap[0] / 1e3 - (a.high_ns - a.low_ns) / 1e9
    high = math.inf if b.high_ns is None else gap[1] / 1e3 + (b.high_ns - b.low_ns) / 1e9
    return (low, high)


def build_episodes(facts: Iterable[Fact]) -> list[Episode]:
    """Episodes of all faults and collateral kinds in the facts, not numbered yet (exits and waits are built elsewhere)."""
    groups: dict[tuple[object, ...], list[list[Fact]]] = {}
    for fact in facts:
        if fact.name not in CODES or fact.role is Role.CONTEXT:
            continue
        where = (fact.group, fact.seq) if fact.name == CollateralKind.COLLECTIVE_TIMEOUT else ()
        device = fact.gpu if fact.file_kind is FileKind.KERNEL_LOG else None
        key = (fact.attempt, fact.rank, _owner(fact), fact.name, where, device)
        runs = groups.setdefault(key, [])
        if runs and _close(runs[-1][-1], fact):
            runs[-1].append(fact)
        else:
            runs.append([fact])
    episodes = [_episode(run) for runs in groups.values() for run in runs]
    return sorted(episodes, key=_place_order)


def _owner(fact: Fact) -> str | None:
    """What keeps two lines without a rank apart: the node, else the file."""
    return fact.node if fact.rank is not None or fact.node is not None else fact.file


def _close(a: Fact, b: Fact) -> bool:
    if a.printed_ns is None or b.printed_ns is None or ((a.inherited or b.inherited) and a.file == b.file):
        return a.file == b.file
    return abs(b.printed_ns - a.printed_ns) <= MERGE_WITHIN_S * 1e9 or a.file_kind is not b.file_kind


def _place_order(episode: Episode) -> tuple[int, str, int, int]:
    return (episode.attempt, episode.head.file, episode.head.line, episode.head.byte_offset)


def _episode(facts: Sequence[Fact]) -> Episode:
    ordered = sorted(facts, key=lambda f: (f.aligned_ns if f.aligned_ns is not None else 1 << 62, f.file, f.line))
    first = ordered[0]
    return Episode(
        id="",
        code=first.name,
        role=first.role,
        attempt=first.attempt,
        rank=first.rank,
        node=next((f.node for f in ordered if f.node), None),
        gpu=next((f.gpu for f in ordered if f.gpu), None),
        pid=next((f.pid for f in ordered if f.pid is not None), None),
        facts=tuple(ordered),
        specificity=max(_specificity(f) for f in ordered),
    )


def _specificity(fact: Fact) -> float:
    """A raised exception, a kernel line or a fatal text is sure; a logged warning only mentions a fault."""
    if fact.exception_type is not None or fact.file_kind in (FileKind.KERNEL_LOG, FileKind.ERROR_FILE):
        return 1.0
    if fact.severity in (Severity.WARN, Severity.INFO, Severity.DEBUG, Severity.TRACE) and fact.name in tuple(
        FaultCode
    ):
        return 0.3
    return 0.9


def evidence(fact: Fact, rule: str | None = None) -> Evidence:
    """A fact as a citation."""
    return Evidence(
        file=fact.file,
        line=fact.cited_line or fact.line,
        byte_offset=fact.byte_offset if fact.cited_offset is None else fact.cited_offset,
        text=fact.body,
        time=iso(fact.aligned_ns if fact.aligned_ns is not None else fact.printed_ns, zoned=fact.zoned),
        rule=rule or fact.signature,
    )


def iso(ns: int | None, *, zoned: bool) -> str | None:
    """ISO 8601 with milliseconds, with `Z` only where the logs print a zone; or None."""
    if ns is None:
        return None
    whole, rest = divmod(ns, 1_000_000_000)
    try:
        stamp = datetime.fromtimestamp(whole, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return f"{stamp:%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}" + ("Z" if zoned else "")
