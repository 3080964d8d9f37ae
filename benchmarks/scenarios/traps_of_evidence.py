"""Runs that mislead by what came after, or by what is missing: restarts, and files that were not handed in (issue 5)."""

from __future__ import annotations

import json

from benchmarks.scenarios import kernel_text as kernel
from benchmarks.scenarios.endings import Ending, collapse, lose_peers, settle, time_out
from benchmarks.scenarios.expected import Accused, Expected
from benchmarks.scenarios.faults_application import USER_FRAMES
from benchmarks.scenarios.faults_waits import write_dumps
from benchmarks.scenarios.journal import Line, Source
from benchmarks.scenarios.layouts import Layout
from benchmarks.scenarios.registry import identified, scenario
from benchmarks.scenarios.simulation import Launcher, Simulation
from benchmarks.scenarios.torch_text import REDUCE_FRAMES, traceback
from benchmarks.scenarios.traps import BUG, raise_bug, running, with_counters
from correlator.core.vocabulary import CollateralKind, FaultCode, VerdictStatus


@scenario("trap", layouts=(Layout.FLAT, Layout.MERGED, Layout.TREE))
def restarts_fail_in_its_wake(sim: Simulation) -> Expected:
    """Attempt 0 dies of a bug; attempt 1 never gets its group and dies of that."""
    sim.launcher = Launcher.TORCHRUN
    sim.has_console = False
    rank, at = running(sim)
    raise_bug(sim, rank, at)
    collapse(sim, at + 0.4, Ending.PEERS, victim=rank)
    expected = identified(sim, FaultCode.PYTHON_EXCEPTION, rank, why="attempt 1 failed only for want of peers")
    sim.now = max(end.at for end in sim.ends.values()) + 15
    _restart(sim, 1)
    for other in sim.cluster.ranks:
        when = sim.now + 300 + sim.rng.random()
        final = ["torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0"]
        sim.raises(other, when, final, USER_FRAMES[:2])
        sim.dies(other, when + 0.3, 1)
    settle(sim)
    return expected


def _restart(sim: Simulation, attempt: int) -> None:
    sim.ends.clear()
    sim.marks.clear()
    sim.begin(attempt)


@scenario("trap", layouts=(Layout.FLAT, Layout.MERGED, Layout.TREE))
def same_gpu_in_all_attempts(sim: Simulation) -> Expected:
    """Three attempts, each ended by the same GPU."""
    sim.launcher = Launcher.TORCHRUN
    sim.has_console = False
    rank = sim.some_rank()
    for attempt in range(3):
        sim.ends.clear()
        sim.marks.clear()
        sim.begin(attempt)
        sim.train(6)
        at = sim.now + 0.3 * sim.step_s
        sim.kernel(sim.node_of(rank), at - 0.1, *kernel.double_bit(sim.cluster.bus(rank), sim.cluster.pid(rank)))
        sim.raises(rank, at, sim.torch.cuda_error("uncorrectable ECC error encountered"))
        sim.dies(rank, at + 0.4, 1)
        lose_peers(sim, at + 0.4, rank)
        settle(sim)
        sim.now = max(end.at for end in sim.ends.values()) + 20
    return identified(
        sim, FaultCode.GPU_ECC_DBE, rank, FaultCode.CUDA_ECC_UNCORRECTABLE, why="the same GPU ends all three"
    )


def _without(sim: Simulation, gone: set[int], *, agents: bool = False) -> None:
    """Logs of some ranks (and of their nodes' agents) were not handed in."""
    nodes = {sim.node_of(rank).index for rank in gone}

    def wanted(line: Line) -> bool:
        if line.rank is not None:
            return line.rank not in gone
        return not (agents and line.source is Source.AGENT and line.node in nodes)

    sim.journal.keep(wanted)


@scenario("trap", layouts=(Layout.FLAT, Layout.TREE, Layout.TASK))
def third_of_the_logs(sim: Simulation) -> Expected:
    """Five ranks' logs, all of them waiting; no launcher, no kernel, no counters of others: nobody can tell."""
    sim.torch = with_counters(sim)
    sim.has_kernel = sim.has_console = False
    sim.begin()
    sim.train(12)
    rank = sim.some_rank(not_on=())
    time_out(sim, [r for r in sim.cluster.ranks if r != rank], sim.work())
    kept = sim.rng.sample([r for r in sim.cluster.ranks if r != rank], 5)
    settle(sim)
    sim.journal.keep(lambda line: line.rank in kept)
    waiting = {r: str(CollateralKind.COLLECTIVE_TIMEOUT) for r in kept}
    return Expected(VerdictStatus.UNDETERMINED, (), (), (), waiting, "five witnesses who all waited")


@scenario("trap", layouts=(Layout.FLAT, Layout.TREE))
def log_of_the_initiator_missing(sim: Simulation) -> Expected:
    """Its own log is gone, its agent's report is there: exit code 1 first, and the rank named."""
    sim.has_kernel = False
    rank, at = running(sim)
    raise_bug(sim, rank, at)
    collapse(sim, at + 0.4, victim=rank)
    found = identified(
        sim,
        FaultCode.SILENT_EXIT,
        rank,
        FaultCode.PYTHON_EXCEPTION,
        why="its agent saw it leave with 1 before anything else",
    )
    _without(sim, {rank})
    return Expected(
        found.status, found.initiators, found.also, (VerdictStatus.UNDETERMINED,), found.collateral, found.why
    )


@scenario("trap", layouts=(Layout.FLAT,))
def initiator_and_agent_missing(sim: Simulation) -> Expected:
    """Neither its log nor its agent's, and all others wait: a rank that is absent from the evidence."""
    sim.torch = with_counters(sim)
    sim.has_kernel = sim.has_console = False
    rank, at = running(sim)
    raise_bug(sim, rank, at)
    time_out(sim, [r for r in sim.alive() if sim.node_of(r) != sim.node_of(rank)], sim.work())
    settle(sim)
    _without(sim, set(sim.cluster.on(sim.node_of(rank))), agents=True)
    name = sim.node_of(rank).name
    also = [
        (Accused(fault, None, name),) for fault in (FaultCode.RANK_STALLED, FaultCode.NODE_LOST, FaultCode.SILENT_EXIT)
    ]
    waiting = {r: k for r, k in _marks(sim).items() if sim.node_of(r) != sim.node_of(rank)}
    return Expected(VerdictStatus.UNDETERMINED, (), tuple(also), (), waiting, "a whole node is missing from the folder")


def _marks(sim: Simulation) -> dict[int, str]:
    return {rank: marks[0][1] for rank, marks in sim.marks.items() if marks}


@scenario("healthy", layouts=(Layout.FLAT, Layout.MERGED, Layout.TREE))
def recovered_by_a_restart(sim: Simulation) -> Expected:
    """Attempt 0 dies, attempt 1 trains to the end: the run did not fail."""
    sim.launcher = Launcher.TORCHRUN
    sim.has_console = False
    rank, at = running(sim)
    raise_bug(sim, rank, at)
    collapse(sim, at + 0.4, Ending.PEERS, victim=rank)
    sim.now = max(end.at for end in sim.ends.values()) + 15
    _restart(sim, 1)
    sim.train(25)
    sim.finish()
    return Expected(VerdictStatus.NO_FAILURE, why="the second attempt finishes on all ranks")


@scenario("trap", layouts=(Layout.FLAT, Layout.MERGED, Layout.TASK))
def dumps_of_an_older_run(sim: Simulation) -> Expected:
    """Flight-recorder dumps of three days ago, of a stall of another rank, lie beside the logs of a bug."""
    sim.torch = with_counters(sim)
    rank, at = running(sim)
    other = sim.some_rank(not_on=(sim.node_of(rank).index,))
    seq = 4_000
    last = {r: [(sim.world, seq - (r == other), "ALLREDUCE", 1_048_576, r == other)] for r in sim.cluster.ranks}
    sim.now -= 3 * 86_400
    write_dumps(sim, list(sim.cluster.ranks), {r: [sim.world] for r in sim.cluster.ranks}, last)
    sim.now += 3 * 86_400
    raise_bug(sim, rank, at)
    collapse(sim, at + 0.4, victim=rank)
    return identified(sim, FaultCode.PYTHON_EXCEPTION, rank, why="the dumps are three days older than the run")


@scenario("application", layouts=(Layout.TREE,))
def only_error_files(sim: Simulation) -> Expected:
    """The streams were not kept, torchrun's error.json files were: epoch seconds tell who was first."""
    sim.has_console = False
    rank, at = running(sim)
    raise_bug(sim, rank, at)
    collapse(sim, at + 3.4, Ending.PEERS, victim=rank)
    said = {r for r in sim.cluster.ranks if any(k == CollateralKind.REMOTE_PEER_LOST for _, k in sim.marks.get(r, ()))}
    sim.journal.keep(lambda line: line.rank is None)
    texts = {r: sim.torch.remote_exception("socketProgress: Connection closed by remote peer")[0] for r in said}
    texts[rank] = BUG[0]
    for r, text in texts.items():
        second = int(at if r == rank else min(when for when, _ in sim.marks[r])) + int(sim.node_of(r).offset_s)
        node, local = sim.node_of(r).name, sim.cluster.local(r)
        stack = "\n".join(traceback([text], USER_FRAMES if r == rank else REDUCE_FRAMES))
        short = text.rpartition("torch.distributed.")[2]
        content = {"message": {"message": short, "extraInfo": {"py_callstack": stack + "\n", "timestamp": str(second)}}}
        name = f"{node}/torchrun/{sim.job}_error{sim.node_of(r).index:03d}/attempt_0/{local}/error.json"
        sim.journal.files[name] = json.dumps(content).encode()
    return identified(
        sim, FaultCode.PYTHON_EXCEPTION, rank, why="its error file is of another kind, and three seconds older"
    )
