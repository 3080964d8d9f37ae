"""Step numbers that repeat: nodes whose files hold different rounds of them are matched rightly or not at all."""

from __future__ import annotations

import pytest

from correlator.clocks import align
from correlator.core.model import ClockModel, Topology
from correlator.core.vocabulary import FileKind
from tests.helpers_events import event, log, table

EPOCH_S = 100.0


def clocks(parts: dict[str, list]) -> ClockModel:
    files = [(log(f"{node}.log", FileKind.NODE_LOG, node=node), lines) for node, lines in parts.items()]
    return align(table(files), Topology(world_size=None, ranks=(), nodes=tuple(parts))).clocks


def epochs(first: int, last: int, *, ahead: float = 0.0, from_step: int = 0, to_step: int = 19) -> list:
    """Lines of these epochs, twenty steps of 5 s each; the first one from, and the last one to a step."""
    kept = [
        (epoch, step)
        for epoch in range(first, last + 1)
        for step in range(20)
        if (epoch, step) >= (first, from_step) and (epoch, step) <= (last, to_step)
    ]
    return [
        event("progress", line, seconds=EPOCH_S * epoch + 5 * step + ahead, step=step, rank=0)
        for line, (epoch, step) in enumerate(kept)
    ]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(epochs(1, 2, ahead=3.0, from_step=8), id="the head is cut within an epoch"),
        pytest.param(epochs(0, 2, ahead=3.0, from_step=8), id="the head of the first epoch is cut"),
        pytest.param(epochs(0, 1, ahead=3.0, to_step=11), id="the tail is lost"),
        pytest.param(epochs(0, 2, ahead=3.0, to_step=18), id="the last step is not printed"),
    ],
)
def test_a_node_with_fewer_epochs_is_matched_by_the_end_that_it_shares(other: list) -> None:
    """Never by counting from the start of each file: that would take an epoch for an offset."""
    found = clocks({"a1": epochs(0, 2), "a2": other})
    assert found.estimate("a2").offset_ms == pytest.approx(3000.0, abs=1.0)


@pytest.mark.parametrize("held", [(1, 2), (0, 1)], ids=["without the first epoch", "without the last epoch"])
def test_whole_epochs_that_are_missing_give_no_offset(held: tuple[int, int]) -> None:
    """Both ends fit: which of the epochs these are is anybody's guess."""
    found = clocks({"a1": epochs(0, 2), "a2": epochs(*held)})
    assert found.estimate("a2").offset_ms is None


def test_a_resume_is_not_matched_with_the_attempt_before() -> None:
    """Steps 10 to 21 of the resume on one node, both attempts on the other."""
    before = [event("progress", step, seconds=5 * step, step=step, rank=0) for step in range(20)]
    resumed = [event("progress", 90 + step, seconds=300 + 5 * step, step=step, rank=0) for step in range(10, 22)]
    found = clocks({"a1": [*before, *resumed], "a2": resumed})
    low, high = found.estimate("a2").interval_ms
    assert found.estimate("a2").offset_ms == pytest.approx(0.0, abs=1.0)
    assert high - low < 500


def test_one_mislabelled_line_ends_no_round() -> None:
    """Step 9 printed as 7 on one node: the other fifty readings stay."""
    wrong = [event("progress", i, seconds=5 * i + 3, step=7 if i == 9 else i, rank=0) for i in range(50)]
    right = [event("progress", i, seconds=5 * i, step=i, rank=0) for i in range(50)]
    found = clocks({"a1": right, "a2": wrong})
    assert found.estimate("a2").offset_ms == pytest.approx(3000.0, abs=1.0)
    assert found.estimate("a2").evidence >= 48


def test_checkpoints_that_only_one_node_names_twice_say_nothing() -> None:
    """`step 19` of the second epoch on one node is not that of the first on the other."""

    def saved(line: int, seconds: float) -> object:
        return event("checkpoint_saved", line, seconds=seconds, step=19, rank=0)

    found = clocks({"a1": [saved(0, 95.0), saved(1, 195.0)], "a2": [saved(0, 195.0)]})
    assert found.estimate("a2").offset_ms is None
