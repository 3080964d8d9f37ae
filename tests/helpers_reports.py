"""A failed run of any number of ranks by hand, finished: its diagnosis, event table and causal graph."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import polars as pl

import correlator
from correlator.core.model import (
    Actions,
    Checkpoint,
    ClockEstimate,
    Collateral,
    Diagnosis,
    Evidence,
    Hypothesis,
    Initiator,
    RunSummary,
    SkippedFile,
    Verdict,
)
from correlator.core.reasons import ContextLine
from correlator.core.schema import polars_schema
from correlator.core.vocabulary import ClockStatus, FaultClass, FaultCode, Phase, VerdictStatus
from correlator.reports.details import Details

ROOT = Path(__file__).parent.parent
SAMPLES = (
    "pub-oom-rank11-slurm",
    "pub-uneven-iterable",
    "real-healthy-noisy-002",
    "real-sigkill-005",
    "sim-node-lost-k8s-30s-334",
    "sim-two-stragglers-fr-torchrun-45s-394",
)
START_NS = 1_772_421_164_000_000_000
MS = 1_000_000
SECOND = 1_000_000_000
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4245, name=python3, GPU has fallen off the bus."
WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1893, OpType=ALLREDUCE) ran for 600008 ms"
HOSTILE = (
    "</script><script>alert(1)</script> ]]> --> <!-- {{7*7}} {% raw %} \x1b[31mred\x1b[0m \x1b]0;title\x07 \u202eflip\u2066 "
    '``` ```` `x` | **b** [l](http://evil.example/) ![i](http://evil.example/i.png) "quote" \'q\' end"]; click g0 '
    '"http://evil.example" <img src=x onerror=alert(1)> $x$ @team #12 \\ \\" %%{init: {}}%% \x00 \x9b1m </svg></style></title> '
    "&lt; \r\n\n# heading\n- item"
)


@cache
def sample(name: str) -> tuple[Diagnosis, Details]:
    """A sample run, read once a session."""
    run = correlator.open_run(ROOT / "sample_runs" / name / "run", workers=1)
    return run.diagnosis, Details(run.events, run.graph, run.catalogue)


def iso(ns: int) -> str:
    """As a diagnosis has it."""
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def with_evidence(diagnosis: Diagnosis, text: str) -> Diagnosis:
    """The same diagnosis with another first line of evidence, as first context line too."""
    first = diagnosis.verdict.initiators[0]
    first = replace(first, evidence=(replace(first.evidence[0], text=text), *first.evidence[1:]))
    context = (ContextLine("a.log", 1, text), *diagnosis.context)
    return replace(diagnosis, verdict=replace(diagnosis.verdict, initiators=(first,)), context=context)


class Table:
    """Rows of an event table, numbered as they come."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, name: str, role: str, ns: int | None, rank: int | None, node: str, **values: Any) -> int:
        """One event; returns its id."""
        number = len(self.rows) + 1
        row: dict[str, Any] = dict.fromkeys(polars_schema())
        row |= {"event_id": number, "timestamp": ns, "time_aligned": ns, "event_name": name, "role": role, "rank": rank}
        row |= {"host_name": node, "signature": name, "time_source": "explicit", "attempt": 0, "attributes": []}
        row |= {"log_file_path": f"{node}/rank_{rank}.log", "line_number": number, "line_count": 1, "byte_offset": 0}
        row |= {"dialect": "test", "file_kind": "rank_log", "time_uncertainty_ms": 20.0}
        self.rows.append(row | values)
        return number

    def frame(self) -> pl.DataFrame:
        """As the pipeline makes it."""
        schema = polars_schema()
        times = [name for name, dtype in schema.items() if dtype == pl.Datetime("ns", "UTC")]
        raw = {name: pl.Int64 if name in times else dtype for name, dtype in schema.items()}
        frame = pl.DataFrame(self.rows, schema=raw)
        return frame.with_columns(pl.col(times).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")).select(
            list(schema)
        )


@cache
def failed_run(ranks: int, text: str = "") -> tuple[Diagnosis, Details]:
    """One GPU falls off the bus; its node is stopped, the others wait ten minutes. `text` stands wherever files speak."""
    table, graph = Table(), nx.DiGraph()
    bad = ranks // 2
    nodes = [f"node{number:04d}{text}" for number in range(max(ranks // 8, 1))]
    for step in range(20):
        ns = START_NS - (20 - step) * 4 * SECOND
        table.add("progress", "context", ns, 0, nodes[0], step=1200 + step, loss=2.5 - step / 100)
    root = table.add("gpu_off_bus", "initiating", START_NS, bad, nodes[bad // 8], body=text or XID)
    graph.add_node(
        "e0", kind="episode", code="gpu_off_bus", role="initiating", rank=bad, node=nodes[bad // 8], events=[root]
    )
    collateral, waiting = [], {}
    for rank in range(ranks):
        if rank == bad:
            continue
        entry, number = _dragged(table, rank, nodes[rank // 8], rank // 8 == bad // 8, text)
        collateral.append(entry)
        values = {"kind": "episode", "code": entry.kind, "role": "collateral", "rank": rank, "node": entry.node}
        graph.add_node(f"e{rank + 1}", **values, events=[number])
        if entry.kind == "collective_timeout":
            waiting[rank] = number
    values = {"kind": "hub", "code": "collective_timeout", "role": "collateral", "name": f"default_pg #1893{text}"}
    graph.add_node("h0", **values, waiters=sorted(waiting), missing=[bad], events=list(waiting.values()))
    graph.add_edge("e0", "h0", rule="E3", q=0.95, reason=f"rank {bad} never entered default_pg #1893{text}")
    for entry in collateral:
        rule, cause = ("E3", "h0") if entry.rank in waiting else ("E8", "e0")
        graph.add_edge(cause, f"e{(entry.rank or 0) + 1}", rule=rule, q=0.95, reason=f"because{text}")
    return _diagnosis(ranks, bad, nodes, collateral, text), Details(table.frame(), graph)


def _dragged(table: Table, rank: int, node: str, same_node: bool, text: str) -> tuple[Collateral, int]:
    kind = "terminated_by_launcher" if same_node else "collective_timeout"
    ns = START_NS + (601 if same_node else 600) * SECOND + (rank * 7919 % 1000) * MS
    attributes = [] if same_node else [{"key": "ran_ms", "value": "600000"}]
    body = text or ("Sending process 4245 closing signal SIGTERM" if same_node else WATCHDOG)
    number = table.add(kind, "collateral", ns, rank, node, body=body, attributes=attributes)
    line = Evidence(table.rows[-1]["log_file_path"], number, 0, body, iso(ns), kind)
    path = ("e0", f"e{rank + 1}") if same_node else ("e0", "h0", f"e{rank + 1}")
    return Collateral(rank, node, kind, iso(ns), (line,), path), number


def _diagnosis(ranks: int, bad: int, nodes: list[str], collateral: list[Collateral], text: str) -> Diagnosis:
    node = nodes[bad // 8]
    line = Evidence(f"{node}/kern.log", 1021, 0, text or XID, iso(START_NS), f"gpu_off_bus.xid{text}")
    accused = Initiator(
        bad, bad % 8, node, f"0000:3b:00{text}", 4245, FaultCode.GPU_OFF_BUS, FaultClass.HARDWARE, iso(START_NS), 18.0,
        Phase.STEP, 1219, (line,),
    )  # fmt: skip
    rival = Hypothesis(
        (f"rank 0 on {nodes[0]}",), FaultCode.RANK_STALLED, 0.03, (text or "it",), (text or "late",), text
    )
    return Diagnosis(
        run=RunSummary(f"llama-{ranks}{text}", ranks, ranks, tuple(nodes), 80, 12_000, 1, iso(START_NS), iso(START_NS)),
        verdict=Verdict(VerdictStatus.IDENTIFIED, 0.96, f"Rank {bad} on {node} lost its GPU.", (accused,)),
        hypotheses=(Hypothesis((f"rank {bad} on {node}",), FaultCode.GPU_OFF_BUS, 0.96), rival),
        collateral=tuple(collateral),
        context=tuple(ContextLine(f"{node}/kern.log", 1000 + n, text or f"line {n}") for n in range(20)),
        actions=Actions(
            f"Drain {node}.", (f"ssh {node} nvidia-smi -L",), f"It answers.{text}", f"From iter_0001200{text}."
        ),
        checkpoint=Checkpoint(1219, f"iter_0001200{text}", f"iter_0001200{text}", text or "all ranks saved it"),
        clocks=tuple(
            ClockEstimate(name, 3.0 * n - 9, (3.0 * n - 20, 3.0 * n + 5), None, None, 9, ClockStatus.ALIGNED)
            for n, name in enumerate(nodes)
        ),
        missing_evidence=(f"the kernel log of {nodes[0]}",),
        skipped=(SkippedFile(f"plot{text}.png", f"binary{text}"),),
        warnings=(f"rank 3 is named twice{text}",),
    )
