"""Rows of the event table as values that rules can reason about, and the order of two of them.

Progress lines stay in the table (millions of rows); only what rules look at one by one becomes a Fact.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from correlator.core.files import FileReport, Skipped
from correlator.core.model import ClockModel, Topology
from correlator.core.vocabulary import CollateralKind, Context, FaultCode, FileKind, Order, Role, Severity, TimeSource

CODES: frozenset[str] = frozenset(FaultCode) | frozenset(CollateralKind)
LAUNCHER_WORDS = frozenset(
    {Context.WORKER_FAILED, Context.WORKER_SIGNALLED, Context.CHILD_FAILED_ROW, Context.AGENT_SIGNALLED}
)
"""By these a launcher tells of an end."""
_BULK = (Context.PROGRESS, Context.COLLECTIVE_ENTRY, Context.EVALUATION)


@dataclass(frozen=True, slots=True)
class Fact:
    """One event. Times are int ns; `aligned_ns` and its interval are on the reference clock (None = cannot say)."""

    event_id: int
    name: str
    role: Role
    signature: str
    file: str
    line: int
    byte_offset: int
    file_kind: FileKind
    body: str
    cited_line: int | None = None
    """Line that the body quotes, where that is not the first one of the record."""
    cited_offset: int | None = None
    line_count: int = 1
    attempt: int = 0
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    domain: str | None = None
    gpu: str | None = None
    pid: int | None = None
    printed_ns: int | None = None
    aligned_ns: int | None = None
    uncertainty_ms: float = 0.0
    granularity_ms: float = 0.0
    inherited: bool = False
    """The time is that of an earlier line of the writer: a lower bound only."""
    zoned: bool = False
    """The stamps of this run carry a zone, so that times may be called UTC."""
    severity: Severity | None = None
    step: int | None = None
    group: str | None = None
    seq: int | None = None
    op: str | None = None
    group_rank: int | None = None
    exit_code: int | None = None
    exception_type: str | None = None
    stack: str | None = None
    template: str | None = None
    """Equal for all lines of one unknown error."""
    frame: str | None = None
    """`file:line` of the innermost frame of the user's code."""
    attributes: tuple[tuple[str, str], ...] = ()

    def attribute(self, name: str) -> str | None:
        """The value of a further fact, or None."""
        return next((value for key, value in self.attributes if key == name), None)

    def number(self, name: str) -> int | None:
        """A further fact read as an integer, or None."""
        text = self.attribute(name)
        try:
            return None if text is None else int(text)
        except ValueError:
            return None

    def integers(self, name: str) -> tuple[int, ...]:
        """A further fact read as a JSON list of integers; empty where it is none."""
        try:
            values = json.loads(self.attribute(name) or "[]")
        except ValueError:
            return ()
        return tuple(v for v in values if isinstance(v, int)) if isinstance(values, list) else ()

    @property
    def place(self) -> str:
        """`file:line` of the words that are cited."""
        return f"{self.file}:{self.cited_line or self.line}"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Everything that the graph may look at."""

    events: pl.DataFrame
    topology: Topology
    clocks: ClockModel
    reports: tuple[FileReport, ...]
    skipped: tuple[Skipped, ...] = ()
    healthy: frozenset[str] = frozenset()
    """Moulds of the unknown errors that a run without failure printed; what it prints too is no cause."""


def facts_of(events: pl.DataFrame, names: Iterable[str] | None = None) -> list[Fact]:
    """Rows as Facts, in file and line order; all but the bulk kinds, or just the given event names."""
    wanted = pl.col("event_name").cast(pl.String)
    kept = events.filter(wanted.is_in(list(names)) if names is not None else ~wanted.is_in(list(_BULK)))
    rows = kept.select(
        "event_id",
        *(pl.col(name).cast(pl.String) for name in _TEXT),
        *_NUMBERS,
        "body",
        "exception_stacktrace",
        pl.format("{}:{}", pl.col("code_file_path").cast(pl.String), "code_line_number").alias("frame"),
        pl.col("timestamp").dt.epoch("ns").alias("printed_ns"),
        pl.col("time_aligned").dt.epoch("ns").alias("aligned_ns"),
        "time_uncertainty_ms",
        "time_granularity_ms",
        "attributes",
    )
    zoned = prints_zone(events)
    return [_fact(row, zoned=zoned) for row in rows.iter_rows(named=True)]


Printers = Mapping[str, frozenset[int | None]]
"""Mould of an unknown error -> the ranks that printed it (None: a line that names none)."""


def printers_of(facts: Iterable[Fact]) -> Printers:
    """Who printed each unknown error."""
    ranks: dict[str, set[int | None]] = {}
    for fact in facts:
        if fact.template is not None:
            ranks.setdefault(fact.template, set()).add(fact.rank)
    return {template: frozenset(found) for template, found in ranks.items()}


def prints_zone(events: pl.DataFrame) -> bool:
    """Whether most stamps of the run carry a zone; else its times are local to the reference clock, nobody knows where."""
    stamped = events.filter(pl.col("time_source").cast(pl.String) == TimeSource.EXPLICIT)["time_zone"]
    return len(stamped) > 0 and stamped.null_count() * 2 < len(stamped)


_NUMBERS = (
    "line_number body_line_number body_byte_offset line_count byte_offset attempt rank local_rank process_pid step "
    "collective_seq group_rank exit_code"
).split()
_TEXT = (
    "event_name role signature time_source log_file_path file_kind host_name clock_domain gpu severity_text process_group "
    "collective_op exception_type template"
).split()


_ROLES = {role.value: role for role in Role}
_KINDS = {kind.value: kind for kind in FileKind}
"""Looked up by value: calling an enum costs ten times as much, and there are a million calls for 10^5 facts."""


def _fact(row: dict[str, object], *, zoned: bool) -> Fact:
    get = row.get
    severity = get("severity_text")
    return Fact(
        event_id=get("event_id"),  # type: ignore[arg-type]  # dtypes are held by the schema, not by the type checker
        name=row["event_name"],  # type: ignore[arg-type]
        role=_ROLES[row["role"]],  # type: ignore[index]
        signature=row["signature"],  # type: ignore[arg-type]
        file=row["log_file_path"],  # type: ignore[arg-type]
        line=get("line_number"),  # type: ignore[arg-type]
        byte_offset=get("byte_offset"),  # type: ignore[arg-type]
        file_kind=_KINDS[row["file_kind"]],  # type: ignore[index]
        body=get("body") or "",  # type: ignore[arg-type]
        cited_line=get("body_line_number"),  # type: ignore[arg-type]
        cited_offset=get("body_byte_offset"),  # type: ignore[arg-type]
        line_count=get("line_count") or 1,  # type: ignore[arg-type]
        attempt=get("attempt") or 0,  # type: ignore[arg-type]
        rank=get("rank"),  # type: ignore[arg-type]
        local_rank=get("local_rank"),  # type: ignore[arg-type]
        node=get("host_name"),  # type: ignore[arg-type]
        domain=get("clock_domain"),  # type: ignore[arg-type]
        gpu=get("gpu"),  # type: ignore[arg-type]
        pid=get("process_pid"),  # type: ignore[arg-type]
        printed_ns=get("printed_ns"),  # type: ignore[arg-type]
        aligned_ns=get("aligned_ns"),  # type: ignore[arg-type]
        uncertainty_ms=get("time_uncertainty_ms") or 0.0,  # type: ignore[arg-type]
        granularity_ms=get("time_granularity_ms") or 0.0,  # type: ignore[arg-type]
        inherited=row["time_source"] != TimeSource.EXPLICIT,
        zoned=zoned,
        severity=Severity(str(severity)) if severity else None,
        step=get("step"),  # type: ignore[arg-type]
        group=get("process_group"),  # type: ignore[arg-type]
        seq=get("collective_seq"),  # type: ignore[arg-type]
        op=get("collective_op"),  # type: ignore[arg-type]
        group_rank=get("group_rank"),  # type: ignore[arg-type]
        exit_code=get("exit_code"),  # type: ignore[arg-type]
        exception_type=get("exception_type"),  # type: ignore[arg-type]
        stack=get("exception_stacktrace"),  # type: ignore[arg-type]
        template=get("template"),  # type: ignore[arg-type]
        frame=get("frame"),  # type: ignore[arg-type]
        attributes=tuple([(a["key"], a["value"]) for a in get("attributes") or ()]),  # type: ignore[attr-defined]
    )


@dataclass(frozen=True, slots=True)
class Window:
    """When something began, as printed on one clock: not before `low_ns`, before `high_ns` (None = open)."""

    domain: str | None
    low_ns: int
    high_ns: int | None


def window_of(fact: Fact, ended_ns: int | None = None) -> Window | None:
    """The window of a fact.

    An inherited time only bounds it from below; `ended_ns`, the end of its process on the same clock, bounds it from above.
    """
    if fact.printed_ns is None:
        return None
    if not fact.inherited:
        return Window(fact.domain, fact.printed_ns, fact.printed_ns + int(fact.granularity_ms * 1e6))
    high = ended_ns if ended_ns is not None and ended_ns >= fact.printed_ns else None
    return Window(fact.domain, fact.printed_ns, high)


def order_of_windows(a: Window | None, b: Window | None, clocks: ClockModel) -> Order:
    """Which window certainly came first."""
    if a is None or b is None:
        return Order.INDISTINGUISHABLE
    if a.high_ns is not None:
        gap = clocks.gap_ms(a.domain, a.high_ns, b.domain, b.low_ns)
        if gap is not None and gap[0] > 0:
            return Order.BEFORE
    if b.high_ns is not None:
        gap = clocks.gap_ms(b.domain, b.high_ns, a.domain, a.low_ns)
        if gap is not None and gap[0] > 0:
            return Order.AFTER
    return Order.INDISTINGUISHABLE


def same_writer_order(a: Fact, b: Fact) -> Order | None:
    """Line order where it is the order of writing: one file, and one rank or no times to go by. None elsewhere."""
    if a.event_id == b.event_id:
        return Order.INDISTINGUISHABLE
    if a.file == b.file and (a.rank == b.rank or a.printed_ns is None or b.printed_ns is None):
        return Order.BEFORE if (a.line, a.byte_offset) < (b.line, b.byte_offset) else Order.AFTER
    return None


def order_of(a: Fact, b: Fact, clocks: ClockModel) -> Order:
    """Whether a came before b, beyond what file order, stamps and clocks leave open."""
    return same_writer_order(a, b) or order_of_windows(window_of(a), window_of(b), clocks)
