"""How good the verdicts are on generated runs of known cause.

    python -m benchmarks.verdicts                       # every scenario in every layout, one seed
    python -m benchmarks.verdicts --only stalled --layouts flat,merged --seeds 3 --keep /tmp/runs

Prints right, wrong accusations and abstentions by family, faults and collateral kinds, how far confidence can be
trusted, and one line of explanation for each verdict that falls short.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scenarios import SCENARIOS, Expected, Layout, build
from benchmarks.scenarios.judging import Grade, Judgement, calibration, diagnose, in_words

_GRADES = (Grade.RIGHT, Grade.PARTLY, Grade.NODE, Grade.ABSTAINED, Grade.WRONG)


@dataclass(frozen=True, slots=True)
class Trial:
    """One generated run and what was made of it."""

    name: str
    family: str
    layout: Layout
    seed: int
    expected: Expected
    judgement: Judgement

    @property
    def label(self) -> str:
        """What to pass to build() to get it again."""
        return f"{self.name} {self.layout} {self.seed}"


def trials(only: Sequence[str], layouts: Sequence[Layout], seeds: Sequence[int], keep: Path | None) -> Iterator[Trial]:
    """Generate, diagnose and judge one run after the other."""
    for scenario in SCENARIOS.values():
        if only and not any(part in f"{scenario.name} {scenario.family}" for part in only):
            continue
        for layout in (one for one in layouts if one in scenario.layouts):
            for seed in seeds:
                with tempfile.TemporaryDirectory() as temporary:
                    folder = (keep or Path(temporary)) / f"{scenario.name}-{layout}-{seed}" / "run"
                    folder.mkdir(parents=True, exist_ok=True)
                    expected = build(scenario.name, layout, seed, folder)
                    (folder.parent / "expected.json").write_text(json.dumps(expected.as_json(), indent=1))
                    yield Trial(scenario.name, scenario.family, layout, seed, expected, diagnose(folder, expected))


def table(done: Sequence[Trial]) -> Iterator[str]:
    """The figures by family, and in all."""
    yield "family          runs  right  part  node  abst  WRONG     fault       role       kind"
    for family in [*dict.fromkeys(trial.family for trial in done), "all"]:
        some = [trial.judgement for trial in done if family in (trial.family, "all")]
        grades = [sum(j.grade is grade for j in some) for grade in _GRADES]
        faults = [j.fault_right for j in some if j.fault_right is not None]
        wanted, role, kind = (sum(j.kinds[n] for j in some) for n in range(3))
        yield (
            f"{family:14} {len(some):5d} {grades[0]:6d} {grades[1]:5d} {grades[2]:5d} {grades[3]:5d} {grades[4]:6d} "
            f"{f'{sum(faults)}/{len(faults)}':>9} {f'{role}/{wanted}':>10} {f'{kind}/{wanted}':>10}"
        )


def trust(done: Sequence[Trial]) -> Iterator[str]:
    """Is a confidence of 0.9 right nine times of ten?"""
    rows, error, brier = calibration([trial.judgement for trial in done])
    yield "confidence    said   was right   verdicts"
    for mean, right, count in rows:
        yield f"             {mean:5.2f}   {right:9.2f}   {count:8d}"
    yield f"expected calibration error {error:.3f}, Brier score {brier:.3f}"


def shortcomings(done: Sequence[Trial]) -> Iterator[str]:
    """Each verdict that falls short, the worst first."""
    order = _GRADES[::-1]
    for trial in sorted(done, key=lambda trial: order.index(trial.judgement.grade)):
        found = trial.judgement
        if found.why:
            grade = "FAULT" if found.grade is Grade.RIGHT else str(found.grade).upper()
            wanted = in_words(trial.expected.status, trial.expected.initiators)
            yield f"{grade:10} {trial.label} ({found.confidence:.2f}): wanted {wanted} | said {found.said} | {found.why}"


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="scenarios whose name or family contains one of these, by comma")
    parser.add_argument("--layouts", default=",".join(Layout))
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep the generated runs in this folder")
    options = parser.parse_args()
    began = time.perf_counter()
    only = [part for part in options.only.split(",") if part]
    layouts = [Layout(name) for name in options.layouts.split(",")]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    done = list(trials(only, layouts, seeds, options.keep))
    for lines in (shortcomings(done), table(done), trust(done)):
        print(*lines, "", sep="\n")
    print(f"{len(done)} runs in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
