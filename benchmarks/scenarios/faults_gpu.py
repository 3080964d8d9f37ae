"""GPU hardware: off the bus, ECC, NVLink, GSP, page faults, heat (formats.md H1)."""

from __future__ import annotations

from benchmarks.scenarios import kernel_text as kernel
from benchmarks.scenarios.endings import Ending, collapse, settle, time_out
from benchmarks.scenarios.expected import Accused, Expected
from benchmarks.scenarios.faults_cuda import raise_cuda
from benchmarks.scenarios.registry import identified, nobody, scenario, tied
from benchmarks.scenarios.simulation import Simulation
from correlator.core.vocabulary import FaultCode


@scenario("gpu")
def off_bus_with_cuda_error(sim: Simulation) -> Expected:
    """A GPU falls off the bus and its rank says so."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    sim.kernel(sim.node_of(rank), at - 0.6, *kernel.off_bus(sim.cluster.bus(rank), sim.cluster.pid(rank)))
    raise_cuda(sim, rank, at, sim.rng.choice(("unknown error", "unspecified launch failure")))
    sim.stuck.add(rank)
    collapse(sim, at + 0.4, victim=rank)
    return identified(sim, FaultCode.GPU_OFF_BUS, rank, why="Xid 79 of the rank's GPU just before its CUDA error")


def _silent_gpu(sim: Simulation, fault: FaultCode, *texts: str) -> Expected:
    """A GPU dies without a word of its process; all others wait."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    lines = [
        text.format(bus=sim.cluster.bus(rank), pid=sim.cluster.pid(rank), gpu=sim.cluster.local(rank)) for text in texts
    ]
    sim.kernel(sim.node_of(rank), at, *lines)
    sim.stuck.add(rank)
    time_out(sim, [r for r in sim.alive() if r != rank], sim.work(), silent=[rank])
    settle(sim)
    return identified(sim, fault, rank, why="hardware line of the GPU of the one rank that never entered")


@scenario("gpu")
def off_bus_silent(sim: Simulation) -> Expected:
    """A GPU falls off the bus; its rank hangs."""
    return _silent_gpu(
        sim, FaultCode.GPU_OFF_BUS,
        "NVRM: Xid (PCI:{bus}): 79, pid={pid}, name=pt_main_thread, GPU has fallen off the bus.",
        "NVRM: GPU {bus}.0: GPU has fallen off the bus.",
    )  # fmt: skip


@scenario("gpu")
def off_bus_without_pid(sim: Simulation) -> Expected:
    """The same from a driver that prints no pid."""
    text = "NVRM: Xid (PCI:{bus}): 79, GPU has fallen off the bus."
    return _silent_gpu(sim, FaultCode.GPU_OFF_BUS, text)


@scenario("gpu")
def gsp_timeout(sim: Simulation) -> Expected:
    """The GPU's system processor stops answering."""
    text = (
        "NVRM: Xid (PCI:{bus}): 119, pid={pid}, name=pt_main_thread, Timeout after 45s of waiting for RPC response from "
        "GPU{gpu} GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801702 0x4)."
    )
    return _silent_gpu(sim, FaultCode.GPU_GSP_TIMEOUT, text, text)


@scenario("gpu")
def off_bus_told_late(sim: Simulation) -> Expected:
    """The driver's line comes four seconds after the CUDA error that the loss made."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    raise_cuda(sim, rank, at, "unspecified launch failure", watchdog=False)
    sim.kernel(sim.node_of(rank), at + 4, *kernel.off_bus(sim.cluster.bus(rank), sim.cluster.pid(rank)))
    collapse(sim, at + 0.4, victim=rank)
    return identified(
        sim, FaultCode.GPU_OFF_BUS, rank, FaultCode.CUDA_LAUNCH_FAILURE, why="driver lines lag by seconds (method E10)"
    )


@scenario("gpu")
def ecc_double_bit(sim: Simulation) -> Expected:
    """Xid 48/63/94 and a CUDA error."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    sim.kernel(sim.node_of(rank), at - 0.2, *kernel.double_bit(sim.cluster.bus(rank), sim.cluster.pid(rank)))
    raise_cuda(sim, rank, at, "uncorrectable ECC error encountered")
    collapse(sim, at + 0.4, victim=rank)
    return identified(
        sim, FaultCode.GPU_ECC_DBE, rank, FaultCode.CUDA_ECC_UNCORRECTABLE, why="Xid 48/94 and the CUDA error"
    )


@scenario("gpu")
def nvlink_error(sim: Simulation) -> Expected:
    """Xid 74 on a GPU, then a CUDA error of its rank; the link's other end reports too, later."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    node = sim.node_of(rank)
    peer = next(r for r in sim.cluster.on(node) if r != rank)
    sim.kernel(node, at - 2.2, kernel.nvlink(sim.cluster.bus(rank), sim.cluster.pid(rank)))
    sim.kernel(node, at + 0.6, kernel.nvlink(sim.cluster.bus(peer), sim.cluster.pid(peer), 3))
    raise_cuda(sim, rank, at, "uncorrectable NVLink error detected during the execution")
    collapse(sim, at + 0.4, victim=rank)
    return identified(sim, FaultCode.GPU_NVLINK, rank, why="first Xid 74, and the CUDA error of its rank")


@scenario("gpu")
def mmu_fault_silent(sim: Simulation) -> Expected:
    """Xid 31 and a watchdog exception that names the illegal access; no Python error."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    sim.kernel(sim.node_of(rank), at, kernel.page_fault(sim.cluster.bus(rank), sim.cluster.pid(rank)))
    error = sim.torch.cuda_error("an illegal memory access was encountered")
    reason = [error[0].split(": ", 1)[1], *error[1:]]
    sim.say(rank, at + 0.2, *sim.torch.taken_down(sim.clock(rank, at + 0.2), rank, sim.world, reason))
    sim.dies(rank, at + 0.4, -6)
    collapse(sim, at + 0.4, victim=rank)
    return identified(
        sim, FaultCode.GPU_MMU_FAULT, rank, FaultCode.CUDA_ILLEGAL_ADDRESS, why="Xid 31 and the watchdog's CUDA error"
    )


@scenario("gpu")
def thermal_shutdown(sim: Simulation) -> Expected:
    """A node overheats: the kernel says so, GPUs leave, its ranks hang or die."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank()
    node = sim.node_of(rank)
    at = sim.now + 0.3 * sim.step_s
    sim.kernel(node, at - 3, "thermal thermal_zone0: critical temperature reached (105 C), shutting down")
    sim.kernel(node, at - 2.5, "reboot: Power down")
    sim.gone.add(node.index)
    sim.journal.keep(lambda line: line.node != node.index or line.at <= at or line.rank is None)
    for other in sim.cluster.on(node):
        sim.journal.silence(other, at)
    collapse(sim, at, Ending.PEERS if sim.rng.random() < 0.6 else Ending.TIMEOUT, victim=rank)
    name = node.name
    ranks = tuple(sim.cluster.on(node))
    faults = (FaultCode.GPU_THERMAL, FaultCode.NODE_LOST)
    also = [(Accused(f, None, name),) for f in faults] + [tuple(Accused(f, r, name) for r in ranks) for f in faults]
    return nobody(sim, FaultCode.GPU_THERMAL, node=name, also=also, why="the node's kernel says that it shuts down hot")


@scenario("gpu", skewed=False)
def two_gpus_at_once(sim: Simulation) -> Expected:
    """Two ranks of different nodes take the same illegal access within a millisecond: tied."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    one = sim.rng.choice(list(sim.cluster.on(1)))
    other = sim.rng.choice(list(sim.cluster.on(2)))
    at = sim.now + 0.3 * sim.step_s
    for rank in (one, other):
        raise_cuda(sim, rank, at + 0.001 * sim.rng.random(), "an illegal memory access was encountered", watchdog=False)
    collapse(sim, at + 0.5, victim=one)
    faults = {one: FaultCode.CUDA_ILLEGAL_ADDRESS, other: FaultCode.CUDA_ILLEGAL_ADDRESS}
    return tied(sim, faults, why="neither explains the other, and no clock orders them")
