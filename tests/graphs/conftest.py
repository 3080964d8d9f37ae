"""A run written down in a few lines: events with the time they truly happened, on nodes whose clocks may be wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import polars as pl
import pytest

from correlator.core.files import FileReport
from correlator.core.model import ClockEstimate, ClockModel, ProcessGroup, RankPlace, Topology
from correlator.core.schema import polars_schema
from correlator.core.vocabulary import ClockStatus, CollateralKind, FaultCode, FileKind, Role
from correlator.graphs import Findings, RunFacts, judge

START_NS = 1_764_464_400_000_000_000


def role_of(name: str) -> Role:
    if name in tuple(FaultCode):
        return Role.INITIATING
    return Role.COLLATERAL if name in tuple(CollateralKind) else Role.CONTEXT


@dataclass
class RunBuilder:
    """Ranks 0..world-1 in blocks over node00, node01, ...; `at_s` is true time, what is printed is off by the node's clock."""

    world: int = 8
    per_node: int = 4
    offsets_ms: dict[str, float] = field(default_factory=dict)
    uncertainty_ms: float = 10.0
    silent_ranks: frozenset[int] = frozenset()
    tasks_are_ranks: bool = False
    groups: tuple[ProcessGroup, ...] = ()
    rows: list[dict[str, object]] = field(default_factory=list)
    reports: tuple[FileReport, ...] = ()

    def node_of(self, rank: int) -> str:
        return f"node{rank // self.per_node:02d}"

    def add(self, name: str, at_s: float | None = None, *, rank: int | None = None, **fields: object) -> RunBuilder:
        """One event; `node`, `file`, `kind`, `attributes` and any column of the table may be given."""
        node = fields.pop("node", self.node_of(rank) if rank is not None else None)
        file = str(fields.pop("file", f"rank_{rank}.log" if rank is not None else f"{node or 'slurm'}.log"))
        attributes = {key: str(value) for key, value in dict(fields.pop("attributes", {})).items()}  # type: ignore[call-overload]
        offset_ns = int(self.offsets_ms.get(str(node), 0.0) * 1e6)
        true_ns = None if at_s is None else START_NS + int(at_s * 1e9)
        number = len(self.rows) + 1
        self.rows.append(
            {
                "event_id": number,
                "event_name": name,
                "role": fields.pop("role", role_of(name)),
                "signature": f"test.{name}",
                "timestamp": None if true_ns is None else true_ns + offset_ns,
                "time_aligned": true_ns,
                "time_uncertainty_ms": self.uncertainty_ms,
                "time_granularity_ms": fields.pop("granularity_ms", 1.0),
                "time_source": "none" if true_ns is None else "explicit",
                "rank": rank,
                "host_name": node,
                "clock_domain": node or file,
                "log_file_path": file,
                "line_number": number,
                "line_count": 1,
                "byte_offset": number * 100,
                "dialect": "test",
                "file_kind": fields.pop("kind", FileKind.RANK_LOG),
                "attempt": fields.pop("attempt", 0),
                "body": fields.pop("body", name),
                "attributes": [{"key": key, "value": value} for key, value in attributes.items()],
                **fields,
            }
        )
        return self

    def steps(self, last: int, at_s: float = 0.0, every_s: float = 1.0) -> RunBuilder:
        """All ranks print the steps up to `last`, the first at `at_s`."""
        for step in range(1, last + 1):
            for rank in range(self.world):
                self.add("progress", at_s + step * every_s, rank=rank, step=step)
        return self

    def timeouts(
        self, ranks: list[int], at_s: float, seq: int = 77, op: str = "ALLREDUCE", **fields: object
    ) -> RunBuilder:
        """Watchdog timeouts of ranks in one collective."""
        for number, rank in enumerate(ranks):
            wait = {"collective_seq": seq, "collective_op": op, "process_group": "0", **fields}
            self.add("collective_timeout", at_s + number * 0.01, rank=rank, **wait)
        return self

    def topology(self) -> Topology:
        places = tuple(
            RankPlace(
                rank=rank,
                local_rank=rank % self.per_node,
                node=self.node_of(rank),
                node_rank=rank // self.per_node,
                pid=1000 + rank,
                has_log=rank not in self.silent_ranks,
            )
            for rank in range(self.world)
        )
        nodes = tuple(dict.fromkeys(place.node for place in places if place.node))
        logged = tuple(dict.fromkeys(place.node for place in places if place.node and place.has_log))
        return Topology(
            self.world,
            places,
            nodes,
            nodes_with_logs=logged,
            store_node="node00",
            tasks_are_ranks=self.tasks_are_ranks,
            groups=self.groups,
        )

    def clocks(self) -> ClockModel:
        half = self.uncertainty_ms
        names = dict.fromkeys(str(row["clock_domain"]) for row in self.rows)
        return ClockModel(
            tuple(
                ClockEstimate(
                    name,
                    self.offsets_ms.get(name, 0.0),
                    (self.offsets_ms.get(name, 0.0) - half, self.offsets_ms.get(name, 0.0) + half),
                    0.0,
                    None,
                    9,
                    ClockStatus.ALIGNED,
                )
                for name in names
            )
        )

    def judge(self, healthy: frozenset[str] = frozenset()) -> Findings:
        schema = polars_schema()
        time = {"timestamp", "time_aligned", "observed_timestamp"}
        raw = {name: (pl.Int64 if name in time else dtype) for name, dtype in schema.items()}
        rows = [{name: row.get(name) for name in schema} for row in self.rows]
        table = pl.DataFrame(rows, schema=raw).with_columns(pl.col(name).cast(schema[name]) for name in time)
        return judge(RunFacts(table, self.topology(), self.clocks(), self.reports, healthy=healthy))


@pytest.fixture
def run() -> Callable[..., RunBuilder]:
    """Builder of small runs."""
    return RunBuilder
