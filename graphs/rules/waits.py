"""E3 waits-on with the silent rank, E4 mismatch: a hub explains its waiters, and whoever held it up explains the hub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from correlator.core.vocabulary import CollateralKind, FaultCode, Order, Role
from correlator.graphs.episodes import Episode
from correlator.graphs.facts import Fact, order_of
from correlator.graphs.hubs import WaitHub
from correlator.graphs.scene import Edge, Rejection, Scene


def waiters(scene: Scene) -> Iterator[Edge | Rejection]:
    """E3: the hub explains the timeout of every rank that waited in it."""
    for index, hub in enumerate(scene.hubs):
        for rank in hub.waiters:
            for episode in scene.by_rank.get(rank, ()):
                if episode.code == CollateralKind.COLLECTIVE_TIMEOUT and episode.head.seq in (hub.seq, None):
                    yield Edge(scene.hub_id(index), episode.id, "E3", 0.95, f"waited in {hub.name}")


def holders(scene: Scene) -> Iterator[Edge | Rejection]:
    """E3: a rank that never entered holds the hub up, through whatever happened to it first."""
    of_nodes = [e for e in scene.initiating if e.rank is None and e.node is not None]
    holding: set[str] = set()
    for index, hub in enumerate(scene.hubs):
        last = _last_waiters(hub)
        for rank in sorted(hub.held_by):
            for episode in scene.by_rank.get(rank, ()):
                if episode.role is Role.INITIATING:
                    holding.add(episode.id)
                    yield _held(scene, index, last, episode)
        absent = hub.missing | hub.unknown
        for episode in of_nodes:
            here = scene.ranks_of(episode.node or "")
            if not here.isdisjoint(absent) and hub.waiters.keys().isdisjoint(here):
                holding.add(episode.id)
                yield Edge(episode.id, scene.hub_id(index), "E3", 0.9, f"{episode.node} never came to {hub.name}")
    yield from _present(scene, holding)


def _held(scene: Scene, index: int, last: Sequence[Fact], episode: Episode) -> Edge | Rejection:
    hub = scene.hubs[index]
    if last and all(order_of(episode.head, fact, scene.clocks) is Order.AFTER for fact in last):
        return Rejection(episode.id, scene.hub_id(index), "E3", "it came after the watchdogs had fired")
    verb = "never finished" if episode.rank in hub.stuck else "never entered"
    return Edge(episode.id, scene.hub_id(index), "E3", 0.95, f"rank {episode.rank} {verb} {hub.name}")


def _last_waiters(hub: WaitHub) -> list[Fact]:
    """On each clock the last line of a waiter: what came after it came after all of them. One without a time is enough."""
    last: dict[str | None, Fact] = {}
    for fact in hub.waiters.values():
        if fact.printed_ns is None or fact.inherited:
            return [fact]
        known = last.get(fact.domain)
        if known is None or fact.printed_ns > (known.printed_ns or 0):
            last[fact.domain] = fact
    return sorted(last.values(), key=lambda fact: -(fact.aligned_ns or 0))


def _present(scene: Scene, holding: set[str]) -> Iterator[Rejection]:
    """Of each faulty rank that holds no hub up: that it waited itself, or had no part in the collective."""
    if not scene.hubs:
        return
    first = scene.hubs[0]
    for episode in scene.initiating:
        if episode.rank is None or episode.id in holding:
            continue
        waits = scene.waits_of.get(episode.rank)
        if waits:
            yield Rejection(episode.id, scene.hub_id(waits[0]), "E3", "the rank had entered the collective and waited")
        elif episode.rank not in first.members:
            why = "not a member of the group" if first.members else "nothing tells who belongs to the group"
            yield Rejection(episode.id, scene.hub_id(0), "E3", why)
        else:
            yield Rejection(episode.id, scene.hub_id(0), "E3", "the rank had come to the collective and passed it")


def wait_chains(scene: Scene) -> Iterator[Edge | Rejection]:
    """E3b: a rank that is missing here because it waits there passes the blame on."""
    for here, hub in enumerate(scene.hubs):
        elsewhere = {index for rank in hub.missing for index in scene.waits_of.get(rank, ())}
        for there in sorted(elsewhere - {here}):
            other = scene.hubs[there]
            if hub.waiters.keys().isdisjoint(other.missing):
                reason = f"members of {hub.name} were held in {other.name}"
                yield Edge(scene.hub_id(there), scene.hub_id(here), "E3b", 0.95, reason)
            else:
                why = "each of the two waits for members of the other"
                yield Rejection(scene.hub_id(there), scene.hub_id(here), "E3b", why)


def behind_another(scene: Scene) -> Iterator[Edge | Rejection]:
    """E3b: a collective that everybody entered stands behind an earlier one in which some of them still wait (q 0.9).

    Work of several groups runs one after the other on a GPU: it is enqueued, and shows as open, long before its turn.
    """
    for here, hub in enumerate(scene.hubs):
        if hub.held_by or hub.deviating:
            continue
        elsewhere = {index for rank in hub.waiters for index in scene.waits_of.get(rank, ())} - {here}
        for there in sorted(index for index in elsewhere if scene.hubs[index].held_by or scene.hubs[index].deviating):
            reason = f"ranks of {hub.name} were held in {scene.hubs[there].name}"
            yield Edge(scene.hub_id(there), scene.hub_id(here), "E3b", 0.9, reason)


def unknown_members(scene: Scene) -> Iterator[Edge | Rejection]:
    """E3: nobody prints who belongs to a group whose waiters are all missing elsewhere: the others missing there hold it up."""
    for here, hub in enumerate(scene.hubs):
        if hub.members or hub.held_by:
            continue
        for other in scene.hubs:
            if hub.waiters.keys() <= other.missing:
                idle = sorted(rank for rank in other.missing if rank not in scene.waits_of)
                found = [e for rank in idle for e in scene.by_rank.get(rank, ()) if e.role is Role.INITIATING]
                for episode in found:
                    reason = f"of those missing from {other.name} rank {episode.rank} alone waits nowhere"
                    yield Edge(episode.id, scene.hub_id(here), "E3", 0.8, reason)
                break


def mismatch(scene: Scene) -> Iterator[Edge | Rejection]:
    """E4: members that bring another operation or size hang the whole hub."""
    for index, hub in enumerate(scene.hubs):
        for episode in (episode for rank in sorted(hub.deviating) for episode in scene.by_rank.get(rank, ())):
            if episode.code == FaultCode.COLLECTIVE_MISMATCH:
                yield Edge(episode.id, scene.hub_id(index), "E4", 0.95, f"another operation in {hub.name}")


def dump_signals(scene: Scene) -> Iterator[Edge | Rejection]:
    """E7: a heartbeat exit or abort after somebody's timeout is that timeout's work."""
    held = {rank for hub in scene.hubs if hub.held_by or hub.deviating for rank in hub.waiters}
    timeouts = [e for e in scene.episodes if e.code == CollateralKind.COLLECTIVE_TIMEOUT and e.rank is not None]
    if not timeouts:
        return
    own = {e.rank: e for e in reversed(timeouts)}
    first = min(timeouts, key=lambda e: e.rank not in held)
    for episode in scene.episodes:
        if episode.code == CollateralKind.SECONDARY_ABORT and episode.role is Role.COLLATERAL:
            cause = own.get(episode.rank, first)
            yield Edge(cause.id, episode.id, "E7", 0.9, "the watchdog takes the process down after a timeout")
