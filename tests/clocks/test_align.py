"""Clock alignment on hand-made runs with known offsets."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable

import polars as pl
import pytest

from correlator.clocks import Aligned, align
from correlator.core.event import Event
from correlator.core.files import LogFile
from correlator.core.model import Topology
from correlator.core.schema import validate
from correlator.core.vocabulary import ClockStatus, FileKind, Order
from tests.helpers_events import at, event, log, table

OFFSETS_MS = {"node01": 0.0, "node02": 30_125.0, "node03": -4_000.0, "node04": 950.0}


def topology(nodes: Iterable[str]) -> Topology:
    """A topology that only names nodes."""
    return Topology(world_size=None, ranks=(), nodes=tuple(nodes))


def steps(offsets: dict[str, float], *, grain_ms: float = 1.0, count: int = 60, noise_s: float = 0.005) -> list:
    """Iteration lines of two ranks on every node, stamped by clocks with these offsets."""
    source = random.Random(7)
    moments = [10 * i + source.random() for i in range(count)]
    parts = []
    for number, (node, offset_ms) in enumerate(offsets.items()):
        events = []
        for index, moment in enumerate(moments):
            for rank in (2 * number, 2 * number + 1):
                true_ms = (moment + abs(source.gauss(0, noise_s))) * 1000 + offset_ms
                ns = at(true_ms // grain_ms * grain_ms / 1000)
                events.append(_line("progress", len(events), ns, grain_ms, rank=rank, step=index))
        parts.append((log(f"{node}.log", FileKind.NODE_LOG, node=node), events))
    return parts


def _line(name: str, line: int, ns: int, grain_ms: float, **fields: object) -> Event:
    return event(name, line, timestamp_ns=ns, time_source="explicit", time_granularity_ms=grain_ms, **fields)


def errors_ms(aligned: Aligned, offsets: dict[str, float]) -> list[float]:
    """Errors of the offsets after centring both sides on their medians."""
    found = {node: aligned.clocks.estimate(node).offset_ms for node in offsets}
    middle, true_middle = statistics.median(found.values()), statistics.median(offsets.values())
    return [abs(found[node] - middle - (offsets[node] - true_middle)) for node in offsets]


def run(parts: list[tuple[LogFile, list[Event]]], nodes: Iterable[str]) -> Aligned:
    """Aligns and checks that the table still fits the schema."""
    aligned = align(table(parts), topology(nodes))
    assert validate(aligned.events) == []
    return aligned


@pytest.mark.parametrize(("grain_ms", "limit_ms"), [(1.0, 5.0), (1000.0, 250.0)])
def test_iteration_lines_give_the_offsets(grain_ms: float, limit_ms: float) -> None:
    """Steps logged by all nodes fix every offset, and the truth lies in the interval."""
    aligned = run(steps(OFFSETS_MS, grain_ms=grain_ms), OFFSETS_MS)
    assert max(errors_ms(aligned, OFFSETS_MS)) < limit_ms
    for node, offset_ms in OFFSETS_MS.items():
        low, high = aligned.clocks.gap_ms(node, 0, "node01", 0)
        assert low <= offset_ms <= high  # node01 is at 0
    assert all(aligned.clocks.estimate(node).status is ClockStatus.ALIGNED for node in OFFSETS_MS)


def test_aligned_time_is_the_stamp_minus_the_offset() -> None:
    """The aligned times of one step differ by no more than the noise, and carry an uncertainty."""
    aligned = run(steps(OFFSETS_MS), OFFSETS_MS).events
    spread = aligned.filter(pl.col("step") == 30)["time_aligned"].to_physical()
    assert spread.max() - spread.min() < 40e6
    assert (aligned["time_uncertainty_ms"] > 0).all()


def test_order_across_nodes_uses_the_clocks() -> None:
    """A line printed later on a clock that is ahead came first; within the interval it is left open."""
    clocks = run(steps(OFFSETS_MS), OFFSETS_MS).clocks
    assert clocks.order("node02", at(130), 1.0, "node01", at(105), 1.0) is Order.BEFORE
    assert clocks.order("node02", at(130.125), 1.0, "node01", at(100), 1.0) is Order.INDISTINGUISHABLE


def test_shifting_one_clock_shifts_its_estimate_alone() -> None:
    """A constant, also whole hours, on one clock changes that node's offset by the constant and nothing else."""
    before = run(steps(OFFSETS_MS), OFFSETS_MS).clocks
    shifted = OFFSETS_MS | {"node03": OFFSETS_MS["node03"] + 7_200_000.0}
    after = run(steps(shifted), OFFSETS_MS).clocks
    moved = {n: after.estimate(n).offset_ms - before.estimate(n).offset_ms for n in OFFSETS_MS}
    base = moved["node01"]
    assert moved["node03"] - base == pytest.approx(7_200_000.0, abs=1.0)
    assert moved["node02"] - base == pytest.approx(0.0, abs=1.0)


def test_whole_zone_is_named_on_the_odd_node() -> None:
    """Seven hours behind plus eleven seconds: the zone is named on that node and on no other."""
    offsets = OFFSETS_MS | {"node01": -25_211_000.0, "node05": 12.0}
    clocks = run(steps(offsets), offsets).clocks
    assert clocks.estimate("node01").timezone == "UTC-07:00 against the others"
    assert [clocks.estimate(node).timezone for node in offsets if node != "node01"] == [None] * 4


def test_a_neighbouring_iteration_does_not_move_the_clock() -> None:
    """One in ten lines of a node carries the time of the next step: the offset stays within milliseconds."""
    parts = steps(OFFSETS_MS)
    file, events = parts[1]
    late = [
        _line("progress", e.line_number, e.timestamp_ns + 10 * 10**9, 1.0, rank=e.rank, step=e.step)
        if (e.step or 0) % 10 == 3
        else e
        for e in events
    ]
    parts[1] = (file, late)
    assert max(errors_ms(run(parts, OFFSETS_MS), OFFSETS_MS)) < 10.0


def test_timeouts_count_at_their_enqueue_time() -> None:
    """Only watchdog lines: printed up to half a minute apart, but back-dated by `ran for` they agree."""
    parts = []
    for number, (node, offset_ms) in enumerate(OFFSETS_MS.items()):
        lines = []
        for rank in range(8 * number, 8 * number + 8):
            ran_ms = 600_000 + 1_000 * rank
            ns = at((offset_ms + ran_ms) / 1000)
            attributes = {"ran_ms": ran_ms}
            fields = {"rank": rank, "process_group": "0", "collective_seq": 77, "attributes": attributes}
            lines.append(_line("collective_timeout", len(lines), ns, 1.0, **fields))
        parts.append((log(f"{node}.log", FileKind.NODE_LOG, node=node), lines))
    aligned = run(parts, OFFSETS_MS)
    assert max(errors_ms(aligned, OFFSETS_MS)) < 5.0
    low, high = aligned.clocks.estimate("node02").interval_ms
    assert high - low > 500.0  # one witness of a soft class: the interval says so


def test_no_shared_evidence_gives_no_offset() -> None:
    """Two nodes that share nothing: no estimates, printed times kept, and no order across."""
    parts = [
        (log("a.log", FileKind.NODE_LOG, node="node01"), [event("progress", 1, seconds=1, step=1)]),
        (log("b.log", FileKind.NODE_LOG, node="node02"), [event("cuda_oom", 1, seconds=9)]),
    ]
    aligned = run(parts, ["node01", "node02"])
    assert {e.status for e in aligned.clocks.estimates} == {ClockStatus.NONE}
    assert aligned.clocks.order("node01", at(1), 1.0, "node02", at(9), 1.0) is Order.INDISTINGUISHABLE
    assert aligned.events["time_aligned"].to_list() == aligned.events["timestamp"].to_list()
    assert aligned.events["time_uncertainty_ms"].null_count() == 2


def test_a_single_clock_needs_no_evidence() -> None:
    """A run with one domain is its own reference, exactly."""
    aligned = run([(log("a.log", FileKind.NODE_LOG, node="node01"), [event("cuda_oom", 1, seconds=9)])], ["node01"])
    assert aligned.clocks.estimate("node01").interval_ms == (0.0, 0.0)


def test_zoned_kernel_lines_get_a_domain_tied_by_the_printed_zone() -> None:
    """Ranks print local time, the journal the same moment with `-0500`: one clock, five hours between its readings."""
    hours = 5 * 3600
    kernel = [
        event("xid", 1, seconds=hours + 20, time_zone="-05:00"),
        event("kernel_boot", 2, seconds=hours + 500, time_zone="-05:00"),
    ]
    ranks = [event("progress", line, seconds=10 * line, step=line) for line in range(50)]
    aligned = run(
        [
            (log("rank.log", FileKind.RANK_LOG, node="node01"), ranks),
            (log("kern.log", FileKind.KERNEL_LOG, node="node01"), kernel),
        ],
        ["node01"],
    )
    gap = aligned.clocks.gap_ms("node01 (kernel)", at(hours + 20), "node01", at(25))
    assert gap == pytest.approx((5000.0, 5000.0))


def test_an_empty_table_aligns_to_nothing() -> None:
    """No events, no estimates, no error."""
    assert run([], []).clocks.estimates == ()


def test_many_nodes_in_time() -> None:
    """48 nodes with 60 shared steps are fitted in a few seconds and to the millisecond."""
    source = random.Random(3)
    offsets = {f"node{i:03d}": source.uniform(-45_000, 45_000) for i in range(48)}
    assert statistics.median(errors_ms(run(steps(offsets, count=60), offsets), offsets)) < 3.0
