"""Which checkpoint is safe: finished on every rank, before anything could have spoilt its values."""

from __future__ import annotations

from collections.abc import Callable

from correlator.core.model import Checkpoint
from correlator.core.vocabulary import FileKind
from tests.graphs.conftest import RunBuilder

Builder = Callable[..., RunBuilder]


def save(r: RunBuilder, step: int, at_s: float, *, ranks: range = range(8), saved: range | None = None) -> RunBuilder:
    name = {"checkpoint": f"step_{step}"}
    for rank in ranks:
        r.add("checkpoint_save_started", at_s, rank=rank, step=step, attributes=name)
    for rank in ranks if saved is None else saved:
        r.add("checkpoint_saved", at_s + 0.2, rank=rank, step=step, attributes=name)
    return r


def judged(r: RunBuilder) -> Checkpoint:
    return r.judge().checkpoint


def test_the_last_save_that_every_rank_confirmed(run: Builder) -> None:
    r = save(save(run().steps(5), 2, 2.1), 4, 4.1)
    r.add("data_error", 6.0, rank=1, exception_type="KeyError")
    assert (judged(r).safe_to_resume_from, judged(r).last_complete) == ("step_4", "step_4")


def test_a_rank_that_never_confirmed(run: Builder) -> None:
    r = save(save(run().steps(5), 2, 2.1), 4, 4.1, saved=range(7))
    r.add("data_error", 6.0, rank=7, exception_type="KeyError")
    found = judged(r)
    assert found.safe_to_resume_from == found.last_complete == "step_2"
    assert "rank 7 never confirmed it" in found.why


def test_one_rank_may_speak_for_all_where_it_always_does(run: Builder) -> None:
    r = save(save(run().steps(5), 2, 2.1, saved=range(1)), 4, 4.1, saved=range(1))
    r.add("data_error", 6.0, rank=7, exception_type="KeyError")
    assert judged(r).safe_to_resume_from == "step_4"


def test_a_partial_write_is_torn_though_others_finished(run: Builder) -> None:
    """`unexpected pos` of rank 3 in the middle of the save, which rank 0 then calls done."""
    r = save(run().steps(5), 2, 2.1, saved=range(1))
    name = {"checkpoint": "step_4"}
    r.add("checkpoint_save_started", 4.1, rank=0, step=4, attributes=name)
    r.add("checkpoint_save_failure", 4.2, rank=3, exception_type="RuntimeError", body="unexpected pos 64 vs 0")
    r.add("checkpoint_saved", 4.3, rank=0, step=4, attributes=name)
    found = judged(r)
    assert (found.safe_to_resume_from, found.last_complete) == ("step_2", "step_2")
    assert "the save of step_4 did not complete (rank_3.log:" in found.why


def test_an_error_of_the_disk_after_the_save_leaves_it_whole(run: Builder) -> None:
    r = save(run().steps(5), 4, 4.1)
    r.add("disk_full", 6.0, rank=3, exception_type="OSError")
    assert judged(r).safe_to_resume_from == "step_4"


def test_ecc_before_the_save_moves_back(run: Builder) -> None:
    """The error was survived: what was saved after it may hold wrong values; the one before it is safe."""
    r = save(run().steps(3), 2, 2.1)
    kernel = {"node": "node00", "file": "kern.log", "kind": FileKind.KERNEL_LOG, "gpu": "0000:3b:00"}
    r.add("gpu_ecc_dbe", 3.5, rank=2, **kernel)
    for step in (4, 5, 6):
        for rank in range(8):
            r.add("progress", float(step), rank=rank, step=step)
    save(r, 6, 6.1)
    r.add("data_error", 7.0, rank=1, exception_type="KeyError")
    found = judged(r)
    assert (found.safe_to_resume_from, found.last_complete) == ("step_2", "step_6")
    assert "saved after the first gpu_ecc_dbe (kern.log:" in found.why


def test_ecc_that_ended_the_run_spoils_nothing_before_it(run: Builder) -> None:
    r = save(run().steps(5), 4, 4.1)
    kernel = {"node": "node00", "file": "kern.log", "kind": FileKind.KERNEL_LOG, "gpu": "0000:3b:00"}
    r.add("gpu_ecc_dbe", 6.0, rank=2, **kernel)
    r.add("cuda_ecc_uncorrectable", 6.1, rank=2, exception_type="RuntimeError")
    assert judged(r).safe_to_resume_from == "step_4"


def test_a_step_without_a_number_spoils_its_checkpoint(run: Builder) -> None:
    r = save(save(run().steps(5), 2, 2.1), 4, 4.1)
    r.add("nan_loss", 6.0, rank=2, step=3, exception_type="AssertionError")
    assert judged(r).safe_to_resume_from == "step_2"


def test_a_checkpoint_that_could_not_be_read_is_not_safe(run: Builder) -> None:
    r = save(save(run().steps(5), 2, 2.1), 4, 4.1)
    r.add("checkpoint_load_started", 20.0, rank=1, attempt=1, attributes={"checkpoint": "step_4"})
    r.add("checkpoint_load_failure", 21.0, rank=1, attempt=1, exception_type="RuntimeError")
    assert judged(r).safe_to_resume_from == "step_2"


def test_what_was_resumed_from_was_whole(run: Builder) -> None:
    """The first save of this run tore; the one it was started from is left."""
    r = run().add("checkpoint_loaded", 0.1, rank=0, step=100, attributes={"checkpoint": "step_100"}).steps(5)
    save(r, 104, 4.1, saved=range(3))
    r.add("data_error", 6.0, rank=7, exception_type="KeyError")
    found = judged(r)
    assert found.safe_to_resume_from == "step_100"
    assert "training resumed from it" in found.why


def test_two_names_of_one_checkpoint_are_one(run: Builder) -> None:
    """DeepSpeed names the tag, the trainer above it the folder: the folder is what is resumed from."""
    r = run().steps(5)
    tag, folder = (
        {"checkpoint": "global_step4", "tag": "global_step4"},
        {"checkpoint": "checkpoint-4", "tag": "global_step4"},
    )
    r.add("checkpoint_save_started", 4.1, rank=0, step=4, attributes=tag)
    r.add("checkpoint_saved", 4.2, rank=0, step=4, attributes=folder)
    r.add("data_error", 6.0, rank=7, exception_type="KeyError")
    assert judged(r).safe_to_resume_from == "checkpoint-4"
