"""Who wrote each line, and by which clock: what the events of a file taught about all its lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from correlator.core.files import LogFile
from correlator.core.model import ClockModel, Topology
from correlator.core.vocabulary import FileKind
from correlator.identity.frame import AGENT_EVENTS, FOREIGN_HOST_EVENTS
from correlator.parsers.base import Prefix

if TYPE_CHECKING:
    import polars as pl

_ONE_WRITER = frozenset({FileKind.RANK_LOG, FileKind.NCCL_DEBUG_LOG, FileKind.STACK_DUMP})
_OWN_CLOCK = frozenset({FileKind.SCHEDULER_LOG, FileKind.POD_LISTING})
_MANY_NODES = _OWN_CLOCK | {FileKind.CONSOLE_LOG}


@dataclass(frozen=True, slots=True)
class Clock:
    """How a clock domain stands to the reference clock."""

    offset_ns: int
    half_width_ms: float
    """Half of the interval in which the offset lies."""


@dataclass(frozen=True, slots=True)
class Known:
    """What holds for all files of a run."""

    hosts: dict[str, int]
    """Every node, and its place in the order of partitions."""
    rank_at: dict[tuple[str, int], int]
    """(node, local rank) -> rank."""
    node_of: dict[int, str]
    """Rank -> node."""
    clocks: dict[str, Clock]
    """Clock domain -> its estimate; a domain without one keeps the printed time."""


@dataclass(frozen=True, slots=True)
class FileWriter:
    """What is known of the writers of one file."""

    node: str | None = None
    rank: int | None = None
    """Where one rank wrote all of it."""
    rank_of_task: dict[int, int] = field(default_factory=dict)
    domain_of: dict[tuple[str | None, bool], str] = field(default_factory=dict)
    """(node or None for any, the stamp has a zone) -> clock domain."""
    attempts: tuple[tuple[int, int], ...] = ()
    """(byte offset, attempt) where the attempt changes, ascending."""

    def node_of_line(self, prefix: Prefix, known: Known) -> str | None:
        """The node that a line's prefix names, if the run has it; else the file's."""
        if prefix.host is not None:
            for name in (prefix.host, prefix.host.split(".", 1)[0]):
                if name in known.hosts:
                    return name
        return self.node

    def rank_of_line(self, prefix: Prefix, node: str | None, known: Known) -> int | None:
        """The global rank that wrote a line, as far as its prefix or the file says it."""
        if prefix.rank is not None:
            return prefix.rank
        if prefix.local_rank is not None and node is not None:
            rank = known.rank_at.get((node, prefix.local_rank))
            if rank is not None:
                return rank
        if prefix.task_id is not None and prefix.task_id in self.rank_of_task:
            return self.rank_of_task[prefix.task_id]
        return self.rank

    def domain_of_line(self, file: LogFile, node: str | None, *, zoned: bool) -> str:
        """The clock that stamped a line."""
        for key in ((node, zoned), (None, zoned)):
            if key in self.domain_of:
                return self.domain_of[key]
        return file.path if file.kind in _OWN_CLOCK or node is None else node


def known_of(events: pl.DataFrame, topology: Topology, clocks: ClockModel) -> Known:
    """The facts about nodes, ranks and clocks that all files share."""
    import polars as pl

    seen = events["host_name"].cast(pl.String).drop_nulls().unique().to_list()
    hosts = {host: number for number, host in enumerate(sorted({*seen, *topology.nodes}), start=1)}
    placed = [place for place in topology.ranks if place.node is not None]
    return Known(
        hosts=hosts,
        rank_at={(p.node, p.local_rank): p.rank for p in placed if p.node and p.local_rank is not None},
        node_of={p.rank: p.node for p in placed if p.node},
        clocks={
            e.node: Clock(round(e.offset_ms * 1e6), (e.interval_ms[1] - e.interval_ms[0]) / 2)
            for e in clocks.estimates
            if e.offset_ms is not None and e.interval_ms is not None
        },
    )


def writers_of(events: pl.DataFrame, files: Sequence[LogFile], known: Known) -> dict[str, FileWriter]:
    """The writer of every file, by its path."""
    import polars as pl

    labels = ("log_file_path", "host_name", "clock_domain", "event_name")
    parts = events.select(
        pl.col(*labels).cast(pl.String),
        "rank",
        "task_id",
        "attempt",
        "byte_offset",
        pl.col("time_zone").is_not_null().alias("zoned"),
    ).partition_by("log_file_path", as_dict=True)
    return {file.path: _writer(file, parts.get((file.path,)), known) for file in files}


def _writer(file: LogFile, rows: pl.DataFrame | None, known: Known) -> FileWriter:
    hints = file.hints
    node = hints.node if hints.node in known.hosts else None
    if rows is None:
        rank = hints.rank
        if rank is None and node is not None and hints.local_rank is not None:
            rank = known.rank_at.get((node, hints.local_rank))
        return FileWriter(node=node or (known.node_of.get(rank) if rank is not None else None), rank=rank)
    import polars as pl

    own = rows.filter(~pl.col("event_name").is_in(sorted(AGENT_EVENTS)))
    local = rows.filter(~pl.col("event_name").is_in(sorted(FOREIGN_HOST_EVENTS)))
    if file.kind not in _MANY_NODES:
        node = _most(local["host_name"]) or node
    rank = _most(own["rank"]) if file.kind in _ONE_WRITER or hints.rank is not None else None
    tasks = own.drop_nulls(["task_id", "rank"]).group_by("task_id").agg(pl.col("rank").mode().min())
    return FileWriter(
        node=node if file.kind not in _MANY_NODES else None,
        rank=rank,
        rank_of_task=dict(tasks.iter_rows()),
        domain_of=_domains(rows),
        attempts=_attempts(rows),
    )


def _most(column: pl.Series) -> object:
    """The most frequent value (the least of equals), or None."""
    values = column.drop_nulls()
    return values.mode().min() if len(values) else None


def _domains(rows: pl.DataFrame) -> dict[tuple[str | None, bool], str]:
    import polars as pl

    found: dict[tuple[str | None, bool], str] = {}
    for keys in (["host_name", "zoned"], ["zoned"]):
        table = rows.drop_nulls(["clock_domain"]).group_by(keys).agg(pl.col("clock_domain").mode().min())
        for row in table.iter_rows(named=True):
            found.setdefault((row.get("host_name"), row["zoned"]), row["clock_domain"])
    return found


def _attempts(rows: pl.DataFrame) -> tuple[tuple[int, int], ...]:
    """Where in the file the attempt of its events changes; the first holds from the beginning."""
    pairs: Iterable[tuple[int, int]] = rows.drop_nulls("attempt").sort("byte_offset").select(
        "byte_offset", "attempt"
    ).iter_rows()  # fmt: skip
    changes: list[tuple[int, int]] = []
    for offset, attempt in pairs:
        if not changes or changes[-1][1] != attempt:
            changes.append((offset if changes else 0, attempt))
    return tuple(changes)
