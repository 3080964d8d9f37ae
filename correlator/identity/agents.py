"""Logs of several nodes' agents in one file, one after the other (`cat node*.log`): starts that are no new attempt.

An agent that starts again after it ended is the next attempt; an agent of another node that ran at the same time is
not. They are told apart by their group rank and by their host, and where only the group rank differs by the clock: a
job that was started again gives its nodes other group ranks, but later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from correlator.core.vocabulary import Context
from correlator.identity.frame import FOREIGN_HOST_EVENTS, among

_STARTS = frozenset({Context.LAUNCHER_STARTED, Context.RENDEZVOUS_STARTED, Context.RENDEZVOUS_COMPLETE})
Start = tuple[str, int | None, int]
"""Path, task and byte offset of the line with which an agent starts."""


@dataclass(frozen=True, slots=True)
class Part:
    """The lines of one agent, from a byte offset to the next part. None = it does not say."""

    path: str
    offset: int
    node: str | None
    node_rank: int | None


@dataclass(frozen=True, slots=True)
class Joined:
    """Files that hold the logs of several nodes' agents."""

    beside: frozenset[Start] = frozenset()
    """Starts of agents that ran beside those above them in the same file."""
    parts: tuple[Part, ...] = ()
    """Each agent's lines."""

    @property
    def paths(self) -> frozenset[str]:
        """The files."""
        return frozenset(path for path, _, _ in self.beside)

    def with_tasks(self, node_of: Mapping[int, str]) -> Joined:
        """The nodes that the agents do not say from those of the launchers' tasks, where a task is a node.

        Used only where an agent that says its node confirms that its group rank is its task, and none denies it.
        """
        told = [(p.node, p.node_rank) for p in self.parts if p.node is not None and p.node_rank is not None]
        agrees = [node_of[rank] == node for node, rank in told if rank in node_of]
        if not agrees or not all(agrees):
            return self
        parts = [replace(p, node=p.node or node_of.get(-1 if p.node_rank is None else p.node_rank)) for p in self.parts]
        return replace(self, parts=tuple(parts))


@dataclass(slots=True)
class _Agent:
    """One agent's lines in a file, from its start to the next one's."""

    offset: int
    pid: int | None
    node_rank: int | None = None
    hosts: set[str] = field(default_factory=set)
    begun_ns: int | None = None
    last_ns: int | None = None

    def hear(self, node_rank: int | None, host: str | None, ns: int | None) -> None:
        """Take what a line of this agent says."""
        self.node_rank = node_rank if self.node_rank is None else self.node_rank
        if host is not None:
            self.hosts.add(host)
        if ns is not None:
            self.begun_ns = ns if self.begun_ns is None else self.begun_ns
            self.last_ns = ns if self.last_ns is None else max(ns, self.last_ns)

    def beside(self, others: Iterable[_Agent]) -> bool:
        """Whether it certainly ran beside these, which stand above it in the file, and not after them."""
        others = list(others)
        if self.node_rank is None or any(other.node_rank in (None, self.node_rank) for other in others):
            return False
        if any(self.hosts & other.hosts for other in others):
            return False
        ends = [other.last_ns for other in others if other.last_ns is not None]
        if self.begun_ns is None or not ends:
            return bool(self.hosts) and all(other.hosts for other in others)
        return self.begun_ns <= max(ends)


def joined_logs(frame: pl.DataFrame) -> Joined:
    """The files of the run in which agents of several nodes stand one after the other; `frame.host` is canonical."""
    starts = frame.filter(among("event", _STARTS))
    several = starts.group_by("path").agg(pl.col("pid").n_unique()).filter(pl.col("pid") > 1)["path"].to_list()
    if not several:
        return Joined()
    agents = _agents(frame.filter(among("path", several)).sort("path", "offset"))
    beside = frozenset(_beside(agents))
    paths = {path for path, _, _ in beside}
    parts = [
        Part(path, agent.offset, next(iter(agent.hosts)) if len(agent.hosts) == 1 else None, agent.node_rank)
        for (path, _), started in agents.items()
        for agent in started
        if path in paths
    ]
    return Joined(beside, tuple(parts))


def _agents(rows: pl.DataFrame) -> dict[tuple[str, int | None], list[_Agent]]:
    agents: dict[tuple[str, int | None], list[_Agent]] = {}
    host = pl.when(~among("event", FOREIGN_HOST_EVENTS)).then(pl.col("host")).alias("host")
    columns = ("path", "task", "event", "pid", "node_rank", host, "offset", "time", "explicit")
    for path, task, event, pid, node_rank, name, offset, ns, explicit in rows.select(columns).iter_rows():
        running = agents.setdefault((path, task), [])
        if event in _STARTS and pid is not None and (not running or running[-1].pid != pid):
            running.append(_Agent(offset, pid))
        if running:
            said = node_rank if event == Context.RENDEZVOUS_COMPLETE else None
            running[-1].hear(said, name, ns if explicit else None)
    return agents


def _beside(agents: Mapping[tuple[str, int | None], Sequence[_Agent]]) -> Iterator[Start]:
    for (path, task), started in agents.items():
        attempt: list[_Agent] = []
        for agent in started:
            if attempt and agent.beside(attempt):
                attempt.append(agent)
                yield (path, task, agent.offset)
            else:
                attempt = [agent]
