"""Wall time, CPU time and memory of reading a run directory, from a process of its own.

    python -m benchmarks.run /tmp/corpus --workers 2 --repeat 3

Memory is the peak of resident pages: of the reading process, and of the largest of its children; `in all` bounds the
sum by counting that child once for each worker. Times include imports and the compilation of the patterns.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing.forkserver
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

_KIB = 1024


@dataclass(frozen=True, slots=True)
class Measurement:
    """One reading of a directory."""

    wall_s: float
    cpu_s: float
    peak_parent_mb: float
    peak_worker_mb: float
    workers: int
    files: int
    bytes_read: int
    lines: int
    events: int
    thinned: int

    @property
    def peak_in_all_mb(self) -> float:
        """An upper bound for all processes together; shared pages are counted in each."""
        return self.peak_parent_mb + self.peak_worker_mb * (self.workers if self.workers > 1 else 0)


def measure(folder: Path, workers: int) -> Measurement:
    """Read the directory in this process and its children."""
    began = time.perf_counter()
    from correlator.ingest import ingest
    from correlator.parsers.table import pattern_table
    from correlator.sources import discover

    with discover([folder]) as run:
        found = ingest(run.files, pattern_table(), run.hints, workers=workers)
    wall_s = time.perf_counter() - began
    _reap_forkserver()
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return Measurement(
        wall_s=wall_s,
        cpu_s=own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
        peak_parent_mb=own.ru_maxrss * _KIB / 1e6,
        peak_worker_mb=children.ru_maxrss * _KIB / 1e6,
        workers=workers,
        files=len(found.reports),
        bytes_read=sum(report.bytes_read for report in found.reports),
        lines=sum(report.lines for report in found.reports),
        events=found.events.height,
        thinned=sum(report.thinned for report in found.reports),
    )


def _reap_forkserver() -> None:
    """End the forkserver: only a child that was waited for is counted, with all processes that it had started."""
    server = getattr(multiprocessing.forkserver, "_forkserver", None)
    if server is not None:
        server._stop()  # noqa: SLF001  (there is no public way)


def _measure_apart(folder: Path, workers: int) -> Measurement:
    """Measure in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.run", str(folder), "--workers", str(workers), "--here"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return Measurement(**json.loads(answer.stdout))


def _row(what: str, measurements: list[Measurement]) -> str:
    one = measurements[0]
    wall = statistics.median(measurement.wall_s for measurement in measurements)
    cpu = statistics.median(measurement.cpu_s for measurement in measurements)
    peak = max(measurement.peak_in_all_mb for measurement in measurements)
    return (
        f"{what:>10}  {one.bytes_read / 1e6:9.0f} MB  {one.lines:>10} lines  {one.events:>8} events  "
        f"{wall:6.2f} s wall  {cpu:6.2f} s CPU  {one.bytes_read / 1e6 / cpu:6.0f} MB/s/core  {peak:6.0f} MB in all"
    )


def main() -> None:
    """Measure from the command line."""
    arguments = argparse.ArgumentParser(description="Measure the reading of a run directory.")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--workers", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    arguments.add_argument("--repeat", type=int, default=1)
    arguments.add_argument("--here", action="store_true", help="measure in this process and print JSON")
    options = arguments.parse_args()
    if options.here:
        print(json.dumps(asdict(measure(options.folder, options.workers[0]))))
        return
    for workers in options.workers:
        print(_row(f"{workers} workers", [_measure_apart(options.folder, workers) for _ in range(options.repeat)]))


if __name__ == "__main__":
    main()
