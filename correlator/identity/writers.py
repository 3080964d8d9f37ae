"""Who writes each file: the node, and where it is one rank's own file, the rank. Content beats the file's name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import polars as pl

from correlator.core.files import FileHints, FileReport, LogFile
from correlator.core.model import Conflict
from correlator.core.vocabulary import FileKind
from correlator.identity.ballot import SHARE
from correlator.identity.frame import AGENT_EVENTS, FOREIGN_HOST_EVENTS, among, place
from correlator.identity.names import HostNames

_ONE_WRITER = frozenset({FileKind.RANK_LOG, FileKind.NCCL_DEBUG_LOG, FileKind.FLIGHT_RECORDER, FileKind.STACK_DUMP})
_DIGITS = re.compile(r"\d+")
_RANK_FILES = _ONE_WRITER | {FileKind.ERROR_FILE, FileKind.TEXT}


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of one file. None = not known, or the file has several."""

    path: str
    kind: FileKind
    node: str | None = None
    node_rank: int | None = None
    rank: int | None = None
    guessed: bool = False
    """The rank is a bare number of the file's name."""
    local_rank: int | None = None
    pid: int | None = None
    """The one process that writes it, where its name says so (nccl.node03.4245.log)."""
    task_id: int | None = None
    attempt: int | None = None
    agent: str | None = None
    """Scope of one agent: files with the same value were started by the same torchrun."""
    shared: bool = False
    """Several ranks write into it."""
    has_lines: bool = False


def writers(
    frame: pl.DataFrame,
    files: Sequence[LogFile],
    reports: Sequence[FileReport],
    names: HostNames,
    joined: AbstractSet[str] = frozenset(),
) -> tuple[tuple[Writer, ...], tuple[Conflict, ...]]:
    """The writer of every file, and where a file's name and its content disagree. `frame.host` is canonical.

    `joined` are files that hold the logs of several nodes one after the other: a host that they name is not all of it.
    """
    hosts = _content(frame.filter(~among("event", FOREIGN_HOST_EVENTS)), "host")
    ranks = _content(frame.filter(~among("event", AGENT_EVENTS)), "rank")
    by_path = {report.path: report for report in reports}
    found: list[Writer] = []
    conflicts: list[Conflict] = []
    known = {file.path: (file.kind, file.hints) for file in files}
    for path, kind in frame.select("path", "kind").unique().iter_rows():
        known.setdefault(path, (FileKind(kind), FileHints()))
    for path in sorted(known):
        kind, hints = known[path]
        report = by_path.get(path)
        kind = report.kind if report else kind
        writer = Writer(
            path=path,
            kind=kind,
            local_rank=hints.local_rank,
            node_rank=hints.node_rank,
            pid=hints.pid if kind in _ONE_WRITER else None,
            task_id=hints.task_id,
            attempt=hints.attempt,
            agent=hints.run_id,
            has_lines=bool(report and report.lines),
        )
        node_hint = names.node(hints.node) or names.node(hints.pod) or (names.node(report.node) if report else None)
        if path not in joined:
            writer, clash = _with_node(writer, node_hint, hosts.get(path, {}))
            conflicts += clash
        rank_hint = hints.rank if hints.rank is not None else (report.rank if report else None)
        writer, clash = _with_rank(writer, rank_hint, ranks.get(path, {}))
        writer = replace(writer, guessed=bool(hints.rank_guessed) and not ranks.get(path))
        conflicts += clash
        found.append(writer)
    return tuple(_by_agent(_believed(found, known, ranks))), tuple(conflicts)


def within(found: Sequence[Writer], world: int) -> tuple[Writer, ...]:
    """The writers without guessed ranks that a run of so many ranks does not have; one wrong number spoils its series."""
    spoiled = {_series(w.path) for w in found if w.guessed and w.rank is not None and w.rank >= world}
    return tuple(replace(w, rank=None, guessed=False) if w.guessed and _series(w.path) in spoiled else w for w in found)


def _believed(
    found: Sequence[Writer], known: Mapping[str, tuple[FileKind, FileHints]], said: Mapping[str, Mapping[str, _Said]]
) -> list[Writer]:
    """Drops guessed ranks where the lines of a file numbered alike tell another rank: there the numbers count files."""
    wrong = {
        _series(path)
        for path, (_, hints) in known.items()
        if hints.rank_guessed and said.get(path) and str(hints.rank) not in said[path]
    }
    return [replace(w, rank=None, guessed=False) if w.guessed and _series(w.path) in wrong else w for w in found]


def _series(path: str) -> str:
    return _DIGITS.sub("#", path)


@dataclass(frozen=True, slots=True)
class _Said:
    """How often a file's lines say a value, and where first."""

    line: int
    count: int


def _content(frame: pl.DataFrame, column: str) -> dict[str, dict[str, _Said]]:
    """Distinct values of a column in each file, as text."""
    rows = (
        frame.filter(pl.col(column).is_not_null())
        .group_by("path", pl.col(column).cast(pl.String).alias("value"))
        .agg(pl.col("line").min(), pl.len().alias("count"))
    )
    found: dict[str, dict[str, _Said]] = defaultdict(dict)
    for path, value, line, count in rows.sort("path", "line", "value").iter_rows():
        found[path][value] = _Said(line, count)
    return found


def _with_node(writer: Writer, hint: str | None, said: dict[str, _Said]) -> tuple[Writer, list[Conflict]]:
    if writer.kind in (FileKind.CONSOLE_LOG, FileKind.SCHEDULER_LOG, FileKind.POD_LISTING):
        return writer, []
    if not said or hint in said:
        return replace(writer, node=hint), []
    host, first = next(iter(said.items()))
    content = replace(writer, node=host if len(said) == 1 else None)
    if hint is None:
        return content, []
    clash = Conflict(
        f"node of {writer.path}", (host, f"{hint} (file name)"), (place(writer.path, first.line), writer.path)
    )
    return content, [clash]


def _with_rank(writer: Writer, hint: int | None, said: dict[str, _Said]) -> tuple[Writer, list[Conflict]]:
    if writer.kind not in _RANK_FILES:
        return replace(writer, shared=writer.kind in (FileKind.NODE_LOG, FileKind.CONSOLE_LOG)), []
    if not said:
        return replace(writer, rank=hint), []
    rank, first = max(said.items(), key=lambda item: item[1].count)
    clash = []
    if hint is not None and set(said) != {str(hint)}:
        other = next(value for value in said if value != str(hint))
        places = (place(writer.path, said[other].line), writer.path)
        clash = [Conflict(f"rank of {writer.path}", (other, f"{hint} (file name)"), places)]
    if first.count < SHARE * sum(value.count for value in said.values()):
        return replace(writer, shared=True, local_rank=None), clash
    single = writer.kind in _ONE_WRITER or writer.local_rank is not None or hint is not None
    return replace(writer, rank=int(rank) if single else None), clash


def _by_agent(found: Iterable[Writer]) -> list[Writer]:
    """Files of one agent's folder are on one node: where any of them knows it, all do."""
    found = list(found)
    nodes: dict[str, set[str]] = defaultdict(set)
    for writer in found:
        if writer.agent and writer.node:
            nodes[writer.agent].add(writer.node)
    return [
        replace(writer, node=next(iter(nodes[writer.agent])))
        if writer.agent and writer.node is None and len(nodes[writer.agent]) == 1
        else writer
        for writer in found
    ]
