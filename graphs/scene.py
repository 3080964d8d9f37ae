"""All that the rules may look at for one attempt of a run, with its indexes; and what a rule answers."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from correlator.core.model import ClockModel, Topology
from correlator.core.vocabulary import CollateralKind, Context, FaultCode, Order, Phase, Role
from correlator.graphs.episodes import Episode, Life, Mark, Place, gap_of_windows, mark_of, onset_window, precedes
from correlator.graphs.exits import ProcessEnd, normal_exit
from correlator.graphs.facts import Fact, Printers, Window, printers_of
from correlator.graphs.hubs import WaitHub


@dataclass(frozen=True, slots=True)
class Edge:
    """`cause` explains `effect`, by `rule`, with probability `q`; ids of episodes or hubs."""

    cause: str
    effect: str
    rule: str
    q: float
    reason: str


@dataclass(frozen=True, slots=True)
class Rejection:
    """An edge that a rule looked for and refused, and why."""

    cause: str
    effect: str
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """All refusals of one rule for one reason between episodes of the same two codes."""

    rule: str
    reason: str
    cause_code: str
    effect_code: str
    count: int
    example: Rejection


@dataclass(frozen=True)
class Scene:
    """One attempt: episodes, hubs, process ends and the facts behind them."""

    attempt: int
    episodes: tuple[Episode, ...]
    hubs: tuple[WaitHub, ...]
    ends: tuple[ProcessEnd, ...]
    facts: tuple[Fact, ...]
    topology: Topology
    clocks: ClockModel
    last_steps: Mapping[Place, int] = field(default_factory=dict)
    """(rank, clock) -> printed time of the last step that the rank printed."""
    accused: frozenset[str] = frozenset()
    """Ids of the episodes that the verdict names, once it is known."""
    healthy: frozenset[str] = frozenset()
    """Moulds of the unknown errors that a run without failure printed."""

    @cached_property
    def by_id(self) -> dict[str, Episode]:
        """The episodes by their ids."""
        return {episode.id: episode for episode in self.episodes}

    @cached_property
    def waits_of(self) -> dict[int, tuple[int, ...]]:
        """Rank -> the hubs that it waits in, by index."""
        found: dict[int, list[int]] = {}
        for index, hub in enumerate(self.hubs):
            for rank in hub.waiters:
                found.setdefault(rank, []).append(index)
        return {rank: tuple(hubs) for rank, hubs in found.items()}

    @cached_property
    def printers(self) -> Printers:
        """Who printed each unknown error."""
        return printers_of(self.facts)

    @cached_property
    def by_rank(self) -> dict[int, tuple[Episode, ...]]:
        """Episodes of each rank, in order of onset (unknown times by line)."""
        groups: dict[int, list[Episode]] = {}
        for episode in self.episodes:
            if episode.rank is not None:
                groups.setdefault(episode.rank, []).append(episode)
        return {rank: tuple(sorted(found, key=_onset_key)) for rank, found in groups.items()}

    @cached_property
    def initiating(self) -> tuple[Episode, ...]:
        """Episodes that may start a failure."""
        return tuple(e for e in self.episodes if e.role is Role.INITIATING)

    @cached_property
    def by_node(self) -> dict[str, tuple[Episode, ...]]:
        """Episodes of each node, in the order given."""
        groups: dict[str, list[Episode]] = {}
        for episode in self.episodes:
            if episode.node is not None:
                groups.setdefault(episode.node, []).append(episode)
        return {node: tuple(found) for node, found in groups.items()}

    @cached_property
    def task_exits(self) -> dict[str, Fact]:
        """Node -> the scheduler's first line about a task of it."""
        found: dict[str, Fact] = {}
        for fact in self.facts:
            if fact.name == Context.TASK_EXIT:
                for node in _names(fact.attribute("nodes")):
                    found.setdefault(node, fact)
        return found

    @cached_property
    def stopped_ranks(self) -> frozenset[int]:
        """Ranks whose processes were alive until a launcher or scheduler ended them."""
        signalled = {f.rank for f in self.facts if f.name == Context.WORKER_SIGNALLED and f.rank is not None}
        return frozenset(signalled | {end.rank for end in self.ends if end.told or end.exit_code == -15})

    @cached_property
    def cancelled(self) -> Fact | None:
        """The scheduler's first word that it cancels the step or job."""
        return next((fact for fact in self.facts if fact.name == Context.SCHEDULER_CANCELLED), None)

    @cached_property
    def taken_down(self) -> Fact | None:
        """The scheduler's word that it ended tasks that had not failed: its cancel, or a task that it terminated."""
        return self.cancelled or next((fact for fact in self.facts if _takes_down(fact)), None)

    @cached_property
    def placeless(self) -> tuple[Episode, ...]:
        """Episodes of which neither rank nor node is known."""
        return tuple(e for e in self.episodes if e.rank is None and e.node is None)

    @cached_property
    def nowhere(self) -> tuple[Episode, ...]:
        """Episodes of which no line names the node."""
        return tuple(e for e in self.episodes if e.node is None)

    @cached_property
    def teardown(self) -> Fact | None:
        """The scheduler's word that tasks of the step ended or were cancelled: how ranks went that say nothing themselves."""
        return next(iter(self.task_exits.values()), None) or self.cancelled

    def ranks_of(self, node: str) -> frozenset[int]:
        """Ranks placed on a node."""
        return self.topology.ranks_of(node)

    def order(self, a: Episode, b: Episode) -> Order:
        """Whether a began before b."""
        return precedes(self.mark(a), self.mark(b), self.clocks)

    def mark(self, episode: Episode) -> Mark:
        """Where an episode stands in time."""
        mark = self._marks.get(episode.id)
        if mark is None:
            mark = self._marks[episode.id] = mark_of(episode, self.lives)
        return mark

    @cached_property
    def _marks(self) -> dict[str, Mark]:
        return {}

    def gap_s(self, cause: Episode, effect: Episode) -> tuple[float, float] | None:
        """Interval of the true time from cause to effect in s; None where the clocks cannot say."""
        return gap_of_windows(self._onset(cause), self._onset(effect), self.clocks)

    def _onset(self, episode: Episode) -> Window | None:
        if episode.id not in self._onsets:
            self._onsets[episode.id] = onset_window(episode)
        return self._onsets[episode.id]

    @cached_property
    def _onsets(self) -> dict[str, Window | None]:
        return {}

    @cached_property
    def lives(self) -> dict[Place, Life]:
        """(rank, clock) -> its last step and its end, as printed on that clock."""
        ended: dict[Place, int] = {}
        for end in self.ends:
            for fact in end.facts:
                if fact.printed_ns is not None and not fact.inherited:
                    until = fact.printed_ns + int(fact.granularity_ms * 1e6)
                    key = (end.rank, fact.domain)
                    ended[key] = min(until, ended.get(key, until))
        places = ended.keys() | self.last_steps.keys()
        return {place: Life(self.last_steps.get(place), ended.get(place)) for place in places}

    def may_precede(self, cause: Episode, effect: Episode) -> bool:
        """False only where the cause certainly came after the effect."""
        return self.order(cause, effect) is not Order.AFTER

    def hub_id(self, index: int) -> str:
        """The graph node of a hub."""
        return f"h{index}"


def _takes_down(fact: Fact) -> bool:
    if fact.name == Context.PHASE:
        return fact.attribute("phase") == Phase.TEARDOWN
    return fact.name == Context.TASK_EXIT and normal_exit(fact.exit_code or 0) == -signal.SIGTERM


def _names(text: str | None) -> tuple[str, ...]:
    try:
        values = json.loads(text or "[]")
    except ValueError:
        return ()
    return tuple(v for v in values if isinstance(v, str)) if isinstance(values, list) else ()


def _onset_key(episode: Episode) -> tuple[int, str, int]:
    onset = episode.onset_ns
    return (onset if onset is not None else 1 << 62, episode.head.file, episode.head.line)


TEARDOWN_ID = "t0"
"""The graph node of the scheduler's ending of a step."""

Rule = Callable[[Scene], Iterable[Edge | Rejection]]

WEAK: frozenset[str] = frozenset(
    {
        FaultCode.SILENT_EXIT,
        FaultCode.NATIVE_ABORT,
        FaultCode.NCCL_INTERNAL_ERROR,
        FaultCode.RENDEZVOUS_TIMEOUT,
        FaultCode.NCCL_INIT_FAILURE,
        FaultCode.PROCESS_KILLED,
    }
)
"""Faults that a lost peer can also produce: a stronger fault elsewhere that does not come later explains them."""

TERMINAL_KINDS: frozenset[str] = frozenset(
    {
        CollateralKind.COLLECTIVE_TIMEOUT,
        CollateralKind.REMOTE_PEER_LOST,
        CollateralKind.STORE_LOST,
        CollateralKind.HEARTBEAT_EXIT,
        CollateralKind.TERMINATED_BY_LAUNCHER,
        CollateralKind.SCHEDULER_CANCEL,
    }
)
