"""Is every event given to the rank and the node that wrote it?

    python -m benchmarks.identity sample_runs ../shared/cases [--only real] [--show 10]

What a line's writer must be is worked out here from the documentation of the layouts alone (formats.md R4, B2, B3, B5,
C2, D, E1, E2: torchrun's folders, Slurm's task files and labels, rank files, pods and their listing, `--tee` and
`[rankN]:` prefixes) by regexes of its own; nothing of the product's parsers or identity is used. Only what a path, a
prefix or a table of the run determines is compared.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

import correlator

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_CRI = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] ")
_LABEL = re.compile(r" {0,5}(\d{1,5}): ")
_TEE = re.compile(r"\[(?!rank)[a-z]+(\d+)\]:")
_RANK = re.compile(r"\[rank(\d+)\]:")
_SAID = re.compile(r"\d{4}-\d\d-\d\d [\d:,.]{8,15} (?:\[\w{1,9}\] )?(?:\w{1,30}: )?\[rank (\d+)\] ")
_TORCHRUN = re.compile(r"(?:^|/)attempt_(\d+)/(\d+)/(?:stdout\.log|stderr\.log|error\.json)(?:\.gz)?$")
_RANK_FILE = re.compile(r"(?:^|[/_])rank_?(\d+)(?:_pid\d+)?(?:\.(?:log|txt|json))*(?:\.gz)?$")
_TASK_FILE = re.compile(r"(?:^|/)slurm-\d+_(\d+)\.(?:out|err)$")
_OF_AGENT = re.compile(r"torch/distributed/(?:elastic|run|launcher)|^\[default\] |torchelastic")
_TABLE = re.compile(r"(global_ranks|local_ranks|restart_count)=(\[[\d, ]*\]|\d+)")
_FAILED_HOST = re.compile(r"^\s*host +: (\S+)")
_FAILED_RANK = re.compile(r"^\s*rank +: (\d+) \(local_rank: (\d+)\)")
_INTRODUCED = re.compile(r"rank (\d+)/\d+ local_rank (\d+) host ([\w.-]+)")
_COMM = re.compile(r"([\w-]{1,60}):(\d+):\d+ \[\d+\] NCCL INFO .{0,80}comm 0x\w+ rank (\d+) nranks (\d+)")
_LISTED = re.compile(r"([a-z0-9.-]{1,80}) +\d+/\d+ .{1,80}? (\d+\.\d+\.\d+\.\d+) +(\S+) ")
_NOT_OF_A_RANK = ("kernel_log", "scheduler_log", "pod_listing", "launcher_log")


@dataclass
class Layout:
    """What the layout of a run determines."""

    nodes: list[str] = field(default_factory=list)
    world: int | None = None
    node_of: dict[int, str] = field(default_factory=dict)
    rank_at: dict[tuple[str, int], int] = field(default_factory=dict)
    pods: dict[str, str] = field(default_factory=dict)
    tasks: set[int] = field(default_factory=set)
    labelled: set[str] = field(default_factory=set)
    nccl: dict[str, int] = field(default_factory=dict)
    node_of_task: dict[tuple[str, int], str] = field(default_factory=dict)
    """The node of a task that is a node's launcher: by its file, or by its label under an empty name."""

    def put(self, rank: int, local: int, node: str | None) -> None:
        """A line said so."""
        if node is not None:
            self.node_of.setdefault(rank, node)
            self.rank_at.setdefault((node, local), rank)

    def node_of_path(self, path: str) -> str | None:
        """The node or pod that a component of the path names."""
        for part in reversed(path.split("/")):
            stem = re.sub(r"(?:\.kern)?(?:\.(?:log|txt|out|err))?(?:\.gz)?$", "", part)
            for word in (stem, *re.split(r"_", stem, maxsplit=1)):
                if word in self.pods:
                    return self.pods[word]
                if word in self.nodes:
                    return word
        return next((node for node in self.nodes if f".{node}." in path), None)


@dataclass(frozen=True)
class Writer:
    """Who wrote a line; None = the layout does not determine it."""

    rank: int | None = None
    node: str | None = None
    attempt: int | None = None


def read(path: Path) -> list[str]:
    """The lines of a file, packed or not; none of a pickle."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return [] if data[:1] == b"\x80" else data.decode("utf-8", "replace").split("\n")


def peel(line: str, *, labelled: bool) -> tuple[str, int | None, int | None, int | None]:
    """(text, task, local rank, rank) of a printed line."""
    text = _ANSI.sub("", line.rpartition("\r")[2][:2000])
    text = text[match.end() :] if (match := _CRI.match(text)) else text
    task = local = rank = None
    if labelled and (match := _LABEL.match(text)):
        task, text = int(match[1]), text[match.end() :]
    if match := _TEE.match(text):
        local, text = int(match[1]), text[match.end() :]
    if match := _RANK.match(text):
        rank, text = int(match[1]), text[match.end() :]
    elif match := _SAID.match(text):
        rank = int(match[1])
    return text, task, local, rank


def layout_of(run: Path, expected: dict[str, object]) -> tuple[Layout, dict[str, list[str]]]:
    """The tables of a run, and its lines by path."""
    files = {str(path.relative_to(run)): path for path in sorted(run.rglob("*")) if path.is_file()}
    lines = {name: read(path) for name, path in files.items()}
    layout = Layout(world=expected.get("world_size"))  # type: ignore[arg-type]
    layout.nodes = list(expected.get("clock_offset_ms", {}))  # type: ignore[call-overload]
    for name, rows in lines.items():
        if rows and rows[0].startswith("NAME "):
            layout.pods |= {match[1]: match[3] for row in rows if (match := _LISTED.match(row))}
        if sum(bool(_LABEL.match(row)) for row in rows) > len(rows) / 2:
            layout.labelled.add(name)
        if match := re.match(r"(?:agent_|launcher_|kernel_)?([a-z][\w-]*\d)(?:\.log|/)", name):
            layout.nodes += [match[1]] if match[1] not in layout.nodes and not re.match("rank|pod_", match[1]) else []
    layout.nodes += [node for node in layout.pods.values() if node not in layout.nodes]
    for name, rows in lines.items():
        _read_tables(layout, name, rows)
    listed = list(expected.get("clock_offset_ms", {}))  # type: ignore[call-overload]
    if len(listed) == expected.get("nodes"):
        per_node = int(layout.world or 0) // len(listed)
        for rank in range(per_node * len(listed)):
            layout.put(rank, rank % per_node, listed[rank // per_node])
    layout.tasks = {int(match[1]) for name in files if (match := _TASK_FILE.search(name))}
    return layout, lines


def _read_tables(layout: Layout, name: str, rows: list[str]) -> None:
    """Rendezvous tables, ChildFailedError rows, introductions and NCCL's communicators."""
    here = layout.node_of_path(name)
    host: str | None = None
    table: dict[str, list[int]] = {}
    for row in rows:
        text, task, _, _ = peel(row, labelled=name in layout.labelled)
        if match := _INTRODUCED.search(text):
            layout.put(int(match[1]), int(match[2]), match[3])
            if file := _TASK_FILE.search(name):
                layout.node_of_task[name, int(file[1])] = match[3]
            elif task is not None:
                layout.node_of_task["", task] = match[3]
        elif match := _TABLE.search(text):
            if match[1] == "restart_count":
                table = {}
            else:
                table[match[1]] = json.loads(match[2])
            if len(table) == 2 and name not in layout.labelled:
                for rank, local in zip(table["global_ranks"], table["local_ranks"], strict=False):
                    layout.put(rank, local, here)
        elif match := _FAILED_HOST.match(text):
            host = match[1].split(".")[0]
            host = layout.pods.get(host, host)
        elif (match := _FAILED_RANK.match(text)) and host in layout.nodes:
            layout.put(int(match[1]), int(match[2]), host)
        elif (match := _COMM.match(text)) and int(match[4]) == layout.world and "nccl" in name:
            layout.nccl[name] = int(match[3])


def writer_of(layout: Layout, name: str, line: str) -> Writer:
    """Who must have written a line."""
    text, task, local, rank = peel(line, labelled=name in layout.labelled)
    node = layout.node_of_path(name)
    attempt = None
    if match := _TORCHRUN.search(name):
        attempt = int(match[1])
        local = int(match[2]) if local is None else local
    if rank is None and (match := _RANK_FILE.search(name)):
        rank = int(match[1])
    if rank is None and name in layout.nccl:
        rank = layout.nccl[name]
    if match := _TASK_FILE.search(name):
        task = int(match[1])
    if rank is None and task is not None and len(layout.tasks) == layout.world and not _OF_AGENT.search(text):
        rank = task
    if node is None and task is not None and layout.world and len(layout.tasks or layout.nodes) != layout.world:
        node = layout.node_of_task.get((name if match else "", task))
    if rank is None and local is not None and node is not None:
        rank = layout.rank_at.get((node, local))
    if node is None and rank is not None:
        node = layout.node_of.get(rank)
    return Writer(rank, node, attempt)


@dataclass
class Figures:
    """Right, wrong and missing places of a run's events."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def note(self, what: str, said: object, wanted: object, where: str) -> None:
        """Compare one value."""
        if wanted is None:
            return
        verdict = "right" if said == wanted else "missing" if said is None else "wrong"
        self.counts[f"{what} {verdict}"] += 1
        if verdict != "right":
            self.examples[f"{what} {verdict}"].append(f"{where}: {said} instead of {wanted}")

    def share(self, what: str) -> float:
        """Share of the determined values that are right."""
        total = sum(self.counts[f"{what} {verdict}"] for verdict in ("right", "wrong", "missing"))
        return self.counts[f"{what} right"] / total if total else 1.0


def check(case: Path) -> Figures:
    """The figures of one labelled run."""
    expected = json.loads((case / "expected.json").read_text())
    layout, lines = layout_of(case / "run", expected)
    figures = Figures()
    events = correlator.open_run(str(case / "run")).events
    columns = ("log_file_path", "file_kind", "line_number", "rank", "host_name", "attempt", "event_name")
    rows = events.select(
        pl.col(name).cast(pl.String) if events[name].dtype == pl.Categorical else name for name in columns
    )
    for path, kind, number, rank, host, attempt, name in rows.iter_rows():
        text = lines[path][number - 1] if number <= len(lines[path]) else ""
        wanted = writer_of(layout, path, text)
        where = f"{case.name}/{path}:{number} {name}"
        if kind not in _NOT_OF_A_RANK:
            figures.note("rank", rank, wanted.rank, where)
        if kind not in ("scheduler_log", "pod_listing") and "task_exit" not in name and "scheduler" not in name:
            figures.note("node", host, wanted.node, where)
        figures.note("attempt", attempt, wanted.attempt, where)
    return figures


def cases_in(folders: list[Path], only: str) -> Iterator[Path]:
    """The labelled runs below the folders."""
    for folder in folders:
        yield from (path.parent for path in sorted(folder.glob("*/expected.json")) if only in path.parent.name)


def main() -> None:
    """Print the figures of each run that falls short, and of all."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("folders", nargs="+", type=Path)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--show", type=int, default=3)
    options = arguments.parse_args()
    total: Counter[str] = Counter()
    for case in cases_in(options.folders, options.only):
        figures = check(case)
        total += figures.counts
        if figures.examples:
            print(case.name, dict(sorted(figures.counts.items())))
        for examples in figures.examples.values():
            print(*(f"    {example}" for example in examples[: options.show]), sep="\n")
    for what in ("rank", "node", "attempt"):
        counts = [total[f"{what} {verdict}"] for verdict in ("right", "wrong", "missing")]
        print(f"{what:8} right {counts[0]:6d}   wrong {counts[1]:4d}   not found {counts[2]:4d}")


if __name__ == "__main__":
    main()
