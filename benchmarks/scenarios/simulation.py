"""A run as it goes: ranks start, train and save; then a scenario makes something happen to it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from benchmarks.scenarios import kernel_text, launcher_text, trainers
from benchmarks.scenarios.cluster import Cluster, Node, Skew, make_cluster
from benchmarks.scenarios.journal import Journal, Source
from benchmarks.scenarios.kernel_text import Transport
from benchmarks.scenarios.torch_text import STEP_FRAMES, Frame, Group, Torch, Work, traceback
from benchmarks.scenarios.trainers import Trainer

VERSIONS = (
    Torch((2, 1), "2.18.1"),
    Torch((2, 3), "2.20.5"),
    Torch((2, 4), "2.20.5"),
    Torch((2, 6), "2.21.5"),
    Torch((2, 7), "2.26.2"),
    Torch((2, 9), "2.27.5"),
)
STEPS_TO_SAVE = 20
WORKS_A_STEP = 3


class Launcher(StrEnum):
    """What starts the ranks."""

    TORCHRUN = "torchrun"
    SRUN = "srun"


@dataclass(frozen=True, slots=True)
class End:
    """How a process ended by itself. `stuck`: it does not react to SIGTERM."""

    at: float
    code: int


@dataclass
class Simulation:
    """The state of a run at `now` (true time, epoch seconds)."""

    rng: random.Random
    cluster: Cluster
    torch: Torch
    trainer: Trainer
    launcher: Launcher
    transport: Transport
    has_console: bool
    has_kernel: bool
    nccl_info: bool
    timeout_s: int
    step_s: float
    now: float
    step: int
    journal: Journal = field(default_factory=Journal)
    ends: dict[int, End] = field(default_factory=dict)
    marks: dict[int, list[tuple[float, str]]] = field(default_factory=dict)
    stuck: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    """Nodes that stopped writing altogether."""
    job: int = 123456

    # --- who ---

    @property
    def world(self) -> Group:
        """The default process group."""
        return Group(0, "0", "default_pg", tuple(self.cluster.ranks))

    def some_rank(self, *, not_on: Iterable[int] = (0,)) -> int:
        """A rank by chance, not on the given nodes."""
        barred = set(not_on)
        return self.rng.choice([r for r in self.cluster.ranks if self.cluster.node(r).index not in barred])

    def node_of(self, rank: int) -> Node:
        """Where a rank runs."""
        return self.cluster.node(rank)

    def clock(self, rank: int, at: float) -> datetime:
        """What the clock of a rank's node shows."""
        return self.cluster.node(rank).local(at)

    def alive(self) -> list[int]:
        """Ranks that have not ended."""
        return [r for r in self.cluster.ranks if r not in self.ends and self.node_of(r).index not in self.gone]

    def sequence(self, step: int | None = None) -> int:
        """The sequence number of the first collective of a step in the default group."""
        return 5 + WORKS_A_STEP * ((self.step + 1 if step is None else step) % 10_000)

    def work(
        self, op: str = "ALLREDUCE", numel: int = 1_048_576, group: Group | None = None, seq: int | None = None
    ) -> Work:
        """The collective in which the next step would wait."""
        return Work(group or self.world, seq or self.sequence(), op, numel, numel, self.timeout_s * 1000)

    # --- what is written ---

    def say(self, rank: int, at: float, *texts: str, stream: Source = Source.STDERR) -> None:
        """Lines of a rank's process."""
        self.journal.write(at, stream, self.node_of(rank).index, texts, rank)

    def log(self, rank: int, at: float, level: str, text: str) -> None:
        """A line of the application's own logger."""
        self.say(rank, at, trainers.logged(self.clock(rank, at), level, text), stream=Source.STDOUT)

    def c10d(self, rank: int, at: float, file: str, line: int, text: str, *, letter: str = "E") -> None:
        """A line of torch's C++ side."""
        self.say(rank, at, self.torch.c10d(letter, self.clock(rank, at), rank, (file, line), text))

    def nccl_warn(self, rank: int, at: float, source: str, text: str) -> None:
        """NCCL's own warning on stdout; with a time from 2.26 on (C1)."""
        pid = self.cluster.pid(rank)
        new = self.torch.nccl >= "2.26"
        stamp = f"[{self.clock(rank, at):%Y-%m-%d %H:%M:%S}] " if new else ""
        who = f"{self.node_of(rank).name}:{pid}:{pid + 70} [{self.cluster.local(rank)}]"
        self.say(rank, at, "", f"{stamp}{who} {source} NCCL WARN {text}", stream=Source.STDOUT)

    def raises(
        self, rank: int, at: float, final: Sequence[str], frames: Sequence[Frame] = STEP_FRAMES, *, plain: bool = False
    ) -> None:
        """An uncaught Python exception; `plain` before the process group exists."""
        lines = traceback(final, frames)
        self.say(rank, at, *(lines if plain else self.torch.hooked(rank, lines)))

    def kernel(self, node: Node, at: float, *texts: str) -> None:
        """Kernel messages, if kernel logs were saved."""
        if self.has_kernel:
            lines = kernel_text.stamped(self.transport, node, at, texts)
            self.journal.write(at, Source.KERNEL, node.index, lines)

    def console(self, at: float, *texts: str) -> None:
        """Lines of srun and slurmstepd, if there is a Slurm console."""
        if self.has_console:
            self.journal.write(at, Source.CONSOLE, 0, texts)

    def agent(self, node: Node, at: float, *texts: str) -> None:
        """Lines of a torchrun agent."""
        self.journal.write(at, Source.AGENT, node.index, texts)

    def dies(self, rank: int, at: float, code: int) -> None:
        """The process ends by itself; nothing follows."""
        self.ends[rank] = End(at, code)
        self.journal.silence(rank, at)

    def mark(self, rank: int, at: float, kind: str) -> None:
        """The rank shows a collateral kind from then on."""
        self.marks.setdefault(rank, []).append((at, kind))

    # --- healthy stretches ---

    def begin(self, attempt: int = 0) -> None:
        """All processes start and build their communicators."""
        self.journal.attempt = attempt
        for node in self.cluster.nodes:
            if self.launcher is Launcher.TORCHRUN:
                self.agent(node, self.now, *launcher_text.rendezvous(
                    self.torch, node.local(self.now), self.cluster.agent_pids[node.index], node.index,
                    tuple(self.cluster.on(node)), self.cluster.world, attempt, self.cluster.nodes[0].name,
                ))  # fmt: skip
            for number in range(3):
                self.kernel(node, self.now + number, self.rng.choice(kernel_text.QUIET).format(epoch=self.now + number))
        comm = f"0x{self.rng.getrandbits(60):016x}"
        for rank in self.cluster.ranks:
            at = self.now + 2 + self.rng.random()
            where = self.node_of(rank)
            first = trainers.started(
                self.trainer, self.clock(rank, at), rank, self.cluster.world, self.cluster.local(rank), where.name
            )
            self.say(rank, at, first, stream=Source.STDOUT)
            if self.nccl_info:
                self._communicator(rank, at, comm)
        self.now += 8

    def _communicator(self, rank: int, at: float, comm: str) -> None:
        pid, local = self.cluster.pid(rank), self.cluster.local(rank)
        host = self.node_of(rank)
        head = f"{host.name}:{pid}:{pid + 40} [{local}] NCCL INFO "
        bus = self.cluster.bus(rank)[5:].replace(":", "") + "000"
        body = (
            f"ncclCommInitRank comm 0x55d0c0{pid:06x} rank {rank} nranks {self.cluster.world} cudaDev {local} nvmlDev {local} "
            f"busId {bus.lstrip('0')} commId {comm} - Init "
        )
        self.say(rank, at, f"{head}Bootstrap : Using eth0:{host.ip}<0>", head + body + "START", stream=Source.STDOUT)
        peer = (rank + 1) % self.cluster.world
        ring = f"{head}Channel 00/0 : {rank}[{local}] -> {peer}[{self.cluster.local(peer)}] via P2P/CUMEM"
        self.say(rank, at + 3, ring, head + body + "COMPLETE", stream=Source.STDOUT)

    def train(self, steps: int) -> None:
        """So many steps without trouble; a checkpoint every twentieth."""
        for _ in range(steps):
            self.step += 1
            self.now += self.step_s
            loss = 2.0 + 0.5 * self.rng.random()
            for rank in self.alive():
                if trainers.writes_progress(self.trainer, rank, self.cluster.world):
                    at = self.now + self.rng.uniform(0.001, 0.02)
                    text = trainers.progress(self.trainer, self.clock(rank, at), rank, self.step, loss)
                    self.say(rank, at, text, stream=Source.STDOUT)
            if self.step % STEPS_TO_SAVE == 0:
                self.save()

    def save(self) -> None:
        """A checkpoint of this step, complete on every rank."""
        for rank in self.alive():
            for begun, texts in ((0.1, trainers.saving), (3.3, trainers.saved)):
                at = self.now + begun + 0.05 * self.rng.random()
                self.say(rank, at, *texts(self.trainer, self.clock(rank, at), rank, self.step), stream=Source.STDOUT)
        self.now += 4

    def finish(self) -> None:
        """Training ends as planned."""
        for rank in self.cluster.ranks:
            at = self.now + 0.5 + 0.1 * self.rng.random()
            if trainers.writes_progress(self.trainer, rank, self.cluster.world):
                text = trainers.finished(self.trainer, self.clock(rank, at), rank, self.step)
                self.say(rank, at, text, stream=Source.STDOUT)
            self.ends[rank] = End(at + 2, 0)
        self.now += 5


def new_simulation(
    rng: random.Random, launcher: Launcher, skew: Skew, *, console: bool, nodes: int = 4, gpus: int = 4
) -> Simulation:
    """A run that is about to start, with everything that scenarios leave open drawn by chance."""
    start = 1_735_700_000 + rng.randrange(40_000_000)
    return Simulation(
        rng=rng,
        cluster=make_cluster(rng, nodes, gpus, skew, start),
        torch=rng.choice(VERSIONS),
        trainer=rng.choice(list(Trainer)),
        launcher=launcher,
        transport=rng.choice(list(Transport)),
        has_console=console,
        has_kernel=True,
        nccl_info=rng.random() < 0.75,
        timeout_s=rng.choice((600, 600, 1800)),
        step_s=rng.uniform(1.5, 7.0),
        now=float(start),
        step=rng.choice((0, 100, 1240, 48_200)),
        job=rng.randrange(100_000, 999_999),
    )
