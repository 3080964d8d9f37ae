"""Which restart attempt each event belongs to.

An attempt is told, strongest first, by the path (`attempt_1/`, a container's restart number), by torchelastic's
restart_count, by a second start of the launcher or of the ranks after the scheduler ended the first, and by a rank that
introduces itself again after it failed (formats.md B2, B5, E1, J). Within a file attempts follow in file order; a file
without any mark is placed by time on its node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import polars as pl

from correlator.core.vocabulary import CollateralKind, Context, FileKind, Role
from correlator.identity.agents import Start
from correlator.identity.cuts import Cut
from correlator.identity.frame import among, is_event
from correlator.identity.reported import home_nodes, reported_attempts
from correlator.identity.requeued import started_again
from correlator.identity.writers import Writer

_ENDS_RUN = frozenset({Context.SCHEDULER_CANCELLED, Context.TASK_EXIT})
_ENDS_AGENT = frozenset({Context.CHILD_FAILED_ROW, Context.AGENT_SIGNALLED, CollateralKind.LAUNCHER_REPORT})
_JOINS = frozenset({Context.RENDEZVOUS_STARTED, Context.RENDEZVOUS_COMPLETE})
_MARKS = _JOINS | {Context.ATTEMPT_STARTED, Context.LAUNCHER_STARTED}
_MOST = 10_000
"""Attempt numbers above this are noise of a damaged line."""


@dataclass(slots=True)
class _Stream:
    """Attempt marks of one writer, read in file order."""

    one_agent: bool
    base: int = 0
    current: int | None = None
    ended: bool = False
    restarts: dict[int | None, int] = field(default_factory=dict)

    def read(self, event: str, attempt: int | None, pid: int | None, *, beside: bool = False) -> int | None:
        """The attempt that begins with this event, or None where it begins none.

        `beside`: the event is the start of another node's agent, whose log was put behind that of the first.
        """
        if event in _ENDS_RUN or (self.one_agent and event in _ENDS_AGENT):
            self.ended = self.current is not None
            return None
        if beside:
            self.restarts.clear()
            return self._go(self.base)
        if event == Context.LAUNCHER_STARTED and attempt is None:
            if not self.ended and self.current is not None:
                return None
            self.base = 0 if self.current is None else self.current + 1
            self.restarts.clear()
            return self._go(self.base)
        if attempt is not None:
            return self._go(self.base + attempt)
        if event == Context.ATTEMPT_STARTED:
            self.restarts[pid] = self.restarts.get(pid, 0) + 1
            return self._go(max(self.base + max(self.restarts.values()), self.current or 0))
        return None

    def _go(self, attempt: int) -> int | None:
        self.ended = False
        if attempt == self.current or not 0 <= attempt <= _MOST:
            return None
        self.current = attempt
        return attempt


def with_attempts(
    frame: pl.DataFrame, writers: Sequence[Writer], beside: AbstractSet[Start] = frozenset()
) -> tuple[pl.DataFrame, int]:
    """The frame with `attempt` filled for every event, and how many there are.

    `frame.node` is the writer's node; `beside` are the starts of agents that are none of a new attempt.
    """
    hinted = {w.path: w.attempt for w in writers if w.attempt is not None and 0 <= w.attempt <= _MOST}
    lone = {w.path for w in writers if w.kind is FileKind.RANK_LOG and not w.shared}
    cuts = list(_marked(frame, hinted, lone, beside))
    if not cuts and not hinted:
        cuts = started_again(frame, lone)
    marked = {cut.path for cut in cuts}
    cuts += _introduced_again(frame.filter(among("path", lone - marked - hinted.keys())))
    if not cuts and not hinted:
        return frame.with_columns(pl.lit(0, pl.Int32).alias("attempt")), 1
    paths = pl.DataFrame(
        {"path": list(hinted), "_hint": list(hinted.values())}, schema={"path": pl.String, "_hint": pl.Int32}
    )
    frame = _by_offset(frame.join(paths, on="path", how="left", maintain_order="left"), cuts)
    frame = frame.with_columns(pl.coalesce("_hint", "_cut").alias("attempt")).drop("_hint", "_cut")
    last = _highest(frame, cuts)
    frame = reported_attempts(frame, lone - {cut.path for cut in cuts} - hinted.keys())
    frame = _by_time(frame, last)
    return frame.with_columns(pl.col("attempt").fill_null(last).cast(pl.Int32)), last + 1


def _marked(frame: pl.DataFrame, hinted: dict[str, int], lone: set[str], beside: AbstractSet[Start]) -> Iterator[Cut]:
    wanted = sorted(_MARKS | _ENDS_RUN | _ENDS_AGENT)
    rows = frame.filter((among("event", wanted) | pl.col("attempt").is_not_null()) & ~among("path", hinted)).sort(
        "path", "offset"
    )
    streams: dict[tuple[str, int | None], _Stream] = {}
    announced: dict[tuple[str, int | None], Cut] = {}
    columns = ("path", "task", "kind", "event", "attempt", "pid", "offset")
    for path, task, kind, event, attempt, pid, offset in rows.select(columns).iter_rows():
        one_agent = task is not None or path in lone or kind in (FileKind.LAUNCHER_LOG, FileKind.NODE_LOG)
        stream = streams.setdefault((path, task), _Stream(one_agent))
        before = announced.pop((path, task), None) if event in _JOINS else None
        begun = stream.read(event, attempt, pid, beside=(path, task, offset) in beside)
        if begun is None and before is None:
            continue
        cut = Cut(path, task, offset, begun if begun is not None else stream.current or 0)
        if event == Context.ATTEMPT_STARTED:
            # The agent says that it will restart, stops the old workers, and only then gathers for the next attempt.
            announced[path, task] = cut
        else:
            yield cut
    yield from announced.values()


def _introduced_again(frame: pl.DataFrame) -> Iterator[Cut]:
    """Rank files in which the rank introduces itself again, with another pid, after it had failed."""
    identity = is_event(Context.RANK_IDENTITY)
    failure = pl.col("role") != pl.lit(str(Role.CONTEXT))
    rows = frame.filter(identity | failure)
    repeated = rows.filter(identity).group_by("path").len().filter(pl.col("len") > 1)["path"]
    rows = rows.filter(among("path", repeated.to_list())).sort("path", "offset")
    state: dict[str, _Introduced] = {}
    cuts: dict[str, list[Cut]] = defaultdict(list)
    columns = ("path", "task", "event", "signature", "pid", "offset")
    for path, task, event, signature, pid, offset in rows.select(columns).iter_rows():
        known = state.setdefault(path, _Introduced())
        if event != Context.RANK_IDENTITY:
            known.failed = known.attempt >= 0
            continue
        same_process = pid is not None and pid == known.pid
        if known.attempt < 0 or (known.failed and not same_process and signature in known.said):
            known.attempt += 1
            known.said.clear()
            cuts[path].append(Cut(path, task, offset, known.attempt))
        known.said.add(signature)
        known.pid, known.failed = pid if pid is not None else known.pid, False
    yield from (cut for marks in cuts.values() if len(marks) > 1 for cut in marks)


@dataclass(slots=True)
class _Introduced:
    """How a rank introduced itself in its present attempt; one start may print several kinds of such lines."""

    attempt: int = -1
    pid: int | None = None
    failed: bool = False
    said: set[str] = field(default_factory=set)


def _by_offset(frame: pl.DataFrame, cuts: Sequence[Cut]) -> pl.DataFrame:
    """`_cut`: the attempt by file order; lines before a writer's first mark belong to the attempt before it."""
    keyed = frame.with_columns(pl.col("task").fill_null(-1).alias("_task"))
    streams: dict[tuple[str, int], list[Cut]] = defaultdict(list)
    for cut in cuts:
        streams[cut.path, -1 if cut.task is None else cut.task].append(cut)
    rows = [
        (path, task, offset, attempt)
        for (path, task), marks in streams.items()
        for offset, attempt in ((-1, max(0, marks[0].attempt - 1)), *((m.offset, m.attempt) for m in marks))
    ]
    schema = {"path": pl.String, "_task": pl.Int32, "offset": pl.Int64, "_cut": pl.Int32}
    table = pl.DataFrame(rows, schema=schema, orient="row").sort("offset")
    joined = keyed.sort("offset").join_asof(table, on="offset", by=["path", "_task"], check_sortedness=False)
    return joined.drop("_task").sort("row")


def _highest(frame: pl.DataFrame, cuts: Iterable[Cut]) -> int:
    highest = frame.select(pl.col("attempt").max()).item()
    return max((cut.attempt for cut in cuts), default=0) if highest is None else int(highest)


def _by_time(frame: pl.DataFrame, last: int) -> pl.DataFrame:
    """Places files without marks between the marks of their node, on the node's own clock."""
    if last == 0:
        return frame.with_columns(pl.col("attempt").fill_null(0))
    starts = (
        frame.filter(pl.col("attempt").is_not_null() & pl.col("node").is_not_null() & pl.col("explicit"))
        .group_by("node", "attempt")
        .agg(pl.col("time").min())
        .drop_nulls()
        .rename({"attempt": "_timed"})
    )
    # An attempt's first line is its start; what came before the first attempt on that node is part of it.
    starts = starts.with_columns(
        pl.when(pl.col("_timed") == pl.col("_timed").min().over("node"))
        .then(pl.lit(-(2**62), pl.Int64))
        .otherwise(pl.col("time"))
        .alias("time")
    ).sort("time")
    homes = pl.DataFrame(list(home_nodes(frame).items()), schema={"_who": pl.Int32, "_home": pl.String}, orient="row")
    open_rows = frame.filter(pl.col("attempt").is_null() & pl.col("time").is_not_null()).sort("time")
    open_rows = open_rows.with_columns(pl.coalesce("rank", "w_rank").alias("_who")).join(homes, on="_who", how="left")
    open_rows = open_rows.with_columns(pl.coalesce("node", "_home").alias("node")).sort("time")
    placed = open_rows.join_asof(starts, on="time", by="node", check_sortedness=False).select("row", "_timed")
    joined = frame.join(placed, on="row", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("attempt", "_timed").alias("attempt")).drop("_timed")
