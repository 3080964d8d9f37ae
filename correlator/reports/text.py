"""The report for a terminal: its first screen says who, what, since when, how sure and what to do; proof follows."""

from __future__ import annotations

from typing import TextIO, assert_never

from correlator.core.model import Diagnosis, Initiator
from correlator.core.vocabulary import VerdictStatus
from correlator.reports import phrases
from correlator.reports.page import Page, styled
from correlator.reports.text_details import MOST_MISSING, details

_MOST_INITIATORS = 4


def render(diagnosis: Diagnosis, out: TextIO, *, width: int, color: bool, verbose: bool, context: bool = False) -> None:
    """Write the report; `verbose` adds the context lines (as `context` alone does) and unfolds evidence, clocks and rivals."""
    page = Page(out, width=width, color=color)
    _headline(page, diagnosis)
    page.gap()
    _accused(page, diagnosis)
    _remedy(page, diagnosis)
    details(page, diagnosis, verbose=verbose, context=context)


def _headline(page: Page, diagnosis: Diagnosis) -> None:
    """The status, and the sentence that a colleague would say."""
    status = diagnosis.verdict.status
    match status:
        case VerdictStatus.IDENTIFIED:
            word, style = "IDENTIFIED", "bold red"
        case VerdictStatus.TIED:
            word, style = "TIED", "bold yellow"
        case VerdictStatus.UNDETERMINED:
            word, style = "UNDETERMINED", "bold yellow"
        case VerdictStatus.NO_FAILURE:
            word, style = "NO FAILURE", "bold green"
        case _:
            assert_never(status)
    page.field((word, style), styled((diagnosis.verdict.summary, "bold")))


def _accused(page: Page, diagnosis: Diagnosis) -> None:
    """Who, what and since when; nothing is said of a run that did not fail."""
    verdict = diagnosis.verdict
    if verdict.status is VerdictStatus.NO_FAILURE:
        page.field("how sure", styled(phrases.confidence(verdict.confidence)))
        return
    initiators = verdict.initiators
    if not initiators:
        page.field("who", styled("these files cannot tell"))
        return
    if len(initiators) == 1:
        _one_initiator(page, initiators[0])
    else:
        _several_initiators(page, initiators)
    page.field("how sure", styled(phrases.confidence(verdict.confidence)))


def _one_initiator(page: Page, initiator: Initiator) -> None:
    place = phrases.place_details(initiator)
    who = styled((phrases.culprit(initiator), "bold"), f"  ({place})" if place else "")
    page.field("who", who)
    page.field("what", styled((f"{initiator.fault.value}, {initiator.fault_class.value}", "red")))
    page.field("since", styled(_since(initiator)))


def _several_initiators(page: Page, initiators: tuple[Initiator, ...]) -> None:
    """Each on a line of its own while they are few; after that one line a fault, with the ranks folded."""
    if len(initiators) <= _MOST_INITIATORS:
        for index, initiator in enumerate(initiators):
            _suspects(page, index, phrases.culprit(initiator), initiator)
    else:
        by_fault = {initiator.fault: initiator for initiator in initiators}
        for index, (fault, example) in enumerate(by_fault.items()):
            places = phrases.fold_places((i.rank, i.node) for i in initiators if i.fault is fault)
            _suspects(page, index, places or phrases.culprit(example), example)
    earliest = min(initiators, key=lambda initiator: (initiator.time is None, initiator.time or ""))
    page.field("since", styled(_since(earliest)))


def _suspects(page: Page, index: int, who: str, example: Initiator) -> None:
    fault = (f"{example.fault.value}, {example.fault_class.value}", "red")
    page.field("who" if index == 0 else "", styled((who, "bold"), "  ", fault))


def _since(initiator: Initiator) -> str:
    uncertainty = initiator.time_uncertainty_ms
    margin = "" if uncertainty is None or initiator.time is None else f" ± {phrases.duration(uncertainty)}"
    phase = phrases.doing(initiator)
    return phrases.moment(initiator.time) + margin + (f", {phase}" if phase else "")


def _remedy(page: Page, diagnosis: Diagnosis) -> None:
    """What to do now. Where the files do not suffice, fetching the missing ones is the first thing."""
    actions, missing = diagnosis.actions, diagnosis.missing_evidence
    if diagnosis.verdict.status is VerdictStatus.UNDETERMINED:
        for index, item in enumerate(missing[:MOST_MISSING]):
            page.field("get" if index == 0 else "", styled((item, "bold")))
    if actions.first:
        page.field("do first", styled(actions.first))
    for command in actions.commands:
        page.command(command)
    if actions.verify:
        page.field("then verify", styled(actions.verify))
    failed = diagnosis.verdict.status is not VerdictStatus.NO_FAILURE
    if failed and (resume := actions.resume or diagnosis.checkpoint.safe_to_resume_from):
        page.field("resume", styled(resume))
