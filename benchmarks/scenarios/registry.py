"""The list of scenarios: each is a function that makes something happen to a run and says what an expert would answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.scenarios.endings import collateral
from benchmarks.scenarios.expected import Accused, Expected
from benchmarks.scenarios.layouts import Layout
from benchmarks.scenarios.simulation import Simulation
from correlator.core.vocabulary import FaultCode, VerdictStatus

Story = Callable[[Simulation], Expected]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A story with its name, its family, and the layouts in which it can be told."""

    name: str
    family: str
    story: Story
    layouts: tuple[Layout, ...]
    skewed: bool
    """False where the story needs clocks that agree."""


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    family: str, *, layouts: Iterable[Layout] = tuple(Layout), skewed: bool = True
) -> Callable[[Story], Story]:
    """Register a story under its function's name."""

    def register(story: Story) -> Story:
        name = story.__name__
        SCENARIOS[name] = Scenario(name, family, story, tuple(layouts), skewed)
        return story

    return register


def identified(
    sim: Simulation,
    fault: FaultCode,
    rank: int,
    *or_faults: FaultCode,
    why: str,
    also: Iterable[tuple[Accused, ...]] = (),
) -> Expected:
    """One rank started it; `or_faults` are other names that an expert may give to the same fault."""
    node = sim.node_of(rank).name
    others = tuple((Accused(other, rank, node),) for other in or_faults)
    return Expected(
        VerdictStatus.IDENTIFIED,
        (Accused(fault, rank, node),),
        (*others, *also),
        collateral=collateral(sim, (rank,)),
        why=why,
    )


def tied(
    sim: Simulation, faults: dict[int, FaultCode], *, why: str, also: Iterable[tuple[Accused, ...]] = ()
) -> Expected:
    """Several ranks failed independently, too close to be ordered."""
    guilty = tuple(Accused(fault, rank, sim.node_of(rank).name) for rank, fault in sorted(faults.items()))
    return Expected(VerdictStatus.TIED, guilty, tuple(also), collateral=collateral(sim, faults), why=why)


def whole_node(sim: Simulation, fault: FaultCode, node: int, *or_faults: FaultCode, why: str) -> Expected:
    """All ranks of a node failed of one cause: the ranks together, any of them, or the node are good answers."""
    name = sim.cluster.nodes[node].name
    ranks = tuple(sim.cluster.on(node))
    also: list[tuple[Accused, ...]] = []
    for one in (fault, *or_faults):
        also += [tuple(Accused(one, rank, name) for rank in ranks), (Accused(one, None, name),)]
        also += [(Accused(one, rank, name),) for rank in ranks]
    return Expected(VerdictStatus.TIED, also[0], tuple(also), (VerdictStatus.IDENTIFIED,), collateral(sim, ranks), why)


def nobody(
    sim: Simulation,
    fault: FaultCode,
    *or_faults: FaultCode,
    node: str | None = None,
    why: str,
    also: Iterable[tuple[Accused, ...]] = (),
) -> Expected:
    """The scheduler, the fabric or a node started it, no rank."""
    others = tuple((Accused(other, None, node),) for other in or_faults)
    return Expected(
        VerdictStatus.IDENTIFIED,
        (Accused(fault, None, node),),
        (*others, *also),
        collateral=collateral(sim, ()),
        why=why,
    )
