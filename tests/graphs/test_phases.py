"""Where in the run it broke: what had just ended, and what part of a step it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from correlator.core.model import Initiator
from correlator.core.vocabulary import FileKind, Phase
from tests.graphs.conftest import RunBuilder

Builder = Callable[..., RunBuilder]


def moment(r: RunBuilder) -> tuple[Phase | None, str | None]:
    found: tuple[Initiator, ...] = r.judge().verdict.initiators
    return found[0].phase, found[0].during


def fail(r: RunBuilder, at_s: float | None, stack: str | None = None, code: str = "python_exception") -> RunBuilder:
    return r.add(code, at_s, rank=3, exception_type="RuntimeError", exception_stacktrace=stack)


def test_the_first_backward_after_evaluation(run: Builder) -> None:
    r = run().steps(5).add("evaluation", 6.0, rank=0, step=5)
    fail(r, 7.0, 'File "train.py", line 7, in main\n  loss.backward()')
    assert moment(r) == (Phase.STEP, "in the first backward after evaluation at step 5")


def test_a_step_after_it_makes_it_an_ordinary_one(run: Builder) -> None:
    r = run().steps(5).add("evaluation", 5.5, rank=0, step=5).add("progress", 6.0, rank=0, step=6)
    assert moment(fail(r, 7.0)) == (Phase.STEP, None)


@pytest.mark.parametrize(
    ("name", "phase", "words"),
    [
        ("evaluation", Phase.EVALUATION, "during evaluation at step 5"),
        ("checkpoint_save_started", Phase.CHECKPOINT_SAVE, "while a checkpoint was being saved at step 5"),
        ("checkpoint_saved", Phase.STEP, "in the first step after a checkpoint was saved at step 5"),
        ("training_finished", Phase.TEARDOWN, "after training had finished at step 5"),
    ],
)
def test_the_last_milestone_before_it_tells_the_phase(run: Builder, name: str, phase: Phase, words: str) -> None:
    r = run().steps(5).add(name, 6.0, rank=0)
    assert moment(fail(r, 7.0, code="cuda_oom")) == (phase, words)


def test_a_milestone_after_it_says_nothing(run: Builder) -> None:
    r = fail(run().steps(5), 6.0).add("checkpoint_save_started", 7.0, rank=0)
    assert moment(r) == (Phase.STEP, None)


def test_before_the_first_step_it_is_start_up(run: Builder) -> None:
    assert moment(fail(run(), 1.0)) == (Phase.INIT, "during start-up")
    assert moment(run().timeouts([0, 1, 2, 4, 5, 6, 7], 600, seq=2)) == (Phase.INIT, "during start-up")
    assert moment(run().timeouts([0, 1, 2, 4, 5, 6, 7], 600, seq=902)) == (None, None)


def test_an_untimed_traceback_is_placed_by_the_lines_above_it(run: Builder) -> None:
    r = run().steps(5).add("checkpoint_load_started", None, rank=3)
    assert moment(fail(r, None, code="data_error")) == (
        Phase.CHECKPOINT_LOAD, "while a checkpoint was being loaded at step 5",
    )  # fmt: skip


def test_a_failed_save_is_a_save_wherever_the_clocks_put_it(run: Builder) -> None:
    assert moment(fail(run().steps(5), 7.0, code="checkpoint_save_failure"))[0] is Phase.CHECKPOINT_SAVE
    assert moment(fail(run().steps(5), 7.0, code="checkpoint_load_failure"))[0] is Phase.CHECKPOINT_LOAD


def test_the_sentence_tells_it(run: Builder) -> None:
    r = run().steps(5).add("evaluation", 6.0, rank=0, step=5)
    fail(r, 7.0, "in backward")
    assert "in the first backward after evaluation at step 5" in r.judge().verdict.summary


def test_start_up_is_claimed_only_where_a_step_would_have_been_seen(run: Builder) -> None:
    """A launcher's log alone says nothing of how far the run had come."""
    killed = {"kind": FileKind.LAUNCHER_LOG, "file": "agent_node00.log", "exit_code": -9}
    alone = run(silent_ranks=frozenset(range(8))).add("child_failed_row", 60.0, rank=3, **killed)
    assert moment(alone) == (None, None)
    assert moment(run().add("child_failed_row", 60.0, rank=3, **killed)) == (Phase.INIT, "during start-up")
