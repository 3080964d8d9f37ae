"""How the lines of a run lie in files: one file a rank, one a node, torchrun's tree, Slurm's files, pods."""

from __future__ import annotations

import random
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from benchmarks.scenarios.journal import Line, Source
from benchmarks.scenarios.simulation import Launcher, Simulation


class Layout(StrEnum):
    """A way to keep logs."""

    FLAT = "flat"
    MERGED = "merged"
    TREE = "torchrun"
    TASK = "slurm-task"
    LABEL = "label"
    K8S = "k8s"


def launcher_of(layout: Layout, rng: random.Random) -> tuple[Launcher, bool]:
    """Who starts the ranks in this layout, and whether there is a console of srun."""
    match layout:
        case Layout.TASK:
            return Launcher.SRUN, True
        case Layout.LABEL:
            return rng.choice(list(Launcher)), True
        case Layout.K8S:
            return Launcher.TORCHRUN, False
        case Layout.FLAT | Layout.MERGED | Layout.TREE:
            return Launcher.TORCHRUN, rng.random() < 0.5


def write(sim: Simulation, layout: Layout, folder: Path) -> None:
    """Write all files of the run below `folder`."""
    files: dict[str, list[str]] = {}
    names = _Names(sim, layout)
    for line in sim.journal.ordered():
        files.setdefault(names.file(line), []).append(names.text(line))
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, content in sim.journal.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if layout is Layout.K8S and files:
        (folder / "kubectl-get-pods-o-wide.txt").write_text("\n".join(_pods(sim)) + "\n", encoding="utf-8")


class _Names:
    """Which file a line goes to, and what its writer puts before it."""

    def __init__(self, sim: Simulation, layout: Layout) -> None:
        self._sim = sim
        self._layout = layout
        self._console = f"slurm-{sim.job}.out"
        self._folders = [f"{sim.job}_{sim.rng.getrandbits(40):010x}"[:15] for _ in sim.cluster.nodes]
        last = sim.cluster.world - 1 if sim.launcher is Launcher.SRUN else len(sim.cluster.nodes) - 1
        self._width = len(str(last))

    def file(self, line: Line) -> str:
        """The path of the line's file."""
        if line.source is Source.CONSOLE:
            return self._console
        node = self._sim.cluster.nodes[line.node].name
        if line.source is Source.KERNEL:
            return self._kernel_file(node)
        match self._layout:
            case Layout.FLAT:
                return f"logs/agent_{node}.log" if line.rank is None else f"logs/rank_{line.rank:02d}.log"
            case Layout.MERGED:
                return f"{node}.log"
            case Layout.TREE:
                if line.rank is None:
                    return f"{node}/torchrun.log"
                local = self._sim.cluster.local(line.rank)
                return f"{node}/torchrun/{self._folders[line.node]}/attempt_{line.attempt}/{local}/{line.source}.log"
            case Layout.TASK:
                return f"slurm-{self._sim.job}_{line.rank}.out"
            case Layout.LABEL:
                return self._console
            case Layout.K8S:
                return f"pods/pretrain-worker-{line.node}.log"

    def _kernel_file(self, node: str) -> str:
        match self._layout:
            case Layout.FLAT:
                return f"kernel/{node}.log"
            case Layout.MERGED:
                return f"dmesg/{node}.txt"
            case Layout.TREE:
                return f"{node}/kern.log"
            case Layout.TASK | Layout.LABEL:
                return f"syslog/{node}.log"
            case Layout.K8S:
                return f"nodes/{node}.kern.log"

    def text(self, line: Line) -> str:
        """The line with its prefixes."""
        if line.source in (Source.CONSOLE, Source.KERNEL):
            return line.text
        local = "" if line.rank is None else f"[default{self._sim.cluster.local(line.rank)}]:"
        match self._layout:
            case Layout.FLAT | Layout.TREE | Layout.TASK:
                return line.text
            case Layout.MERGED:
                return local + line.text
            case Layout.LABEL:
                if self._sim.launcher is Launcher.SRUN:
                    return f"{line.rank:>{self._width}}: {line.text}"
                return f"{line.node:>{self._width}}: {local}{line.text}"
            case Layout.K8S:
                stream = "stdout" if line.source is Source.STDOUT else "stderr"
                seen = self._sim.cluster.nodes[line.node].utc(line.at)
                return f"{seen:%Y-%m-%dT%H:%M:%S.%f}{line.order % 1000:03d}Z {stream} F {local}{line.text}"


def _pods(sim: Simulation) -> Iterable[str]:
    """`kubectl get pods -o wide`, taken after the end."""
    yield f"{'NAME':24} READY   STATUS    RESTARTS   AGE   IP               NODE              NOMINATED NODE   READINESS GATES"
    for node in sim.cluster.nodes:
        codes = [sim.ends[r].code for r in sim.cluster.on(node) if r in sim.ends]
        status = "Unknown" if node.index in sim.gone else "Error" if any(codes) else "Completed"
        name = f"pretrain-worker-{node.index}"
        where = f"{node.ip:16} {node.name:17} <none>           <none>"
        yield f"{name:24} 0/1     {status:9} 0          4h    {where}"
