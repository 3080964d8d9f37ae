"""Lines that cannot both be right are named, with both places; two of them widen the interval, one does not."""

from __future__ import annotations

import pytest

from correlator.clocks import align
from correlator.clocks.validators import Contradiction, widening
from correlator.core.model import ClockModel, Topology
from correlator.core.vocabulary import FileKind
from tests.helpers_events import event, log, table


def clocks(parts: dict[str, list]) -> ClockModel:
    files = [(log(f"{node}.log", FileKind.NODE_LOG, node=node), lines) for node, lines in parts.items()]
    return align(table(files), Topology(world_size=None, ranks=(), nodes=tuple(parts))).clocks


def progress(wrong: dict[int, float] | None = None) -> list:
    moved = wrong or {}
    return [event("progress", i, seconds=10 * i + moved.get(i, 0.0), step=i, rank=0) for i in range(30)]


def test_a_run_in_order_has_no_contradictions() -> None:
    """Nothing to tell where everything fits."""
    assert clocks({"a1": progress(), "a2": progress()}).contradictions == ()


def test_a_mislabelled_line_is_named_beside_one_that_fits() -> None:
    """The line, by how much it is off, and whose line says otherwise; the clock stays where it was."""
    found = clocks({"a1": progress(), "a2": progress({17: 20.0}), "a3": progress()})
    [text] = found.contradictions
    assert text.startswith("a2: a2.log:17 is 20.0 s too late for the iteration of a")
    assert found.estimate("a2").offset_ms == pytest.approx(0.0, abs=1.0)


def test_a_communicator_cannot_end_before_it_begins() -> None:
    """One node starts its init 30 s after another has finished it, by clocks that 30 iterations agree on."""

    def init(line: int, seconds: float, phase: str) -> object:
        return event("nccl_comm_init", line, seconds=seconds, attributes={"comm_id": "0xab", "phase": phase})

    found = clocks(
        {
            "a1": [*progress(), init(50, 40.0, "start"), init(51, 41.0, "complete")],
            "a2": [*progress(), init(50, 71.0, "start")],
        }
    )
    [text] = found.contradictions
    assert text.startswith("a2: a2.log:50 lies at least 29.8 s after the end of the communicator's init at a1.log:51")
    low, high = found.estimate("a2").interval_ms
    assert high - low < 250


def test_only_a_second_witness_widens() -> None:
    """The second worst violation is what the interval grows by."""
    one = Contradiction(("a1", "a2"), 9000.0, "x")
    other = Contradiction(("a2", "a3"), 400.0, "y")
    assert widening([one]) == {}
    assert widening([one, other]) == {"a2": 400.0}
