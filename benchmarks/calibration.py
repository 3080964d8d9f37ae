"""How often each kind of finding is right, on generated runs whole and with files lost: what confidence is made of.

    python -m benchmarks.calibration --seeds 1 --every 3            # the table to compare with graphs/confidence.py
    python -m benchmarks.calibration --first-seed 7 --every 3       # fresh seeds: is what it says what it is?

Runs are read once; files are taken away from the event table, which is a little kinder than taking them from the folder,
since clocks and ranks were told with all of them. Prints the share right by finding and coverage, then reliability bins,
expected calibration error and wrong verdicts by fault family.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

import correlator
from benchmarks.scenarios import SCENARIOS, Expected, Layout, build
from benchmarks.scenarios.judging import Grade, Judgement, calibration, judge
from correlator.core.vocabulary import FileKind
from correlator.graphs import RunFacts
from correlator.graphs import judge as judge_facts
from correlator.graphs.confidence import SHARE_RIGHT, Coverage, Finding, coverage_of, finding_of
from correlator.graphs.roots import Roots
from correlator.pipeline import Run

_FILE, _KIND = pl.col("log_file_path").cast(pl.String), pl.col("file_kind").cast(pl.String)
_OF_NODES = (FileKind.LAUNCHER_LOG, FileKind.SCHEDULER_LOG, FileKind.KERNEL_LOG, FileKind.POD_LISTING)


@dataclass(frozen=True, slots=True)
class Sample:
    """One verdict on one run with some loss."""

    family: str
    loss: str
    judgement: Judgement
    finding: Finding | None
    coverage: Coverage


def losses(run: Run, expected: Expected, chance: random.Random) -> Iterator[tuple[str, RunFacts]]:
    """The run as it is, and with files lost in the ways of benchmarks.degradation."""
    whole = RunFacts(run.events, run.topology, run.clocks, run.reports, run.skipped)
    yield "nothing", whole
    guilty = {one.rank for one in expected.initiators if one.rank is not None}
    nodes = {one.node for one in expected.initiators if one.node}
    nodes |= {place.node for place in run.topology.ranks if place.rank in guilty and place.node}
    kinds = {report.path: report.kind for report in run.reports}
    own = {report.path for report in run.reports if report.rank in guilty and report.rank is not None}
    ranks = sorted(path for path, kind in kinds.items() if kind in (FileKind.RANK_LOG, FileKind.NODE_LOG))
    gone = {
        "files of the initiator": own,
        "files of its node": own | {report.path for report in run.reports if report.node in nodes and report.node},
        "kernel logs": {path for path, kind in kinds.items() if kind is FileKind.KERNEL_LOG},
        "launcher logs": {p for p, kind in kinds.items() if kind in (FileKind.LAUNCHER_LOG, FileKind.SCHEDULER_LOG)},
        "half of the ranks": set(chance.sample(ranks, len(ranks) // 2)),
        "most of the ranks": set(chance.sample(ranks, len(ranks) * 4 // 5)),
    }
    for loss, paths in gone.items():
        if paths and len(paths) < len(kinds):
            yield loss, without(whole, paths)
    for share in (0.9, 0.6):
        yield f"all after {share:.0%} of each file", cut(whole, share)


def without(run: RunFacts, paths: set[str]) -> RunFacts:
    """The run as if these files had never been there."""
    events = run.events.filter(~_FILE.is_in(sorted(paths)))
    written = set(events.filter(~_KIND.is_in(_OF_NODES))["rank"].drop_nulls().unique())
    hosts = set(events["host_name"].cast(pl.String).drop_nulls().unique())
    topology = replace(
        run.topology,
        ranks=tuple(replace(place, has_log=place.has_log and place.rank in written) for place in run.topology.ranks),
        nodes_with_logs=tuple(node for node in run.topology.nodes_with_logs if node in hosts),
    )
    reports = tuple(report for report in run.reports if report.path not in paths)
    return replace(run, events=events, topology=topology, reports=reports)


def cut(run: RunFacts, share: float) -> RunFacts:
    """The run with each file ending early."""
    last = pl.col("line_number").max().over("log_file_path")
    return replace(run, events=run.events.filter(pl.col("line_number") <= last * share))


def samples(options: argparse.Namespace) -> Iterator[Sample]:
    """Generate, read once, then judge with each loss."""
    plan = [(one, layout) for one in SCENARIOS.values() for layout in Layout if layout in one.layouts]
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for scenario, layout in plan[seed % options.every :: options.every]:
            with tempfile.TemporaryDirectory() as temporary:
                expected = build(scenario.name, layout, seed, Path(temporary))
                run = correlator.open_run(temporary, workers=1)
            for loss, facts in losses(run, expected, random.Random(f"{scenario.name}:{layout}:{seed}")):
                if facts.events.is_empty():
                    continue
                found = judge_facts(facts)
                chosen = Roots(found.roots, len(found.roots) > 1, (), {})
                kind = min((finding_of(r, chosen) for r in found.roots), key=lambda k: SHARE_RIGHT[k][0], default=None)
                verdict = judge(expected, found)  # type: ignore[arg-type]  # verdict and collateral are all that it reads
                yield Sample(scenario.family, loss, verdict, kind, coverage_of(facts.topology))


def table(done: Sequence[Sample]) -> Iterator[str]:
    """Share right by finding and coverage, beside what confidence says."""
    yield f"{'finding':66} " + "  ".join(f"{coverage:>20}" for coverage in Coverage)
    for finding in Finding:
        cells = []
        for index, coverage in enumerate(Coverage):
            some = [s.judgement for s in done if s.finding is finding and s.coverage is coverage]
            right = sum(one.grade is Grade.RIGHT for one in some)
            share = f"{right / len(some):.2f}" if some else "   -"
            cells.append(f"{share} of {len(some):4d}, says {SHARE_RIGHT[finding][index]:.2f}")
        yield f"{finding:66} " + "  ".join(f"{cell:>20}" for cell in cells)


def trust(done: Sequence[Sample]) -> Iterator[str]:
    """Reliability bins over all, then the error and the wrong verdicts of each family and each loss."""
    rows, error, brier = calibration([one.judgement for one in done])
    yield "confidence    said   was right   verdicts"
    for mean, right, count in rows:
        yield f"             {mean:5.2f}   {right:9.2f}   {count:8d}"
    yield f"expected calibration error {error:.3f}, Brier score {brier:.3f}"
    yield f"{'split':32} named  right  wrong  sure and wrong  calibration error"
    for split in [*dict.fromkeys(s.family for s in done), *dict.fromkeys(s.loss for s in done)]:
        some = [s.judgement for s in done if split in (s.family, s.loss) and s.judgement.named]
        wrong = [one for one in some if one.grade is Grade.WRONG]
        sure = sum(one.confidence >= 0.9 for one in wrong)
        right = sum(one.grade is Grade.RIGHT for one in some)
        yield f"{split:32} {len(some):5d} {right:6d} {len(wrong):6d} {sure:15d} {calibration(some)[1]:18.3f}"


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="take every so many of the scenarios and layouts")
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    began = time.perf_counter()
    done = list(samples(options))
    for part in (table(done), trust(done)):
        print(*part, "", sep="\n")
    print(f"{len(done)} verdicts in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
