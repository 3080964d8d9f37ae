"""Silence as a fact (formats.md R7): ranks that never came to a collective, and nodes that fell silent as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from correlator.core.model import Topology
from correlator.core.vocabulary import CollateralKind, Context, FaultCode, FileKind, Role
from correlator.graphs.episodes import Episode
from correlator.graphs.facts import LAUNCHER_WORDS, Fact
from correlator.graphs.hubs import WaitHub


@dataclass(frozen=True, slots=True)
class Explained:
    """What already says why ranks stayed away."""

    ranks: frozenset[int]
    """Ranks with a fault of their own: a hub whose absentees include one needs no silent rank."""
    unlinked_nodes: frozenset[str]
    """Nodes that report a network fault: it explains absentees that lost their peers."""


def silent_ranks(
    hubs: Sequence[WaitHub], facts: Sequence[Fact], topology: Topology, explained: Explained, attempt: int
) -> list[Episode]:
    """Ranks at the end of every wait chain: missing from a hub, waiting in none, and not explained by anything."""
    waiting = {rank for hub in hubs for rank in hub.waiters}
    unheard = frozenset(rank for hub in hubs for rank in hub.unknown)
    silent: dict[int, WaitHub] = {}
    for hub in hubs:
        if hub.deviating or (hub.missing & explained.ranks) or (hub.unknown & explained.ranks):
            continue
        absent = hub.missing - waiting
        if not hub.missing and hub.unknown == unheard and _only_it_dumped_nothing(hub):
            absent = hub.unknown - waiting
        for rank in absent | hub.stuck:
            silent.setdefault(rank, hub)
    if not silent:
        silent = _only_one_left(hubs, waiting, topology)
    suspects = _not_just_stopped_first(_smallest(silent, hubs), silent, facts)
    suspects = _still_linked(suspects, silent, facts, topology, explained.unlinked_nodes)
    suspects = _without_signs_of_waiting(suspects, facts)
    gone = _gone_nodes(suspects, waiting, topology, facts)
    episodes = [_lost_node(node, silent, topology, facts) for node in gone]
    words = _last_words(suspects, facts, attempt)
    named = {rank for hub in silent.values() for rank in hub.named}
    scattered = _scattered({r for r in suspects - named if not _counted(words.get(r, []), silent[r])}, topology)
    for rank in sorted(suspects):
        hub = silent[rank]
        own = words.get(rank, [])
        place = topology.place(rank)
        waits = [hub.waiters[r] for r in sorted(hub.waiters)][:2]
        number = len(hub.waiters)
        text = f"it never entered {hub.name}, in which {number} rank{'s' if number != 1 else ''} waited"
        if rank in hub.stuck:
            text = f"its GPU never finished {hub.name}, which {len(hub.members) - number} peers finished"
        episodes.append(
            Episode(
                id="",
                code=FaultCode.RANK_STALLED,
                role=Role.INITIATING,
                attempt=attempt,
                rank=rank,
                node=place.node if place else None,
                gpu=place.gpu if place else None,
                pid=place.pid if place else None,
                facts=(*own[-2:], *waits) or tuple(waits),
                inferred=text,
                began=hub.began,
                specificity=_sureness(rank, own, hub, scattered=scattered),
            )
        )
    return episodes


def _only_it_dumped_nothing(hub: WaitHub) -> bool:
    """All other members wrote their flight recorder when asked to; a process that hangs outside NCCL may not get to it.

    A log that is missing among logs proves nothing of the kind: it may just not have been copied.
    """
    dumped = sum(fact.file_kind is FileKind.FLIGHT_RECORDER for fact in hub.waiters.values())
    return len(hub.unknown) == 1 and dumped == len(hub.waiters) == len(hub.members) - 1


def _last_words(ranks: set[int], facts: Sequence[Fact], attempt: int) -> dict[int, list[Fact]]:
    """Rank -> its lines that tell where it stood."""
    words: dict[int, list[Fact]] = {}
    for fact in facts:
        if fact.rank in ranks and fact.attempt == attempt and fact.name in _LAST_WORDS:
            words.setdefault(fact.rank, []).append(fact)
    return words


def _sureness(rank: int, own: Sequence[Fact], hub: WaitHub, *, scattered: bool) -> float:
    """Its own counters, or the report of its group, show it best; bare absence less.

    It shows nothing where members without any file may be absent too, or where ranks of several nodes are: logs that end
    early look just like that.
    """
    if _counted(own, hub) or rank in hub.named:
        return 0.9
    return 0.7 if hub.unknown <= {rank} and (rank in hub.stuck or not scattered) else 0.4


def _scattered(ranks: set[int], topology: Topology) -> bool:
    """Whether ranks lie on more than one node."""
    return len({place.node for place in topology.ranks if place.rank in ranks}) > 1


MOST_WAIT = 0.75
"""Share of the ranks that must have timed out before the one that did not stands out."""


def _only_one_left(hubs: Sequence[WaitHub], waiting: set[int], topology: Topology) -> dict[int, WaitHub]:
    """Members of the hubs unknown: where nearly all ranks waited somewhere, the single one with a log that did not."""
    if not hubs or any(hub.members or hub.deviating for hub in hubs):
        return {}
    left = {place.rank for place in topology.ranks if place.has_log} - waiting
    if len(left) != 1 or len(waiting) < MOST_WAIT * (topology.world_size or 1 << 30):
        return {}
    return {left.pop(): max(hubs, key=lambda hub: len(hub.waiters))}


def _not_just_stopped_first(suspects: set[int], silent: dict[int, WaitHub], facts: Sequence[Fact]) -> set[int]:
    """Drops suspects that an agent ended because a rank of their node had given up waiting or had lost a peer.

    They would have timed out a moment later; only their own counters could tell that they had stayed behind.
    """
    if len(suspects) < MANY_SILENT:
        return suspects
    signalled = [f for f in facts if f.name == Context.WORKER_SIGNALLED]
    told = {f.rank: f for f in signalled if f.rank is not None and f.rank in suspects}
    gave_up = [f for hub in silent.values() for f in hub.waiters.values()]
    gave_up += [f for f in facts if f.name == CollateralKind.REMOTE_PEER_LOST and f.rank not in told]
    waiting_nodes = {f.node for f in gave_up if f.node is not None}
    words = _last_words(set(told), facts, next(iter(silent.values())).attempt) if told else {}
    stopped = {
        rank
        for rank, fact in told.items()
        if fact.node in waiting_nodes
        and rank not in silent[rank].named
        and not _counted(words.get(rank, ()), silent[rank])
    }
    return suspects - stopped


MANY_SILENT = 2


def _gone_nodes(suspects: set[int], waiting: set[int], topology: Topology, facts: Sequence[Fact]) -> list[str]:
    """Nodes of which all ranks are silent and whose launcher never reported an end: the node went, not its ranks.

    Without its launcher's log the ranks elsewhere have to tell, most of which then waited until their watchdogs fired.
    """
    spoke = {fact.node for fact in facts if fact.name in LAUNCHER_WORDS}
    told = {fact.rank for fact in facts if fact.name in LAUNCHER_WORDS}
    launched = {fact.node for fact in facts if fact.file_kind in (FileKind.LAUNCHER_LOG, FileKind.NODE_LOG)}
    gone = []
    for node in topology.nodes:
        ranks = topology.ranks_of(node)
        others = len(topology.ranks) - len(ranks)
        if node not in launched and (launched or len(waiting) < MOST_WAIT * others):
            continue  # its launcher may have reported an end in a log that is not here
        whole = len(ranks) >= MANY_SILENT and ranks <= suspects and len(ranks) < len(topology.ranks)
        if whole and node in topology.nodes_with_logs and node not in spoke and not ranks & told:
            gone.append(node)
    return gone


def _lost_node(node: str, silent: dict[int, WaitHub], topology: Topology, facts: Sequence[Fact]) -> Episode:
    ranks = sorted(topology.ranks_of(node))
    hub = silent[ranks[0]]
    last = [f for f in facts if f.node == node][-2:]
    waits = [hub.waiters[rank] for rank in sorted(hub.waiters)][:2]
    return Episode(
        id="",
        code=FaultCode.NODE_LOST,
        role=Role.INITIATING,
        attempt=hub.attempt,
        rank=None,
        node=node,
        gpu=None,
        pid=None,
        facts=(*last, *waits),
        inferred=f"all {len(ranks)} ranks of {node} fell silent together, and its launcher never reported an end",
        began=hub.began,
        specificity=0.8,
    )


_LAST_WORDS = frozenset({Context.THREAD_STACK, Context.DUMP_SIGNAL, Context.WORK_STATUS, Context.FLIGHT_RECORDER_DUMP})


def _smallest(silent: dict[int, WaitHub], hubs: Sequence[WaitHub]) -> set[int]:
    """Where a smaller hub has its own silent ranks, those of a larger one only follow (method.md 4.3)."""
    if not silent:
        return set()
    sizes = {id(hub): len(hub.members) or len(hub.waiters) for hub in hubs}
    smallest = min(sizes[id(hub)] for hub in silent.values())
    return {rank for rank, hub in silent.items() if sizes[id(hub)] == smallest}


_LOST = frozenset({CollateralKind.REMOTE_PEER_LOST, CollateralKind.STORE_LOST, CollateralKind.COLLECTIVE_TIMEOUT})


def _without_signs_of_waiting(suspects: set[int], facts: Sequence[Fact]) -> set[int]:
    """A suspect that lost a connection, or whose stack stands in a collective, had come; where others show no such sign."""
    came = {f.rank for f in facts if f.rank is not None and f.rank in suspects and f.name in _LOST}
    stacks = [f for f in facts if f.name == Context.THREAD_STACK and f.rank in suspects]
    standing = [f for f in stacks if f.attribute("waits_on") == "collective" and _main_thread(f)]
    came |= {f.rank for f in standing if f.rank is not None}
    left = suspects - came
    return left or suspects


def _still_linked(
    suspects: set[int], silent: dict[int, WaitHub], facts: Sequence[Fact], topology: Topology, unlinked: frozenset[str]
) -> set[int]:
    """Drops suspects that a broken link took away: they had come, lost a peer at once, and so never ran into the timeout.

    A rank that stalled elsewhere loses its peers too, but only after they gave up. So the loss counts where it came before
    every timeout of the hub, or where no times tell and all suspects lost peers while a suspect's node reports a link down.
    """
    lost = [f for f in facts if f.name == CollateralKind.REMOTE_PEER_LOST and f.rank in suspects]
    losers = {f.rank for f in lost if f.rank is not None}
    nodes = {place.node for place in topology.ranks if place.rank in suspects}
    if suspects and losers == suspects and nodes & unlinked:
        return set()
    early = {f.rank for f in lost if f.rank is not None and _before_all(f, silent[f.rank].waiters.values())}
    return suspects - early


CLEARLY_EARLIER_NS = 1_000_000_000
"""Beyond the clocks' own uncertainty: lines of one failure are printed within about a second."""


def _before_all(fact: Fact, others: Iterable[Fact]) -> bool:
    """True only where every other line is timed and later than `fact` beyond doubt."""
    if fact.aligned_ns is None or fact.inherited:
        return False
    return all(
        other.aligned_ns is not None
        and other.name == CollateralKind.COLLECTIVE_TIMEOUT
        and other.aligned_ns - fact.aligned_ns > CLEARLY_EARLIER_NS + _doubt_ns(fact) + _doubt_ns(other)
        for other in others
    )


def _doubt_ns(fact: Fact) -> int:
    return int((fact.uncertainty_ms + fact.granularity_ms) * 1e6)


def _main_thread(fact: Fact) -> bool:
    return (fact.attribute("thread") or "MainThread") == "MainThread"


def _counted(own: Sequence[Fact], hub: WaitHub) -> bool:
    """True where the rank's own counters, not its mere silence, show that it stayed behind."""
    counted = [f for f in own if f.number("last_enqueued") is not None]
    idle = any(f.number("last_enqueued") == f.number("last_completed") for f in counted)
    return idle or any(f.group in (hub.group, None) for f in counted)
