"""One full diagnosis in a process of its own: scan, event table, clocks, graph, verdict and Parquet, measured.

    python -m benchmarks.product RUN --workers 2 --output timeline.parquet

Prints one line of JSON. CPU time is that of this process and of all that it started; `peak_worker_mb` is the largest of
those. The forkserver is ended first: only a process that was waited for is counted.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing.forkserver
import os
import resource
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

_KIB = 1024


@dataclass(frozen=True, slots=True)
class Measurement:
    """A diagnosis: its cost, and enough of what came out to see that it was one."""

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
    verdict: str
    parquet_mb: float

    @property
    def peak_in_all_mb(self) -> float:
        """An upper bound for all processes together; shared pages are counted in each."""
        return self.peak_parent_mb + self.peak_worker_mb * (self.workers if self.workers > 1 else 0)


def measure(folder: Path, workers: int, output: Path | None = None) -> Measurement:
    """Diagnose a directory in this process and its children. Imports count."""
    began = time.perf_counter()
    from correlator.pipeline import open_run

    run = open_run(folder, workers=workers)
    verdict = run.diagnosis.verdict
    with tempfile.TemporaryDirectory() as scratch:
        path = output or Path(scratch) / "timeline.parquet"
        run.write_timeline(path)
        size = path.stat().st_size
    wall_s = time.perf_counter() - began
    _end_forkserver()
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return Measurement(
        wall_s=wall_s,
        cpu_s=own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
        peak_parent_mb=own.ru_maxrss * _KIB / 1e6,
        peak_worker_mb=children.ru_maxrss * _KIB / 1e6,
        workers=workers,
        files=len(run.reports),
        bytes_read=sum(report.bytes_read for report in run.reports),
        lines=sum(report.lines for report in run.reports),
        events=run.events.height,
        thinned=sum(report.thinned for report in run.reports),
        verdict=f"{verdict.status}: {', '.join(str(one.rank) for one in verdict.initiators)}",
        parquet_mb=size / 1e6,
    )


def _end_forkserver() -> None:
    server = getattr(multiprocessing.forkserver, "_forkserver", None)
    if server is not None:
        server._stop()  # noqa: SLF001  (there is no public way)


def main() -> None:
    """Measure from the command line."""
    arguments = argparse.ArgumentParser(description="Measure the diagnosis of a run directory.")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments.add_argument("--output", type=Path)
    options = arguments.parse_args()
    print(json.dumps(asdict(measure(options.folder, options.workers, options.output))))


if __name__ == "__main__":
    main()
