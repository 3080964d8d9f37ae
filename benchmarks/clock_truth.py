"""Whether the clocks of labelled runs are where they were: true offsets against estimates and intervals.

    python -m benchmarks.clock_truth ../shared/cases
    python -m benchmarks.clock_truth ../shared/cases --only xid79,stall

Counts every pair of nodes with a true offset (`clock_offset_ms` of expected.json, read here and nowhere in the product).
A pair is compared where both clocks are known against one reference; its interval must hold the truth.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from correlator.clocks import align
from correlator.core.model import ClockModel
from correlator.identity import identify
from correlator.ingest import ingest
from correlator.parsers.table import pattern_table
from correlator.sources import discover

_ZONE_MS = 850_000.0


@dataclass(frozen=True, slots=True)
class Truth:
    """What one run's clocks are worth."""

    run: str
    nodes: int
    known: int
    """Nodes with a clock that is compared to others."""
    pairs: int
    held: int
    """Pairs whose interval holds the true difference."""
    errors_ms: tuple[float, ...]
    """Of each pair."""
    widths_ms: tuple[float, ...]
    zones: int
    """Nodes whole zones away from most others."""
    zones_named: int
    missed: tuple[str, ...]
    """Pairs whose interval does not hold the truth, in words."""

    @property
    def row(self) -> str:
        """One line of the table."""
        middle = f"{statistics.median(self.errors_ms):9.1f}" if self.errors_ms else "        -"
        width = f"{statistics.median(self.widths_ms):10.1f}" if self.widths_ms else "         -"
        return (
            f"{self.run:45}  {self.known:3d} of {self.nodes:3d}  {middle} ms  {width} ms  "
            f"held {self.held}/{self.pairs}  zones {self.zones_named}/{self.zones}"
        )


def clocks_of(folder: Path) -> ClockModel:
    """The clocks of a run directory: the pipeline as far as they need it."""
    with discover([folder]) as found:
        read = ingest(found.files, pattern_table(), found.hints, workers=1)
        identified = identify(read.events, found.files, read.reports)
        return align(identified.events, identified.topology).clocks


def compared(run: str, clocks: ClockModel, true_ms: Mapping[str, float]) -> Truth:
    """Estimates of each pair of nodes against the truth."""
    known = [
        one for node in sorted(true_ms) if (one := clocks.estimate(node)) is not None and one.offset_ms is not None
    ]
    errors: list[float] = []
    widths: list[float] = []
    missed: list[str] = []
    for a, b in itertools.combinations(known, 2):
        if a.reference != b.reference or a.interval_ms is None or b.interval_ms is None:
            continue
        truth = true_ms[a.node] - true_ms[b.node]
        low, high = a.interval_ms[0] - b.interval_ms[1], a.interval_ms[1] - b.interval_ms[0]
        errors.append(abs((a.offset_ms or 0.0) - (b.offset_ms or 0.0) - truth))
        widths.append(high - low)
        if not low - 0.001 <= truth <= high + 0.001:
            missed.append(f"{a.node} - {b.node}: {truth:.1f} ms is not in [{low:.1f}, {high:.1f}]")
    middle = statistics.median(true_ms.values())
    zoned = [node for node, offset in true_ms.items() if abs(offset - middle) > _ZONE_MS]
    named = [one.node for one in known if one.timezone is not None]
    right = len(set(zoned) & set(named)) - len(set(named) - set(zoned))
    compared_nodes = len({one.node for one in known if one.interval_ms is not None})
    return Truth(
        run,
        len(true_ms),
        compared_nodes,
        len(errors),
        len(errors) - len(missed),
        tuple(errors),
        tuple(widths),
        len(zoned),
        right,
        tuple(missed),
    )


def truths(roots: Sequence[Path], only: Sequence[str]) -> Iterator[Truth]:
    """Every labelled run below the folders that tells the offsets of two nodes at least."""
    for root in roots:
        for path in sorted(root.rglob("expected.json")):
            true_ms = json.loads(path.read_text()).get("clock_offset_ms") or {}
            name = path.parent.name
            if len(true_ms) > 1 and (not only or any(part in name for part in only)):
                yield compared(name, clocks_of(path.parent / "run"), {k: float(v) for k, v in true_ms.items()})


def main() -> None:
    """Print the table and its sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains one of these, by comma")
    options = parser.parse_args()
    done: list[Truth] = []
    for truth in truths(options.cases, [part for part in options.only.split(",") if part]):
        done.append(truth)
        print(truth.row, *(f"    {text}" for text in truth.missed), sep="\n", flush=True)
    errors = [error for truth in done for error in truth.errors_ms]
    print(
        f"{len(done)} runs, {sum(t.known for t in done)} of {sum(t.nodes for t in done)} nodes, {len(errors)} pairs: "
        f"held {sum(t.held for t in done)}, median error {statistics.median(errors):.1f} ms, "
        f"zones {sum(t.zones_named for t in done)} of {sum(t.zones for t in done)}"
    )


if __name__ == "__main__":
    main()
