"""How verdicts hold when evidence is lost or changes its form.

    python -m benchmarks.degradation ../shared/cases                      # labelled cases
    python -m benchmarks.degradation --scenarios stalled,off_bus --layout flat
    python -m benchmarks.degradation ../shared/cases --only xid79,sigkill --mutations 'clock,packed'
    python -m benchmarks.degradation ../shared/cases --groups changes     # `make laws`: the whole matrix of the laws

For each mutation: how many runs it applies to; right; undetermined with a file of the lost writer named; undetermined
without; incomplete; an innocent accused; and how many verdicts differ from that on the whole run. Exits 1 where a law
is broken: a change of form that changes a verdict, or a loss that accuses somebody who was not accused before.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import correlator
from benchmarks.scenarios import SCENARIOS, Accused, Expected, Layout, build, from_json
from benchmarks.scenarios.judging import Grade, explain, in_words, judge, place_of
from benchmarks.scenarios.mutations import CHANGES, GROUPS, MUTATIONS
from benchmarks.scenarios.specimen import Renamed, Specimen
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
    yield _outcome(name, "none", expected, _gist(before), before, explain(whole, expected))
    for mutation in mutations:
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(temporary) / "run"
            shutil.copytree(folder, copy)
            changed = MUTATIONS[mutation](Specimen(copy, whole, expected, random.Random(f"{name}:{mutation}")))
            if not changed:
                continue
            run = correlator.open_run(copy, workers=1)
            if isinstance(changed, Renamed):
                wanted, was = expected_there(expected, changed), _gist(before, changed)
            else:
                wanted, was = expected, _gist(before)
            yield _outcome(name, mutation, wanted, was, run.diagnosis, explain(run, wanted))


def expected_there(expected: Expected, renamed: Renamed) -> Expected:
    """The truth of a run whose nodes have other names."""

    def moved(some: tuple[Accused, ...]) -> tuple[Accused, ...]:
        return tuple(replace(one, node=renamed.nodes.get(one.node or "", one.node)) for one in some)

    return replace(expected, initiators=moved(expected.initiators), also=tuple(map(moved, expected.also)))


Gist = tuple[str, frozenset[tuple[str, object]], frozenset[str]]


def _outcome(name: str, mutation: str, expected: Expected, before: Gist, after: Diagnosis, why: str) -> Outcome:
    found = judge(expected, after)
    status = after.verdict.status
    wanted = in_words(expected.status, expected.initiators)
    return Outcome(
        run=name,
        mutation=mutation,
        grade=found.grade,
        confidence=found.confidence,
        names_missing=status is VerdictStatus.UNDETERMINED and _asks_for(expected, after.missing_evidence),
        changed=before != _gist(after),
        note=f"wanted {wanted} | said {found.said} ({found.confidence:.2f}) | {why}",
    )


def _gist(found: Diagnosis, renamed: Renamed | None = None) -> Gist:
    """Status, accused and faults; with the names that nodes have been given since."""
    said = found.verdict.initiators
    nodes = renamed.nodes if renamed else {}
    places = frozenset((what, nodes.get(str(who), who) if what == "node" else who) for what, who in map(place_of, said))
    return str(found.verdict.status), places, frozenset(str(one.fault) for one in said)


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
    parser.add_argument("--groups", default=",".join(GROUPS), help="losses, changes, tears; by comma (default: all)")
    options = parser.parse_args()
    parts = [part for part in options.mutations.split(",") if part]
    offered = [name for group in options.groups.split(",") for name in GROUPS[group]]
    chosen = [name for name in offered if not parts or any(part in name for part in parts)]
    done: list[Outcome] = []
    broken = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name, folder, expected in runs(options, Path(temporary)):
            accused = False
            for outcome in degrade(name, folder, expected, chosen):
                done.append(outcome)
                accused |= outcome.mutation == "none" and outcome.grade is Grade.WRONG
                breaks = breaks_a_law(outcome, accused_before=accused)
                broken += breaks
                if breaks or (not outcome.good and (outcome.changed or outcome.mutation == "none")):
                    print(
                        f"{'LAW ' if breaks else ''}{outcome.grade:10} {outcome.run} [{outcome.mutation}]: {outcome.note}",
                        flush=True,
                    )
    print(*table(done), sep="\n")
    print(f"{sum(outcome.mutation != 'none' for outcome in done)} mutated runs, {broken} break a law")
    raise SystemExit(1 if broken else 0)


def breaks_a_law(outcome: Outcome, *, accused_before: bool) -> bool:
    """Design section 6: the form of the evidence changes no verdict, and less of it accuses nobody else."""
    if outcome.mutation in CHANGES:
        return outcome.changed
    return outcome.grade is Grade.WRONG and not accused_before


if __name__ == "__main__":
    main()
