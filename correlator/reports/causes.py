"""The causal graph with types: causes with the lines behind them, and the links that explain one by another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from correlator.core.model import Diagnosis, Initiator
from correlator.core.vocabulary import Role, TimeSource
from correlator.reports.details import Details

if TYPE_CHECKING:
    import polars as pl

MOST_SIGNS = 8
"""So many lines of a cause are kept; the first is what people look at."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A line that tells of a cause."""

    event_id: int
    rank: int | None
    time_ns: int | None
    """Corrected where the clocks allow it, else as printed."""
    uncertainty_ms: float | None
    file: str
    line: int
    text: str
    bound: bool = False
    """Its time is that of a line before it: it was not earlier, and no more is known."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A node of the graph: an episode of a process or node, or a collective in which ranks waited."""

    id: str
    kind: str
    """episode or hub."""
    code: str
    role: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    name: str
    """What a hub is called; empty for episodes."""
    missing: tuple[int, ...]
    """Ranks that a hub waited for in vain."""
    signs: tuple[Sign, ...]
    last_ns: int | None
    """The latest time of all its lines."""
    event_ids: tuple[int, ...]
    onset_ns: int | None = None
    """When it began by the verdict, of what the verdict names: a stall begins before the first line that tells of it."""

    @property
    def first(self) -> Sign | None:
        """The earliest line with a time of its own, else with any, else any."""
        timed = [sign for sign in self.signs if sign.time_ns is not None]
        first = min(timed, key=lambda sign: (sign.bound, sign.time_ns or 0), default=None)
        return first if first is not None else next(iter(self.signs), None)


@dataclass(frozen=True, slots=True)
class Link:
    """`cause` explains `effect`, by `rule`, with probability `q`."""

    cause: str
    effect: str
    rule: str
    q: float
    reason: str


@dataclass(frozen=True)
class CauseGraph:
    """All causes of an attempt; `roots` are those that the verdict names."""

    causes: tuple[Cause, ...]
    links: tuple[Link, ...]
    roots: frozenset[str]

    @cached_property
    def by_id(self) -> dict[str, Cause]:
        """The causes by their ids."""
        return {cause.id: cause for cause in self.causes}

    @cached_property
    def explained(self) -> frozenset[str]:
        """The roots and everything that a path of links leads to from them."""
        follow: dict[str, list[str]] = {}
        for link in self.links:
            follow.setdefault(link.cause, []).append(link.effect)
        seen = set(self.roots)
        waiting = list(self.roots)
        while waiting:
            for effect in follow.get(waiting.pop(), ()):
                if effect not in seen:
                    seen.add(effect)
                    waiting.append(effect)
        return frozenset(seen)


def read_causes(diagnosis: Diagnosis, details: Details) -> CauseGraph:
    """The graph of a run with the lines behind each node looked up in its event table; order as in the graph."""
    graph = details.graph
    ids = {number for _, values in graph.nodes(data=True) for number in values.get("events", ())}
    signs = _signs(details.events, ids)
    causes = tuple(_dated(_cause(str(name), values, signs), diagnosis) for name, values in graph.nodes(data=True))
    links = tuple(
        Link(str(cause), str(effect), str(v.get("rule", "")), float(v.get("q", 0.0)), str(v.get("reason", "")))
        for cause, effect, v in graph.edges(data=True)
    )
    roots = frozenset(cause.id for cause in causes if _initiator_of(cause, diagnosis) is not None)
    return CauseGraph(causes, links, roots)


def moment_of(ns: int) -> datetime:
    """A time of the event table as Python has it, to the microsecond, UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)


def nanoseconds_of(time: str | None) -> int | None:
    """An ISO time as nanoseconds since 1970 (without a zone: UTC); None for what is no time."""
    if time is None:
        return None
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    return int((parsed - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)) * 1000


def _dated(cause: Cause, diagnosis: Diagnosis) -> Cause:
    initiator = _initiator_of(cause, diagnosis)
    return cause if initiator is None else replace(cause, onset_ns=nanoseconds_of(initiator.time))


def _initiator_of(cause: Cause, diagnosis: Diagnosis) -> Initiator | None:
    """The initiator of the verdict that a cause is."""
    if cause.role != Role.INITIATING:
        return None
    for initiator in diagnosis.verdict.initiators:
        if initiator.fault != cause.code:
            continue
        if initiator.rank is not None and initiator.rank in cause.ranks:
            return initiator
        if initiator.rank is None and not cause.ranks and (initiator.node in cause.nodes or not cause.nodes):
            return initiator
    return None


def _cause(name: str, values: dict[str, object], signs: dict[int, Sign]) -> Cause:
    events = tuple(_integers(values.get("events")))
    lines = [signs[number] for number in events if number in signs]
    rank, node = values.get("rank"), values.get("node")
    ranks = _integers(values.get("waiters")) or ([rank] if isinstance(rank, int) else [])
    return Cause(
        id=name,
        kind=str(values.get("kind", "episode")),
        code=str(values.get("code", "")),
        role=str(values.get("role", "")),
        ranks=tuple(ranks),
        nodes=(str(node),) if node else (),
        name=str(values.get("name", "")),
        missing=tuple(_integers(values.get("missing"))),
        signs=tuple(sorted(lines, key=_by_time)[:MOST_SIGNS]),
        last_ns=max((line.time_ns for line in lines if line.time_ns is not None), default=None),
        event_ids=events,
    )


def _integers(value: object) -> list[int]:
    return [member for member in value if isinstance(member, int)] if isinstance(value, list | tuple) else []


def _by_time(sign: Sign) -> tuple[bool, int, str, int]:
    return (sign.time_ns is None, sign.time_ns or 0, sign.file, sign.line)


def _signs(events: pl.DataFrame, ids: Iterable[int]) -> dict[int, Sign]:
    import polars as pl

    wanted = events.filter(pl.col("event_id").is_in(pl.Series(sorted(ids), dtype=pl.UInt64).implode()))
    rows = wanted.select(
        "event_id",
        "rank",
        pl.coalesce("time_aligned", "timestamp").dt.epoch("ns"),
        "time_uncertainty_ms",
        "log_file_path",
        pl.coalesce("body_line_number", "line_number"),
        pl.col("body").fill_null(""),
        pl.col("time_source").cast(pl.String) == TimeSource.INHERITED.value,
    )
    return {row[0]: Sign(*row) for row in rows.iter_rows()}
