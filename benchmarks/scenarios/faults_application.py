"""What the application raises, and what schedulers do (formats.md E1, F9, G1)."""

from __future__ import annotations

from benchmarks.scenarios import launcher_text
from benchmarks.scenarios.endings import collapse, settle
from benchmarks.scenarios.expected import Accused, Expected
from benchmarks.scenarios.faults_native import LOADER_FRAMES, SAVE_FRAMES
from benchmarks.scenarios.faults_network import INIT_PG_FRAMES
from benchmarks.scenarios.journal import Source
from benchmarks.scenarios.layouts import Layout
from benchmarks.scenarios.registry import identified, nobody, scenario, whole_node
from benchmarks.scenarios.simulation import Launcher, Simulation
from benchmarks.scenarios.torch_text import SITE, Frame
from correlator.core.vocabulary import CollateralKind, FaultCode, VerdictStatus

USER_FRAMES: tuple[Frame, ...] = (
    ("/workspace/train.py", 212, "<module>", "main()"),
    ("/workspace/train.py", 190, "main", "metrics.update(outputs)"),
    ("/workspace/metrics.py", 57, "update", "self.window[key].append(value)"),
)
DATASET_FRAMES: tuple[Frame, ...] = (
    *LOADER_FRAMES,
    (
        f"{SITE}/torch/utils/data/_utils/fetch.py",
        52,
        "fetch",
        "data = [self.dataset[idx] for idx in possibly_batched_index]",
    ),
    ("/workspace/data.py", 88, "__getitem__", 'label = self.labels[record["label"]]'),
)
IMPORT_FRAMES: tuple[Frame, ...] = (("/workspace/train.py", 9, "<module>", "import tokstream"),)
LOAD_FRAMES: tuple[Frame, ...] = (
    ("/workspace/train.py", 212, "<module>", "main()"),
    ("/workspace/train.py", 90, "main", "load_checkpoint(model, path)"),
    ("/workspace/checkpoint.py", 77, "load_checkpoint", "state = torch.load(path, map_location='cpu')"),
)


def _raises_one(
    sim: Simulation, final: list[str], frames: tuple[Frame, ...], fault: FaultCode, *or_faults: FaultCode, why: str
) -> Expected:
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    sim.raises(rank, at, final, frames)
    sim.dies(rank, at + 0.4, 1)
    collapse(sim, at + 0.4, victim=rank)
    return identified(sim, fault, rank, *or_faults, why=why)


@scenario("application")
def python_exception(sim: Simulation) -> Expected:
    """A bug in user code."""
    return _raises_one(
        sim,
        ["TypeError: unsupported operand type(s) for +: 'NoneType' and 'float'"],
        USER_FRAMES,
        FaultCode.PYTHON_EXCEPTION,
        why="the only exception that is not about peers",
    )


@scenario("application")
def chained_exception(sim: Simulation) -> Expected:
    """An exception while another was handled: the first one is the cause."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    sim.raises(
        rank,
        at,
        ["KeyError: 'grad_scale'", "", "During handling of the above exception, another exception occurred:", ""],
        USER_FRAMES,
    )
    sim.raises(rank, at, ["RuntimeError: metrics are broken"], USER_FRAMES)
    sim.dies(rank, at + 0.4, 1)
    collapse(sim, at + 0.4, victim=rank)
    return identified(sim, FaultCode.PYTHON_EXCEPTION, rank, why="both exceptions are of one rank")


@scenario("application")
def data_error(sim: Simulation) -> Expected:
    """A bad record in a loader worker."""
    final = [
        "KeyError: Caught KeyError in DataLoader worker process 3.", "Original Traceback (most recent call last):",
        f'  File "{SITE}/torch/utils/data/_utils/worker.py", line 349, in _worker_loop',
        "    data = fetcher.fetch(index)",
        '  File "/workspace/data.py", line 88, in __getitem__',
        '    label = self.labels[record["label"]]', "KeyError: 'mixed'", "",
    ]  # fmt: skip
    return _raises_one(
        sim,
        final,
        LOADER_FRAMES,
        FaultCode.DATA_ERROR,
        FaultCode.PYTHON_EXCEPTION,
        why="exception in the data set's code",
    )


@scenario("application")
def assertion(sim: Simulation) -> Expected:
    """An assertion of the user's."""
    return _raises_one(
        sim,
        ["AssertionError: batch of 7 samples, expected 8"],
        USER_FRAMES,
        FaultCode.ASSERTION_FAILURE,
        why="the only exception that is not about peers",
    )


@scenario("application")
def nan_loss(sim: Simulation) -> Expected:
    """A loss of nan that a check turns into an end."""
    text = sim.rng.choice(
        (
            "RuntimeError: Loss is nan",
            "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.",
        )
    )
    return _raises_one(
        sim,
        [text],
        USER_FRAMES,
        FaultCode.NAN_LOSS,
        FaultCode.ASSERTION_FAILURE,
        FaultCode.PYTHON_EXCEPTION,
        why="the check names it",
    )


@scenario("application")
def silent_exit(sim: Simulation) -> Expected:
    """sys.exit(1) without a word."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    sim.dies(rank, at, 1)
    collapse(sim, at, victim=rank)
    return identified(sim, FaultCode.SILENT_EXIT, rank, why="exit code 1 before all others, and no line")


@scenario("application", skewed=False)
def import_error_on_a_node(sim: Simulation) -> Expected:
    """A node lacks a module."""
    sim.begin()
    node = sim.rng.randrange(1, 4)
    began = sim.now - 7
    for rank in sim.cluster.on(node):
        at = began + 0.2 * sim.rng.random()
        sim.journal.silence(rank, at)
        sim.raises(rank, at, ["ModuleNotFoundError: No module named 'tokstream'"], IMPORT_FRAMES, plain=True)
        sim.dies(rank, at + 0.3, 1)
    _others_give_up(sim, began)
    return whole_node(sim, FaultCode.IMPORT_ERROR, node, why="only this node lacks the module")


def _others_give_up(sim: Simulation, at: float) -> None:
    """Ranks that wait for others in the store at the start."""
    if sim.has_console:
        settle(sim, at + 3)
        return
    for rank in sim.alive():
        when = at + 600 + sim.rng.random()
        text = (
            "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 12/16 clients joined."
        )
        sim.raises(rank, when, [text], INIT_PG_FRAMES, plain=True)
        for kind in (CollateralKind.STORE_LOST, CollateralKind.COLLECTIVE_TIMEOUT, CollateralKind.REMOTE_PEER_LOST):
            sim.mark(rank, when, kind)
        sim.dies(rank, when + 0.3, 1)
    settle(sim)


@scenario("application", skewed=False)
def import_error_everywhere(sim: Simulation) -> Expected:
    """All ranks lack a module: the environment, and every rank."""
    sim.begin()
    began = sim.now - 7
    for rank in sim.cluster.ranks:
        at = began + 0.4 * sim.rng.random()
        sim.journal.silence(rank, at)
        sim.raises(
            rank,
            at,
            [f"ImportError: cannot import name 'flash_attn_func' from 'flash_attn' ({SITE}/flash_attn/__init__.py)"],
            IMPORT_FRAMES,
            plain=True,
        )
        sim.dies(rank, at + 0.3, 1)
    settle(sim)
    faults = tuple(Accused(FaultCode.IMPORT_ERROR, r, sim.node_of(r).name) for r in sim.cluster.ranks)
    also = [(one,) for one in faults] + [(Accused(FaultCode.IMPORT_ERROR),)]
    # any set of its ranks is true: the scorer takes subsets of a tie of all
    return Expected(VerdictStatus.TIED, faults, tuple(also), (VerdictStatus.IDENTIFIED,), {}, "every rank fails alike")


@scenario("application", skewed=False)
def checkpoint_does_not_load(sim: Simulation) -> Expected:
    """One rank's shard is cut off."""
    sim.begin()
    rank = sim.some_rank(not_on=())
    for other in sim.cluster.ranks:
        sim.say(
            other,
            sim.now - 1,
            f" loading distributed checkpoint from /ckpt at iteration {sim.step or 100}",
            stream=Source.STDOUT,
        )
    at = sim.now + 1
    sim.raises(
        rank,
        at,
        ["RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"],
        LOAD_FRAMES,
    )
    sim.dies(rank, at + 0.4, 1)
    collapse(sim, at + 0.4, victim=rank)
    return identified(
        sim, FaultCode.CHECKPOINT_LOAD_FAILURE, rank, FaultCode.STORAGE_IO, why="only this rank's file is broken"
    )


@scenario("application")
def checkpoint_does_not_save(sim: Simulation) -> Expected:
    """torch.save fails on one rank for want of a folder."""
    final = ["RuntimeError: Parent directory /ckpt/step_000120 does not exist."]
    return _raises_one(
        sim,
        final,
        SAVE_FRAMES,
        FaultCode.CHECKPOINT_SAVE_FAILURE,
        FaultCode.PYTHON_EXCEPTION,
        FaultCode.CONFIG_ERROR,
        why="the only exception that is not about peers",
    )


@scenario("application", skewed=False)
def wrong_config(sim: Simulation) -> Expected:
    """An argument that the program rejects, on every rank."""
    sim.begin()
    began = sim.now - 7
    for rank in sim.cluster.ranks:
        at = began + 0.3 * sim.rng.random()
        sim.journal.silence(rank, at)
        sim.say(
            rank,
            at,
            "usage: train.py [-h] [--lr LR] [--batch-size N]",
            "train.py: error: unrecognized arguments: --learning-rat 1e-4",
        )
        sim.dies(rank, at + 0.2, 2)
    settle(sim)
    faults = tuple(Accused(FaultCode.CONFIG_ERROR, r, sim.node_of(r).name) for r in sim.cluster.ranks)
    also = [(one,) for one in faults] + [(Accused(FaultCode.CONFIG_ERROR),)]
    return Expected(
        VerdictStatus.TIED, faults, tuple(also), (VerdictStatus.IDENTIFIED,), {}, "every rank rejects the arguments"
    )


# --- ended from outside ---

_WITH_CONSOLE = (Layout.TASK, Layout.LABEL)


def _stopped(sim: Simulation, why: str, target: str) -> Expected:
    sim.begin()
    sim.train(sim.rng.randrange(10, 40))
    settle_cancel(sim, sim.now + 0.4 * sim.step_s, why, target)
    also = [(Accused(FaultCode.PROCESS_KILLED),)] if not why else []
    return nobody(sim, FaultCode.PREEMPTED, also=also, why="everything was healthy until the scheduler ended it")


def settle_cancel(sim: Simulation, at: float, why: str, target: str) -> None:
    """The scheduler ends the whole job on its own account."""
    first = sim.cluster.nodes[0]
    what = f"JOB {sim.job}" if target == "job" else f"STEP {sim.job}.0"
    sim.console(at, launcher_text.cancelled(what, first.name, first.local(at), why))
    settle(sim, at + 0.2, why)


@scenario("external", layouts=_WITH_CONSOLE)
def time_limit(sim: Simulation) -> Expected:
    """The job's time is up."""
    return _stopped(sim, "TIME LIMIT", "job")


@scenario("external", layouts=_WITH_CONSOLE)
def preemption(sim: Simulation) -> Expected:
    """A job of higher priority takes the nodes."""
    return _stopped(sim, "PREEMPTION", "job")


@scenario("external", layouts=(Layout.FLAT, Layout.MERGED, Layout.TREE, Layout.K8S))
def agents_get_sigterm(sim: Simulation) -> Expected:
    """SIGTERM reaches all agents, and nothing says from whom."""
    sim.has_console = False
    sim.launcher = Launcher.TORCHRUN
    sim.begin()
    sim.train(sim.rng.randrange(10, 40))
    settle(sim, sim.now + 0.4 * sim.step_s)
    for marks in sim.marks.values():
        marks.append((marks[-1][0] + 1, CollateralKind.TERMINATED_BY_LAUNCHER))
    nodes = tuple(Accused(FaultCode.PREEMPTED, None, node.name) for node in sim.cluster.nodes)
    also = [(Accused(FaultCode.PROCESS_KILLED),), nodes]
    return nobody(sim, FaultCode.PREEMPTED, also=also, why="all agents were told to stop while every rank was healthy")


@scenario("external", layouts=_WITH_CONSOLE)
def cancelled_after_a_fault(sim: Simulation) -> Expected:
    """A rank fails, all others wait; somebody cancels the job minutes later."""
    sim.begin()
    sim.train(sim.rng.randrange(10, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    sim.raises(rank, at, ["TypeError: unsupported operand type(s) for +: 'NoneType' and 'float'"], USER_FRAMES)
    sim.dies(rank, at + 0.3, 1)
    settle_cancel(sim, at + 240, "", "job")
    return identified(sim, FaultCode.PYTHON_EXCEPTION, rank, why="the exception came minutes before the cancellation")


@scenario("external", layouts=_WITH_CONSOLE)
def fault_after_the_cancel(sim: Simulation) -> Expected:
    """The time limit ends the job; a rank trips over its own clean-up afterwards."""
    sim.begin()
    sim.train(sim.rng.randrange(10, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.3 * sim.step_s
    first = sim.cluster.nodes[0]
    sim.console(at, launcher_text.cancelled(f"JOB {sim.job}", first.name, first.local(at), "TIME LIMIT"))
    if sim.launcher is Launcher.TORCHRUN:
        settle(sim, at + 0.2, "TIME LIMIT")
    for other in sim.cluster.ranks:
        sim.mark(other, at, CollateralKind.SCHEDULER_CANCEL)
    late = at + 9
    sim.journal.write(late, Source.STDERR, sim.node_of(rank).index, sim.torch.hooked(rank, [
        "Traceback (most recent call last):", '  File "/workspace/metrics.py", line 91, in close', "    self.handle.flush()",
        "ValueError: I/O operation on closed file.",
    ]), rank)  # fmt: skip
    if sim.launcher is Launcher.SRUN:
        for node in sim.cluster.nodes:
            sim.console(at + 12, launcher_text.task_exit(node.name, tuple(sim.cluster.on(node)), -15))
    return nobody(sim, FaultCode.PREEMPTED, why="the time limit came before the exception of the clean-up")
