"""The sections below the first screen of the terminal report: the proof, who was dragged in, clocks, rivals, gaps."""

from __future__ import annotations

import math
from collections.abc import Iterable

from correlator.core.model import ClockEstimate, Collateral, Diagnosis, Evidence, Hypothesis
from correlator.core.ranges import fold_hosts
from correlator.core.vocabulary import ClockStatus, VerdictStatus
from correlator.reports import phrases
from correlator.reports.folding import Alike, alike, in_order, named
from correlator.reports.page import LABEL_WIDTH, Page, styled
from correlator.reports.text_reasons import reasons

_MOST_EVIDENCE = 5
_MOST_RIVALS = 3
MOST_MISSING = 3
"""So many missing files are named on the first screen of an undetermined verdict; the section below is for more."""
_MOST_NAMES = 3
_SAME_CLOCK_MS = 100.0
"""Clocks that are surely this close to the reference are folded into one row."""
_KIND_WIDTH = 26
_INDENT = LABEL_WIDTH + 2


def details(page: Page, diagnosis: Diagnosis, *, verbose: bool, context: bool = False) -> None:
    """All sections that have something to say, most needed first."""
    _evidence(page, diagnosis, verbose=verbose)
    _collateral(page, diagnosis.collateral, verbose=verbose)
    _hypotheses(page, diagnosis, verbose=verbose)
    _checkpoint(page, diagnosis)
    _clocks(page, diagnosis.clocks, verbose=verbose)
    _gaps(page, diagnosis, verbose=verbose)
    if verbose:
        reasons(page, diagnosis)
    if verbose or context:
        _context(page, diagnosis)
    _footer(page, diagnosis)


def _evidence(page: Page, diagnosis: Diagnosis, *, verbose: bool) -> None:
    initiators = [initiator for initiator in diagnosis.verdict.initiators if initiator.evidence]
    if not initiators:
        return
    page.heading("Evidence", "times corrected where the clocks allow it")
    groups = [Alike(phrases.culprit(one), one, 1) for one in initiators] if verbose else alike(initiators)
    shown = groups if verbose else groups[:_MOST_EVIDENCE]
    most = None if verbose else max(1, _MOST_EVIDENCE // len(groups))
    for index, group in enumerate(shown):
        lines = group.example.evidence
        if len(initiators) > 1:
            if index:
                page.gap()
            like = f", each with lines like these of {phrases.culprit(group.example)}" if group.count > 1 else ""
            page.block(styled("  ", (group.who, "bold"), like))
        for evidence in in_order(lines[:most]):
            _evidence_line(page, evidence, verbose=verbose)
        if most is not None and len(lines) > most:
            _more(page, phrases.count(len(lines) - most, "more line"))
    if len(shown) < len(groups):
        page.gap()
        _more(page, phrases.count(len(groups) - len(shown), "more of them", "more of them"))


def _more(page: Page, what: str) -> None:
    page.row("", styled((f"… {what}, shown by --verbose", "dim")), indent=_INDENT)


def _evidence_line(page: Page, evidence: Evidence, *, verbose: bool) -> None:
    """The place first, so that it can be opened; below it the line as it was printed."""
    place = styled((f"{evidence.file}:{evidence.line}", "cyan"), (f"  {evidence.rule}" if verbose else "", "dim"))
    page.row((phrases.clock_time(evidence.time), "dim"), place, indent=_INDENT)
    page.row("", styled(evidence.text), indent=_INDENT, max_lines=None if verbose else 3)


def _collateral(page: Page, collateral: tuple[Collateral, ...], *, verbose: bool) -> None:
    if not collateral:
        return
    page.heading("Dragged in", f"{phrases.count_places(collateral)}, not to blame")
    by_kind: dict[str, list[Collateral]] = {}
    for member in collateral:
        by_kind.setdefault(member.kind, []).append(member)
    for kind, members in sorted(by_kind.items(), key=lambda item: (-len(item[1]), item[0])):
        places = phrases.fold_places((member.rank, member.node) for member in members)
        page.row(kind, styled(places), indent=_KIND_WIDTH)
        example = next((member for member in members if member.evidence), None)
        if example is None:
            continue
        first = example.evidence[0]
        words = styled((f"{first.file}:{first.line}  ", "cyan"), (first.text, "dim"))
        page.row("", words, indent=_KIND_WIDTH, max_lines=1)
        if verbose and example.explained_by:
            page.row("", styled(("because of ", "dim"), " < ".join(example.explained_by)), indent=_KIND_WIDTH)


def _hypotheses(page: Page, diagnosis: Diagnosis, *, verbose: bool) -> None:
    """What else was weighed. A verdict with a single explanation has no such section."""
    hypotheses = sorted(diagnosis.hypotheses, key=lambda hypothesis: -hypothesis.probability)
    alone = len(hypotheses) == 1 and diagnosis.verdict.status is VerdictStatus.IDENTIFIED
    if not hypotheses or (alone and not verbose):
        return
    page.heading("Explanations weighed")
    shown = hypotheses if verbose else hypotheses[:_MOST_RIVALS]
    for index, hypothesis in enumerate(shown):
        again = any(other.control == hypothesis.control for other in shown[index + 1 :])
        _hypothesis(page, hypothesis, control="" if again else hypothesis.control)
    if not verbose and len(hypotheses) > _MOST_RIVALS:
        _more(page, f"{len(hypotheses) - _MOST_RIVALS} less likely")


def _hypothesis(page: Page, hypothesis: Hypothesis, *, control: str) -> None:
    """One explanation; a control that parts it from a later one is shown there, once."""
    percent = f"{min(0.99, max(0.0, hypothesis.probability)) * 100:>3.0f} %"
    who = named(hypothesis.initiators)
    what = f", {hypothesis.fault.value}" if hypothesis.fault is not None else ""
    page.row(percent, styled((who, "bold"), what), indent=_INDENT)
    for label, words in (("for", hypothesis.supports), ("against", hypothesis.contradicts)):
        for index, item in enumerate(dict.fromkeys(words)):
            page.row((label if index == 0 else "", "dim"), styled(item), indent=_INDENT)
    if control:
        page.row(("to tell", "dim"), styled(control), indent=_INDENT)


def _checkpoint(page: Page, diagnosis: Diagnosis) -> None:
    checkpoint = diagnosis.checkpoint
    safe, complete = checkpoint.safe_to_resume_from, checkpoint.last_complete
    facts = (
        ("safe", safe),
        ("complete", complete if complete != safe else None),
        ("last step", None if checkpoint.last_good_step is None else str(checkpoint.last_good_step)),
        ("why", checkpoint.why or None),
    )
    if all(value is None for _, value in facts):
        return
    page.heading("Checkpoint")
    for label, value in facts:
        if value is not None:
            page.row((label, "dim"), styled(value), indent=_INDENT)


def _clocks(page: Page, clocks: tuple[ClockEstimate, ...], *, verbose: bool) -> None:
    """Offsets; clocks that agree, and clocks of which the same is said, share a row."""
    if not clocks:
        return
    page.heading("Clocks", "offset against the reference")
    close = [] if verbose else [clock for clock in clocks if _bound_ms(clock) <= _SAME_CLOCK_MS]
    if close:
        within = phrases.duration(math.ceil(max(_bound_ms(clock) for clock in close)))
        page.row(fold_hosts(clock.node for clock in close), styled(f"agree within {within}"), indent=_KIND_WIDTH)
    alike: dict[str, list[str]] = {}
    for clock in sorted(clocks, key=lambda clock: clock.node):
        if clock not in close:
            alike.setdefault(_clock_words(clock), []).append(clock.node)
    for words, nodes in alike.items():
        page.row(fold_hosts(nodes), styled(words), indent=_KIND_WIDTH)


def _bound_ms(clock: ClockEstimate) -> float:
    """How far from the reference a clock may be at most; infinite where nobody knows."""
    if clock.status is not ClockStatus.ALIGNED or clock.offset_ms is None or clock.timezone:
        return math.inf
    return max(abs(clock.offset_ms), *(abs(edge) for edge in clock.interval_ms or ()), 0.0)


def _clock_words(clock: ClockEstimate) -> str:
    if clock.offset_ms is None:
        words = "unknown"
    else:
        words = phrases.offset(clock.offset_ms)
        if clock.interval_ms is not None:
            words += f" ± {phrases.duration((clock.interval_ms[1] - clock.interval_ms[0]) / 2)}"
    if clock.drift_ppm is not None and abs(clock.drift_ppm) >= 1:
        words += f", drifting {clock.drift_ppm:+.0f} ppm"
    if clock.timezone:
        words += f", {clock.timezone}"
    if clock.status is not ClockStatus.ALIGNED:
        words += f", {clock.status.value}" if clock.status is not ClockStatus.NONE else ", nothing to compare with"
    return f"{words}, {phrases.count(clock.evidence, 'reading')}" if clock.evidence else words


def _gaps(page: Page, diagnosis: Diagnosis, *, verbose: bool) -> None:
    """What was not there, not read, or not right."""
    told_above = diagnosis.verdict.status is VerdictStatus.UNDETERMINED
    if diagnosis.missing_evidence and not (told_above and len(diagnosis.missing_evidence) <= MOST_MISSING):
        page.heading("Missing evidence")
        page.list_items(diagnosis.missing_evidence)
    if diagnosis.warnings:
        page.heading("Warnings")
        page.list_items(diagnosis.warnings, mark="!")
    if diagnosis.skipped:
        page.heading("Not read", phrases.count(len(diagnosis.skipped), "file"))
        by_reason: dict[str, list[str]] = {}
        for skipped in diagnosis.skipped:
            by_reason.setdefault(skipped.reason, []).append(skipped.file)
        for reason, files in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0])):
            page.list_items([f"{reason}: {_names(files, verbose=verbose)}"])


def _names(files: Iterable[str], *, verbose: bool) -> str:
    """Some names of many."""
    files = sorted(files)
    shown = files if verbose else files[:_MOST_NAMES]
    more = len(files) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _context(page: Page, diagnosis: Diagnosis) -> None:
    if not diagnosis.context:
        return
    page.heading("Before it", "the last lines of the same writer")
    for line in diagnosis.context:
        page.row((f"{line.file}:{line.line}", "cyan"), styled(line.text), indent=6)


def _footer(page: Page, diagnosis: Diagnosis) -> None:
    """What the answer rests on."""
    run = diagnosis.run
    world = f" of {run.world_size:,}" if run.world_size is not None else ""
    ranks = f"{run.ranks_seen:,}{world} ranks" if world else phrases.count(run.ranks_seen, "rank")
    nodes = f" on {fold_hosts(run.nodes)}" if run.nodes else ""
    attempts = f", {run.attempts} attempts" if run.attempts > 1 else ""
    page.gap()
    words = f"{phrases.count(run.files, 'file')}, {phrases.count(run.lines, 'line')}; {ranks}{nodes}{attempts}"
    page.block(styled((f"Read {run.path}: {words}.", "dim")), prose=True)
