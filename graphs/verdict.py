"""From a run's facts to its verdict: which attempt to judge, who started it, who was dragged in, what is missing."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from correlator.core.model import Checkpoint, Collateral, Hypothesis, Initiator, Verdict
from correlator.core.vocabulary import FAULT_CLASS, CollateralKind, Context, FaultCode, Role, VerdictStatus
from correlator.graphs import wording
from correlator.graphs.build import AttemptGraph, build_attempt, redrawn
from correlator.graphs.checkpoints import checkpoint_of
from correlator.graphs.collateral import collateral_of
from correlator.graphs.confidence import FLOOR, Confidence, confidence_of
from correlator.graphs.episodes import Episode, evidence, iso
from correlator.graphs.facts import Fact, RunFacts, facts_of
from correlator.graphs.missing import missing_evidence
from correlator.graphs.phases import Course
from correlator.graphs.recovery import Advance
from correlator.graphs.roots import SURE, Roots, Ruled, find_roots
from correlator.graphs.scene import WEAK

EVIDENCE_LINES = 8
_FEW_CAUSES = frozenset({CollateralKind.REMOTE_PEER_LOST, CollateralKind.STORE_LOST, CollateralKind.SCHEDULER_CANCEL})
"""Kinds whose rules keep only a few of many possible causes; the accused may be among those left out."""
RIVALS = 5
WORTH_WEIGHING = 0.11
"""What something else explains with nine tenths or more is no rival."""
UNSEEN = 0.5
"""Weight of a cause that no file shows."""


@dataclass(frozen=True)
class Findings:
    """What the graph says about a run; the pipeline turns it into a Diagnosis."""

    verdict: Verdict
    hypotheses: tuple[Hypothesis, ...]
    collateral: tuple[Collateral, ...]
    checkpoint: Checkpoint
    missing_evidence: tuple[str, ...]
    attempt: AttemptGraph
    roots: tuple[Episode, ...]


def judge(run: RunFacts) -> Findings:
    """The verdict on the last attempt; on an earlier one where the last fails only in its wake."""
    with _collector_paused():
        return _judge(run)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Nothing here makes garbage in cycles, and looking for it among 10^5 facts again and again takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _judge(run: RunFacts) -> Findings:
    facts = facts_of(run.events)
    attempts = sorted({fact.attempt for fact in facts}) or [0]
    judged = [(graph, find_roots(graph)) for graph in (build_attempt(run, facts, number) for number in attempts[-8:])]
    graph, roots = _telling(judged)
    collateral = collateral_of(graph, roots.chosen)
    if roots.chosen and any(entry.kind in _FEW_CAUSES and not entry.explained_by for entry in collateral):
        graph = redrawn(graph, roots.chosen)
        collateral = collateral_of(graph, roots.chosen)
    fatal = [episode for one, _ in judged for episode in one.scene.initiating]
    survived = [episode for one, _ in judged for episode in one.survived if episode.role is Role.INITIATING]
    checkpoint = checkpoint_of(facts, _furthest(judged), fatal, survived, run.clocks)
    if not _failed(graph, roots):
        return _not_failed(graph, checkpoint, run)
    missing = missing_evidence(graph, roots.chosen, run.reports)
    confidence = confidence_of(graph, roots) if roots.chosen else Confidence(0.0, (), ())
    if not roots.chosen or confidence.value < FLOOR:
        verdict = Verdict(VerdictStatus.UNDETERMINED, 0.5, wording.undetermined(missing, _why_open(graph)))
        return Findings(
            verdict, _hypotheses(roots, confidence), tuple(collateral), checkpoint, tuple(missing), graph, ()
        )
    return Findings(
        verdict=_verdict(graph, roots, confidence, collateral),
        hypotheses=_hypotheses(roots, confidence),
        collateral=tuple(collateral),
        checkpoint=checkpoint,
        missing_evidence=tuple(missing),
        attempt=graph,
        roots=roots.chosen,
    )


def _not_failed(graph: AttemptGraph, checkpoint: Checkpoint, run: RunFacts) -> Findings:
    """No failure only where something shows the end of the run; files that merely show none of it prove nothing."""
    places = run.topology.ranks
    whole = all(place.has_log for place in places)
    if graph.advance.finished or any(f.name == Context.PROCESS_EXIT_CLEAN for f in graph.scene.facts):
        verdict = Verdict(VerdictStatus.NO_FAILURE, 0.95 if whole else 0.8, _healthy(graph))
        return Findings(verdict, (), (), checkpoint, (), graph, ())
    missing = ["the end of the logs, or the launcher's or scheduler's log (it names the first failing task)"]
    missing += missing_evidence(graph, (), run.reports)
    reason = "no line shows a failure, and none shows that the run came to its end"
    verdict = Verdict(VerdictStatus.UNDETERMINED, 0.5, wording.undetermined(missing, reason))
    return Findings(verdict, (), (), checkpoint, tuple(dict.fromkeys(missing)), graph, ())


_PORT_IN_USE = "config_error.port"
"""The signature of a port that is still bound: by the attempt before, as a rule."""


def _telling(judged: Sequence[tuple[AttemptGraph, Roots]]) -> tuple[AttemptGraph, Roots]:
    """The last attempt, unless all it shows is trouble in coming up again while an earlier one shows a fault."""
    last = judged[-1]
    got_going = last[0].advance.last_step is not None
    if got_going or any(_plain(root) for root in last[1].chosen):
        return last
    for graph, roots in reversed(judged[:-1]):
        if any(_plain(root) for root in roots.chosen):
            return graph, roots
    return last


def _plain(root: Episode) -> bool:
    """A fault that lines state, not one concluded from who waited or how a process ended, nor one that a restart meets."""
    left_over = root.head.signature == _PORT_IN_USE
    return root.code not in WEAK and root.code != FaultCode.RANK_STALLED and not left_over


def _furthest(judged: Sequence[tuple[AttemptGraph, Roots]]) -> Advance:
    return max((graph.advance for graph, _ in judged), key=lambda advance: advance.last_step or -1)


def _failed(graph: AttemptGraph, roots: Roots) -> bool:
    """A run failed where somebody ended badly or was stopped, not where errors were printed and survived."""
    if _finished(graph) and not graph.scene.ends and not _hurt(graph):
        return False
    if roots.chosen and any(root.code != FaultCode.SILENT_EXIT or root.facts for root in roots.chosen):
        finished = _finished(graph)
        return not (finished and all(root.specificity < 1.0 and not root.inferred for root in roots.chosen))
    ended = any(e.role is Role.COLLATERAL and e.specificity >= 0.5 for e in graph.scene.episodes)
    ended = ended or bool(graph.scene.ends) or bool(graph.scene.hubs) or _bad_exit(graph.scene.facts)
    return ended and not _finished(graph)


def _hurt(graph: AttemptGraph) -> bool:
    """Whether any process of the job shows a fault or was dragged in; a kernel line alone hurts nobody."""
    return any(not episode.from_kernel and episode.specificity >= SURE for episode in graph.scene.episodes)


def _bad_exit(facts: Sequence[Fact]) -> bool:
    return any(f.name == Context.TASK_EXIT and (f.exit_code or 0) != 0 for f in facts)


def _finished(graph: AttemptGraph) -> bool:
    return bool(graph.advance.finished)


def _healthy(graph: AttemptGraph) -> str:
    step = graph.advance.last_step
    end = "Training finished" if graph.advance.finished else "The processes ended in order"
    where = f" at step {step}" if step is not None else ""
    survived = [e for e in graph.survived if e.role is Role.INITIATING]
    noise = f" {len(survived)} errors were printed and survived." if survived else ""
    return f"{end}{where}.{noise}"


def _why_open(graph: AttemptGraph) -> str:
    scene = graph.scene
    unknown = {rank for hub in scene.hubs for rank in hub.unknown}
    if unknown:
        return "every rank that left a log only waited for ranks that left none"
    if scene.hubs:
        return "all ranks waited in the same collective and none of them is missing from it"
    if any(e.code == CollateralKind.REMOTE_PEER_LOST for e in scene.episodes):
        return "every rank here only lost its peers"
    return "no line states a fault that others would follow from"


def _verdict(graph: AttemptGraph, roots: Roots, confidence: Confidence, collateral: Sequence[Collateral]) -> Verdict:
    tied = roots.tied
    course = Course(graph)
    during = course.moment(roots.chosen[0]).words
    initiators = tuple(_initiator(graph, roots, root, course) for root in roots.chosen)
    say = wording.tied if tied else wording.identified
    summary = say(roots.chosen, collateral, during, initiators[0].time)
    return Verdict(
        status=VerdictStatus.TIED if tied else VerdictStatus.IDENTIFIED,
        confidence=confidence.value,
        summary=summary,
        initiators=initiators,
    )


def _initiator(graph: AttemptGraph, roots: Roots, root: Episode, course: Course) -> Initiator:
    fault = FaultCode(root.code)
    place = graph.scene.topology.place(root.rank) if root.rank is not None else None
    cited = [*root.facts, *(fact for e in roots.supporting[root.id] for fact in e.facts)]
    unique = list({fact.event_id: fact for fact in cited}.values())
    moment = course.moment(root)
    return Initiator(
        rank=root.rank,
        local_rank=place.local_rank if place else None,
        node=root.node or (place.node if place else None),
        gpu=root.gpu or (place.gpu if place else None),
        pid=root.pid if root.pid is not None else (place.pid if place else None),
        fault=fault,
        fault_class=FAULT_CLASS[fault],
        time=iso(_onset_ns(root, cited), zoned=root.head.zoned),
        time_uncertainty_ms=_uncertainty_ms(graph, _first_stamped(cited) or root.head),
        phase=moment.phase,
        step=moment.step,
        during=moment.words,
        evidence=tuple(evidence(fact) for fact in _in_time(unique[:EVIDENCE_LINES])),
    )


def _in_time(facts: Sequence[Fact]) -> list[Fact]:
    """In order of time; a line without a time of its own stays behind the one that it was found with."""
    stamped = [fact.aligned_ns for fact in facts if fact.aligned_ns is not None and not fact.inherited]
    last_ns = min(stamped, default=0)
    keyed: list[tuple[int, Fact]] = []
    for fact in facts:
        if fact.aligned_ns is not None and not fact.inherited:
            last_ns = fact.aligned_ns
        keyed.append((last_ns, fact))
    return [fact for _, fact in sorted(keyed, key=lambda pair: pair[0])]


def _first_stamped(facts: Sequence[Fact]) -> Fact | None:
    """The earliest of the lines that carry a time of their own."""
    stamped = [fact for fact in facts if fact.aligned_ns is not None and not fact.inherited]
    return min(stamped, key=lambda fact: fact.aligned_ns or 0, default=None)


def _onset_ns(root: Episode, cited: Sequence[Fact]) -> int | None:
    """When it began: as concluded, else by the first stamped line about it, else not before an inherited time."""
    if root.began is not None:
        return root.onset_ns
    first = _first_stamped(root.facts) or _first_stamped(cited)
    if first is not None:
        return first.aligned_ns
    return root.onset_ns if root.onset_ns is not None else root.head.printed_ns


def _uncertainty_ms(graph: AttemptGraph, fact: Fact) -> float | None:
    """Half width of what clock and stamp leave open; None where the clock cannot be compared with the others."""
    estimate = graph.scene.clocks.estimate(fact.domain)
    if fact.printed_ns is None or fact.inherited or estimate is None or estimate.interval_ms is None:
        return None
    return round(max(fact.uncertainty_ms, fact.granularity_ms), 1)


def _hypotheses(roots: Roots, confidence: Confidence) -> tuple[Hypothesis, ...]:
    """The verdict first, then what was ruled out, with the reason as what speaks against it."""
    found: list[Hypothesis] = []
    if roots.chosen:
        found.append(
            Hypothesis(
                initiators=tuple(root.where for root in roots.chosen),
                fault=FaultCode(roots.chosen[0].code),
                probability=confidence.value,
                supports=(*_reasons(roots), *confidence.supports),
                contradicts=confidence.contradicts,
            )
        )
    return (*found, *_rivals(roots, 1.0 - confidence.value if roots.chosen else 0.5))


def _rivals(roots: Roots, left: float) -> list[Hypothesis]:
    """What was ruled out and is not well explained, alike ones together; part of what is left stays with the unseen."""
    chosen = {root.rank for root in roots.chosen if root.rank is not None}
    groups: dict[tuple[str, str], list[Ruled]] = {}
    for ruled in roots.ruled_out:
        of_chosen = ruled.episode.rank is not None and ruled.episode.rank in chosen
        if not of_chosen and ruled.weight >= WORTH_WEIGHING and not ruled.episode.inferred.startswith("exit code"):
            groups.setdefault((ruled.episode.code, ruled.reason), []).append(ruled)
    top = sorted(groups.values(), key=lambda group: -max(ruled.weight for ruled in group))[:RIVALS]
    total = UNSEEN + sum(max(ruled.weight for ruled in group) for group in top)
    return [
        Hypothesis(
            initiators=tuple(ruled.episode.where for ruled in group),
            fault=FaultCode(group[0].episode.code),
            probability=round(left * max(ruled.weight for ruled in group) / total, 3),
            supports=(f"{group[0].episode.head.place}: {group[0].episode.head.body[:200]}",),
            contradicts=(group[0].reason,),
        )
        for group in top
    ]


def _reasons(roots: Roots) -> tuple[str, ...]:
    return tuple(root.inferred for root in roots.chosen if root.inferred)[:3]
