"""Generated runs of known cause: what a 16-rank job of four nodes leaves behind when a given thing goes wrong.

    from benchmarks.scenarios import build
    expected = build("cuda_oom", Layout.MERGED, seed=1, folder=Path("/tmp/run"))

Deterministic: the same scenario, layout and seed give the same bytes. The lines are written from the format dossier and
not from any labelled case; torch version, trainer, clocks, ending and transport of kernel lines are drawn by the seed.
"""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.scenarios import (
    faults_application,
    faults_cuda,
    faults_gpu,
    faults_native,
    faults_network,
    faults_waits,
    traps,
    traps_of_evidence,
)
from benchmarks.scenarios.cluster import Skew
from benchmarks.scenarios.expected import Accused, Expected, from_json
from benchmarks.scenarios.layouts import Layout, launcher_of, write
from benchmarks.scenarios.registry import SCENARIOS, Scenario
from benchmarks.scenarios.simulation import new_simulation

FAMILIES = (
    faults_cuda,
    faults_gpu,
    faults_native,
    faults_waits,
    faults_network,
    faults_application,
    traps,
    traps_of_evidence,
)
"""Importing a module of stories registers them."""

__all__ = ["FAMILIES", "SCENARIOS", "Accused", "Expected", "Layout", "Scenario", "Skew", "build", "from_json"]


def build(name: str, layout: Layout, seed: int, folder: Path, skew: Skew | None = None) -> Expected:
    """Write the run of a scenario below `folder` and say what is true of it."""
    rng = random.Random(f"{name}:{layout}:{seed}")
    chosen = SCENARIOS[name]
    launcher, console = launcher_of(layout, rng)
    clocks = skew or (rng.choice(list(Skew)) if chosen.skewed else rng.choice((Skew.NONE, Skew.NTP)))
    sim = new_simulation(rng, launcher, clocks, console=console)
    expected = chosen.story(sim)
    write(sim, layout, folder)
    return expected
