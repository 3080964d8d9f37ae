"""Who wrote each line, and by which clock: what the events of a file taught about all its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from correlator.core.files import LogFile
from correlator.core.model import ClockEstimate, ClockModel, Topology
from correlator.core.vocabulary import FileKind
from correlator.identity.frame import AGENT_EVENTS, FOREIGN_HOST_EVENTS, among
from correlator.parsers.base import Prefix

if TYPE_CHECKING:
    import polars as pl

V = TypeVar("V")

_ONE_WRITER = frozenset({FileKind.RANK_LOG, FileKind.NCCL_DEBUG_LOG, FileKind.STACK_DUMP})
_OWN_CLOCK = frozenset({FileKind.SCHEDULER_LOG, FileKind.POD_LISTING})
_MANY_NODES = _OWN_CLOCK | {FileKind.CONSOLE_LOG}


@dataclass(frozen=True, slots=True)
class Known:
    """What holds for all files of a run."""

    hosts: dict[str, int]
    """Every node, and its place in the order of partitions."""
    rank_at: dict[tuple[str, int], int]
    """(node, local rank) -> rank."""
    node_of: dict[int, str]
    """Rank -> node."""
    clocks: tuple[ClockEstimate, ...]


@dataclass(frozen=True, slots=True)
class FileWriter:
    """What is known of the writers of one file."""

    node: str | None = None
    rank: int | None = None
    """Where one rank wrote all of it."""
    rank_of_task: dict[int, int] = field(default_factory=dict)
    """Tasks that are one rank each."""
    node_of_task: dict[int, str] = field(default_factory=dict)
    domain_of: dict[tuple[str | None, bool], str] = field(default_factory=dict)
    """(node or None for any, the stamp has a zone) -> clock domain."""
    attempts: tuple[tuple[int, int], ...] = ()
    """(byte offset, attempt) where the attempt changes, ascending."""

    def node_of_line(self, prefix: Prefix, known: Known) -> str | None:
        """The node that a line's prefix names, if the run has it; else that of its task, or of the file."""
        if prefix.host is not None:
            for name in (prefix.host, prefix.host.split(".", 1)[0]):
                if name in known.hosts:
                    return name
        if self.node is None and prefix.task_id is not None:
            return self.node_of_task.get(prefix.task_id)
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
        clocks=clocks.estimates,
    )


def writers_of(events: pl.DataFrame, files: Sequence[LogFile], known: Known) -> dict[str, FileWriter]:
    """The writer of every file, by its path."""
    said: dict[str, _Said] = {}
    for path, host, rank, task, domain, zoned, count in _combinations(events).iter_rows():
        said.setdefault(path, _Said()).take(host, rank, task, domain, count, zoned=zoned)
    attempts: dict[str, list[tuple[int, int]]] = {}
    for path, offset, attempt in _attempts(events).iter_rows():
        changes = attempts.setdefault(path, [])
        changes.append((offset if changes else 0, attempt))
    return {
        file.path: _writer(file, said.get(file.path, _Said()), tuple(attempts.get(file.path, ())), known)
        for file in files
    }


@dataclass(slots=True)
class _Said:
    """What the events of one file say of its writers, each with its number of events."""

    hosts: Counter[str] = field(default_factory=Counter)
    ranks: Counter[int] = field(default_factory=Counter)
    ranks_of_task: dict[int, set[int]] = field(default_factory=dict)
    hosts_of_task: dict[int, Counter[str]] = field(default_factory=dict)
    domains: dict[tuple[str | None, bool], Counter[str]] = field(default_factory=dict)

    def take(
        self, host: str | None, rank: int | None, task: int | None, domain: str | None, count: int, *, zoned: bool
    ) -> None:
        """Count one combination."""
        if host is not None:
            self.hosts[host] += count
        if rank is not None:
            self.ranks[rank] += count
        if task is not None and rank is not None:
            self.ranks_of_task.setdefault(task, set()).add(rank)
        if task is not None and host is not None:
            self.hosts_of_task.setdefault(task, Counter())[host] += count
        if domain is not None:
            for key in {(host, zoned), (None, zoned)}:
                self.domains.setdefault(key, Counter())[domain] += count


def _combinations(events: pl.DataFrame) -> pl.DataFrame:
    """Distinct writers of each file; a rank counts only where it wrote the line, a host only where it is its own."""
    import polars as pl

    texts = events.select(
        pl.col("log_file_path", "host_name", "clock_domain", "event_name").cast(pl.String),
        "rank",
        "task_id",
        pl.col("time_zone").is_not_null().alias("zoned"),
    )
    columns = (
        pl.col("log_file_path"),
        pl.when(~among("event_name", FOREIGN_HOST_EVENTS)).then(pl.col("host_name")).alias("host_name"),
        pl.when(~among("event_name", AGENT_EVENTS)).then(pl.col("rank")).alias("rank"),
        pl.col("task_id"),
        pl.col("clock_domain"),
        pl.col("zoned"),
    )
    return texts.group_by(*columns).len().sort("log_file_path", "host_name", "rank", "task_id", "clock_domain", "zoned")


def _attempts(events: pl.DataFrame) -> pl.DataFrame:
    """Path, byte offset and attempt where the attempt of a file's events changes."""
    import polars as pl

    rows = events.select(pl.col("log_file_path").cast(pl.String), "byte_offset", "attempt").drop_nulls("attempt")
    changed = pl.col("attempt") != pl.col("attempt").shift(1).over("log_file_path")
    return rows.sort("log_file_path", "byte_offset", maintain_order=True).filter(changed.fill_null(value=True))


def _writer(file: LogFile, said: _Said, attempts: tuple[tuple[int, int], ...], known: Known) -> FileWriter:
    hints = file.hints
    node = hints.node if hints.node in known.hosts else None
    rank = hints.rank
    if file.kind in _ONE_WRITER or rank is not None:
        rank = _most(said.ranks) if said.ranks else rank
    if rank is None and node is not None and hints.local_rank is not None and file.kind in _ONE_WRITER:
        rank = known.rank_at.get((node, hints.local_rank))
    if file.kind in _MANY_NODES:
        node = None
    elif said.hosts:
        node = _most(said.hosts)
    elif node is None and rank is not None:
        node = known.node_of.get(rank)
    return FileWriter(
        node=node,
        rank=rank,
        rank_of_task={task: min(ranks) for task, ranks in said.ranks_of_task.items() if len(ranks) == 1},
        node_of_task={task: _most(hosts) for task, hosts in said.hosts_of_task.items()},
        domain_of={key: _most(domains) for key, domains in said.domains.items()},
        attempts=attempts,
    )


def _most(votes: Counter[V]) -> V:
    """The value with most votes; of equals the one that was counted first."""
    return votes.most_common(1)[0][0]
