"""What the HTML page shows, in the order and the words in which it shows it; the template adds nothing of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from correlator.core.catalogue import Catalogue
from correlator.core.model import Collateral, Diagnosis, Evidence, Initiator
from correlator.core.vocabulary import Role, VerdictStatus
from correlator.reports import phrases
from correlator.reports.cause_groups import Story, short_places, tell, title_of
from correlator.reports.causes import CauseGraph, nanoseconds_of, read_causes
from correlator.reports.details import Details
from correlator.reports.lanes import swim
from correlator.reports.svg_clocks import ClocksPicture, clocks_picture
from correlator.reports.svg_graph import GraphPicture, graph_picture
from correlator.reports.svg_lanes import FAMILIES, OTHER, LanesPicture, lanes_picture

MOST_ROWS = 48
"""So many rows a kind of collateral has; the rest is one row more."""
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
class CollateralRow:
    """Ranks of one node that were dragged in alike."""

    who: str
    time: str
    later: str
    because: str
    evidence: Evidence | None


@dataclass(frozen=True, slots=True)
class CollateralKindView:
    """All that were dragged in by one kind."""

    kind: str
    family: str
    title: str
    count: str
    places: str
    short_places: str
    because: str
    rows: tuple[CollateralRow, ...]
    others: str
    """Whom the rows leave out."""


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
    collateral: tuple[CollateralKindView, ...]
    rivals: tuple[Rival, ...]
    clocks: ClocksPicture | None
    unread: tuple[tuple[str, tuple[str, ...]], ...]
    """(reason, files) of what was not read."""


def view_of(diagnosis: Diagnosis, details: Details | None) -> View:
    """The page of a diagnosis."""
    graph = None if details is None else read_causes(diagnosis, details)
    catalogue = None if details is None else details.catalogue
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
        collateral=tuple(_collateral(diagnosis, graph, catalogue)),
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
    yield Fact(
        "Since",
        phrases.moment(earliest.time),
        f"± {phrases.duration(margin or 0)}, on the corrected clock" if known else "",
    )
    if len(initiators) == 1 and (place := phrases.place_details(initiators[0])):
        yield Fact("Where", place)
    classes = dict.fromkeys(i.fault_class.value for i in initiators)
    faults = dict.fromkeys(i.fault.value for i in initiators)
    yield Fact("What", ", ".join(classes), ", ".join(faults))
    if doing := phrases.phase(earliest.phase, earliest.step):
        yield Fact("Doing what", doing)
    if diagnosis.collateral:
        yield Fact("Dragged in", phrases.count_places(diagnosis.collateral), "not to blame")


def _collateral(
    diagnosis: Diagnosis, graph: CauseGraph | None, catalogue: Catalogue | None
) -> Iterable[CollateralKindView]:
    start = min((ns for i in diagnosis.verdict.initiators if (ns := nanoseconds_of(i.time)) is not None), default=None)
    kinds: dict[str, list[Collateral]] = {}
    for entry in diagnosis.collateral:
        kinds.setdefault(entry.kind, []).append(entry)
    for kind, members in sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0])):
        nodes: dict[str | None, list[Collateral]] = {}
        for entry in members:
            nodes.setdefault(entry.node, []).append(entry)
        rows = [_row(found, start, graph) for found in nodes.values()]
        reasons = {row.because for row in rows}
        left_out = [entry for found in list(nodes.values())[MOST_ROWS:] for entry in found]
        yield CollateralKindView(
            kind=str(kind),
            family=FAMILIES.get(kind, OTHER)[0],
            title=title_of(kind, Role.COLLATERAL, catalogue),
            count=phrases.count_places(members),
            places=phrases.fold_places((entry.rank, entry.node) for entry in members),
            short_places=short_places((entry.rank, entry.node) for entry in members),
            because=next(iter(reasons)) if len(reasons) == 1 else "",
            rows=tuple(rows[:MOST_ROWS]),
            others=phrases.fold_places((entry.rank, entry.node) for entry in left_out),
        )


def _row(members: Sequence[Collateral], start_ns: int | None, graph: CauseGraph | None) -> CollateralRow:
    timed = sorted(
        ((ns, e.time) for e in members if (ns := nanoseconds_of(e.time)) is not None), key=lambda pair: pair[0]
    )
    time = later = ""
    if timed:
        first, last = phrases.clock_time(timed[0][1]), phrases.clock_time(timed[-1][1])
        time = first if first == last else f"{first} \N{EN DASH} {last}"
        if start_ns is not None and timed[0][0] - start_ns >= 1_000_000:
            later = "+" + phrases.duration((timed[0][0] - start_ns) / 1e6)
    cited = next((entry for entry in members if entry.evidence), None)
    path = next((entry.explained_by for entry in members if entry.explained_by), ())
    itself = None if graph is None or not path else graph.by_id.get(path[-1])
    if itself is not None and itself.code == members[0].kind:
        path = path[:-1]  # the row itself
    who = phrases.fold_places((entry.rank, entry.node) for entry in members)
    return CollateralRow(who, time, later, path_words(path, graph), cited.evidence[0] if cited else None)


def path_words(path: Sequence[str], graph: CauseGraph | None) -> str:
    """The path from the initiator to a rank in words: ids of the graph by what they stand for."""
    words = []
    for name in path:
        cause = None if graph is None else graph.by_id.get(name)
        if cause is None:
            words.append(name)
        elif cause.kind == "hub":
            words.append(f"waiting in {cause.name}")
        else:
            where = phrases.fold_places((rank, None) for rank in cause.ranks) or ", ".join(cause.nodes)
            words.append(f"{cause.code} ({where})" if where else cause.code)
    return " → ".join(words)


def _rivals(diagnosis: Diagnosis, catalogue: Catalogue | None) -> tuple[Rival, ...]:
    ordered = sorted(diagnosis.hypotheses, key=lambda hypothesis: -hypothesis.probability)
    return tuple(
        Rival(
            percent=round(min(0.99, max(0.0, h.probability)) * 100),
            who=" and ".join(h.initiators) or "someone whom no file names",
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
