"""Native crashes, kills, memory, disks and file systems (formats.md G2-G4, H3)."""

from __future__ import annotations

from benchmarks.scenarios import kernel_text as kernel
from benchmarks.scenarios import trainers
from benchmarks.scenarios.endings import Ending, collapse, lose_peers, settle, time_out
from benchmarks.scenarios.expected import Accused, Expected
from benchmarks.scenarios.journal import Source
from benchmarks.scenarios.layouts import Layout
from benchmarks.scenarios.registry import identified, nobody, scenario, whole_node
from benchmarks.scenarios.simulation import Simulation
from benchmarks.scenarios.torch_text import SITE, Frame
from correlator.core.vocabulary import FaultCode

LOADER_FRAMES: tuple[Frame, ...] = (
    ("/workspace/train.py", 212, "<module>", "main()"),
    ("/workspace/train.py", 181, "main", "for batch in loader:"),
    (f"{SITE}/torch/utils/data/dataloader.py", 708, "__next__", "data = self._next_data()"),
)
SAVE_FRAMES: tuple[Frame, ...] = (
    ("/workspace/train.py", 212, "<module>", "main()"),
    ("/workspace/train.py", 195, "main", "save_checkpoint(model, optimizer, step)"),
    ("/workspace/checkpoint.py", 41, "save_checkpoint", "torch.save(state, path)"),
    (f"{SITE}/torch/serialization.py", 943, "save", "with _open_zipfile_writer(f) as opened_zipfile:"),
)


def _faulthandler(sim: Simulation, rank: int, at: float, head: str) -> None:
    sim.say(
        rank, at, f"Fatal Python error: {head}", "",
        "Thread 0x00007f2a4d7fe640 (most recent call first):",
        '  File "/usr/lib/python3.11/threading.py", line 327 in wait', "",
        "Current thread 0x00007f2b8c1fe740 (most recent call first):",
        f'  File "{SITE}/fusedops/ops.py", line 88 in forward',
        '  File "/workspace/train.py", line 143 in train_step', "",
        "Extension modules: numpy.core._multiarray_umath, torch._C (total: 84)",
    )  # fmt: skip


def _running(sim: Simulation) -> tuple[int, float]:
    """A run under way; a victim and the time of its end."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    return sim.some_rank(not_on=()), sim.now + 0.3 * sim.step_s


def _crash(sim: Simulation, code: int, head: str | None, *kernel_lines: str) -> tuple[int, float]:
    rank, at = _running(sim)
    if head is not None:
        _faulthandler(sim, rank, at, head)
    texts = [text.format(pid=sim.cluster.pid(rank)) for text in kernel_lines]
    if texts:
        sim.kernel(sim.node_of(rank), at + 0.05, *texts)
    sim.dies(rank, at + 0.3, code)
    collapse(sim, at + 0.3, victim=rank)
    return rank, at


@scenario("native")
def segfault_with_stack(sim: Simulation) -> Expected:
    """A segmentation fault with faulthandler's stack."""
    rank, _ = _crash(sim, -11, "Segmentation fault")
    return identified(sim, FaultCode.NATIVE_SEGFAULT, rank, why="its own stack and exit code -11")


@scenario("native")
def segfault_without_a_word(sim: Simulation) -> Expected:
    """A segmentation fault that only the kernel and the launcher tell of."""
    line = kernel.segfault(0, "libfusedops.so")[0].replace("[0]", "[{pid}]")
    rank, _ = _crash(sim, -11, None, line)
    return identified(sim, FaultCode.NATIVE_SEGFAULT, rank, why="kernel line with its pid and exit code -11")


@scenario("native")
def heap_corruption(sim: Simulation) -> Expected:
    """glibc finds the heap corrupted."""
    rank, at = _running(sim)
    sim.say(
        rank,
        at,
        sim.rng.choice(
            ("free(): invalid pointer", "double free or corruption (!prev)", "malloc(): corrupted top size")
        ),
    )
    sim.dies(rank, at + 0.2, -6)
    collapse(sim, at + 0.2, victim=rank)
    return identified(sim, FaultCode.NATIVE_ABORT, rank, why="glibc's word and SIGABRT before all others")


@scenario("native")
def bus_error(sim: Simulation) -> Expected:
    """A bus error: /dev/shm is too small."""
    rank, _ = _crash(sim, -7, "Bus error")
    return identified(
        sim, FaultCode.NATIVE_BUS_ERROR, rank, FaultCode.SHM_EXHAUSTED, why="its own stack and exit code -7"
    )


@scenario("native")
def illegal_instruction(sim: Simulation) -> Expected:
    """A binary for another processor."""
    rank, _ = _crash(
        sim,
        -4,
        "Illegal instruction",
        "traps: python3[{pid}] trap invalid opcode ip:7f8a1b2c3d40 sp:7ffd5e6f7a80 error:0 in "
        "libfusedops.so[7f8a1b200000+1c0000]",
    )
    return identified(sim, FaultCode.ILLEGAL_INSTRUCTION, rank, why="its own stack and exit code -4")


@scenario("host")
def memory_kill(sim: Simulation) -> Expected:
    """The OOM killer takes a rank's main process."""
    rank, at = _running(sim)
    sim.kernel(sim.node_of(rank), at, *kernel.memory_kill(sim.cluster.pid(rank), cgroup=sim.rng.random() < 0.5))
    sim.dies(rank, at + 0.1, -9)
    collapse(sim, at + 0.1, victim=rank)
    return identified(sim, FaultCode.HOST_OOM_KILL, rank, why="the kernel names its pid; exit code -9")


@scenario("host", layouts=(Layout.TASK, Layout.LABEL))
def memory_kill_told_by_slurm(sim: Simulation) -> Expected:
    """No kernel log; slurmstepd counts an OOM kill at the end of the step, the task left by SIGKILL."""
    sim.has_kernel = False
    rank, at = _running(sim)
    sim.dies(rank, at, -9)
    collapse(sim, at, Ending.CANCEL, victim=rank)
    said = f"Detected 1 oom_kill event in StepId={sim.job}.0. Some of the step tasks have been OOM Killed."
    sim.console(at + 6, f"slurmstepd: error: {said}")
    return identified(
        sim, FaultCode.HOST_OOM_KILL, rank, FaultCode.PROCESS_KILLED, why="SIGKILL first, and Slurm says why"
    )


@scenario("host")
def killed_by_somebody(sim: Simulation) -> Expected:
    """SIGKILL, and no file says from whom."""
    sim.has_kernel = sim.rng.random() < 0.5
    rank, at = _running(sim)
    sim.dies(rank, at, -9)
    collapse(sim, at, victim=rank)
    return identified(
        sim,
        FaultCode.PROCESS_KILLED,
        rank,
        FaultCode.HOST_OOM_KILL,
        why="exit code -9 before all others, no memory line",
    )


@scenario("host")
def loader_worker_killed(sim: Simulation) -> Expected:
    """A DataLoader worker is killed for memory; its parent raises."""
    rank, at = _running(sim)
    worker = sim.cluster.pid(rank) + 900
    sim.kernel(sim.node_of(rank), at - 0.4, *kernel.memory_kill(worker, cgroup=True, name="pt_data_worker"))
    text = f"RuntimeError: DataLoader worker (pid {worker}) is killed by signal: Killed. "
    sim.raises(rank, at, [text], LOADER_FRAMES)
    sim.dies(rank, at + 0.4, 1)
    collapse(sim, at + 0.4, victim=rank)
    return identified(
        sim, FaultCode.DATALOADER_WORKER_DIED, rank, FaultCode.HOST_OOM_KILL, FaultCode.PROCESS_KILLED,
        why="the parent names the worker's pid, which the kernel killed",
    )  # fmt: skip


@scenario("host")
def shared_memory_full(sim: Simulation) -> Expected:
    """A DataLoader worker dies of a bus error: /dev/shm is full."""
    rank, at = _running(sim)
    worker = sim.cluster.pid(rank) + 900
    sim.say(
        rank,
        at - 0.1,
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
    )
    text = (
        f"RuntimeError: DataLoader worker (pid {worker}) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit."
    )
    sim.raises(rank, at, [text], LOADER_FRAMES)
    sim.dies(rank, at + 0.4, 1)
    collapse(sim, at + 0.4, victim=rank)
    return identified(
        sim, FaultCode.SHM_EXHAUSTED, rank, FaultCode.DATALOADER_WORKER_DIED, FaultCode.NATIVE_BUS_ERROR,
        why="the worker says that shared memory is short",
    )  # fmt: skip


@scenario("host")
def too_many_files(sim: Simulation) -> Expected:
    """The limit of open files."""
    rank, at = _running(sim)
    sim.raises(rank, at, ["OSError: [Errno 24] Too many open files: '/data/shard_00117.bin'"], LOADER_FRAMES)
    sim.dies(rank, at + 0.4, 1)
    collapse(sim, at + 0.4, victim=rank)
    return identified(sim, FaultCode.FILE_DESCRIPTOR_LIMIT, rank, why="errno 24 before all others")


def _saving(sim: Simulation) -> float:
    """A run in the middle of a checkpoint; returns the time."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 16) + 20)
    at = sim.now + 0.4
    for rank in sim.alive():
        sim.say(rank, at, *trainers.saving(sim.trainer, sim.clock(rank, at), rank, sim.step), stream=Source.STDOUT)
    return at + 1.5


def _save_fails(sim: Simulation, final: list[str], fault: FaultCode, *or_faults: FaultCode, why: str) -> Expected:
    at = _saving(sim)
    rank = sim.some_rank(not_on=())
    sim.raises(rank, at, final, SAVE_FRAMES)
    sim.dies(rank, at + 0.4, 1)
    collapse(sim, at + 0.4, victim=rank)
    return identified(sim, fault, rank, *or_faults, why=why)


@scenario("storage")
def disk_full_on_one_rank(sim: Simulation) -> Expected:
    """One rank's local disk is full in a checkpoint."""
    final = [f"OSError: [Errno 28] No space left on device: '/scratch/ckpt/step_{sim.step}/shard.pt'"]
    return _save_fails(
        sim, final, FaultCode.DISK_FULL, FaultCode.CHECKPOINT_SAVE_FAILURE, FaultCode.STORAGE_IO, why="errno 28 first"
    )


@scenario("storage")
def disk_full_on_a_node(sim: Simulation) -> Expected:
    """All ranks of a node fail to save: the node's disk is full."""
    at = _saving(sim)
    node = sim.rng.randrange(4)
    for rank in sim.cluster.on(node):
        when = at + 0.15 * sim.rng.random()
        sim.raises(rank, when, ["OSError: [Errno 28] No space left on device: '/scratch/ckpt/shard.pt'"], SAVE_FRAMES)
        sim.dies(rank, when + 0.3, 1)
    collapse(sim, at + 0.5, victim=sim.cluster.on(node)[0])
    return whole_node(
        sim,
        FaultCode.DISK_FULL,
        node,
        FaultCode.CHECKPOINT_SAVE_FAILURE,
        FaultCode.STORAGE_IO,
        why="errno 28 on all of a node",
    )


@scenario("storage")
def short_write(sim: Simulation) -> Expected:
    """torch.save says a full disk in its own words."""
    final = ["RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 1073741888 vs 1073741776"]
    return _save_fails(
        sim,
        final,
        FaultCode.CHECKPOINT_SAVE_FAILURE,
        FaultCode.DISK_FULL,
        FaultCode.STORAGE_IO,
        why="first error, in torch.save",
    )


@scenario("storage")
def input_output_error(sim: Simulation) -> Expected:
    """The node's drive fails under the data set."""
    rank, at = _running(sim)
    sim.kernel(
        sim.node_of(rank),
        at - 1.1,
        "blk_update_request: I/O error, dev nvme0n1, sector 123456 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 0",
    )
    sim.raises(rank, at, ["OSError: [Errno 5] Input/output error: '/data/shard_00117.bin'"], LOADER_FRAMES)
    sim.dies(rank, at + 0.4, 1)
    collapse(sim, at + 0.4, victim=rank)
    also = [(Accused(FaultCode.STORAGE_IO, None, sim.node_of(rank).name),)]
    return identified(
        sim, FaultCode.STORAGE_IO, rank, FaultCode.DATA_ERROR, also=also, why="errno 5 and the kernel's I/O error"
    )


@scenario("storage")
def stale_handle(sim: Simulation) -> Expected:
    """A network file system lost a handle."""
    rank, at = _running(sim)
    sim.raises(rank, at, ["OSError: [Errno 116] Stale file handle: '/nfs/data/shard_00117.bin'"], LOADER_FRAMES)
    sim.dies(rank, at + 0.4, 1)
    collapse(sim, at + 0.4, victim=rank)
    return identified(sim, FaultCode.STORAGE_IO, rank, FaultCode.DATA_ERROR, why="errno 116 before all others")


@scenario("host")
def node_lost(sim: Simulation) -> Expected:
    """All streams of a node stop at one moment."""
    rank, at = _running(sim)
    while sim.node_of(rank).index == 0:
        rank = sim.some_rank()
    node = sim.node_of(rank)
    sim.gone.add(node.index)
    for other in sim.cluster.on(node):
        sim.journal.silence(other, at)
    how = sim.rng.choice((Ending.PEERS, Ending.TIMEOUT))
    if sim.has_console and sim.rng.random() < 0.6:
        lose_peers(sim, at, rank, sim.rng.sample(sim.alive(), 4), (2.0, 30.0))
        settle(sim, at + 320, "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS")
        sim.console(at + 319, f"srun: error: Node failure on {node.name}")
    elif how is Ending.PEERS:
        lose_peers(sim, at, rank, reach=(15.0, 60.0))
        settle(sim)
    else:
        time_out(sim, sim.alive(), sim.work())
        settle(sim)
    also = [tuple(Accused(FaultCode.NODE_LOST, r, node.name) for r in sim.cluster.on(node))]
    return nobody(
        sim, FaultCode.NODE_LOST, node=node.name, also=also, why="every stream of the node ends at the same moment"
    )
