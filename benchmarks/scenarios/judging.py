"""Is a diagnosis right, does it accuse the innocent, or does it abstain; and where did a wrong one come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import correlator
from benchmarks.scenarios.expected import Accused, Expected
from correlator.core.model import Diagnosis, Initiator
from correlator.core.vocabulary import FaultCode, VerdictStatus
from correlator.pipeline import Run

NAMES_SOMEONE = frozenset({VerdictStatus.IDENTIFIED, VerdictStatus.TIED})


class Grade(StrEnum):
    """What a verdict is worth."""

    RIGHT = "right"
    PARTLY = "incomplete"
    """Names only true initiators, or abstains from naming none where others would do, but not the expected set."""
    NODE = "node only"
    """Names the node of a true initiator where the rank was wanted; tools/score.py counts it as wrong."""
    ABSTAINED = "abstained"
    WRONG = "wrong"
    """Names an innocent rank or node, or denies a failure."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict against the truth."""

    grade: Grade
    confidence: float
    named: bool
    """The verdict names somebody."""
    fault_right: bool | None
    kinds: tuple[int, int, int]
    """Ranks expected to be collateral, reported as collateral, with the right kind."""
    said: str
    why: str = ""


def place_of(one: Initiator) -> tuple[str, object]:
    """Who is accused, as in expected.json."""
    return Accused(FaultCode(one.fault), one.rank, one.node).place


def judge(expected: Expected, found: Diagnosis) -> Judgement:
    """Compare as tools/score.py does."""
    verdict = found.verdict
    said = frozenset(map(place_of, verdict.initiators))
    accepted = [some for some in (expected.initiators, *expected.also) if some]
    matches = [some for some in accepted if frozenset(one.place for one in some) == said]
    guilty = frozenset(one.place for some in accepted for one in some)
    named = verdict.status in NAMES_SOMEONE
    if named:
        homes = guilty | {("node", one.node) for some in accepted for one in some if one.node}
        grade = (
            Grade.RIGHT if matches else Grade.PARTLY if said <= guilty else Grade.NODE if said <= homes else Grade.WRONG
        )
    elif verdict.status in {expected.status, *expected.also_status}:
        grade = Grade.RIGHT
    elif verdict.status is VerdictStatus.UNDETERMINED:
        grade = Grade.ABSTAINED
    else:
        grade = Grade.WRONG
    fault_right = None
    if named and matches:
        allowed = [{one.place: one.fault for one in some} for some in matches]
        fault_right = all(any(a[place_of(i)] == i.fault for a in allowed) for i in verdict.initiators)
    reported = {one.rank: one.kind for one in found.collateral if one.rank is not None}
    kinds = (
        len(expected.collateral),
        sum(rank in reported for rank in expected.collateral),
        sum(reported.get(rank) in kind.split("|") for rank, kind in expected.collateral.items()),
    )
    return Judgement(grade, verdict.confidence, named, fault_right, kinds, in_words(verdict.status, verdict.initiators))


def in_words(status: VerdictStatus, initiators: Iterable[Initiator | Accused]) -> str:
    """`tied 3, 4: cuda_oom`."""
    names = [str(one.rank) if one.rank is not None else one.node or "nobody" for one in initiators]
    faults = sorted({str(one.fault) for one in initiators})
    more = f", +{len(names) - 4}" if len(names) > 4 else ""
    return f"{status} {', '.join(names[:4])}{more}: {', '.join(faults)}" if names else str(status)


def diagnose(folder: Path, expected: Expected) -> Judgement:
    """Diagnose a run directory in this process and judge the answer."""
    run = correlator.open_run(folder, workers=1)
    judgement = judge(expected, run.diagnosis)
    if judgement.grade is Grade.RIGHT and judgement.fault_right is not False:
        return judgement
    return Judgement(
        judgement.grade, judgement.confidence, judgement.named, judgement.fault_right, judgement.kinds, judgement.said,
        explain(run, expected),
    )  # fmt: skip


def explain(run: Run, expected: Expected) -> str:
    """Which episode was chosen, and what became of those that should have been."""
    found = run.findings
    chosen = [
        f"chose {e.code} of {e.where} ({e.head.place} {e.inferred or e.head.body[:70]!r})" for e in found.roots[:2]
    ]
    attempt = found.attempt
    from correlator.graphs.roots import find_roots

    ruled = {r.episode.id: r.reason for r in find_roots(attempt).ruled_out}
    told = []
    for one in expected.initiators[:2]:
        there = [e for e in attempt.scene.initiating if _is_at(e.rank, e.node, one)]
        survived = [e for e in attempt.survived if _is_at(e.rank, e.node, one)]
        if there:
            told += [f"{e.code} of {e.where}: {ruled.get(e.id, 'not ruled out')}" for e in there[:3]]
        elif survived:
            told.append(f"{survived[0].code} of {survived[0].where}: taken for survived")
        else:
            told.append(f"no initiating episode at {one.rank if one.rank is not None else one.node or one.fault}")
    return "; ".join([*(chosen or ["chose nobody"]), *told])


def _is_at(rank: int | None, node: str | None, one: Accused) -> bool:
    if one.rank is not None:
        return rank == one.rank or (rank is None and node == one.node)
    return node == one.node if one.node else rank is None


def share(part: int, whole: int) -> str:
    """`12/13`."""
    return f"{part}/{whole}"


def calibration(judgements: Sequence[Judgement], bins: int = 10) -> tuple[list[tuple[float, float, int]], float, float]:
    """Reliability bins (mean confidence, share right, count), expected calibration error and Brier score.

    Over verdicts that name somebody or say that nothing failed; right = the expected set, exactly.
    """
    pairs = [(j.confidence, float(j.grade is Grade.RIGHT)) for j in judgements if j.named or j.confidence > 0.5]
    rows: list[tuple[float, float, int]] = []
    error = 0.0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = [(c, r) for c, r in pairs if low <= c < high or (number == bins - 1 and c == 1)]
        if inside:
            mean, right = (sum(values) / len(inside) for values in zip(*inside, strict=True))
            rows.append((mean, right, len(inside)))
            error += abs(mean - right) * len(inside) / len(pairs)
    brier = sum((c - r) ** 2 for c, r in pairs) / len(pairs) if pairs else 0.0
    return rows, error, brier
