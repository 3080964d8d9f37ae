"""The competing explanations of a verdict, each with the control that would separate it, and what the run says of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from correlator.advice.actions import finest
from correlator.advice.kernel import KernelLogs, KernelSays, KernelView, kernel_view
from correlator.advice.known import Known, known_of
from correlator.advice.lines import Line, lines_of
from correlator.advice.pattern import pattern_of
from correlator.advice.readings import numbers_of
from correlator.advice.watchdog import describe_progress
from correlator.core.catalogue import Catalogue, Entry, Rival
from correlator.core.files import FileReport, Skipped
from correlator.core.model import Checkpoint, ClockModel, Hypothesis, Initiator, Verdict
from correlator.core.vocabulary import FAULT_CLASS, CollateralKind, FaultClass, FaultCode, Role, VerdictStatus

if TYPE_CHECKING:
    import polars as pl

MOST_RIVALS = 3
_SHARE = 0.5
"""Part of the probability that is left over which the catalogue's rivals get together; the rest is for what nobody knows."""
_UNLIKELY = 0.1
"""No rival that stands on no evidence gets more."""
_EXCLUDED = 0.005
_OPEN = 0.4
"""Probability of "somebody whom these files do not show", where nobody is named."""
_GPU_CODES = frozenset(
    code
    for code in FaultCode
    if code.value.startswith(("cuda_", "cublas_")) or code in {FaultCode.GPU_MMU_FAULT, FaultCode.NATIVE_SEGFAULT}
)
"""Faults of which the message alone does not tell code from hardware."""
_NOT_HARDWARE = frozenset(
    {
        FaultCode.CUDA_OOM,
        FaultCode.CUDA_NO_KERNEL_IMAGE,
        FaultCode.CUDA_DRIVER_INSUFFICIENT,
        FaultCode.CUDA_STREAM_CAPTURE,
        FaultCode.CUDA_INVALID_DEVICE,
        FaultCode.CUDA_INVALID_CONFIGURATION,
    }
)
"""Of those, the ones that a broken GPU does not look like."""
_TELLING = (
    CollateralKind.COLLECTIVE_TIMEOUT,
    CollateralKind.REMOTE_PEER_LOST,
    CollateralKind.STORE_LOST,
    CollateralKind.HEARTBEAT_EXIT,
    CollateralKind.ACTOR_DIED,
)
"""Kinds of collateral that say something of what came before them."""
_COMMUNICATION = frozenset({FaultCode.RANK_STALLED, FaultCode.COLLECTIVE_MISMATCH, FaultCode.NETWORK_FAULT})


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of a run beside its events and its verdict."""

    reports: Sequence[FileReport] = ()
    skipped: Sequence[Skipped] = ()
    clocks: ClockModel = field(default_factory=lambda: ClockModel(()))
    missing: Sequence[str] = ()
    """Files that would tell more."""
    world_size: int | None = None
    healthy: bool = False
    """A run without failure was given to compare with."""


@dataclass(frozen=True, slots=True)
class _Run:
    """What the weighing looks at."""

    lines: Sequence[Line]
    logs: KernelLogs
    healthy: bool
    catalogue: Catalogue
    known: Known
    ranks_seen: int
    world_size: int | None


def weigh(
    hypotheses: Sequence[Hypothesis],
    verdict: Verdict,
    catalogue: Catalogue,
    events: pl.DataFrame,
    given: Given | None = None,
) -> tuple[Hypothesis, ...]:
    """The hypotheses with a control each, and the rivals that the catalogue knows for the chosen fault.

    The probabilities stay below one in sum. A rival of which the run holds the disproof is left out, unless it is the
    only one: then it says what disproves it. Without a failure there is nothing to weigh.
    """
    if verdict.status is VerdictStatus.NO_FAILURE:
        return tuple(hypotheses)
    lines, given = lines_of(events), given or Given()
    if not verdict.initiators:
        return _undetermined(hypotheses, lines, catalogue, given.missing)
    initiator = verdict.initiators[0]
    entry, line = finest(initiator, lines, catalogue)
    known = known_of(initiator, line, lines, Checkpoint())
    damaged = frozenset(skip.path for skip in given.skipped)
    logs = KernelLogs(given.reports, given.clocks, _domains(events), damaged)
    ranks_seen = events["rank"].drop_nulls().n_unique()
    run = _Run(lines, logs, given.healthy, catalogue, known, ranks_seen, given.world_size)
    view = _kernel(initiator, line, run)
    weighed = [_told_apart(hypothesis, entry, run) for hypothesis in hypotheses]
    weighed[:1] = [_supported(weighed[0], initiator, line, view, run)] if weighed else []
    rivals = _rivals(weighed, entry, initiator, view, run)
    return (*weighed, *rivals)


def _domains(events: pl.DataFrame) -> dict[str, str]:
    """File -> the clock that most of its events are of."""
    import polars as pl

    pairs = events.select(pl.col("log_file_path", "clock_domain").cast(pl.String)).drop_nulls()
    counted = pairs.group_by("log_file_path", "clock_domain").len().sort("len", "clock_domain")
    return {path: domain for path, domain, _ in counted.iter_rows()}


def _undetermined(
    hypotheses: Sequence[Hypothesis], lines: Sequence[Line], catalogue: Catalogue, missing: Sequence[str]
) -> tuple[Hypothesis, ...]:
    """Nobody is named. What the ranks that were dragged in can have been dragged in by, each with what would show it."""
    get = f"Get {missing[0]}: it would show who began." if missing else "Get the logs of all ranks and nodes."
    if hypotheses:
        first = hypotheses[0].fault
        controls = [h.control or _between(h.fault, first, catalogue, Known()) or get for h in hypotheses]
        found = [replace(h, control=control) for h, control in zip(hypotheses, controls, strict=True)]
        if len(found) > 1:
            return tuple(found)
    else:
        found = [Hypothesis((), None, _OPEN, control=get)]
    had = {hypothesis.fault for hypothesis in found}
    kinds = Counter(line.name for line in lines if line.name in _TELLING)
    entries = [catalogue.entry(kind, Role.COLLATERAL) for kind, _ in kinds.most_common(1)]
    rivals = [rival for entry in entries for rival in entry.rivals if FaultCode(rival.code) not in had][:MOST_RIVALS]
    left = max(0.0, 1.0 - sum(hypothesis.probability for hypothesis in found))
    for rival in rivals:
        probability = _floor(left * _SHARE / len(rivals))
        control = Known().prose(_sentence(rival.control))
        found.append(Hypothesis((), FaultCode(rival.code), probability, control=control))
    return tuple(found)


def _kernel(initiator: Initiator, line: Line | None, run: _Run) -> KernelView | None:
    """What the kernel log says; None where the fault is none that it could decide."""
    if line is None or initiator.fault not in _GPU_CODES - _NOT_HARDWARE:
        return None
    placed = replace(line, node=initiator.node or line.node, gpu=initiator.gpu or line.gpu)
    return kernel_view(placed, run.lines, run.logs)


def _supported(
    hypothesis: Hypothesis, initiator: Initiator, line: Line | None, view: KernelView | None, run: _Run
) -> Hypothesis:
    """The verdict's own explanation, with what the pattern, the numbers and the kernel log add to it."""
    supports, contradicts = list(hypothesis.supports), list(hypothesis.contradicts)
    if (pattern := pattern_of(initiator, run.lines, run.ranks_seen, run.world_size)) is not None:
        supports.append(pattern.sentence)
    if sentence := numbers_of(initiator.fault, line):
        supports.append(sentence)
    if initiator.fault in _COMMUNICATION and (sentence := describe_progress(initiator.rank, run.lines)):
        supports.append(sentence)
    if line is not None and line.template is not None and run.healthy:
        supports.append("the run given as healthy prints no such error")
    if view is not None:
        speaks_for, words = view.told(initiator.node)
        (supports if speaks_for else contradicts).append(words)
    return replace(hypothesis, supports=tuple(dict.fromkeys(supports)), contradicts=tuple(contradicts))


def _told_apart(hypothesis: Hypothesis, chosen: Entry, run: _Run) -> Hypothesis:
    """The hypothesis with the control that separates it from the verdict (or, for the verdict's own, from its rival)."""
    if hypothesis.control:
        return hypothesis
    if hypothesis.fault == chosen.code:
        own = next(iter(chosen.rivals), None)
        control = _SAME_FAULT if own is None else run.known.prose(_sentence(own.control))
    else:
        control = _between(hypothesis.fault, FaultCode(chosen.code), run.catalogue, run.known) or _SAME_FAULT
    return replace(hypothesis, control=control)


_SAME_FAULT = "Compare the first error of each on the corrected clock: the earlier one is the cause of the other."


def _between(one: FaultCode | None, other: FaultCode | None, catalogue: Catalogue, known: Known) -> str:
    """A control by which the catalogue tells two faults apart; empty where it has none."""
    if one is None or other is None:
        return ""
    for entry, code in ((catalogue.entry(other), one), (catalogue.entry(one), other)):
        for rival in entry.rivals:
            if rival.code == code:
                return known.prose(_sentence(rival.control))
    return ""


def _sentence(control: str) -> str:
    return control if control.endswith((".", "?")) else f"{control}."


def _rivals(
    weighed: Sequence[Hypothesis], entry: Entry, initiator: Initiator, view: KernelView | None, run: _Run
) -> Iterator[Hypothesis]:
    """The catalogue's rivals that nothing excludes; at least one where no other hypothesis is there."""
    had = {hypothesis.fault for hypothesis in weighed}
    open_ones: list[tuple[Rival, FaultCode, list[str]]] = []
    closed: list[tuple[Rival, FaultCode, list[str]]] = []
    for rival in entry.rivals:
        code = FaultCode(rival.code)
        if code in had:
            continue
        against = _against(code, initiator, view, run)
        (closed if against else open_ones).append((rival, code, against))
    chosen = open_ones[:MOST_RIVALS]
    if not chosen and len(weighed) < 2:
        chosen = closed[:1]
    if not chosen:
        return
    left = max(0.0, 1.0 - sum(hypothesis.probability for hypothesis in weighed))
    each = min(left * _SHARE / len(chosen), _UNLIKELY)
    names = weighed[0].initiators if weighed else ()
    for rival, code, against in chosen:
        yield Hypothesis(
            initiators=names,
            fault=code,
            probability=_floor(min(each, _EXCLUDED) if against else each),
            supports=tuple(_for(rival, code, initiator, run)),
            contradicts=tuple(against),
            control=run.known.prose(_sentence(rival.control)),
        )


def _floor(value: float) -> float:
    """Three places, never rounded up: the sum must stay below one."""
    return int(value * 1000) / 1000


def _against(code: FaultCode, initiator: Initiator, view: KernelView | None, run: _Run) -> list[str]:
    """What in this run disproves a rival."""
    hardware = FAULT_CLASS[code] is FaultClass.HARDWARE
    if view is not None and hardware and view.says is KernelSays.CLEAN:
        return [f"{view.place} covers that time and has no Xid of the GPU"]
    if view is not None and hardware and view.says is KernelSays.SOFTWARE:
        return [f"{view.place} has an Xid of a fault in code, and none of hardware"]
    if view is not None and not hardware and view.says is KernelSays.HARDWARE:
        return [f"{view.place} has a hardware Xid of the GPU"]
    if code is FaultCode.NODE_LOST and initiator.node is not None:
        later = [line for line in run.lines if line.node == initiator.node and _after(line, initiator)]
        if later:
            return [f"{initiator.node} still wrote afterwards ({later[0].place})"]
    return []


def _after(line: Line, initiator: Initiator) -> bool:
    """Whether a line stands behind the initiating one in the same file: order of writing needs no clock."""
    cited = initiator.evidence[0] if initiator.evidence else None
    return cited is not None and line.file == cited.file and line.number > cited.line


def _for(rival: Rival, code: FaultCode, initiator: Initiator, run: _Run) -> Iterator[str]:
    """Lines of this run that name the rival on the same rank or node."""
    for line in run.lines:
        same = line.rank == initiator.rank if line.rank is not None else line.node == initiator.node
        if line.name == rival.code == code and line.role is Role.INITIATING and same and line.node is not None:
            yield f"{line.place}: {line.body[:160]}"
            return
