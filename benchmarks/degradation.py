"""How verdicts hold when evidence is lost or changes its form.

    python -m benchmarks.degradation ../shared/cases                      # labelled cases
    python -m benchmarks.degradation --scenarios stalled,off_bus --layout flat
    python -m benchmarks.degradation ../shared/cases --only xid79,sigkill --mutations 'clock,packed'

For each mutation: how many runs it applies to; right; undetermined with a file of the lost writer named; undetermined
without; incomplete; an innocent accused; and how many verdicts differ from that on the whole run.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import correlator
from benchmarks.scenarios import SCENARIOS, Expected, Layout, build, from_json
from benchmarks.scenarios.judging import Grade, explain, in_words, judge, place_of
from benchmarks.scenarios.mutations import MUTATIONS, Specimen
from correlator.core.model import Diagnosis
from correlator.core.vocabulary import VerdictStatus


@dataclass(frozen=True, slots=True)
class Outcome:
    """A mutated run and its verdict."""

    run: str
    mutation: str
    grade: Grade
    confidence: float
    names_missing: bool
    """What it asks for includes a file of the true initiator."""
    changed: bool
    """Another verdict than on the whole run."""
    note: str

    @property
    def good(self) -> bool:
        """Right, or rightly undetermined."""
        return self.grade is Grade.RIGHT or (self.grade is Grade.ABSTAINED and self.names_missing)


def degrade(name: str, folder: Path, expected: Expected, mutations: Iterable[str]) -> Iterator[Outcome]:
    """Diagnose a run whole, then each mutated copy of it."""
    whole = correlator.open_run(folder, workers=1)
    before = whole.diagnosis
    yield _outcome(name, "none", expected, before, before, explain(whole, expected))
    for mutation in mutations:
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(temporary) / "run"
            shutil.copytree(folder, copy)
            if not MUTATIONS[mutation](Specimen(copy, whole, expected, random.Random(f"{name}:{mutation}"))):
                continue
            run = correlator.open_run(copy, workers=1)
            yield _outcome(name, mutation, expected, before, run.diagnosis, explain(run, expected))


def _outcome(name: str, mutation: str, expected: Expected, before: Diagnosis, after: Diagnosis, why: str) -> Outcome:
    found = judge(expected, after)
    status = after.verdict.status
    wanted = in_words(expected.status, expected.initiators)
    return Outcome(
        run=name,
        mutation=mutation,
        grade=found.grade,
        confidence=found.confidence,
        names_missing=status is VerdictStatus.UNDETERMINED and _asks_for(expected, after.missing_evidence),
        changed=_gist(before) != _gist(after),
        note=f"wanted {wanted} | said {found.said} ({found.confidence:.2f}) | {why}",
    )


def _gist(found: Diagnosis) -> tuple[str, frozenset[tuple[str, object]], frozenset[str]]:
    said = found.verdict.initiators
    return str(found.verdict.status), frozenset(map(place_of, said)), frozenset(str(one.fault) for one in said)


def _asks_for(expected: Expected, missing: Sequence[str]) -> bool:
    """True where a wanted file is one of the initiator, of its node, or one that would tell of it."""
    text = " ".join(missing)
    if not expected.initiators:
        return bool(missing)
    names = [one.node for one in expected.initiators if one.node]
    ranks = [one.rank for one in expected.initiators if one.rank is not None]
    return any(name in text for name in names) or any(_mentions(text, rank) for rank in ranks) or "launcher" in text


def _mentions(text: str, rank: int) -> bool:
    """A folded list of ranks holds the rank."""
    for word in text.replace(",", " ").replace("(", " ").replace(")", " ").split():
        low, _, high = word.partition("-")
        if low.isdigit() and int(low) <= rank <= int(high if high.isdigit() else low):
            return True
    return False


def table(done: Sequence[Outcome]) -> Iterator[str]:
    """One line a mutation."""
    head = "right  rightly open  open  incomplete  node only  ACCUSED  sure of it  changed"
    yield f"{'mutation':28} runs  {head}"
    for mutation in dict.fromkeys(outcome.mutation for outcome in done):
        some = [outcome for outcome in done if outcome.mutation == mutation]
        right, part, node, wrong = (
            sum(o.grade is grade for o in some) for grade in (Grade.RIGHT, Grade.PARTLY, Grade.NODE, Grade.WRONG)
        )
        open_ = [o for o in some if o.grade is Grade.ABSTAINED]
        named = sum(o.names_missing for o in open_)
        sure = sum(o.grade is Grade.WRONG and o.confidence >= 0.7 for o in some)
        changed = sum(o.changed for o in some)
        yield (
            f"{mutation:28} {len(some):4d}  {right:5d}  {named:12d}  {len(open_) - named:4d}  {part:10d}  {node:9d}  "
            f"{wrong:7d}  {sure:10d}  {changed:7d}"
        )


def runs(options: argparse.Namespace, temporary: Path) -> Iterator[tuple[str, Path, Expected]]:
    """Labelled cases below the given folders, and generated runs."""
    only = [part for part in options.only.split(",") if part]
    for root in options.cases:
        for truth in sorted(root.rglob("expected.json")):
            if not only or any(part in truth.parent.name for part in only):
                yield truth.parent.name, truth.parent / "run", from_json(json.loads(truth.read_text()))
    wanted = [part for part in options.scenarios.split(",") if part]
    for scenario in SCENARIOS.values():
        if any(part in f"{scenario.name} {scenario.family}" for part in wanted):
            for layout in map(Layout, options.layout.split(",")):
                if layout in scenario.layouts:
                    folder = temporary / f"{scenario.name}-{layout}"
                    folder.mkdir()
                    yield folder.name, folder, build(scenario.name, layout, options.seed, folder)


def main() -> None:
    """Run the harness from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", type=Path, help="folders with labelled cases")
    parser.add_argument("--only", default="", help="cases whose name contains one of these, by comma")
    parser.add_argument("--scenarios", default="", help="generated runs whose name or family contains one of these")
    parser.add_argument("--layout", default="flat")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutations", default="", help="mutations whose name contains one of these")
    options = parser.parse_args()
    parts = [part for part in options.mutations.split(",") if part]
    chosen = [name for name in MUTATIONS if not parts or any(part in name for part in parts)]
    done: list[Outcome] = []
    with tempfile.TemporaryDirectory() as temporary:
        for name, folder, expected in runs(options, Path(temporary)):
            for outcome in degrade(name, folder, expected, chosen):
                done.append(outcome)
                if not outcome.good and (outcome.changed or outcome.mutation == "none"):
                    print(f"{outcome.grade:10} {outcome.run} [{outcome.mutation}]: {outcome.note}", flush=True)
    print(*table(done), sep="\n")


if __name__ == "__main__":
    main()
