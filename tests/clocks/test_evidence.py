"""From events to readings: keys, reductions, components, and the choice of hubs."""

from __future__ import annotations

import pytest

from correlator.clocks import Aligned, align
from correlator.clocks.evidence import components, readings
from correlator.clocks.readings import most_hubs
from correlator.clocks.stamps import timed_events
from correlator.core.model import ClockEvidence, Topology
from correlator.core.vocabulary import ClockStatus, FileKind, Order
from tests.helpers_events import at, event, log, table


def file_of(node: str) -> object:
    return log(f"{node}.log", FileKind.NODE_LOG, node=node)


def run(parts: dict[str, list]) -> Aligned:
    events = table([(file_of(node), lines) for node, lines in parts.items()])
    return align(events, Topology(world_size=None, ranks=(), nodes=tuple(parts)))


def progress(offset: float, count: int = 30, first: int = 0) -> list:
    return [event("progress", i, seconds=10 * i + offset, step=first + i, rank=0) for i in range(count)]


def test_components_are_aligned_apart() -> None:
    """Two jobs in one directory: each has its own reference, and no order is derived across."""
    clocks = run(
        {"a1": progress(0), "a2": progress(5), "b1": progress(0, first=500), "b2": progress(7, first=500)}
    ).clocks
    assert clocks.estimate("a2").offset_ms == pytest.approx(5000, abs=1)
    assert clocks.estimate("b2").offset_ms == pytest.approx(7000, abs=1)
    assert clocks.estimate("a1").reference == "a1"
    assert clocks.estimate("b1").reference == "b1"
    assert clocks.gap_ms("a1", at(0), "b1", at(1000)) is None
    assert clocks.order("a1", at(0), 1.0, "b1", at(1000), 1.0) is Order.INDISTINGUISHABLE


def test_evidence_is_counted_by_class() -> None:
    """An estimate says what it rests on."""
    lines = {node: [*progress(0), event("rendezvous_complete", 99, seconds=-5)] for node in ("a1", "a2")}
    assert run(lines).clocks.estimate("a2").kinds == (ClockEvidence("iteration", 30), ClockEvidence("rendezvous", 1))


def test_old_evidence_makes_a_stale_clock_with_a_wide_interval() -> None:
    """A node that was last compared hours before the failure may have drifted since."""
    parts = {node: progress(0, 2000) for node in ("a1", "a2")} | {"a3": progress(0, 30)}
    clocks = run(parts).clocks
    assert clocks.estimate("a1").status is ClockStatus.ALIGNED
    assert clocks.estimate("a3").status is ClockStatus.STALE
    low, high = clocks.estimate("a3").interval_ms
    assert high - low > 2 * 0.1e-3 * 19_000 * 1000


def test_repeated_steps_of_one_writer_are_different_moments() -> None:
    """Epochs start again at 0: the first step 3 of one node is not the second of another."""
    twice = [*progress(0, 10), *(event("progress", 50 + i, seconds=500 + 10 * i, step=i, rank=0) for i in range(10))]
    table_ = readings(timed_events(table([(file_of(node), twice) for node in ("a1", "a2")])))
    assert table_["hub"].n_unique() == 20


def test_polls_out_of_step_dither_whole_seconds() -> None:
    """Eight ranks that poll each second, stamped in whole seconds: their mean is closer than any of them."""

    def polls(offset: float) -> list:
        moments = [100 + offset + i / 8 for i in range(8)]
        return [
            event(
                "dump_signal", i, seconds=float(int(m)), time_granularity_ms=1000.0, rank=i, attributes={"from_rank": 3}
            )
            for i, m in enumerate(moments)
        ]

    found = run({"a1": polls(0.0), "a2": polls(30.5)}).clocks
    assert abs(found.estimate("a2").offset_ms - found.estimate("a1").offset_ms - 30_500) < 150


def test_so_many_hubs_are_thinned_to_what_a_fit_needs() -> None:
    """Of 1,500 iterations the latest are kept densely, and some old ones for the drift; nobody loses all evidence."""
    parts = {node: progress(0, 1500) for node in ("a1", "a2", "a3")} | {"a4": progress(0, 25)}
    timed = timed_events(table([(file_of(node), lines) for node, lines in parts.items()]))
    ends = dict(timed.group_by("domain").agg(timed["ns"].max()).iter_rows()) | {"a4": at(240)}
    [component] = components(readings(timed), ends)
    assert component.readings.seen.shape[1] <= most_hubs(4)
    assert component.readings.counts[3] >= 15
    steps = component.rows["hub"].str.split("|").list.get(3).cast(int)
    assert steps.max() == 1499
    assert (steps < 700).sum() > 50


def test_a_told_step_splits_the_clock() -> None:
    """chronyd says that it stepped the clock: what was printed before counts no more."""
    before = [event("progress", i, seconds=10 * i, step=i, rank=0) for i in range(40)]
    jumped = [event("progress", i, seconds=10 * i + (3.0 if i >= 20 else 0.0), step=i, rank=0) for i in range(40)]
    told = event("clock_step", 99, seconds=199.0, attributes={"step_s": 3.0})
    kernel = log("messages", FileKind.KERNEL_LOG, node="a2")
    events = table([(file_of("a1"), before), (file_of("a2"), jumped), (kernel, [told])])
    clocks = align(events, Topology(world_size=None, ranks=(), nodes=("a1", "a2"))).clocks
    estimate = clocks.estimate("a2")
    assert estimate.status is ClockStatus.STEPPED
    assert estimate.offset_ms == pytest.approx(3000, abs=2)
    assert [step.source for step in estimate.steps] == ["messages:99"]


def test_an_untold_step_is_found_in_the_readings() -> None:
    """The same without the line: the jump shows, with its size and time."""
    steady = [event("progress", i, seconds=10 * i, step=i, rank=0) for i in range(60)]
    jumped = [event("progress", i, seconds=10 * i + (3.0 if i >= 40 else 0.0), step=i, rank=0) for i in range(60)]
    estimate = run({"a1": steady, "a2": jumped, "a3": steady}).clocks.estimate("a2")
    assert estimate.status is ClockStatus.STEPPED
    assert estimate.offset_ms == pytest.approx(3000, abs=5)
    [step] = estimate.steps
    assert step.step_ms == pytest.approx(3000, abs=100)
    assert step.time == "2025-11-30T01:06:43.000"


def test_ranks_of_a_node_that_disagree_about_a_moment_prove_little() -> None:
    """Half of a node's dumps lie five minutes before the other half: no clock can have printed both."""

    def entries(offset: float, moved: float = 0.0) -> list:
        rows = [(rank, seq) for rank in range(8) for seq in range(1, 21)]
        return [
            event(
                "collective_entry",
                line,
                seconds=10 * seq + offset + (moved if rank % 2 else 0.0),
                rank=rank,
                collective_seq=seq,
                process_group="0",
                collective_op="ALLREDUCE",
            )
            for line, (rank, seq) in enumerate(rows)
        ]

    clocks = run({"a1": entries(0.0), "a2": entries(3.0), "a3": entries(5.0), "a4": entries(7.0, -300.0)}).clocks
    width = {one.node: one.interval_ms[1] - one.interval_ms[0] for one in clocks.estimates}
    assert max(width[node] for node in ("a1", "a2", "a3")) < 1_000.0
    assert width["a4"] > 100_000.0
    low, high = clocks.gap_ms("a4", at(0), "a1", at(0))
    assert low <= 7_000.0
    assert high >= -293_000.0


@pytest.mark.parametrize(
    ("attributes", "signature"),
    [
        ({"step_s": -3.0}, "clock.stepped"),
        ({"direction": "backward"}, "clock.jump"),
        ({}, "clock.jump"),  # systemd: Time has been changed
    ],
)
def test_each_way_of_telling_a_step_splits(attributes: dict, signature: str) -> None:
    """chronyd and ntpd name the size, journald the direction, systemd neither."""
    before = [event("progress", i, seconds=10 * i, step=i, rank=0) for i in range(40)]
    jumped = [event("progress", i, seconds=10 * i - (3.0 if i >= 20 else 0.0), step=i, rank=0) for i in range(40)]
    told = event("clock_step", 99, seconds=196.0, signature=signature, attributes=attributes)
    kernel = log("messages", FileKind.KERNEL_LOG, node="a2")
    events = table([(file_of("a1"), before), (file_of("a2"), jumped), (kernel, [told])])
    estimate = align(events, Topology(world_size=None, ranks=(), nodes=("a1", "a2"))).clocks.estimate("a2")
    assert estimate.status is ClockStatus.STEPPED
    assert estimate.offset_ms == pytest.approx(-3000, abs=2)


@pytest.mark.parametrize("attributes", [{"offset_s": 0.5, "slewed": True}, {"step_s": 0.001}, {"set_to": "Sun 2025"}])
def test_what_is_no_step_splits_nothing(attributes: dict) -> None:
    """A clock that is slewed, moved by a millisecond or set at boot keeps all its readings."""
    lines = {"a1": progress(0), "a2": [*progress(3), event("clock_step", 99, seconds=200.0, attributes=attributes)]}
    assert run(lines).clocks.estimate("a2").kinds == (ClockEvidence("iteration", 30),)


def test_a_step_after_the_last_reading_takes_none_away() -> None:
    """The clock was set once the job had ended: its offset at the failure is that of the readings."""
    lines = {
        "a1": progress(0),
        "a2": [*progress(3), event("clock_step", 99, seconds=900.0, attributes={"step_s": -3.0})],
    }
    estimate = run(lines).clocks.estimate("a2")
    assert estimate.offset_ms == pytest.approx(3000, abs=2)
    assert [step.step_ms for step in estimate.steps] == [-3000.0]


def test_the_launchers_clock_is_tied_by_the_ends_of_tasks() -> None:
    """A launcher 40 s ahead tells of each agent's end right after it: its clock is known to seconds, and no better."""
    parts = {
        node: [*progress(offset), event("worker_failed", 98, seconds=500 + offset + number)]
        for number, (node, offset) in enumerate({"a1": 0.0, "a2": 5.0, "a3": -9.0}.items())
    }
    told = [
        event("task_exit", number, seconds=540.3 + number, attributes={"nodes": f'["{node}"]'})
        for number, node in enumerate(parts)
    ]
    launcher = (log("launcher.log", FileKind.LAUNCHER_LOG, node="head"), told)
    events = table([*((file_of(node), lines) for node, lines in parts.items()), launcher])
    clocks = align(events, Topology(world_size=None, ranks=(), nodes=tuple(parts))).clocks
    estimate = clocks.estimate("head")
    assert estimate.kinds == (ClockEvidence("task end", 3),)
    low, high = clocks.gap_ms("head", at(0), "a1", at(0))
    assert low <= 40_000 <= high
    assert 1_000 < high - low < 60_000
    assert clocks.estimate("a2").interval_ms[1] - clocks.estimate("a2").interval_ms[0] < 250
