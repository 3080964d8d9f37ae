"""The causal graph folded for people: one box for all that befell many ranks alike, in layers from cause to effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from correlator.core.catalogue import Catalogue
from correlator.core.model import Diagnosis, Initiator
from correlator.core.vocabulary import Role
from correlator.reports import phrases
from correlator.reports.causes import Cause, CauseGraph, nanoseconds_of

MOST_HUB_NAMES = 3
"""So many collectives have a box each; more are folded into one."""
LONGEST_PLACES = 44
"""Characters of folded ranks and nodes that a box has room for."""
MOST_CAUSES_SHOWN = 2
"""So many incoming links of a box are drawn, the best-founded ones."""


@dataclass(frozen=True, slots=True)
class Group:
    """One box: what happened, where, when first, and why it follows."""

    id: str
    code: str
    title: str
    where: str
    role: str
    first_ns: int | None
    reason: str
    """Why it follows from the box above it; empty for roots and for what no path leads to."""
    layer: int
    explained: bool


@dataclass(frozen=True, slots=True)
class GroupLink:
    """`count` links of the graph between two boxes; `q` is the strongest of them."""

    cause: str
    effect: str
    count: int
    q: float
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Story:
    """The folded graph. Groups are ordered by layer, then by time."""

    groups: tuple[Group, ...]
    links: tuple[GroupLink, ...]
    margin_ms: float
    """Uncertainty of the initiator's time: what differs by less is not told apart."""


def tell(diagnosis: Diagnosis, graph: CauseGraph | None, catalogue: Catalogue | None) -> Story:
    """The folded graph of a diagnosis; without a graph, the initiators and the kinds of collateral without links."""
    if graph is None or not graph.causes:
        return _without_graph(diagnosis, catalogue)
    shown = [cause for cause in graph.causes if not graph.roots or cause.id in graph.explained]
    key_of = _keys(shown, graph.roots)
    links = _links(graph, key_of)
    layers = _layers(set(key_of.values()), links, {key_of[root] for root in graph.roots})
    drawn = _drawn(links, layers)
    reasons = {link.effect: link.reason for link in reversed(drawn)}
    members: dict[str, list[Cause]] = {}
    for cause in shown:
        members.setdefault(key_of[cause.id], []).append(cause)
    groups = [
        replace(_group(key, causes, diagnosis, catalogue), layer=layers[key], reason=reasons.get(key, ""))
        for key, causes in members.items()
    ]
    told = {group.code for group in groups}
    groups += [g for g in _kinds(diagnosis, catalogue, 1 + max(layers.values(), default=0)) if g.code not in told]
    ordered = sorted(groups, key=lambda g: (g.layer, g.first_ns is None, g.first_ns or 0, g.id))
    names = {group.id: f"g{number}" for number, group in enumerate(ordered)}
    return Story(
        tuple(replace(group, id=names[group.id]) for group in ordered),
        tuple(replace(link, cause=names[link.cause], effect=names[link.effect]) for link in drawn),
        _margin_ms(diagnosis),
    )


def title_of(code: str, role: str, catalogue: Catalogue | None) -> str:
    """The catalogue's title of a code, else the code in words."""
    words = code.replace("_", " ")
    if catalogue is None:
        return words[:1].upper() + words[1:]
    entry = catalogue.find(code, Role(role)) if role in tuple(Role) else None
    return entry.title if entry is not None else words[:1].upper() + words[1:]


def _keys(causes: list[Cause], roots: frozenset[str]) -> dict[str, str]:
    """Cause id -> the box it belongs to."""
    names = {cause.name for cause in causes if cause.kind == "hub"}
    keys = {}
    for cause in causes:
        if cause.id in roots:
            keys[cause.id] = f"root {cause.code}"
        elif cause.kind == "hub":
            keys[cause.id] = f"hub {cause.name}" if len(names) <= MOST_HUB_NAMES else "hub"
        else:
            keys[cause.id] = f"{cause.role} {cause.code}"
    return keys


def _links(graph: CauseGraph, key_of: dict[str, str]) -> list[GroupLink]:
    """Links between boxes, with the reason that is given most often."""
    counts: dict[tuple[str, str], int] = {}
    best: dict[tuple[str, str], tuple[float, str]] = {}
    reasons: dict[tuple[str, str], Counter[str]] = {}
    for link in graph.links:
        if link.cause not in key_of or link.effect not in key_of:
            continue
        pair = (key_of[link.cause], key_of[link.effect])
        if pair[0] == pair[1]:
            continue
        counts[pair] = counts.get(pair, 0) + 1
        best[pair] = max(best.get(pair, (0.0, "")), (link.q, link.rule))
        reasons.setdefault(pair, Counter())[link.reason] += 1
    return [
        GroupLink(*pair, number, *best[pair], min(reasons[pair].items(), key=lambda item: (-item[1], item[0]))[0])
        for pair, number in counts.items()
    ]


def _layers(keys: set[str], links: list[GroupLink], roots: set[str]) -> dict[str, int]:
    """Steps from the roots (or, where no root is known, from what nothing explains)."""
    effects = {link.effect for link in links}
    layers = dict.fromkeys(sorted(roots or {key for key in keys if key not in effects} or keys), 0)
    waiting = list(layers)
    for key in waiting:
        for link in links:
            if link.cause == key and link.effect not in layers:
                layers[link.effect] = layers[key] + 1
                waiting.append(link.effect)
    for key in sorted(keys - layers.keys()):
        layers[key] = 0
    return layers


def _drawn(links: list[GroupLink], layers: dict[str, int]) -> list[GroupLink]:
    """Links that lead downwards, for each box the best-founded ones: all of them would hide the story."""
    down: dict[str, list[GroupLink]] = {}
    for link in links:
        if layers[link.cause] < layers[link.effect]:
            down.setdefault(link.effect, []).append(link)
    drawn = []
    for effect in sorted(down, key=lambda key: (layers[key], key)):
        nearest = sorted(down[effect], key=lambda link: (-layers[link.cause], -link.q, -link.count, link.cause))
        drawn += nearest[:MOST_CAUSES_SHOWN]
    return drawn


def _group(key: str, causes: list[Cause], diagnosis: Diagnosis, catalogue: Catalogue | None) -> Group:
    signs = [cause.first for cause in causes if cause.first is not None]
    times = [sign.time_ns for sign in signs if sign.time_ns is not None and not sign.bound]
    code, role = causes[0].code, causes[0].role
    times = [cause.onset_ns for cause in causes if cause.onset_ns is not None] or times
    if causes[0].kind == "hub":
        title, where = _hub_words(causes)
    else:
        title, where = title_of(code, role, catalogue), _where(causes, diagnosis)
    return Group(
        id=key,
        code=code if causes[0].kind != "hub" else "",
        title=title,
        where=where,
        role=_drawn_as(key, causes[0]),
        first_ns=min(times) if times else None,
        reason="",
        layer=0,
        explained=True,
    )


def _drawn_as(key: str, cause: Cause) -> str:
    """The verdict's initiators alone are drawn as such: another fault may be an effect of theirs."""
    if key.startswith("root "):
        return Role.INITIATING.value
    return "hub" if cause.kind == "hub" else Role.COLLATERAL.value


def _hub_words(hubs: list[Cause]) -> tuple[str, str]:
    """What was waited in, by whom, for whom."""
    names = sorted({hub.name for hub in hubs})
    waiters = {rank for hub in hubs for rank in hub.ranks}
    missing = {rank for hub in hubs for rank in hub.missing}
    title = f"Waiting in collective {names[0]}" if len(names) == 1 else f"Waiting in {len(names)} collectives"
    where = phrases.count(len(waiters), "rank") + (
        f" waited for {phrases.fold_places((rank, None) for rank in missing)}" if missing else " waited"
    )
    return title, where


def short_places(places: Iterable[tuple[int | None, str | None]]) -> str:
    """Ranks and nodes by name while that is short, else how many they are."""
    places = list(places)
    named = phrases.fold_places(places)
    if len(named) <= LONGEST_PLACES:
        return named
    ranks = {rank for rank, _ in places if rank is not None}
    nodes = {node for _, node in places if node}
    counted = [phrases.count(len(ranks), "rank")] if ranks else []
    return " on ".join([*counted, *([phrases.count(len(nodes), "node")] if nodes else [])])


def _where(causes: list[Cause], diagnosis: Diagnosis) -> str:
    """Ranks that the verdict counts under this kind, else those of the graph."""
    places: list[tuple[int | None, str | None]] = [
        (c.rank, c.node) for c in diagnosis.collateral if c.kind == causes[0].code
    ]
    if not places or causes[0].role == Role.INITIATING:
        places = [(rank, node) for c in causes for rank in (c.ranks or (None,)) for node in (c.nodes or (None,))]
    return short_places(places)


def _kinds(diagnosis: Diagnosis, catalogue: Catalogue | None, layer: int) -> list[Group]:
    """A box for each kind of collateral, for which no path is known."""
    kinds: dict[str, list[int | None]] = {}
    for entry in diagnosis.collateral:
        kinds.setdefault(entry.kind, []).append(nanoseconds_of(entry.time))
    groups = []
    for kind in sorted(kinds):
        times = [time for time in kinds[kind] if time is not None]
        places = short_places((c.rank, c.node) for c in diagnosis.collateral if c.kind == kind)
        role = Role.COLLATERAL.value
        first = min(times) if times else None
        groups.append(
            Group(
                f"kind {kind}",
                str(kind),
                title_of(kind, role, catalogue),
                places,
                role,
                first,
                "",
                layer,
                explained=False,
            )
        )
    return groups


def _without_graph(diagnosis: Diagnosis, catalogue: Catalogue | None) -> Story:
    by_fault: dict[str, list[Initiator]] = {}
    for initiator in diagnosis.verdict.initiators:
        by_fault.setdefault(initiator.fault, []).append(initiator)
    role = Role.INITIATING.value
    groups = []
    for code, found in by_fault.items():
        where = short_places((i.rank, i.node) for i in found) or phrases.culprit(found[0])
        first = nanoseconds_of(found[0].time)
        title = title_of(code, role, catalogue)
        groups.append(Group(f"root {code}", str(code), title, where, role, first, "", 0, explained=True))
    groups += _kinds(diagnosis, catalogue, 1)
    return Story(
        tuple(replace(group, id=f"g{number}") for number, group in enumerate(groups)), (), _margin_ms(diagnosis)
    )


def _margin_ms(diagnosis: Diagnosis) -> float:
    return max((i.time_uncertainty_ms or 0.0 for i in diagnosis.verdict.initiators), default=0.0)
