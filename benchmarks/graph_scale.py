"""Time and memory of graph and verdict on generated events of very large runs, by shape of the failure.

    python -m benchmarks.graph_scale --ranks 64,1024,16384
    python -m benchmarks.graph_scale --ranks 16384 --only lost_peers,exceptions --profile

Reading and aligning are measured elsewhere (benchmarks.bench); here the event table is made directly, a few lines for each
rank, in the shapes that make naive rules quadratic. Each shape runs in a process of its own, so that memory is its own.
"""

from __future__ import annotations

import argparse
import cProfile
import multiprocessing
import pstats
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from correlator.core.model import ClockEstimate, ClockModel, ProcessGroup, RankPlace, Topology
from correlator.core.schema import polars_schema
from correlator.core.vocabulary import ClockStatus, CollateralKind, FaultCode, FileKind, Role, TimeSource
from correlator.graphs import Findings, RunFacts, judge

START_NS = 1_764_464_400_000_000_000
PER_NODE = 8
CULPRIT = 5
MOST_S = 10.0
MOST_MB = 2048.0
"""What 16,384 ranks may take."""
Ranks = np.ndarray


@dataclass(frozen=True, slots=True)
class Lines:
    """One line for each of some ranks, at `at_s` of true time plus a millisecond a rank."""

    name: str
    ranks: Ranks
    at_s: float
    columns: dict[str, object]
    attributes: dict[str, str]


def lines(
    name: str, ranks: Iterable[int], at_s: float, attributes: dict[str, str] | None = None, **columns: object
) -> Lines:
    """Lines of one kind; `columns` are further columns of the event table, a value or a list of one a rank."""
    return Lines(name, np.asarray(list(ranks)), at_s, columns, attributes or {})


def table(parts: Iterable[Lines]) -> pl.DataFrame:
    """The event table of all parts: the order of the parts is the order of the lines in each rank's file."""
    schema = polars_schema()
    frames = [_frame(number, part) for number, part in enumerate(parts)]
    events = pl.concat(frames, how="diagonal").with_columns(event_id=pl.int_range(pl.len()) + 1)
    missing = [pl.lit(None).alias(name) for name in schema if name not in events.columns]
    return events.with_columns(missing).select(pl.col(name).cast(dtype) for name, dtype in schema.items())


def _frame(number: int, part: Lines) -> pl.DataFrame:
    count = len(part.ranks)
    ns = START_NS + int(part.at_s * 1e9) + np.arange(count) * (1_000_000_000 // max(count, 1))
    attributes = [{"key": key, "value": value} for key, value in part.attributes.items()]
    node = pl.Series([f"node{rank // PER_NODE:04d}" for rank in part.ranks.tolist()])
    path = pl.Series([f"rank_{rank}.log" for rank in part.ranks.tolist()])
    frame = pl.DataFrame({"rank": part.ranks, "timestamp": ns, "host_name": node, "log_file_path": path}).with_columns(
        pl.lit(part.name).alias("event_name"),
        pl.lit(str(_role(part.name))).alias("role"),
        pl.lit(f"scale.{part.name}").alias("signature"),
        pl.col("timestamp").alias("time_aligned"),
        pl.col("host_name").alias("clock_domain"),
        pl.lit(10.0).alias("time_uncertainty_ms"),
        pl.lit(1.0).alias("time_granularity_ms"),
        pl.lit(str(TimeSource.EXPLICIT)).alias("time_source"),
        pl.lit(100 + number).alias("line_number"),
        pl.lit(1).alias("line_count"),
        pl.lit(10_000 * number).alias("byte_offset"),
        pl.lit("plain").alias("dialect"),
        pl.lit(str(FileKind.RANK_LOG)).alias("file_kind"),
        pl.lit(0).alias("attempt"),
        pl.lit(part.name).alias("body"),
        pl.lit(attributes, dtype=polars_schema()["attributes"]).alias("attributes"),
    )
    return frame.with_columns(
        pl.Series(name, value) if isinstance(value, list) else pl.lit(value).alias(name)
        for name, value in part.columns.items()
    )


def _role(name: str) -> Role:
    if name in tuple(FaultCode):
        return Role.INITIATING
    return Role.COLLATERAL if name in tuple(CollateralKind) else Role.CONTEXT


def facts(parts: Iterable[Lines], world: int, groups: tuple[ProcessGroup, ...] = ()) -> RunFacts:
    """A run of `world` ranks, eight a node, whose clocks agree within 10 ms."""
    places = tuple(
        RankPlace(
            rank, rank % PER_NODE, f"node{rank // PER_NODE:04d}", rank // PER_NODE, 1000 + rank, None, has_log=True
        )
        for rank in range(world)
    )
    nodes = tuple(dict.fromkeys(place.node for place in places if place.node))
    topology = Topology(world, places, nodes, groups, nodes_with_logs=nodes, store_node=nodes[0])
    clocks = ClockModel(
        tuple(ClockEstimate(node, 0.0, (-10.0, 10.0), 0.0, None, 9, ClockStatus.ALIGNED) for node in nodes)
    )
    return RunFacts(table(parts), topology, clocks, ())


# --- the shapes ------------------------------------------------------------------------------------------------------


def _steps(world: int, last: int = 3) -> list[Lines]:
    return [lines("progress", range(world), float(step), step=step) for step in range(1, last + 1)]


def _endings(world: int, at_s: float) -> list[Lines]:
    """What every teardown leaves: agents signal their workers, and report how each ended."""
    launcher = {"file_kind": str(FileKind.LAUNCHER_LOG)}
    return [
        lines("worker_signalled", range(world), at_s, {"signal": "SIGTERM"}, **launcher),
        lines("worker_failed", range(world), at_s + 1, exit_code=-6, **launcher),
        lines("child_failed_row", range(world), at_s + 2, exit_code=-6, **launcher),
    ]


def _others(world: int) -> list[int]:
    return [rank for rank in range(world) if rank != CULPRIT]


def lost_peers(world: int) -> RunFacts:
    """One rank fails, every other one loses its peer and aborts."""
    parts = [
        *_steps(world),
        lines("cuda_oom", [CULPRIT], 10, exception_type="OutOfMemoryError"),
        lines("remote_peer_lost", _others(world), 12, exception_type="RuntimeError"),
        lines("secondary_abort", _others(world), 14),
        lines("store_lost", _others(world), 15),
        *_endings(world, 20),
    ]
    return facts(parts, world)


def silent(world: int) -> RunFacts:
    """One rank never comes, every other one waits until its watchdog fires."""
    wait = {"collective_seq": 77, "collective_op": "ALLREDUCE", "process_group": "0"}
    counters = {"last_enqueued": "80", "last_completed": "76"}
    parts = [
        *_steps(world),
        lines("collective_timeout", _others(world), 600, {"ran_ms": "580000"}, **wait),
        lines("work_status", _others(world), 602, counters, process_group="0", collective_seq=77),
        lines("secondary_abort", _others(world), 660),
        *_endings(world, 670),
    ]
    return facts(parts, world)


def at_once(world: int) -> RunFacts:
    """All ranks fail in the same way at the same time."""
    parts = [*_steps(world), lines("cuda_oom", range(world), 10, exception_type="OutOfMemoryError")]
    return facts([*parts, *_endings(world, 20)], world)


def one_after_another(world: int) -> RunFacts:
    """All ranks fail, in an order that the clocks can tell."""
    some = 64
    parts = [
        lines("native_segfault", range(first, min(first + some, world)), 10.0 + 5 * number)
        for number, first in enumerate(range(0, world, some))
    ]
    return facts([*_steps(world), *parts], world)


def exceptions(world: int) -> RunFacts:
    """Every rank loses a peer, and raises an exception of its own."""
    parts = [
        *_steps(world),
        lines("python_exception", range(world), 10, exception_type="ValueError"),
        lines("remote_peer_lost", range(world), 11, exception_type="RuntimeError"),
        lines("native_abort", range(world), 12),
    ]
    return facts([*parts, *_endings(world, 20)], world)


def killed(world: int) -> RunFacts:
    """Every process is killed, and nothing says by whom."""
    launcher = {"file_kind": str(FileKind.LAUNCHER_LOG)}
    return facts([*_steps(world), lines("worker_failed", range(world), 10, exit_code=-9, **launcher)], world)


def survived(world: int) -> RunFacts:
    """Errors that every rank survived, ten times, before one rank fails."""
    parts: list[Lines] = []
    for step in range(1, 11):
        parts += [
            lines("python_exception", range(world), 100.0 * step - 50, exception_type="TimeoutError"),
            lines("progress", range(world), 100.0 * step, step=step),
        ]
    parts += [lines("progress", range(world), 1000.0 + step, step=step) for step in (11, 12)]
    parts += [lines("data_error", [CULPRIT], 1100.0, exception_type="KeyError")]
    return facts([*parts, lines("remote_peer_lost", _others(world), 1102)], world)


def checkpoints(world: int) -> RunFacts:
    """Twenty saves on every rank, whose completion names nothing."""
    parts: list[Lines] = []
    for step in range(1, 21):
        name = {"checkpoint": f"iter_{step:07d}"}
        parts += [
            lines("progress", range(world), 100.0 * step, step=step),
            lines("checkpoint_save_started", range(world), 100.0 * step + 1, name, step=step),
            lines("checkpoint_saved", range(world), 100.0 * step + 5),
        ]
    return facts([*parts, lines("data_error", [CULPRIT], 2100.0, exception_type="KeyError")], world)


def groups(world: int) -> RunFacts:
    """Tensor-parallel groups on every node and data-parallel groups across all: thousands of hubs wait for each other."""
    nodes = world // PER_NODE
    tensor = [ProcessGroup(f"{100 + n}", "tp", tuple(range(n * PER_NODE, (n + 1) * PER_NODE))) for n in range(nodes)]
    data = [ProcessGroup(f"{10 + i}", "dp", tuple(range(i, world, PER_NODE))) for i in range(PER_NODE)]
    first = [rank for rank in range(PER_NODE) if rank != CULPRIT]
    rest = list(range(PER_NODE, world))
    half = [rank for rank in rest if rank % 2]
    parts = [
        *_steps(world),
        _waits(first, 600, ["100"] * len(first)),
        _waits(half, 601, [str(100 + rank // PER_NODE) for rank in half]),
        _waits([r for r in rest if not r % 2], 602, [str(10 + r % PER_NODE) for r in rest if not r % 2]),
    ]
    return facts(parts, world, (*tensor, *data))


def _waits(ranks: list[int], at_s: float, names: list[str]) -> Lines:
    return lines("collective_timeout", ranks, at_s, collective_seq=9, collective_op="ALLREDUCE", process_group=names)


SHAPES: tuple[Callable[[int], RunFacts], ...] = (
    lost_peers, silent, at_once, one_after_another, exceptions, killed, survived, checkpoints, groups,
)  # fmt: skip


# --- measuring -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """One shape at one size."""

    events: int
    nodes: int
    edges: int
    cpu_s: float
    wall_s: float
    peak_mb: float
    summary: str


def measure(shape: Callable[[int], RunFacts], world: int) -> Measured:
    """Make the events, then judge them; only the judging is timed."""
    run = shape(world)
    cpu, wall = time.process_time(), time.perf_counter()
    found: Findings = judge(run)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    graph = found.attempt.graph
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    summary = found.verdict.summary.split(". ")[0]
    return Measured(run.events.height, len(graph), graph.number_of_edges(), cpu, wall, peak_mb, summary)


def main() -> None:
    """Run the benchmark from the command line; exits with 1 where 16,384 ranks take too long or too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="64,1024,16384")
    parser.add_argument("--only", default="", help="shapes whose name contains one of these, by comma")
    parser.add_argument("--profile", action="store_true", help="in this process, with the most expensive functions")
    options = parser.parse_args()
    only = [part for part in options.only.split(",") if part]
    over = False
    print("shape               ranks   events  vertices    edges   CPU s  wall s  peak MB  verdict")
    for shape in (one for one in SHAPES if not only or any(part in one.__name__ for part in only)):
        for world in map(int, options.ranks.split(",")):
            if options.profile:
                with cProfile.Profile() as profile:
                    done = measure(shape, world)
                pstats.Stats(profile).sort_stats("tottime").print_stats(18)
            else:
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    done = pool.apply(measure, (shape, world))
            over |= world >= 16_384 and (done.cpu_s > MOST_S or done.peak_mb > MOST_MB)
            print(
                f"{shape.__name__:18} {world:6d} {done.events:8d} {done.nodes:9d} {done.edges:8d} {done.cpu_s:7.2f} "
                f"{done.wall_s:7.2f} {done.peak_mb:8.0f}  {done.summary[:70]}",
                flush=True,
            )
    raise SystemExit(int(over))


if __name__ == "__main__":
    main()
