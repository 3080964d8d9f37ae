"""Who was dragged in, as the HTML page shows it: by kind, and in each kind by node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from correlator.core.catalogue import Catalogue
from correlator.core.model import Collateral, Diagnosis, Evidence
from correlator.core.vocabulary import Role
from correlator.reports import phrases
from correlator.reports.cause_groups import short_places, title_of
from correlator.reports.causes import CauseGraph, nanoseconds_of
from correlator.reports.folding import shape_of
from correlator.reports.lanes import onset_of
from correlator.reports.lanes_events import NO_STAMP, Stamp
from correlator.reports.svg_lanes import FAMILIES, OTHER

MOST_ROWS = 48
"""So many rows a kind of collateral has; the rest is one row more."""


@dataclass(frozen=True, slots=True)
class CollateralRow:
    """Ranks of one node that were dragged in alike."""

    who: str
    where: str
    time: str
    later: str
    because: str
    evidence: Evidence | None
    repeated: bool
    """The line says, but for numbers, what that of the row above says."""


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


def collateral_views(
    diagnosis: Diagnosis,
    graph: CauseGraph | None,
    catalogue: Catalogue | None,
    stamps: dict[tuple[str, int], Stamp],
) -> Iterable[CollateralKindView]:
    """The kinds of collateral, the most frequent first; in each, a row for the ranks of each node."""
    start = onset_of(diagnosis)
    kinds: dict[str, list[Collateral]] = {}
    for entry in diagnosis.collateral:
        kinds.setdefault(entry.kind, []).append(entry)
    for kind, members in sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0])):
        nodes: dict[str | None, list[Collateral]] = {}
        for entry in members:
            nodes.setdefault(entry.node, []).append(entry)
        rows = _repeated([_row(found, start, graph, stamps) for found in nodes.values()])
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


def _repeated(rows: Sequence[CollateralRow]) -> list[CollateralRow]:
    """The rows, with a mark on those whose line says what the one above says."""
    shapes = [None if row.evidence is None else shape_of(row.evidence.text) for row in rows]
    return [
        replace(row, repeated=number > 0 and shapes[number] is not None and shapes[number] == shapes[number - 1])
        for number, row in enumerate(rows)
    ]


def _row(
    members: Sequence[Collateral],
    start_ns: int | None,
    graph: CauseGraph | None,
    stamps: dict[tuple[str, int], Stamp],
) -> CollateralRow:
    timed = sorted(
        ((ns, e.time) for e in members if (ns := nanoseconds_of(e.time)) is not None and not _bound(e, stamps)),
        key=lambda pair: pair[0],
    )
    time = later = ""
    bounds = [ns for e in members if (ns := nanoseconds_of(e.time)) is not None and _bound(e, stamps)]
    if not timed and bounds and (start_ns is None or min(bounds) > start_ns):
        time = "after " + phrases.clock_time(min(e.time or "" for e in members if e.time))
    elif not timed:
        time = "no time printed"
    else:
        first, last = phrases.clock_time(timed[0][1]), phrases.clock_time(timed[-1][1])
        time = first if first == last else f"{first} \N{EN DASH} {last}"
        if start_ns is not None and timed[0][0] - start_ns >= 1_000_000:
            later = "+" + phrases.duration((timed[0][0] - start_ns) / 1e6)
    cited = next((entry for entry in members if entry.evidence), None)
    path = next((entry.explained_by for entry in members if entry.explained_by), ())
    itself = None if graph is None or not path else graph.by_id.get(path[-1])
    if itself is not None and itself.code == members[0].kind:
        path = path[:-1]  # the row itself
    ranks = phrases.fold_places((entry.rank, None) for entry in members)
    node = members[0].node or ""
    evidence = cited.evidence[0] if cited else None
    because = _path_words(path, graph)
    return CollateralRow(ranks or node, node if ranks else "", time, later, because, evidence, repeated=False)


def _bound(entry: Collateral, stamps: dict[tuple[str, int], Stamp]) -> bool:
    """True where its line has no time of its own."""
    first = next(iter(entry.evidence), None)
    return first is not None and stamps.get((first.file, first.line), NO_STAMP).bound


def _path_words(path: Sequence[str], graph: CauseGraph | None) -> str:
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
