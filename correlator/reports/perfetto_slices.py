"""What a trace shows, before it is written: slices, instants and counters of each rank, from events and causal graph."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from correlator.core.vocabulary import Context, Role, TimeSource
from correlator.reports.causes import CauseGraph, Sign
from correlator.reports.cleaning import clipped, visible
from correlator.reports.lanes_events import Wait, ranks_of, waits_of
from correlator.reports.perfetto_tracks import Slice

if TYPE_CHECKING:
    import polars as pl

MOST_STEPS = 2_000
"""Step slices of a rank; longer runs have several steps in a slice."""
MOST_INSTANTS = 50_000
ANCHOR_NS = 1_000
_LONGEST = 300

Home = tuple[str, int | None]
"""Node (empty = not known) and rank (None = the node itself)."""


@dataclass(frozen=True, slots=True)
class Instant:
    """A line that tells of a fault or of collateral."""

    at_ns: int
    name: str
    args: tuple[tuple[str, str | int | float], ...]
    initiating: bool


@dataclass(frozen=True, slots=True)
class Count:
    """A value of a counter of a rank."""

    at_ns: int
    name: str
    value: float


@dataclass(slots=True)
class Material:
    """Everything that the trace shows; times in ns since 1970."""

    slices: dict[Home, list[Slice]] = field(default_factory=dict)
    instants: dict[Home, list[Instant]] = field(default_factory=dict)
    counts: dict[Home, list[Count]] = field(default_factory=dict)
    hubs: list[tuple[str, Slice]] = field(default_factory=list)
    """(name, its wait); each has a thread of its own."""
    untimed: int = 0
    """Causes that cannot be shown, since no line of theirs has a time."""
    thinned: int = 0
    """Instants left out."""
    nodes: dict[int, str] = field(default_factory=dict)
    """Rank -> its node, so that a line which names none stands with the others of its rank."""

    def home(self, node: str | None, rank: int | None) -> Home:
        """Where something is shown."""
        return (node or "", None) if rank is None else (self.nodes.get(rank, node or ""), rank)


def gather(events: pl.DataFrame, graph: CauseGraph) -> Material:
    """The material of a run; what has no time is counted, not guessed."""
    import polars as pl

    time = pl.coalesce("time_aligned", "timestamp").dt.epoch("ns").alias("ns")
    timed = events.with_columns(time).filter(pl.col("ns").is_not_null())
    material = Material()
    last_ns = timed["ns"].max()
    if not isinstance(last_ns, int):
        material.untimed = len(graph.causes)
        return material
    material.nodes = {rank: node for rank, node in ranks_of(timed) if node}
    _steps(material, timed)
    _collectives(material, timed, last_ns)
    waits = waits_of(timed, graph)
    _waits(material, timed, waits)
    _causes(material, graph, waits)
    _instants(material, timed)
    return material


def _steps(material: Material, timed: pl.DataFrame) -> None:
    """A slice from each report of progress to the next, and the counters that come with it."""
    import polars as pl

    reports = timed.filter((pl.col("event_name") == Context.PROGRESS.value) & pl.col("step").is_not_null())
    columns = reports.select(
        "host_name", "rank", "ns", "step", "loss", "log_file_path", "line_number", "time_uncertainty_ms"
    )
    ordered = columns.sort("rank", "ns", "step", nulls_last=True)
    for frame in ordered.partition_by("rank", maintain_order=True):
        thinned = frame.gather_every(max(1, -(-frame.height // MOST_STEPS)))
        before: tuple[int, int] | None = None
        for node, rank, ns, step, loss, file, line, margin in thinned.iter_rows():
            home = material.home(node, rank)
            if loss is not None and math.isfinite(loss):
                material.counts.setdefault(home, []).append(Count(ns, "loss", float(loss)))
            if before is not None and ns > before[0] and step > before[1]:
                name = f"step {step}" if step == before[1] + 1 else f"steps {before[1] + 1}-{step}"
                args = (("at", _shown(f"{file}:{line}")), ("step", step), *_uncertain(margin))
                material.slices.setdefault(home, []).append(Slice(before[0], ns, name, "step", args))
                step_s = (ns - before[0]) / 1e9 / (step - before[1])
                material.counts.setdefault(home, []).append(Count(ns, "step time, s", round(step_s, 6)))
            before = (ns, step)


def _collectives(material: Material, timed: pl.DataFrame, last_ns: int) -> None:
    """Entries of flight recorders, from being enqueued to being completed; open ones last to the end of the trace."""
    import polars as pl

    entries = timed.filter((pl.col("event_name") == Context.COLLECTIVE_ENTRY.value) & pl.col("rank").is_not_null())
    columns = entries.select(
        "host_name",
        "rank",
        "ns",
        pl.col("timestamp").dt.epoch("ns").alias("printed"),
        "process_group",
        "collective_op",
        "collective_seq",
        "time_uncertainty_ms",
        "log_file_path",
        "attributes",
    )
    for node, rank, ns, printed, group, op, seq, margin, file, attributes in columns.sort(
        "rank", "ns", "collective_seq"
    ).iter_rows():
        known = {pair["key"]: pair["value"] for pair in attributes or ()}
        done = _whole(known.get("completed_ns"))
        completed = done is not None or known.get("state") == "completed"
        end = last_ns if not completed else ns + done - printed if done is not None and printed is not None else ns
        label = known.get("pg_description") or group or ""
        args = {
            "group": _shown(label),
            "state": _shown(known.get("state") or ""),
            "frame": _shown(known.get("frame") or ""),
            "at": _shown(file),
            "uncertainty_ms": margin,
            "open": None if completed else "never completed",
        }
        name = _shown(f"{op or 'collective'} #{seq}" if seq is not None else f"{op or 'collective'}")
        shown = tuple((key, value) for key, value in args.items() if value not in (None, ""))
        item = Slice(ns, min(max(end, ns + ANCHOR_NS), last_ns + ANCHOR_NS), name, "collective", shown)
        material.slices.setdefault(material.home(node, rank), []).append(item)


def _waits(material: Material, timed: pl.DataFrame, waits: dict[int, Wait]) -> None:
    """A wait that ended in a timeout, of ranks that left no dump: a timeout says how long it lasted."""
    import polars as pl

    dumped = set(timed.filter(pl.col("event_name") == Context.COLLECTIVE_ENTRY.value)["rank"].drop_nulls().unique())
    for rank, wait in sorted(waits.items()):
        if rank in dumped or wait.high_ns is None:
            continue
        lasted = (("lasted_s", round((wait.high_ns - wait.low_ns) / 1e9, 3)),)
        item = Slice(wait.low_ns, wait.high_ns, "waiting in a collective", "wait", lasted)
        material.slices.setdefault(material.home(None, rank), []).append(item)


def _causes(material: Material, graph: CauseGraph, waits: dict[int, Wait]) -> None:
    """A slice of a microsecond for each episode, for flows to hold on to, and a wait for each hub."""
    taken: set[tuple[Home, int]] = set()
    reasons: dict[str, list[str]] = {}
    for link in graph.links:
        reasons.setdefault(link.effect, []).append(f"{link.rule}: {link.reason}")
    for cause in graph.causes:
        first = cause.first
        if first is None or first.time_ns is None:
            material.untimed += 1
            continue
        because = reasons.get(cause.id, [])
        args = (*_cited(first), *((("because", _shown("; ".join(because[:3]))),) if because else ()))
        if cause.kind == "hub":
            args += (("waiting", len(cause.ranks)), ("missing", _shown(",".join(map(str, cause.missing[:64])))))
            end = max(cause.last_ns or first.time_ns, first.time_ns + ANCHOR_NS)
            name = _shown(f"waiting in {cause.name}")
            begun = min((waits[rank].low_ns for rank in cause.ranks if rank in waits), default=first.time_ns)
            start = min(begun, first.time_ns)
            material.hubs.append((cause.name, Slice(start, end, name, "wait", args, cause.id)))
            continue
        home = material.home(next(iter(cause.nodes), None), next(iter(cause.ranks), None))
        start = cause.onset_ns or first.time_ns
        while (home, start // ANCHOR_NS) in taken:  # slices that begin together could not be told apart by flows
            start += ANCHOR_NS
        taken.add((home, start // ANCHOR_NS))
        category = "initiator" if cause.id in graph.roots else cause.role
        material.slices.setdefault(home, []).append(
            Slice(start, start + ANCHOR_NS, cause.code, category, args, cause.id)
        )


def _instants(material: Material, timed: pl.DataFrame) -> None:
    """Every line that tells of a fault or of collateral."""
    import polars as pl

    telling = timed.filter(pl.col("role") != Role.CONTEXT.value).sort("ns", "event_id")
    material.thinned = max(0, telling.height - MOST_INSTANTS)
    columns = telling.head(MOST_INSTANTS).select(
        "host_name",
        "event_name",
        "role",
        "event_id",
        "rank",
        "ns",
        "time_uncertainty_ms",
        "log_file_path",
        "line_number",
        pl.col("body").fill_null(""),
        pl.col("time_source").cast(pl.String) == TimeSource.INHERITED.value,
    )
    for node, name, role, *sign in columns.iter_rows():
        line = Sign(*sign)
        instant = Instant(line.time_ns or 0, name, tuple(_cited(line)), initiating=role == Role.INITIATING.value)
        material.instants.setdefault(material.home(node, line.rank), []).append(instant)


def _cited(sign: Sign) -> Iterator[tuple[str, str | int | float]]:
    yield "at", _shown(f"{sign.file}:{sign.line}")
    if sign.text:
        yield "text", _shown(sign.text)
    if sign.bound:
        yield "time", "not before: the line has no time of its own"
    else:
        yield from _uncertain(sign.uncertainty_ms)


def _uncertain(margin_ms: float | None) -> Iterator[tuple[str, float]]:
    if margin_ms is not None and math.isfinite(margin_ms):
        yield "uncertainty_ms", round(margin_ms, 3)


def _shown(text: str) -> str:
    return visible(clipped(text, _LONGEST))


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else None
