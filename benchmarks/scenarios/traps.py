"""Runs made to mislead: old errors, benign Xids, restarts, mislabelled text, missing files (issue 5)."""

from __future__ import annotations

from benchmarks.scenarios import kernel_text as kernel
from benchmarks.scenarios.endings import Ending, collapse, lose_peers, lose_store, settle, time_out
from benchmarks.scenarios.expected import Accused, Expected
from benchmarks.scenarios.faults_application import USER_FRAMES
from benchmarks.scenarios.faults_native import LOADER_FRAMES
from benchmarks.scenarios.journal import Source
from benchmarks.scenarios.layouts import Layout
from benchmarks.scenarios.registry import identified, scenario, tied
from benchmarks.scenarios.simulation import VERSIONS, Simulation
from benchmarks.scenarios.torch_text import Torch
from benchmarks.scenarios.trainers import Trainer
from correlator.core.vocabulary import FaultCode, VerdictStatus

BUG = ["TypeError: unsupported operand type(s) for +: 'NoneType' and 'float'"]


def running(sim: Simulation) -> tuple[int, float]:
    """A run under way; a victim and the time of its end."""
    sim.begin()
    sim.train(sim.rng.randrange(6, 30))
    return sim.some_rank(not_on=()), sim.now + 0.3 * sim.step_s


def raise_bug(sim: Simulation, rank: int, at: float) -> None:
    """A rank raises a plain bug and leaves with 1."""
    sim.raises(rank, at, BUG, USER_FRAMES)
    sim.dies(rank, at + 0.4, 1)


def _healthy(sim: Simulation, why: str) -> Expected:
    sim.finish()
    return Expected(VerdictStatus.NO_FAILURE, why=why)


@scenario("healthy")
def healthy(sim: Simulation) -> Expected:
    """A run that ends well."""
    sim.begin()
    sim.train(sim.rng.randrange(20, 45))
    return _healthy(sim, "all ranks finish")


@scenario("healthy")
def healthy_after_errors(sim: Simulation) -> Expected:
    """Retries, a caught OOM, a warning about nan, a corrected kernel error: all survived."""
    sim.begin()
    sim.train(6)
    for number, rank in enumerate(sim.rng.sample(list(sim.cluster.ranks), 4)):
        at = sim.now + 0.1 * number
        text = (
            "read of shard 117 failed, retry 1/5: OSError: [Errno 5] Input/output error",
            f"caught {sim.torch.oom_class}, emptying the cache: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "grad norm is nan, step skipped",
            "heartbeat to the metrics server failed: ConnectionResetError: [Errno 104] Connection reset by peer",
        )[number]
        sim.log(rank, at, "ERROR" if number < 2 else "WARNING", text)
    sim.kernel(
        sim.cluster.nodes[1],
        sim.now + 1,
        kernel.xid(
            sim.cluster.bus(4),
            63,
            "Row Remapper: New row (0x0000000018f31d80) marked for remapping, reset gpu to activate.",
        ),
    )
    sim.train(25)
    return _healthy(sim, "training went on after each of them, and all ranks finish")


@scenario("healthy")
def healthy_with_store_noise(sim: Simulation) -> Expected:
    """Rank 0 leaves first at the end; the others warn about the store."""
    sim.begin()
    sim.train(20)
    lose_store(sim, sim.now + 2.0, [r for r in sim.cluster.ranks if r % 3 == 1])
    sim.marks.clear()
    return _healthy(sim, "warnings of an orderly end")


@scenario("trap")
def old_errors_then_a_bug(sim: Simulation) -> Expected:
    """Frightening lines in the hours before, all survived; then a bug."""
    sim.begin()
    sim.train(5)
    other = sim.some_rank(not_on=())
    sim.log(
        other, sim.now + 0.1, "ERROR", "CUDA error: an illegal memory access was encountered (sanity kernel, ignored)"
    )
    sim.log(other, sim.now + 0.2, "ERROR", "NCCL error: unhandled system error, falling back to sockets")
    sim.say(
        other,
        sim.now + 0.3,
        "Traceback (most recent call last):",
        '  File "/workspace/data.py", line 61, in read',
        "    return handle.read()",
        "OSError: [Errno 5] Input/output error",
        stream=Source.STDERR,
    )
    sim.log(other, sim.now + 0.4, "WARNING", "read failed, retrying in 5 s")
    sim.train(20)
    rank = sim.some_rank(not_on=(sim.node_of(other).index,))
    at = sim.now + 0.3 * sim.step_s
    raise_bug(sim, rank, at)
    collapse(sim, at + 0.4, victim=rank)
    return identified(sim, FaultCode.PYTHON_EXCEPTION, rank, why="20 steps were done after the old errors")


@scenario("trap")
def stray_dates(sim: Simulation) -> Expected:
    """Lines that speak of other years: a licence that ends in two, a wheel built four years ago, a snapshot of last spring."""
    rank, at = running(sim)
    early = sim.now - 0.9 * sim.step_s
    for other in (1, 5, 9):
        sim.log(other, early, "INFO", "licence valid until 2031-06-30 00:00:00, 12 seats")
        sim.log(
            other,
            early + 0.1,
            "WARNING",
            "data snapshot of 2021-03-14T09:26:53Z is older than the code (built 2022-02-01 10:00:00)",
        )
    raise_bug(sim, rank, at)
    collapse(sim, at + 0.4, victim=rank)
    return identified(sim, FaultCode.PYTHON_EXCEPTION, rank, why="dates inside of messages are no times of lines")


@scenario("trap")
def benign_xids(sim: Simulation) -> Expected:
    """Xid 13/43 of another job's process and Xid 45 at clean-up, beside a bug."""
    rank, at = running(sim)
    bystander = sim.some_rank(not_on=(sim.node_of(rank).index,))
    node = sim.node_of(bystander)
    sim.kernel(
        node,
        at - 400,
        kernel.xid(
            sim.cluster.bus(bystander),
            13,
            "Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): Out Of Range Address",
            999_001,
            "cuda-demo",
        ),
    )
    sim.kernel(node, at - 399, kernel.xid(sim.cluster.bus(bystander), 43, "Ch 00000020", 999_001, "cuda-demo"))
    raise_bug(sim, rank, at)
    collapse(sim, at + 0.4, victim=rank)
    for other in sim.cluster.on(node):
        if other in sim.ends:
            sim.kernel(
                node,
                sim.ends[other].at + 0.2,
                kernel.xid(sim.cluster.bus(other), 45, "Ch 00000001", sim.cluster.pid(other)),
            )
    return identified(sim, FaultCode.PYTHON_EXCEPTION, rank, why="the Xids are of another process, or clean-up")


@scenario("trap")
def xid_on_another_gpu(sim: Simulation) -> Expected:
    """A row remap on a GPU of the same node, hours before; the bug is on another rank."""
    rank, at = running(sim)
    node = sim.node_of(rank)
    other = next(r for r in sim.cluster.on(node) if r != rank)
    sim.kernel(
        node,
        at - 20,
        kernel.xid(
            sim.cluster.bus(other),
            63,
            "Row Remapper: New row (0x0000000018f31d80) marked for remapping, reset gpu to activate.",
        ),
    )
    raise_bug(sim, rank, at)
    collapse(sim, at + 0.4, victim=rank)
    return identified(
        sim, FaultCode.PYTHON_EXCEPTION, rank, why="a recorded row remap ends no process, least of all another rank's"
    )


@scenario("trap")
def xid_after_the_failure(sim: Simulation) -> Expected:
    """Xid 31 and 45 appear only while processes are killed."""
    rank, at = running(sim)
    raise_bug(sim, rank, at)
    collapse(sim, at + 0.4, victim=rank)
    other = next((r for r in sim.cluster.ranks if r in sim.ends and sim.node_of(r) != sim.node_of(rank)), None)
    if other is not None:
        end = sim.ends[other].at
        bus, pid = sim.cluster.bus(other), sim.cluster.pid(other)
        sim.kernel(sim.node_of(other), end + 0.3, kernel.page_fault(bus, pid), kernel.xid(bus, 45, "Ch 00000001", pid))
    return identified(sim, FaultCode.PYTHON_EXCEPTION, rank, why="the page fault came with the clean-up")


@scenario("trap")
def first_watchdog_is_innocent(sim: Simulation) -> Expected:
    """Rank A times out first because it came first; rank B never came."""
    sim.torch = with_counters(sim)
    sim.begin()
    sim.train(12)
    rank = sim.some_rank()
    sim.stuck.add(rank)
    eager = sim.rng.choice([r for r in sim.cluster.ranks if r != rank and sim.node_of(r) != sim.node_of(rank)])
    work = sim.work()
    sim.now -= 0.4 * sim.step_s
    time_out(sim, [eager], work, silent=[])
    sim.now += 0.4 * sim.step_s
    time_out(sim, [r for r in sim.cluster.ranks if r not in (rank, eager)], work, silent=[rank])
    settle(sim)
    return identified(sim, FaultCode.RANK_STALLED, rank, why="who times out first came first")


def with_counters(sim: Simulation) -> Torch:
    """A version that prints what was enqueued last."""
    return sim.rng.choice([version for version in VERSIONS if version.version >= (2, 6)])


@scenario("trap", layouts=(Layout.FLAT, Layout.MERGED, Layout.TREE, Layout.K8S))
def root_cause_is_a_victim(sim: Simulation) -> Expected:
    """The faulty rank lingers in its clean-up; a peer that lost it dies first and is torchrun's root cause."""
    rank, at = running(sim)
    sim.raises(rank, at, BUG, USER_FRAMES)
    node = sim.node_of(rank)
    peer = next(r for r in sim.cluster.on(node) if r != rank)
    lose_peers(sim, at, rank, [peer], (0.8, 1.2))
    sim.stuck.add(rank)
    lose_peers(sim, at, rank, [r for r in sim.alive() if sim.node_of(r) != node], (1.5, 9.0))
    settle(sim)
    return identified(
        sim, FaultCode.PYTHON_EXCEPTION, rank, why="its own exception came a second before the peer's loss"
    )


@scenario("trap")
def rank_zero_dies(sim: Simulation) -> Expected:
    """Rank 0 raises; with it goes the store of all."""
    sim.begin()
    sim.train(sim.rng.randrange(6, 30))
    at = sim.now + 0.3 * sim.step_s
    raise_bug(sim, 0, at)
    away = [r for r in sim.alive() if sim.node_of(r).index != 0]
    lose_store(sim, at + 1.2, away)
    lose_peers(sim, at, 0, away, (4.0, 20.0))
    settle(sim)
    return identified(sim, FaultCode.PYTHON_EXCEPTION, 0, why="its exception came before the store's loss")


@scenario("trap")
def mislabelled_by_the_application(sim: Simulation) -> Expected:
    """A circuit breaker calls a data error a CUDA error; an advice mentions OOM."""
    rank, at = running(sim)
    victim = sim.some_rank(not_on=(sim.node_of(rank).index,))
    sim.raises(rank, at, ["ValueError: bad token id 151937"], LOADER_FRAMES)
    sim.dies(rank, at + 0.4, 1)
    sim.log(
        victim,
        at + 1.0,
        "ERROR",
        "circuit breaker: category=cuda_error, a peer stopped answering (hints: OOM? ECC? see the runbook)",
    )
    lose_peers(sim, at + 0.4, rank)
    settle(sim)
    return identified(
        sim, FaultCode.DATA_ERROR, rank, FaultCode.PYTHON_EXCEPTION, why="a label is no fault; the exception is"
    )


@scenario("trap", skewed=False)
def two_faults_in_order(sim: Simulation) -> Expected:
    """A rank fails; twenty seconds later another fails of something else: the first started it. Both log it with a time."""
    sim.trainer = sim.rng.choice((Trainer.TITAN, Trainer.LOGGER))
    sim.step_s = min(sim.step_s, 3.0)
    rank, at = running(sim)
    sim.log(rank, at - 0.01, "ERROR", "unhandled exception in the training loop, giving up")
    raise_bug(sim, rank, at)
    other = sim.some_rank(not_on=(sim.node_of(rank).index,))
    late = at + 20
    sim.log(other, late - 0.01, "ERROR", "unhandled exception in the training loop, giving up")
    sim.raises(other, late, [f"{sim.torch.oom_class}: {sim.torch.oom(sim.cluster.local(other))}"])
    sim.dies(other, late + 0.3, 1)
    lose_peers(sim, at + 21, rank)
    settle(sim)
    both = (Accused(FaultCode.PYTHON_EXCEPTION, rank), Accused(FaultCode.CUDA_OOM, other))
    # Only a reported end dates a traceback from above; without one, both is an honest answer.
    also = (both,)
    return identified(sim, FaultCode.PYTHON_EXCEPTION, rank, also=also, why="twenty seconds earlier, clocks that agree")


@scenario("trap", skewed=False)
def crash_and_illegal_access_at_once(sim: Simulation) -> Expected:
    """A segfault and an illegal access on two nodes within two milliseconds: tied."""
    rank, at = running(sim)
    other = sim.some_rank(not_on=(sim.node_of(rank).index, 0))
    sim.say(
        rank,
        at,
        "Fatal Python error: Segmentation fault",
        "",
        "Current thread 0x00007f2b8c1fe740 (most recent call first):",
        '  File "/workspace/train.py", line 143 in train_step',
    )
    sim.dies(rank, at + 0.2, -11)
    sim.raises(other, at + 0.002, sim.torch.cuda_error("an illegal memory access was encountered"))
    sim.dies(other, at + 0.3, 1)
    collapse(sim, at + 0.6, Ending.PEERS, victim=rank)
    return tied(
        sim,
        {rank: FaultCode.NATIVE_SEGFAULT, other: FaultCode.CUDA_ILLEGAL_ADDRESS},
        why="neither can cause the other, nor come first for sure",
    )


@scenario("trap", skewed=False)
def all_ranks_segfault(sim: Simulation) -> Expected:
    """Every rank crashes in the same extension at once."""
    sim.begin()
    sim.train(8)
    at = sim.now + 0.3 * sim.step_s
    for rank in sim.cluster.ranks:
        when = at + 0.02 * sim.rng.random()
        sim.say(
            rank,
            when,
            "Fatal Python error: Segmentation fault",
            "",
            "Current thread 0x00007f2b8c1fe740 (most recent call first):",
            '  File "/workspace/train.py", line 143 in train_step',
        )
        sim.dies(rank, when + 0.1, -11)
    settle(sim)
    return tied(sim, dict.fromkeys(sim.cluster.ranks, FaultCode.NATIVE_SEGFAULT), why="all at once")
