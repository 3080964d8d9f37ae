"""The product and its peers in turn on the same files in one run, as ratios: `make bench`.

    python -m benchmarks.bench --sizes 100MB 1GB --repeat 3

Builds what it needs below `--folder` (kept for the next run). A shared machine makes times useless and ratios of neighbours
bearable: each repetition runs all programs one after the other, a ratio is formed within a repetition, and the median of
those is shown with their range. CPU is user and system time of a program and of all that it started.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.corpus import size_of, write_corpus
from benchmarks.peers import Peer, peers
from benchmarks.product import Measurement

SMALL_FILES, SMALL_BYTES = 4096, 100_000
RANKS = (8, 64, 512, 4096, 16_384)
BYTES_OF_RANK = 20_000


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run of one program took."""

    cpu_s: float
    wall_s: float


class Bench:
    """Corpora and programs."""

    def __init__(self, folder: Path, repeat: int, workers: int) -> None:
        self._folder = folder
        self._repeat = repeat
        self._workers = workers
        self._patterns = folder / "patterns.txt"
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "correlator", "catalogue", "--patterns"]
        self._patterns.write_bytes(subprocess.run(command, check=True, capture_output=True, env=_environment()).stdout)

    def corpus(self, name: str, size_bytes: int, files: int = 64) -> Path:
        """A generated run, made once."""
        folder = self._folder / name
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            write_corpus(folder, size_bytes, files)
            (folder / ".complete").touch()
        return folder

    def derived(self, name: str, source: Path, derive: Callable[[Path, Path], None]) -> Path:
        """The files of a run in another form, made once."""
        folder = self._folder / name
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for path in sorted(source.glob("*.log")):
                derive(path, folder)
            (folder / ".complete").touch()
        return folder

    def product(self, folder: Path, workers: int) -> Measurement:
        """One diagnosis."""
        command = [sys.executable, "-m", "benchmarks.product", str(folder), "--workers", str(workers)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, env=_environment())
        return Measurement(**json.loads(answer.stdout))

    def against_peers(self, title: str, folder: Path) -> Iterator[str]:
        """Rows of a table: each program's CPU and wall time, and the product's ratio to it."""
        yield f"\n### {title}, {self._workers} workers against {self._workers} threads\n"
        yield "| program | CPU s | wall s | product's CPU is | range | product's wall is |\n|---|---|---|---|---|---|"
        ours: list[Measurement] = []
        theirs: dict[str, list[Cost]] = {}
        missing: list[str] = []
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            found = peers(folder, self._patterns, Path(scratch), self._workers)
            for _ in range(self._repeat):
                ours.append(self.product(folder, self._workers))
                for peer in found:
                    if peer.command is not None:
                        theirs.setdefault(peer.name, []).append(_cost(peer, folder, Path(scratch)))
            missing = [peer.name for peer in found if peer.command is None]
        cpu, wall = _median(one.cpu_s for one in ours), _median(one.wall_s for one in ours)
        yield f"| correlator, full diagnosis and Parquet | {cpu:.1f} | {wall:.1f} | | | |"
        for name, costs in theirs.items():
            ratios = [one.cpu_s / cost.cpu_s for one, cost in zip(ours, costs, strict=True)]
            walls = [one.wall_s / cost.wall_s for one, cost in zip(ours, costs, strict=True)]
            yield (
                f"| {name} | {_median(cost.cpu_s for cost in costs):.1f} | {_median(cost.wall_s for cost in costs):.1f} "
                f"| {_median(ratios):.2f} x | {min(ratios):.2f}-{max(ratios):.2f} | {_median(walls):.2f} x |"
            )
        for name in missing:
            yield f"| {name} | not installed | | | | |"
        one = ours[-1]
        yield (
            f"\n{one.bytes_read / 1e6:.0f} MB, {one.lines} lines, {one.files} files; {one.events} events; verdict "
            f"{one.verdict}; Parquet {one.parquet_mb:.1f} MB; peak {max(m.peak_worker_mb for m in ours):.0f} MB a worker, "
            f"{max(m.peak_in_all_mb for m in ours):.0f} MB in all."
        )

    def pairs(self, title: str, rows: Sequence[tuple[str, Path, int]]) -> Iterator[str]:
        """Rows of a table: the product on other files or with other workers, each against the first row."""
        yield f"\n### {title}\n"
        yield "| what | MB | events | CPU s | wall s | CPU to first | wall to first | peak MB in all |"
        yield "|---|---|---|---|---|---|---|---|"
        measured: list[list[Measurement]] = [[] for _ in rows]
        for _ in range(self._repeat):
            for results, (_, folder, workers) in zip(measured, rows, strict=True):
                results.append(self.product(folder, workers))
        for (name, _, _), results in zip(rows, measured, strict=True):
            cpu = _median(a.cpu_s / b.cpu_s for a, b in zip(results, measured[0], strict=True))
            wall = _median(a.wall_s / b.wall_s for a, b in zip(results, measured[0], strict=True))
            yield (
                f"| {name} | {results[0].bytes_read / 1e6:.0f} | {results[0].events} "
                f"| {_median(one.cpu_s for one in results):.1f} | {_median(one.wall_s for one in results):.1f} "
                f"| {cpu:.2f} x | {wall:.2f} x | {max(one.peak_in_all_mb for one in results):.0f} |"
            )

    def startup(self, folder: Path) -> Iterator[str]:
        """Rows of a table: what a person waits for."""
        yield "\n### Start-up\n"
        yield "| command | CPU s | wall s |\n|---|---|---|"
        commands = {"--version": ["--version"], "--help": ["--help"], "diagnose --help": ["diagnose", "--help"]}
        commands[f"diagnose --quick, first answer, {folder.name}"] = ["diagnose", "--quick", str(folder)]
        for name, arguments in commands.items():
            costs = [_first_answer(arguments) for _ in range(max(self._repeat, 3))]
            yield f"| {name} | {_median(cost.cpu_s for cost in costs):.2f} | {_median(cost.wall_s for cost in costs):.2f} |"


def _cost(peer: Peer, folder: Path, scratch: Path) -> Cost:
    """Run a peer; what it prints is thrown away, through a pipe, as grep stops early where it sees /dev/null."""
    scale = 1.0
    if peer.slice_bytes is not None:
        files = sorted(folder.rglob("*.log"))
        (scratch / "slice.log").write_bytes(files[0].read_bytes()[: peer.slice_bytes])
        scale = sum(file.stat().st_size for file in files) / min(peer.slice_bytes, files[0].stat().st_size)
    cost = _run([*(peer.command or ())])
    return Cost(cost.cpu_s * scale, cost.wall_s * scale)


def _run(command: list[str]) -> Cost:
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment()) as process:
        while process.stdout and process.stdout.read(1 << 20):
            pass
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu_s, time.perf_counter() - began)


def _first_answer(arguments: list[str]) -> Cost:
    """CPU of a whole command; wall time until the first line of its answer."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "correlator", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment()) as process:
        first = process.stdout.readline() if process.stdout else b""
        wall_s = time.perf_counter() - began
        while first and process.stdout and process.stdout.read(1 << 20):
            pass
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s)


def _median(values: Iterator[float] | Sequence[float]) -> float:
    return statistics.median(list(values))


def _environment() -> dict[str, str]:
    """Ours, with compiled bytecode allowed: containers often turn it off, and then imports cost three times as much."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _gzipped(path: Path, folder: Path) -> None:
    with path.open("rb") as source, gzip.open(folder / f"{path.name}.gz", "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, 1 << 20)


def _zstandard(path: Path, folder: Path) -> None:
    import zstandard

    with path.open("rb") as source, (folder / f"{path.name}.zst").open("wb") as target:
        zstandard.ZstdCompressor(level=3).copy_stream(source, target)


def _tenfold(path: Path, folder: Path) -> None:
    """Ten ranks' files that are one on the disk."""
    rank = int(path.stem.rpartition("_")[2])
    for copy in range(10):
        (folder / f"rank_{rank + 64 * copy:05d}.log").hardlink_to(path)


def tables(bench: Bench, sizes: Sequence[str], workers: int, *, full: bool) -> Iterator[str]:
    """All rows, as they are measured."""
    for size in sizes:
        yield from bench.against_peers(size, bench.corpus(size, size_of(size)))
    largest = bench.corpus(sizes[-1], size_of(sizes[-1]))
    smallest = bench.corpus(sizes[0], size_of(sizes[0]))
    yield from bench.pairs(
        f"Workers, {sizes[-1]}", [("1 worker", largest, 1), (f"{workers} workers", largest, workers)]
    )
    packed = [("plain", smallest, 1), ("gz", bench.derived(f"{sizes[0]}-gz", smallest, _gzipped), 1)]
    packed.append(("zst", bench.derived(f"{sizes[0]}-zst", smallest, _zstandard), 1))
    yield from bench.pairs(f"Compressed, {sizes[0]}", packed)
    small_bytes = SMALL_FILES * SMALL_BYTES
    few = bench.corpus("small-joined", small_bytes, 64)
    many = bench.corpus("small", small_bytes, SMALL_FILES)
    yield from bench.pairs(
        f"{SMALL_FILES} files of {SMALL_BYTES // 1000} KB", [("64 files", few, 1), (f"{SMALL_FILES} files", many, 1)]
    )
    ranks = RANKS if full else RANKS[:-1]
    growth = [(f"{count} ranks", bench.corpus(f"ranks-{count}", count * BYTES_OF_RANK, count), 1) for count in ranks]
    yield from bench.pairs(f"Growth with ranks, {BYTES_OF_RANK // 1000} KB each", growth)
    grown = [(size, bench.corpus(size, size_of(size)), workers) for size in sizes]
    if full:
        grown.append((f"10 x {sizes[-1]} (hard links)", bench.derived(f"{sizes[-1]}-x10", largest, _tenfold), workers))
    yield from bench.pairs("Growth with bytes", grown)
    yield from bench.startup(smallest)


def main() -> None:
    """Run all of it from the command line."""
    arguments = argparse.ArgumentParser(description="Compare the product with its peers.")
    arguments.add_argument("--folder", type=Path, default=Path(".benchmarks"))
    arguments.add_argument("--sizes", nargs="+", default=["100MB", "1GB"])
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments.add_argument("--full", action="store_true", help="also ten times the largest size, and 16,384 ranks")
    options = arguments.parse_args()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{time.strftime('%Y-%m-%d')}, {platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, ", end="")
    print(f"Python {platform.python_version()}, load average {load} at the start")
    bench = Bench(options.folder.resolve(), options.repeat, options.workers)
    for row in tables(bench, options.sizes, options.workers, full=options.full):
        print(row, flush=True)
    print(f"\nload average {', '.join(f'{value:.1f}' for value in os.getloadavg())} at the end")


if __name__ == "__main__":
    main()
