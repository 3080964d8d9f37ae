"""torchtitan: steps, checkpoints, phases (formats.md F4).

A save names neither its step nor its folder: it belongs to the step printed last before it on the same rank, in a folder
`step-N`. The attribute `naming` says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, Phase
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import checkpoint_name, named_step, printed_loss, with_attributes

_SOURCE = "formats.md F4"
_NAMING = "step-{step}"


def _progress(hit: Hit) -> Iterable[Event]:
    rest = hit.line.message[hit.match.end() :]
    if "loss:" in rest:
        yield hit.make(loss=printed_loss(rest))


def _evaluation(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), val_loss=printed_loss(hit.line.message[hit.match.end() :]))


def _unnamed(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), naming=_NAMING)


def _load_started(hit: Hit) -> Iterable[Event]:
    name = checkpoint_name(hit.match[1])
    yield with_attributes(hit.make(step=named_step(name)), checkpoint=name)


def _start(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), phase=Phase.STEP.value, start_step=hit.match[1])


PATTERNS = (
    LinePattern(
        id="torchtitan.step",
        event_name=Context.PROGRESS,
        regex=r"step: +(?P<step>[0-9]{1,12})",
        bulk=True,
        priority=30,
        samples=(
            "[rank0]:[titan] 2025-11-30 01:02:03,123 - root - INFO - step: 1200  loss:  2.50422  grad_norm:  0.2310  "
            "memory: 70.12GiB(88.50%)  tps: 5,123  tflops: 412.34  mfu: 41.69%",
        ),
        lookalikes=(
            "[titan] 2025-11-30 01:02:03,123 - root - INFO - validate step: 1200  loss:  2.4011  memory: 70.12GiB(88.50%)",
        ),
        source=_SOURCE,
        build=_progress,
    ),
    LinePattern(
        id="torchtitan.validate",
        event_name=Context.EVALUATION,
        regex=r"validate step: +(?P<step>[0-9]{1,12})",
        samples=("[titan] 2025-11-30 01:02:03,123 - root - INFO - validate step: 1200  loss:  2.4011  tps: 5,123",),
        lookalikes=("[titan] 2025-11-30 01:02:03,123 - root - INFO - step: 1200  loss:  2.4011",),
        source=_SOURCE,
        build=_evaluation,
    ),
    LinePattern(
        id="torchtitan.save_started",
        event_name=Context.CHECKPOINT_SAVE_STARTED,
        regex=r"(?:Saving|Staging) the checkpoint",
        samples=(
            "[titan] 2025-11-30 01:02:03,123 - root - INFO - Saving the checkpoint (or staging if async is enabled).",
        ),
        lookalikes=(
            "[titan] 2025-11-30 01:02:03,123 - root - INFO - Checkpointing active. Checkpoints will be saved to ./out",
        ),
        source=_SOURCE,
        build=_unnamed,
    ),
    LinePattern(
        id="torchtitan.saved",
        event_name=Context.CHECKPOINT_SAVED,
        regex=r"Finished (?:saving|writing) the checkpoint",
        samples=(
            "[titan] 2025-11-30 01:02:03,123 - root - INFO - Finished saving the checkpoint "
            "(or staging if async is enabled)in 12.34 seconds.",
        ),
        lookalikes=(
            "[titan] 2025-11-30 01:02:03,123 - root - INFO - Finished loading the checkpoint in 8.12 seconds.",
        ),
        source=_SOURCE,
        build=_unnamed,
    ),
    LinePattern(
        id="torchtitan.load_started",
        event_name=Context.CHECKPOINT_LOAD_STARTED,
        regex=r"Loading the checkpoint (?:at|from) ([^ \n]+)",
        samples=(
            "[titan] 2025-11-30 01:02:03,123 - root - INFO - Loading the checkpoint from ./outputs/checkpoint/step-1000.",
        ),
        lookalikes=("[titan] 2025-11-30 01:02:03,123 - root - INFO - Loading tokenizer from tokenizer.json",),
        source=_SOURCE,
        build=_load_started,
    ),
    LinePattern(
        id="torchtitan.loaded",
        event_name=Context.CHECKPOINT_LOADED,
        regex=r"Finished loading the checkpoint",
        samples=("[titan] 2025-11-30 01:02:03,123 - root - INFO - Finished loading the checkpoint in 8.12 seconds.",),
        lookalikes=("[titan] 2025-11-30 01:02:03,123 - root - INFO - Finished saving the checkpoint in 8.12 seconds.",),
        source=_SOURCE,
    ),
    LinePattern(
        id="torchtitan.start",
        event_name=Context.PHASE,
        regex=r"Training starts at step ([0-9]{1,12})",
        samples=("[titan] 2025-11-30 01:02:03,123 - root - INFO - Training starts at step 1001.",),
        lookalikes=("[titan] 2025-11-30 01:02:03,123 - root - INFO - Training step scheduled",),
        source=_SOURCE,
        build=_start,
    ),
    LinePattern(
        id="torchtitan.destroyed",
        event_name=Context.PROCESS_EXIT_CLEAN,
        regex=r"Process group destroyed",
        samples=("[titan] 2025-11-30 01:02:03,123 - root - INFO - Process group destroyed",),
        lookalikes=(
            "[rank0]:[W1130 01:02:03.123456789 ProcessGroupNCCL.cpp:1496] Warning: WARNING: "
            "destroy_process_group() was not called before program exit",
        ),
        source=_SOURCE,
    ),
)
DIALECT = Dialect(name="torchtitan", title="torchtitan", patterns=PATTERNS, source=_SOURCE)
