"""How well the clocks of generated runs are found: the table of method.md section 3, from a generator of our own.

    python -m benchmarks.clocks                 # 8 and 128 nodes, every scenario
    python -m benchmarks.clocks --nodes 2048 --runs 1

Offsets are uniform over +-45 s (one node is also whole hours away), drifts over +-80 ppm in a run of 24 h; 1 % of the
readings belong to the neighbouring iteration (+-8 s) or came late (exponential, 20 s); 10 % of the nodes have only two
readings, 5 % none; a reading is there with p = 0.9. Runs are seeded, so a row can be repeated.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from correlator.clocks.estimates import reference_of
from correlator.clocks.fit import Fit, fit
from correlator.clocks.readings import Bools, Floats, Ints, Readings
from correlator.clocks.zones import zone_of

DAY_S = 86_400.0
HOUR_MS = 3_600_000
ITERATION, COMMUNICATOR, CHECKPOINT, ENQUEUE, DUMP_SIGNAL, TEARDOWN = range(6)
SIGMA_S = (0.0075, 0.05, 0.3, 0.3, 0.3, 1.0)
"""Nominal scale of each class (method.md section 2); the generator draws from the same shapes."""
PAIRS = 20_000


@dataclass(frozen=True, slots=True)
class Hubs:
    """Shared moments: true time before (-) and after (+) the failure in s, and class."""

    true_s: Floats
    klass: Ints


@dataclass(frozen=True, slots=True)
class Generated:
    """A run: what the nodes' files say, and the truth."""

    readings: Readings
    offset_ms: Floats
    """True offset of each row of the readings."""
    hours: Ints
    """Whole hours in it."""
    stepped: Bools


def rich(source: np.random.Generator) -> Hubs:
    """150 iterations: 100 in the last 14 minutes, 50 spread over the day."""
    near = -np.cumsum(source.normal(8.0, 0.3, 100))  # lengths vary: whole-second stamps round now up, now down
    far = -source.uniform(900, DAY_S, 50)
    return Hubs(np.concatenate([near, far]), np.full(150, ITERATION, dtype=np.int64))


def steady(source: np.random.Generator) -> Hubs:
    """The same as rich, but iterations take exactly 8 s: whole-second stamps of a node are all cut at one fraction."""
    phase = source.uniform()
    near = -8.0 * np.arange(1, 101) - phase + source.normal(0.0, 0.002, 100)
    far = -8.0 * np.round(source.uniform(900, DAY_S, 50) / 8.0) - phase
    return Hubs(np.concatenate([near, far]), np.full(150, ITERATION, dtype=np.int64))


def sparse(source: np.random.Generator) -> Hubs:
    """Four communicators at the start, the enqueue of the collective that hung, and the teardown wave."""
    inits = -DAY_S + source.uniform(0, 120, 4)
    return Hubs(np.array([*inits, -600.0, 2.0]), np.array([COMMUNICATOR] * 4 + [ENQUEUE, TEARDOWN]))


def sparse3(source: np.random.Generator) -> Hubs:
    """The same and the dump signal."""
    bare = sparse(source)
    return Hubs(np.append(bare.true_s, 0.5), np.append(bare.klass, DUMP_SIGNAL))


def mid(source: np.random.Generator) -> Hubs:
    """The same as sparse and six checkpoints in the last five hours."""
    bare = sparse(source)
    saved = -source.uniform(0, 5 * 3600, 6)
    return Hubs(np.append(bare.true_s, saved), np.append(bare.klass, [CHECKPOINT] * 6))


SCENARIOS: dict[str, Callable[[np.random.Generator], Hubs]] = {
    "rich": rich,
    "steady": steady,
    "mid": mid,
    "sparse3": sparse3,
    "sparse": sparse,
}


def _noise(source: np.random.Generator, klass: Ints, nodes: int) -> Floats:
    """Distance of each reading from its hub, s."""
    sigma = np.array(SIGMA_S)[klass]
    noise = source.normal(0.0, 1.0, (nodes, klass.size)) * sigma
    polled = source.uniform(0.0, 1.0, (nodes, klass.size))  # the monitor looks at the store once a second
    noise = np.where(klass == DUMP_SIGNAL, polled, noise)
    wrong = source.random((nodes, klass.size)) < 0.01
    neighbour = source.choice([-8.0, 8.0], (nodes, klass.size))
    late = source.exponential(20.0, (nodes, klass.size))
    return noise + np.where(wrong, np.where(source.random(wrong.shape) < 0.5, neighbour, late), 0.0)


def _seen(source: np.random.Generator, nodes: int, hubs: int) -> Bools:
    seen = source.random((nodes, hubs)) < 0.9
    for node in range(nodes):
        fate = source.random()
        if fate < 0.15:
            kept = source.choice(hubs, 2 if fate < 0.10 else 0, replace=False)
            seen[node] = np.isin(np.arange(hubs), kept)
    return seen


def generate(nodes: int, scenario: str, grain_ms: float, seed: int, *, steps: bool = False) -> Generated:
    """A run of so many nodes. With `steps`, one node's clock jumps by 0.5-5 s, 100-600 s before the failure."""
    source = np.random.default_rng([seed, nodes, int(grain_ms)])
    hubs = SCENARIOS[scenario](source)
    hours = np.zeros(nodes, dtype=np.int64)
    hours[source.integers(nodes)] = source.choice([-7, -5, 1, 2, 9])
    offset_s = source.uniform(-45, 45, nodes) + hours * 3600.0
    drift = source.uniform(-80e-6, 80e-6, nodes)
    true_s = hubs.true_s + _noise(source, hubs.klass, nodes)
    printed_s = true_s + offset_s[:, None] + drift[:, None] * true_s
    stepped = np.zeros(nodes, dtype=np.bool_)
    if steps:
        node = int(source.integers(nodes))
        jump, at = source.uniform(0.5, 5.0) * source.choice([-1, 1]), -source.uniform(100, 600)
        printed_s[node] -= np.where(true_s[node] < at, jump, 0.0)
        stepped[node] = True
    seen = _seen(source, nodes, hubs.klass.size)
    seen[:, seen.sum(axis=0) < 2] = False
    kept = seen.any(axis=1)
    printed_ms = np.floor(printed_s * 1000 / grain_ms) * grain_ms + grain_ms / 2
    shape = (int(kept.sum()), hubs.klass.size)
    nominal, rounding = np.array(SIGMA_S)[hubs.klass] * 1000, 0.29 * grain_ms
    readings = Readings(
        x_ms=printed_ms[kept],
        seen=seen[kept],
        sigma_ms=np.broadcast_to(np.hypot(nominal, rounding), shape),
        least_ms=np.broadcast_to(np.hypot(0.5 * nominal, rounding), shape),
        grain_ms=np.full(shape, grain_ms),
        klass=hubs.klass,
        marks=np.ones(hubs.klass.size, dtype=np.bool_),
    )
    return Generated(readings, offset_s[kept] * 1000, hours[kept], stepped[kept])


@dataclass(frozen=True, slots=True)
class Score:
    """What one run of the fit is worth."""

    errors_ms: Floats
    """Of the pairs asked for."""
    covered: float
    width_ms: float
    right: int
    wrong: int
    wrong_fresh: int
    """Wrong orders where neither node is stale."""
    undecided: int
    right_of_long: int
    long: int
    """Pairs at least 1 s apart."""
    zones_right: bool
    steps_found: int
    steps_false: int
    cpu_s: float


def score(run: Generated, seed: int = 0) -> Score:
    """Fits a run and asks for the order of 20,000 pairs of events, log-uniformly 10 ms to 100 s apart."""
    began = time.process_time()
    found = fit(run.readings)
    cpu_s = time.process_time() - began
    source = np.random.default_rng(seed + 1)
    nodes = len(run.offset_ms)
    a = source.integers(0, nodes, PAIRS)
    b = (a + source.integers(1, max(nodes, 2), PAIRS)) % nodes
    truth = run.offset_ms[a] - run.offset_ms[b]
    low, high = found.low_ms[a] - found.high_ms[b], found.high_ms[a] - found.low_ms[b]
    gap = 10.0 ** source.uniform(1, 5, PAIRS)  # true ms from a to b
    grain = float(run.readings.grain_ms.flat[0])
    moment = source.uniform(0, 1e6, PAIRS)
    x_a = np.floor((moment + run.offset_ms[a]) / grain) * grain
    x_b = np.floor((moment + gap + run.offset_ms[b]) / grain) * grain
    before, after = x_b - x_a - grain + low > 0, x_b - x_a + grain + high < 0
    long, fresh = gap >= 1000.0, ~(found.stale[a] | found.stale[b])
    stepped = {step.node for step in found.steps}
    return Score(
        errors_ms=np.abs(found.offset_ms[a] - found.offset_ms[b] - truth),
        covered=float(((low <= truth) & (truth <= high)).mean()),
        width_ms=float(np.median(high - low)),
        right=int(before.sum()),
        wrong=int(after.sum()),
        wrong_fresh=int((after & fresh).sum()),
        undecided=int((~before & ~after).sum()),
        right_of_long=int((before & long).sum()),
        long=int(long.sum()),
        zones_right=_zones_right(found, run),
        steps_found=len(stepped & set(np.flatnonzero(run.stepped))),
        steps_false=len(stepped - set(np.flatnonzero(run.stepped))),
        cpu_s=cpu_s,
    )


def _zones_right(found: Fit, run: Generated) -> bool:
    """Whether each whole hour is named, and no other."""
    reference = reference_of(found)
    named = [zone_of(float(offset - found.offset_ms[reference])) or 0 for offset in found.offset_ms]
    return named == [int(hours) * HOUR_MS for hours in run.hours - run.hours[reference]]


def row(name: str, scores: Iterable[Score]) -> str:
    """One line of the table."""
    table = list(scores)
    errors = np.concatenate([one.errors_ms for one in table])
    asked = sum(one.right + one.wrong + one.undecided for one in table)
    decided = sum(one.right + one.wrong for one in table)
    return (
        f"{name:>26}  {np.median(errors) / 1000:7.4f} / {np.quantile(errors, 0.95) / 1000:6.3f} s  "
        f"cover {statistics.fmean(one.covered for one in table):.4f}  "
        f"width {statistics.median(one.width_ms for one in table) / 1000:7.3f} s  "
        f"right {sum(one.right for one in table) / asked:6.1%}  "
        f"wrong {sum(one.wrong for one in table) / max(decided, 1):.5f} "
        f"(fresh {sum(one.wrong_fresh for one in table)})  "
        f">=1 s {sum(one.right_of_long for one in table) / sum(one.long for one in table):6.1%}  "
        f"zones {sum(one.zones_right for one in table)}/{len(table)}  "
        f"steps {sum(one.steps_found for one in table)} (false {sum(one.steps_false for one in table)})  "
        f"CPU {max(one.cpu_s for one in table):.2f} s"
    )


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description="Measure the alignment of clocks on generated runs.")
    arguments.add_argument("--nodes", type=int, nargs="+", default=[8, 128])
    arguments.add_argument("--scenario", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS))
    arguments.add_argument("--runs", type=int, default=30)
    arguments.add_argument("--seed", type=int, default=5000, help="of the first run")
    options = arguments.parse_args()
    seeds = range(options.seed, options.seed + options.runs)
    for nodes in options.nodes:
        for scenario in options.scenario:
            for grain_ms, name in ((1.0, "1 ms"), (1000.0, "1 s")):
                for steps in (False, True) if scenario == "rich" else (False,):
                    runs = (score(generate(nodes, scenario, grain_ms, seed, steps=steps), seed) for seed in seeds)
                    print(row(f"{nodes} {scenario} {name}{' steps' * steps}", runs), flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
