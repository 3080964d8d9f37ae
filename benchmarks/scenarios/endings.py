"""How a failure spreads: waits, lost peers, agents and schedulers that end what is left, and who reports what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from benchmarks.scenarios import launcher_text
from benchmarks.scenarios.cluster import Node
from benchmarks.scenarios.launcher_text import Child
from benchmarks.scenarios.simulation import End, Launcher, Simulation
from benchmarks.scenarios.torch_text import REDUCE_FRAMES, Group, Work
from correlator.core.vocabulary import CollateralKind

ABORT_AFTER_S = 60.0
"""The watchdog waits so long between the timeout and the end of the process (formats.md A3)."""


class Ending(StrEnum):
    """What the ranks on other nodes come to."""

    PEERS = "their connections break"
    TIMEOUT = "they wait until the watchdog's timeout"
    CANCEL = "the scheduler ends the step"


def collapse(
    sim: Simulation, at: float, how: Ending | None = None, victim: int | None = None, work: Work | None = None
) -> None:
    """Everything that follows from failures at `at`; `victim` = the rank that peers name."""
    chosen = how or sim.rng.choice([Ending.PEERS, Ending.TIMEOUT, *([Ending.CANCEL] if sim.has_console else [])])
    if chosen is Ending.PEERS:
        lose_peers(sim, at, victim if victim is not None else min(sim.ends, default=0))
    elif chosen is Ending.TIMEOUT:
        waiting = [r for r in sim.alive() if not _ended_with_its_node(sim, r, at)]
        time_out(sim, waiting, work or sim.work())
    settle(sim, at + sim.rng.uniform(1, 3) if chosen is Ending.CANCEL else None)


def _ended_with_its_node(sim: Simulation, rank: int, at: float) -> bool:
    """An agent ends the siblings of a failed worker long before any timeout."""
    if sim.launcher is not Launcher.TORCHRUN:
        return False
    near = [end for other, end in sim.ends.items() if sim.node_of(other) == sim.node_of(rank) and end.code != 0]
    return any(end.at <= at + 60 for end in near)


def time_out(
    sim: Simulation, ranks: Iterable[int], work: Work, *, late: float = 0.0, silent: Sequence[int] = ()
) -> float:
    """The ranks wait in `work` and are taken down by their watchdogs; returns the time of the first timeout.

    `silent` ranks never entered it, are alive, and learn from the first that something is wrong.
    """
    enqueued = {rank: sim.now + late + sim.step_s * sim.rng.uniform(0.5, 0.7) for rank in ranks}
    limit = work.timeout_ms / 1000
    first = min(enqueued, key=lambda rank: enqueued[rank])
    began = enqueued[first] + limit + 0.03
    last = (work.seq + sim.rng.randrange(3), work.seq - 1)
    for rank, entered in enqueued.items():
        at = entered + limit + sim.rng.uniform(0.004, 0.1) if rank != first else began
        ran = round((at - entered) * 1000)
        sim.say(rank, at, *sim.torch.watchdog(sim.clock(rank, at), rank, work, ran, last))
        origin = None if rank == first else first
        dumped = max(at, began) + sim.rng.uniform(0.1, 1.0)
        sim.say(rank, dumped, *sim.torch.dump_signal(sim.clock(rank, dumped), rank, work.group, origin, last))
        own = work.group.members.index(rank)
        caught = f"[Rank {own}] Watchdog caught collective operation timeout: {work.text()} "
        text = f"{caught}ran for {ran} milliseconds before timing out."
        down = at + (ABORT_AFTER_S if sim.torch.version >= (2, 4) else 0.4)
        sim.say(rank, down, *sim.torch.taken_down(sim.clock(rank, down), rank, work.group, [text]))
        sim.mark(rank, at, CollateralKind.COLLECTIVE_TIMEOUT)
        sim.dies(rank, down + sim.rng.uniform(0.1, 2.0), -6)
    for rank in silent:
        dumped = began + sim.rng.uniform(0.3, 1.2)
        before = (sim.sequence() - 1, sim.sequence() - 1)
        sim.say(rank, dumped, *sim.torch.dump_signal(sim.clock(rank, dumped), rank, sim.world, first, before))
    return began


def lose_peers(
    sim: Simulation,
    at: float,
    victim: int,
    ranks: Iterable[int] | None = None,
    reach: tuple[float, float] = (1.2, 14.0),
) -> None:
    """The ranks find the connection to the victim's node closed, and end with an NCCL error."""
    host = sim.node_of(victim)
    for rank in sim.alive() if ranks is None else ranks:
        when = at + sim.rng.uniform(*reach)
        peer = f"{host.name}.cluster.local<{sim.rng.randrange(32768, 60999)}>"
        last = f"socketProgress: Connection closed by remote peer {peer}"
        sim.nccl_warn(rank, when, "misc/socket.cc:71", last)
        if sim.rng.random() < 0.6:
            sim.say(rank, when + 0.2, *sim.torch.taken_down(
                sim.clock(rank, when + 0.2), rank, sim.world, sim.torch.remote_error(last)
            ))  # fmt: skip
            code = -6
        else:
            sim.raises(rank, when + 0.2, sim.torch.remote_exception(last), REDUCE_FRAMES)
            code = 1
        sim.mark(rank, when, CollateralKind.REMOTE_PEER_LOST)
        sim.dies(rank, when + 0.5, code)


def lose_store(sim: Simulation, at: float, ranks: Iterable[int]) -> None:
    """The process that hosts the store is gone; heartbeat threads of the others complain, then the ranks end."""
    host = sim.cluster.nodes[0].name
    for rank in ranks:
        when = at + sim.rng.uniform(0.3, 6.0)
        own = sim.node_of(rank).name
        sim.c10d(
            rank, when, "TCPStore.cpp", 125,
            f"[c10d] recvValue failed on SocketImpl(fd=76, addr=[{own}]:{sim.rng.randrange(32768, 60999)}, "
            f"remote=[{host}]:29500): Connection reset by peer", letter="W",
        )  # fmt: skip
        sim.c10d(
            rank, when + 0.01, "ProcessGroupNCCL.cpp", 1659,
            f'{sim.world.tag(sim.torch.version, rank)}Failed to check the "should dump" flag on TCPStore, (maybe TCPStore '
            "server has shut down too early), with error: Connection reset by peer", letter="W",
        )  # fmt: skip
        sim.mark(rank, when, CollateralKind.STORE_LOST)


# --- who ends the rest, and who reports it ---


def settle(sim: Simulation, cancel_at: float | None = None, why: str = "") -> None:
    """Agents and scheduler clean up after all that died by itself; expected collateral kinds follow from it."""
    left = dict(sim.ends)
    for node in sim.cluster.nodes:
        if node.index in sim.gone:
            continue
        if sim.launcher is Launcher.TORCHRUN:
            _agent_cleans_up(sim, node, left, cancel_at)
        elif cancel_at is not None:
            _cut(sim, node, left, cancel_at + 0.2, CollateralKind.SCHEDULER_CANCEL)
    if sim.has_console:
        _srun_reports(sim, left, cancel_at, why)
    sim.ends = left


def _cut(sim: Simulation, node: Node, left: dict[int, End], at: float, kind: str) -> list[int]:
    """End the workers of a node that are still there with SIGTERM; returns them."""
    ended = [r for r in sim.cluster.on(node) if r not in left or left[r].at > at]
    for rank in ended:
        sim.journal.silence(rank, at)
        sim.marks[rank] = [mark for mark in sim.marks.get(rank, []) if mark[0] <= at] or [(at, kind)]
        left[rank] = End(at + (30.5 if rank in sim.stuck else 0.3), -9 if rank in sim.stuck else -15)
    return ended


def _agent_cleans_up(sim: Simulation, node: Node, left: dict[int, End], cancel_at: float | None) -> None:
    pid = sim.cluster.agent_pids[node.index]
    failed = sorted((left[r].at, r) for r in sim.cluster.on(node) if r in left and left[r].code != 0)
    seen = failed[0][0] + sim.rng.uniform(0.05, 0.6) if failed else None
    if cancel_at is not None and (seen is None or seen > cancel_at):
        pids = [sim.cluster.pid(r) for r in _cut(sim, node, left, cancel_at, CollateralKind.SCHEDULER_CANCEL)]
        when = cancel_at + sim.rng.uniform(0.02, 0.3)
        sim.agent(node, when, *launcher_text.agent_stopped(sim.torch, node.local(when), pid, pids))
        return
    if seen is None:
        return
    ended = _cut(sim, node, left, seen, CollateralKind.TERMINATED_BY_LAUNCHER)
    sim.agent(node, seen, *launcher_text.sigterm(sim.torch, node.local(seen), pid, [sim.cluster.pid(r) for r in ended]))
    done = seen + 0.7
    for rank in ended:
        if rank in sim.stuck:
            done = seen + 30.2
            text = f"Unable to shutdown process {sim.cluster.pid(rank)} via 15, forcefully exiting via 9"
            sim.agent(node, done, sim.torch.agent("W", node.local(done), pid, (launcher_text.API, 916), text))
    children = [_child(sim, node, rank, left[rank].code, seen) for at, rank in failed if at <= seen]
    sim.agent(node, done + 0.1, launcher_text.failed(sim.torch, node.local(done + 0.1), pid, children[0]))
    sim.agent(node, done + 0.3, *launcher_text.child_failed(node.name, children[0], children[1:]))


def _child(sim: Simulation, node: Node, rank: int, code: int, seen: float) -> Child:
    return Child(rank, sim.cluster.local(rank), sim.cluster.pid(rank), code, node.local(seen))


def _srun_reports(sim: Simulation, left: dict[int, End], cancel_at: float | None, why: str) -> None:
    if cancel_at is not None:
        first = sim.cluster.nodes[0]
        step = launcher_text.cancelled(f"STEP {sim.job}.0", first.name, first.local(cancel_at), why)
        waiting = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish."
        sim.console(cancel_at, waiting)
        sim.console(cancel_at + 0.02, step)
    for node in sim.cluster.nodes:
        ranks = [r for r in sim.cluster.on(node) if r in left]
        if sim.launcher is Launcher.TORCHRUN:
            bad = [left[r] for r in ranks if left[r].code != 0]
            if bad:
                # srun learns of a node's agent when the agent has cleaned up
                sim.console(max(end.at for end in bad) + 1.2, launcher_text.task_exit(node.name, [node.index], 1))
            continue
        together: dict[int, list[int]] = {}
        for rank in sorted(ranks, key=lambda r: left[r].at):
            if left[rank].code != 0:
                together.setdefault(left[rank].code, []).append(rank)
        for code, tasks in together.items():
            when = min(left[r].at for r in tasks) + 0.2
            sim.console(when, launcher_text.task_exit(node.name, tasks, code))


def collateral(sim: Simulation, initiators: Iterable[int]) -> dict[int, str]:
    """Expected kinds of all ranks that were dragged in; alternatives, where several are true, parted by `|`."""
    barred = set(initiators)
    return {
        rank: "|".join(dict.fromkeys(kind for _, kind in sorted(marks)))
        for rank, marks in sorted(sim.marks.items())
        if rank not in barred and marks
    }


def subgroup(local_id: int, guid: str, name: str, members: Sequence[int]) -> Group:
    """A process group of some of the ranks."""
    return Group(local_id, guid, name, tuple(members))
