"""The values that the steps hand to each other, and the Diagnosis that people get (the JSON contract).

The JSON schema is generated from these dataclasses, so a field's name and type here are public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from correlator.core.reasons import ContextLine, EpisodeSummary, RuleUse
from correlator.core.vocabulary import ClockStatus, FaultClass, FaultCode, Order, Phase, VerdictStatus

SCHEMA: Literal["correlator.diagnosis/1"] = "correlator.diagnosis/1"


# --- who: the topology of the run ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Where one global rank ran. None = no evidence says so."""

    rank: int
    local_rank: int | None = None
    node: str | None = None
    node_rank: int | None = None
    pid: int | None = None
    gpu: str | None = None
    """PCI address `0000:3b:00`."""
    has_log: bool = False
    """True where at least one line of the files was written by this rank."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two pieces of evidence about identity that cannot both be true; kept, never silently resolved."""

    subject: str
    values: tuple[str, ...]
    places: tuple[str, ...]
    """`file:line` of each."""


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Members of a process group, by its name that is equal on all of them."""

    name: str
    description: str | None
    members: tuple[int, ...]
    """Global ranks, in group-rank order."""


@dataclass(frozen=True)  # without slots: the indexes below are kept on the instance
class Topology:
    """Ranks, nodes and groups of the last attempt."""

    world_size: int | None
    ranks: tuple[RankPlace, ...]
    nodes: tuple[str, ...]
    """Every node that any file names as part of the run, also one that left no log."""
    groups: tuple[ProcessGroup, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    attempts: int = 1
    nodes_with_logs: tuple[str, ...] = ()
    store_node: str | None = None
    """Node that hosts the TCPStore (master address), where known."""
    tasks_are_ranks: bool = False
    """The scheduler's task ids are the global ranks (one task for each GPU)."""

    def place(self, rank: int) -> RankPlace | None:
        """Where a rank ran, or None where nothing names it."""
        return self._by_rank.get(rank)

    def ranks_of(self, node: str) -> frozenset[int]:
        """Ranks placed on a node."""
        return self._by_node.get(node, frozenset())

    @cached_property
    def _by_rank(self) -> dict[int, RankPlace]:
        return {place.rank: place for place in reversed(self.ranks)}

    @cached_property
    def _by_node(self) -> dict[str, frozenset[int]]:
        found: dict[str, set[int]] = {}
        for place in self.ranks:
            if place.node is not None:
                found.setdefault(place.node, set()).add(place.rank)
        return {node: frozenset(ranks) for node, ranks in found.items()}


# --- when: the clocks ------------------------------------------------------------------------------------------------


DRIFT_UNKNOWN_PPM = 100.0
DRIFT_KNOWN_PPM = 20.0
"""How far the drift of a clock may be from what is told about it (from 0 where nothing is)."""
_SIGMAS = 4.0
"""Half of an interval is at least as many standard deviations of its offset."""


@dataclass(frozen=True, slots=True)
class ClockEvidence:
    """How many readings of one kind of shared event an estimate rests on."""

    kind: str
    readings: int


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A jump of a clock."""

    time: str | None
    """ISO 8601 on the clock itself."""
    step_ms: float | None
    """How far it jumped forward; None where the line that tells of it does not say."""
    source: str
    """`readings`, or the `file:line` that tells of it."""


@dataclass(frozen=True, slots=True)
class ClockEstimate:
    """Offset of one clock domain at the failure: (its clock) - (the reference clock)."""

    node: str
    offset_ms: float | None
    interval_ms: tuple[float, float] | None
    """None where nothing bounds it."""
    drift_ppm: float | None
    """Against the reference; None where the readings say little about it."""
    timezone: str | None
    """Whole-zone part of the offset, named (`UTC+02:00 against the others`), or None."""
    evidence: int
    """Readings that the estimate rests on."""
    status: ClockStatus
    reference: str | None = None
    """Node whose clock the offset is measured against; clocks of different references cannot be compared."""
    as_of_ms: float | None = None
    """The moment that the offset holds for: ms since the epoch on the reference clock."""
    kinds: tuple[ClockEvidence, ...] = ()
    steps: tuple[ClockStep, ...] = ()

    def interval_at(self, ns: int) -> tuple[float, float] | None:
        """Interval of the offset at a printed time: moved by the drift, and wider away from the failure."""
        if self.interval_ms is None or self.offset_ms is None:
            return None
        low, high = self.interval_ms
        if self.as_of_ms is None or low == high:
            return (low, high)
        away_ms = ns / 1e6 - self.offset_ms - self.as_of_ms
        known = self.drift_ppm is not None
        moved = (self.drift_ppm or 0.0) * 1e-6 * away_ms
        slack = (DRIFT_KNOWN_PPM if known else DRIFT_UNKNOWN_PPM) * 1e-6 * abs(away_ms)
        return (low + moved - slack, high + moved + slack)


@dataclass(frozen=True)  # without slots: the index below is kept on the instance
class ClockModel:
    """All clock estimates of a run, and the order of two events that they allow."""

    estimates: tuple[ClockEstimate, ...]
    contradictions: tuple[str, ...] = ()
    """Lines that cannot both be right, with `file:line` of each and the seconds between them."""

    def estimate(self, domain: str | None) -> ClockEstimate | None:
        """The estimate of a domain, or None."""
        return None if domain is None else self._by_node.get(domain)

    @cached_property
    def _by_node(self) -> dict[str, ClockEstimate]:
        return {estimate.node: estimate for estimate in reversed(self.estimates)}

    def gap_ms(self, domain_a: str | None, ns_a: int, domain_b: str | None, ns_b: int) -> tuple[float, float] | None:
        """Interval of the true time from a to b in ms, printed times given; None where the clocks cannot say."""
        printed_ms = (ns_b - ns_a) / 1e6
        if domain_a is not None and domain_a == domain_b:
            return (printed_ms, printed_ms)
        a, b = self.estimate(domain_a), self.estimate(domain_b)
        if a is None or b is None or a.reference != b.reference:
            return None
        at_a, at_b = a.interval_at(ns_a), b.interval_at(ns_b)
        if at_a is None or at_b is None:
            return None
        return (printed_ms + at_a[0] - at_b[1], printed_ms + at_a[1] - at_b[0])

    def order(
        self,
        domain_a: str | None,
        ns_a: int,
        granularity_a_ms: float,
        domain_b: str | None,
        ns_b: int,
        granularity_b_ms: float,
    ) -> Order:
        """Whether a came before b beyond what clocks and stamps leave open. A stamp x says [x, x + granularity)."""
        gap = self.gap_ms(domain_a, ns_a, domain_b, ns_b)
        if gap is None:
            return Order.INDISTINGUISHABLE
        if gap[0] - granularity_a_ms > 0:
            return Order.BEFORE
        if gap[1] + granularity_b_ms < 0:
            return Order.AFTER
        return Order.INDISTINGUISHABLE

    def probability_before(
        self,
        domain_a: str | None,
        ns_a: int,
        granularity_a_ms: float,
        domain_b: str | None,
        ns_b: int,
        granularity_b_ms: float,
    ) -> float:
        """How likely a came before b, 0..1; one half where the clocks cannot say. To weigh with, never to decide by.

        An interval is at least four standard deviations to either side (method.md section 3.1 step 8).
        """
        gap = self.gap_ms(domain_a, ns_a, domain_b, ns_b)
        if gap is None:
            return 0.5
        middle_ms = (gap[0] + gap[1] + granularity_b_ms - granularity_a_ms) / 2
        rounding_ms = math.hypot(granularity_a_ms, granularity_b_ms) / math.sqrt(12)
        sigma_ms = math.hypot((gap[1] - gap[0]) / 2 / _SIGMAS, rounding_ms)
        if sigma_ms == 0.0:
            return 0.5 if middle_ms == 0.0 else float(middle_ms > 0.0)
        return (1.0 + math.erf(middle_ms / sigma_ms / math.sqrt(2))) / 2


# --- the diagnosis (JSON contract, design section 4) -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line that supports a claim. `rule` names the pattern or the edge rule that used it."""

    file: str
    line: int
    byte_offset: int
    text: str
    time: str | None
    """ISO 8601, corrected to the reference clock where that is possible, else as printed."""
    rule: str


@dataclass(frozen=True, slots=True)
class Initiator:
    """Who started it. `rank` is None where it is a node, the scheduler or the fabric."""

    rank: int | None
    local_rank: int | None
    node: str | None
    gpu: str | None
    pid: int | None
    fault: FaultCode
    fault_class: FaultClass
    time: str | None
    time_uncertainty_ms: float | None
    phase: Phase | None
    step: int | None
    evidence: tuple[Evidence, ...] = ()
    during: str | None = None
    """The phase as a person would say it: `in the first backward after evaluation at step 100`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to "who started it"."""

    status: VerdictStatus
    confidence: float
    summary: str
    initiators: tuple[Initiator, ...] = ()


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One explanation of the whole failure, with what speaks for and against it."""

    initiators: tuple[str, ...]
    """Readable names: `rank 17 on node02`."""
    fault: FaultCode | None
    probability: float
    supports: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    control: str = ""


@dataclass(frozen=True, slots=True)
class Collateral:
    """A rank (or, where rank is None, a node) that was dragged in, how, and by which path."""

    rank: int | None
    node: str | None
    kind: str
    time: str | None
    evidence: tuple[Evidence, ...] = ()
    explained_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Actions:
    """What to do, filled in for this run."""

    first: str = ""
    commands: tuple[str, ...] = ()
    verify: str = ""
    resume: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Which checkpoint may be resumed from."""

    last_good_step: int | None = None
    last_complete: str | None = None
    safe_to_resume_from: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The run in numbers."""

    path: str
    world_size: int | None
    ranks_seen: int
    nodes: tuple[str, ...]
    files: int
    lines: int
    attempts: int
    first_time: str | None
    last_time: str | None


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was not read, and why."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The finished answer; every report renders this and decides nothing."""

    run: RunSummary
    verdict: Verdict
    hypotheses: tuple[Hypothesis, ...] = ()
    collateral: tuple[Collateral, ...] = ()
    episodes: tuple[EpisodeSummary, ...] = ()
    """The steps of all causal paths, once each."""
    rules: tuple[RuleUse, ...] = ()
    """Which rules of the causal graph fired and which were refused, and why; folded."""
    context: tuple[ContextLine, ...] = ()
    actions: Actions = field(default_factory=Actions)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    clocks: tuple[ClockEstimate, ...] = ()
    missing_evidence: tuple[str, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    warnings: tuple[str, ...] = ()
    schema: Literal["correlator.diagnosis/1"] = SCHEMA

    def _repr_html_(self) -> str:
        from correlator.notebook.cards import diagnosis_card  # how a notebook shows it

        return diagnosis_card(self)
