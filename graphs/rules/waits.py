"""E3 waits-on with the silent rank, E4 mismatch: a hub explains its waiters, and whoever held it up explains the hub."""

from __future__ import annotations

from collections.abc import Iterator

from correlator.core.vocabulary import CollateralKind, FaultCode, Order, Role
from correlator.graphs.episodes import Episode
from correlator.graphs.facts import order_of
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
    for index, hub in enumerate(scene.hubs):
        absent = hub.held_by
        for episode in scene.initiating:
            if episode.rank is None or episode.rank not in absent:
                if episode.rank is None and _node_is_absent(scene, hub, episode):
                    yield Edge(episode.id, scene.hub_id(index), "E3", 0.9, f"{episode.node} never came to {hub.name}")
                continue
            late = _after_the_wait(scene, hub, episode)
            if late:
                yield Rejection(episode.id, scene.hub_id(index), "E3", "it came after the watchdogs had fired")
            else:
                verb = "never finished" if episode.rank in hub.stuck else "never entered"
                reason = f"rank {episode.rank} {verb} {hub.name}"
                yield Edge(episode.id, scene.hub_id(index), "E3", 0.95, reason)


def _node_is_absent(scene: Scene, hub: WaitHub, episode: Episode) -> bool:
    if episode.node is None:
        return False
    here = scene.ranks_of(episode.node)
    return bool(here & (hub.missing | hub.unknown)) and not (here & set(hub.waiters))


def _after_the_wait(scene: Scene, hub: WaitHub, episode: Episode) -> bool:
    """True where the episode certainly began after every waiter had already given up."""
    orders = [order_of(episode.head, fact, scene.clocks) for fact in hub.waiters.values()]
    return bool(orders) and all(order is Order.AFTER for order in orders)


def wait_chains(scene: Scene) -> Iterator[Edge | Rejection]:
    """E3b: a rank that is missing here because it waits there passes the blame on."""
    for there, other in enumerate(scene.hubs):
        for here, hub in enumerate(scene.hubs):
            if here != there and (hub.missing & set(other.waiters)) and not (other.missing & set(hub.waiters)):
                reason = f"members of {hub.name} were held in {other.name}"
                yield Edge(scene.hub_id(there), scene.hub_id(here), "E3b", 0.95, reason)


def mismatch(scene: Scene) -> Iterator[Edge | Rejection]:
    """E4: members that bring another operation or size hang the whole hub."""
    for index, hub in enumerate(scene.hubs):
        for episode in scene.initiating:
            if episode.code == FaultCode.COLLECTIVE_MISMATCH and (
                episode.rank is None or episode.rank in hub.deviating
            ):
                yield Edge(episode.id, scene.hub_id(index), "E4", 0.95, f"another operation in {hub.name}")


def dump_signals(scene: Scene) -> Iterator[Edge | Rejection]:
    """E7: a heartbeat exit or abort after somebody's timeout is that timeout's work."""
    timeouts = [e for e in scene.episodes if e.code == CollateralKind.COLLECTIVE_TIMEOUT and e.rank is not None]
    if not timeouts:
        return
    first = timeouts[0]
    for episode in scene.episodes:
        if episode.code == CollateralKind.SECONDARY_ABORT and episode.role is Role.COLLATERAL:
            yield Edge(first.id, episode.id, "E7", 0.9, "the watchdog takes the process down after a timeout")
