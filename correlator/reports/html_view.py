"""What the HTML page shows, in the order and the words in which it shows it; the template adds nothing of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from correlator.core.catalogue import Catalogue
from correlator.core.model import Diagnosis, Evidence, Initiator
from correlator.core.vocabulary import Role, VerdictStatus
from correlator.reports import phrases
from correlator.reports.cause_groups import Story, tell, title_of
from correlator.reports.causes import read_causes
from correlator.reports.details import Details
from correlator.reports.folding import alike, in_order, named
from correlator.reports.html_collateral import CollateralKindView, collateral_views
from correlator.reports.lanes import swim
from correlator.reports.lanes_events import stamps_of
from correlator.reports.svg_clocks import ClocksPicture, clocks_picture
from correlator.reports.svg_graph import GraphPicture, graph_picture
from correlator.reports.svg_lanes import LanesPicture, lanes_picture

MOST_SUSPECTS = 12


@dataclass(frozen=True, slots=True)
class Suspect:
    """One initiator, or several ranks with one fault."""

    who: str
    title: str
    code: str


@dataclass(frozen=True, slots=True)
class Headline:
    """Who and what, in the largest letters."""

    status: str
    who: str
    what: str
    suspects: tuple[Suspect, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """A thing that one wants to know at once."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Witness:
    """The lines that tell of an initiator, or of one of several alike."""

    who: str
    like: str
    """Of whom the lines are, where others have such lines too."""
    lines: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Rival:
    """An explanation that was weighed."""

    percent: int
    who: str
    what: str
    supports: tuple[str, ...]
    contradicts: tuple[str, ...]
    control: str


@dataclass(frozen=True, slots=True)
class View:
    """Everything on the page."""

    diagnosis: Diagnosis
    headline: Headline
    meaning: str
    ran: str
    """From when to when the files reach."""
    facts: tuple[Fact, ...]
    lanes: LanesPicture | None
    story: Story
    graph: GraphPicture | None
    witnesses: tuple[Witness, ...]
    collateral: tuple[CollateralKindView, ...]
    rivals: tuple[Rival, ...]
    clocks: ClocksPicture | None
    unread: tuple[tuple[str, tuple[str, ...]], ...]
    """(reason, files) of what was not read."""


def view_of(diagnosis: Diagnosis, details: Details | None) -> View:
    """The page of a diagnosis."""
    graph = None if details is None else read_causes(diagnosis, details)
    catalogue = None if details is None else details.catalogue
    stamps = {} if details is None else stamps_of(details.events)
    story = tell(diagnosis, graph, catalogue)
    return View(
        diagnosis=diagnosis,
        headline=_headline(diagnosis, catalogue),
        meaning=_meaning(diagnosis, catalogue),
        ran=_ran(diagnosis),
        facts=tuple(_facts(diagnosis)),
        lanes=lanes_picture(diagnosis, swim(diagnosis, details, graph)),
        story=story,
        graph=graph_picture(story),
        witnesses=tuple(_witnesses(diagnosis)),
        collateral=tuple(collateral_views(diagnosis, graph, catalogue, stamps)),
        rivals=_rivals(diagnosis, catalogue),
        clocks=clocks_picture(diagnosis.clocks),
        unread=_unread(diagnosis),
    )


def _headline(diagnosis: Diagnosis, catalogue: Catalogue | None) -> Headline:
    status = diagnosis.verdict.status
    suspects = tuple(_suspects(diagnosis.verdict.initiators, catalogue))
    match status:
        case VerdictStatus.NO_FAILURE:
            return Headline("no failure", "No failure", "Nothing in these files shows one.", ())
        case VerdictStatus.UNDETERMINED:
            return Headline("undetermined", "Not enough evidence to name a rank", "", suspects)
        case VerdictStatus.TIED if len(suspects) > 1:
            what = "Nothing in these files orders them."
            return Headline("tied", "Several began independently", what, suspects)
        case VerdictStatus.IDENTIFIED | VerdictStatus.TIED:
            if not suspects:
                return Headline(status.value, "Nobody is named", "", ())
            who = (
                suspects[0].who[:1].upper() + suspects[0].who[1:]
                if suspects[0].who.startswith(("rank", "the "))
                else suspects[0].who
            )
            return Headline(status.value, who, suspects[0].title, suspects if len(suspects) > 1 else ())
        case _:
            assert_never(status)


def _suspects(initiators: Sequence[Initiator], catalogue: Catalogue | None) -> Iterable[Suspect]:
    """Each initiator while they are few and differ; ranks with the same fault together."""
    by_fault: dict[str, list[Initiator]] = {}
    for initiator in initiators:
        by_fault.setdefault(initiator.fault, []).append(initiator)
    for code, found in by_fault.items():
        who = phrases.culprit(found[0]) if len(found) == 1 else phrases.fold_places((i.rank, i.node) for i in found)
        yield Suspect(who or phrases.culprit(found[0]), title_of(code, Role.INITIATING, catalogue), str(code))


def _meaning(diagnosis: Diagnosis, catalogue: Catalogue | None) -> str:
    faults = {initiator.fault for initiator in diagnosis.verdict.initiators}
    entry = None if catalogue is None or len(faults) != 1 else catalogue.find(next(iter(faults)), Role.INITIATING)
    return entry.meaning if entry is not None else ""


def _ran(diagnosis: Diagnosis) -> str:
    first, last = diagnosis.run.first_time, diagnosis.run.last_time
    if first is None or last is None:
        return ""
    same_day = first[:10] == last[:10]
    return f"{phrases.moment(first)} \N{EN DASH} {phrases.clock_time(last) if same_day else phrases.moment(last)}"


def _facts(diagnosis: Diagnosis) -> Iterable[Fact]:
    """Since when, where, what, at which step, and how many suffered."""
    initiators = diagnosis.verdict.initiators
    if not initiators:
        return
    earliest = min(initiators, key=lambda i: (i.time is None, i.time or ""))
    margin = earliest.time_uncertainty_ms
    known = earliest.time is not None and margin is not None and margin >= 1
    day, _, clock = phrases.moment(earliest.time).partition(" ")
    yield Fact(
        "Since",
        clock or day,
        ", ".join([*([day] if clock else []), *([f"± {phrases.duration(margin or 0)}"] if known else [])]),
    )
    if len(initiators) == 1:
        yield from _place(initiators[0])
    classes = dict.fromkeys(i.fault_class.value for i in initiators)
    faults = dict.fromkeys(i.fault.value for i in initiators)
    yield Fact("Kind of fault", ", ".join(classes), ", ".join(faults))
    if doing := phrases.doing(earliest):
        yield Fact("In the run", doing)
    if diagnosis.collateral:
        yield Fact("Dragged in", phrases.count_places(diagnosis.collateral), "not to blame")


def _place(initiator: Initiator) -> Iterable[Fact]:
    """Its GPU and its process, as far as known."""
    process = phrases.place_details(replace(initiator, gpu=None))
    if initiator.gpu is not None:
        yield Fact("GPU", initiator.gpu, process)
    elif process:
        yield Fact("Process", process)


def _witnesses(diagnosis: Diagnosis) -> Iterable[Witness]:
    """What is cited against the initiators, each kind of story once."""
    for group in alike(diagnosis.verdict.initiators):
        if group.example.evidence:
            like = phrases.culprit(group.example) if group.count > 1 else ""
            yield Witness(group.who, like, tuple(in_order(group.example.evidence)))


def _rivals(diagnosis: Diagnosis, catalogue: Catalogue | None) -> tuple[Rival, ...]:
    ordered = sorted(diagnosis.hypotheses, key=lambda hypothesis: -hypothesis.probability)
    return tuple(
        Rival(
            percent=round(min(0.99, max(0.0, h.probability)) * 100),
            who=named(h.initiators),
            what=title_of(h.fault, Role.INITIATING, catalogue) if h.fault is not None else "",
            supports=tuple(dict.fromkeys(h.supports)),
            contradicts=tuple(dict.fromkeys(h.contradicts)),
            control=h.control,
        )
        for h in ordered
    )


def _unread(diagnosis: Diagnosis) -> tuple[tuple[str, tuple[str, ...]], ...]:
    reasons: dict[str, list[str]] = {}
    for skipped in diagnosis.skipped:
        reasons.setdefault(skipped.reason, []).append(skipped.file)
    ordered = sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple((reason, tuple(sorted(files))) for reason, files in ordered)
