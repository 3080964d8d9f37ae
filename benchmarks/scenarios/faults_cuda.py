"""CUDA errors and GPU hardware (formats.md A10, A11, H1)."""

from __future__ import annotations

from benchmarks.scenarios import kernel_text as kernel
from benchmarks.scenarios.endings import collapse, settle
from benchmarks.scenarios.expected import Accused, Expected
from benchmarks.scenarios.registry import identified, scenario, tied, whole_node
from benchmarks.scenarios.simulation import Simulation
from benchmarks.scenarios.torch_text import SITE, Frame
from correlator.core.vocabulary import FaultCode

INIT_FRAMES: tuple[Frame, ...] = (
    ("/workspace/train.py", 212, "<module>", "main()"),
    ("/workspace/train.py", 60, "main", "torch.cuda.set_device(local_rank)"),
    (
        "/opt/venv/lib/python3.11/site-packages/torch/cuda/__init__.py",
        478,
        "set_device",
        "torch._C._cuda_setDevice(device)",
    ),
)


STORE_FRAMES: tuple[Frame, ...] = (
    ("/workspace/train.py", 212, "<module>", "main()"),
    ("/workspace/train.py", 64, "main", 'dist.init_process_group("nccl")'),
    (f"{SITE}/torch/distributed/rendezvous.py", 189, "_create_c10d_store", "return TCPStore("),
)


def raise_cuda(sim: Simulation, rank: int, at: float, text: str, *, watchdog: bool | None = None) -> None:
    """The main thread raises; sometimes the watchdog finds the poisoned context first or too."""
    error = sim.torch.cuda_error(text)
    if watchdog if watchdog is not None else sim.rng.random() < 0.4:
        sim.raises(rank, at, error)
        reason = [error[0].split(": ", 1)[1], *error[1:]]
        sim.say(rank, at + 0.15, *sim.torch.taken_down(sim.clock(rank, at + 0.15), rank, sim.world, reason))
        sim.dies(rank, at + 0.4, -6)
    else:
        sim.raises(rank, at, error)
        sim.dies(rank, at + 0.4, 1)


def _cuda_story(sim: Simulation, fault: FaultCode, text: str, why: str, *or_faults: FaultCode) -> Expected:
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    raise_cuda(sim, rank, at, text)
    collapse(sim, at + 0.4, victim=rank)
    return identified(sim, fault, rank, *or_faults, why=why)


@scenario("cuda")
def cuda_oom(sim: Simulation) -> Expected:
    """One rank runs out of GPU memory."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    sim.raises(rank, at, [f"{sim.torch.oom_class}: {sim.torch.oom(sim.cluster.local(rank))}"])
    sim.dies(rank, at + 0.3, 1)
    collapse(sim, at + 0.3, victim=rank)
    return identified(sim, FaultCode.CUDA_OOM, rank, why="the only rank with an error of its own")


@scenario("cuda")
def cuda_oom_everywhere(sim: Simulation) -> Expected:
    """The batch is too big for every rank alike."""
    sim.begin()
    at = sim.now + 0.3 * sim.step_s
    for rank in sim.cluster.ranks:
        when = at + 0.1 * sim.rng.random()
        sim.raises(rank, when, [f"{sim.torch.oom_class}: {sim.torch.oom(sim.cluster.local(rank))}"])
        sim.dies(rank, when, 1)
    settle(sim)
    spoke = [rank for rank in sim.cluster.ranks if rank not in sim.marks]
    also = [(Accused(FaultCode.CUDA_OOM, rank, sim.node_of(rank).name),) for rank in sim.cluster.ranks]
    return tied(sim, dict.fromkeys(spoke, FaultCode.CUDA_OOM), also=also, why="all at once, before the first step")


@scenario("cuda")
def cuda_oom_retried(sim: Simulation) -> Expected:
    """An out-of-memory error that the loop caught and survived, then a real one elsewhere."""
    sim.begin()
    sim.train(5)
    survivor, rank = sim.rng.sample(list(sim.cluster.ranks), 2)
    sim.log(
        survivor,
        sim.now + 0.1,
        "WARNING",
        f"OOM in forward, batch skipped: {sim.torch.oom(sim.cluster.local(survivor))[:90]}",
    )
    sim.train(12)
    at = sim.now + 0.3 * sim.step_s
    sim.raises(rank, at, [f"{sim.torch.oom_class}: {sim.torch.oom(sim.cluster.local(rank))}"])
    sim.dies(rank, at + 0.3, 1)
    collapse(sim, at + 0.3, victim=rank)
    return identified(sim, FaultCode.CUDA_OOM, rank, why="training went on for 12 steps after the caught one")


@scenario("cuda")
def illegal_address(sim: Simulation) -> Expected:
    """An illegal memory access, without a kernel line."""
    return _cuda_story(
        sim, FaultCode.CUDA_ILLEGAL_ADDRESS, "an illegal memory access was encountered", "first sticky error"
    )


@scenario("cuda")
def illegal_address_with_xid31(sim: Simulation) -> Expected:
    """The same, with the page fault that the driver saw."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    fault = kernel.page_fault(sim.cluster.bus(rank), sim.cluster.pid(rank))
    sim.kernel(sim.node_of(rank), at - 0.05, fault)
    raise_cuda(sim, rank, at, "an illegal memory access was encountered")
    sim.kernel(sim.node_of(rank), at + 1.4, kernel.xid(sim.cluster.bus(rank), 45, "Ch 00000001", sim.cluster.pid(rank)))
    collapse(sim, at + 0.4, victim=rank)
    return identified(
        sim, FaultCode.CUDA_ILLEGAL_ADDRESS, rank, FaultCode.GPU_MMU_FAULT, why="CUDA error and Xid 31 of its GPU agree"
    )


@scenario("cuda")
def device_assert(sim: Simulation) -> Expected:
    """An index out of range inside a kernel."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    sim.say(rank, at - 0.02, *(
        "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1422: indexSelectSmallIndex: block: [12,0,0], thread: "
        f"[{thread},0,0] Assertion `srcIndex < srcSelectDimSize` failed." for thread in range(64, 72)
    ))  # fmt: skip
    raise_cuda(sim, rank, at, "device-side assert triggered")
    collapse(sim, at + 0.4, victim=rank)
    return identified(sim, FaultCode.CUDA_DEVICE_ASSERT, rank, why="assertion lines and the sticky error of one rank")


@scenario("cuda")
def launch_failure(sim: Simulation) -> Expected:
    """An unspecified launch failure."""
    return _cuda_story(sim, FaultCode.CUDA_LAUNCH_FAILURE, "unspecified launch failure", "first sticky error")


@scenario("cuda")
def misaligned_address(sim: Simulation) -> Expected:
    """A misaligned access."""
    return _cuda_story(sim, FaultCode.CUDA_MISALIGNED_ADDRESS, "misaligned address", "first sticky error")


@scenario("cuda")
def ecc_error_of_cuda(sim: Simulation) -> Expected:
    """CUDA reports an uncorrectable ECC error; the kernel log was not kept."""
    sim.has_kernel = False
    return _cuda_story(
        sim, FaultCode.CUDA_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered", "only one rank says it",
        FaultCode.GPU_ECC_DBE,
    )  # fmt: skip


@scenario("cuda")
def cublas_failure(sim: Simulation) -> Expected:
    """cuBLAS fails to execute."""
    text = "CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb, m, n, k)`"
    return _cuda_story(sim, FaultCode.CUBLAS_CUDNN_FAILURE, text, "the only error that is not about peers")


def _start_up(sim: Simulation, ranks: list[int], final: list[str]) -> None:
    """Ranks fail before the process group exists; the others wait in vain for them."""
    for rank in ranks:
        at = sim.now - 4 + 0.4 * sim.rng.random()
        sim.journal.silence(rank, at)
        sim.raises(rank, at, final, INIT_FRAMES, plain=True)
        sim.dies(rank, at + 0.3, 1)
    if sim.has_console:
        settle(sim, sim.now + 2)
        return
    for rank in sim.alive():
        at = sim.now + 300 + sim.rng.random()
        final = [
            "torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. 12/16 clients joined."
        ]
        sim.raises(rank, at, final, STORE_FRAMES, plain=True)
        sim.mark(rank, at, "store_lost")
        sim.mark(rank, at, "collective_timeout")
        sim.mark(rank, at, "remote_peer_lost")
        sim.dies(rank, at + 0.3, 1)
    settle(sim)


@scenario("start", skewed=False)
def no_kernel_image(sim: Simulation) -> Expected:
    """One node has a GPU for which the build holds no code."""
    sim.begin()
    node = sim.rng.randrange(1, 4)
    _start_up(
        sim,
        list(sim.cluster.on(node)),
        sim.torch.cuda_error("no kernel image is available for execution on the device"),
    )
    return whole_node(sim, FaultCode.CUDA_NO_KERNEL_IMAGE, node, why="all ranks of one node fail alike at the start")


@scenario("start", skewed=False)
def driver_insufficient(sim: Simulation) -> Expected:
    """One node has an old driver."""
    sim.begin()
    node = sim.rng.randrange(1, 4)
    final = [
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by "
        "downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx"
    ]
    _start_up(sim, list(sim.cluster.on(node)), final)
    return whole_node(
        sim, FaultCode.CUDA_DRIVER_INSUFFICIENT, node, why="all ranks of one node fail alike at the start"
    )


@scenario("start", skewed=False)
def invalid_device(sim: Simulation) -> Expected:
    """One rank asks for a GPU that is not there."""
    sim.begin()
    rank = sim.some_rank()
    _start_up(sim, [rank], sim.torch.cuda_error("invalid device ordinal"))
    return identified(
        sim, FaultCode.CUDA_INVALID_DEVICE, rank, FaultCode.CONFIG_ERROR, why="the only error at the start"
    )


@scenario("start", skewed=False)
def cuda_initialization(sim: Simulation) -> Expected:
    """The fabric manager of a node is not up."""
    sim.begin()
    node = sim.rng.randrange(1, 4)
    _start_up(sim, list(sim.cluster.on(node)), sim.torch.cuda_error("system not yet initialized"))
    return whole_node(sim, FaultCode.CUDA_INITIALIZATION, node, why="error 802 on all GPUs of a node")
