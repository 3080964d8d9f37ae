"""Megatron-LM and its relatives: iterations, checkpoints, phases, result checks (formats.md F1).

Iterations are printed by the last rank only. Checkpoints are named as on disk, `iter_0001200`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FaultCode, Phase, Role
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import printed_loss, with_attributes

_SOURCE = "formats.md F1"
_TIME = r"[ \t]*(?:\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]{8,15}\][ \t]*)?"
_AFTER_STEP = re.compile(r" */ *\d+ *\|")
_VALUE = re.compile(r"lm loss value: ([-+]?(?:\d+(?:\.\d*)?(?:E[-+]?\d+)?|nan|inf))", re.IGNORECASE)


def _progress(hit: Hit) -> Iterable[Event]:
    rest = hit.line.message[hit.match.end() :]
    if _AFTER_STEP.match(rest):
        yield hit.make(loss=printed_loss(rest))


def _checkpoint(hit: Hit) -> Iterable[Event]:
    step = int(hit.match["step"])
    yield with_attributes(hit.make(step=step), checkpoint=f"iter_{step:07d}")


def _evaluation(hit: Hit) -> Iterable[Event]:
    value = _VALUE.search(hit.line.message)
    yield with_attributes(hit.make(), val_loss=float(value[1]) if value else None)


def _phase(hit: Hit) -> Iterable[Event]:
    words = hit.match[1]
    phase = Phase.STEP if words.startswith("before the start") else Phase.TEARDOWN
    yield with_attributes(hit.make(), phase=phase.value, reason="SIGTERM" if "SIGTERM" in words else None)


def _world(hit: Hit) -> Iterable[Event]:
    parallel = dict(
        re.findall(r"(data|context|tensor|pipeline|expert)-(?:model-)?parallel[ -]size: (\d{1,9})", hit.line.message)
    )
    yield with_attributes(
        hit.make(world_size=int(hit.match[1])), **{f"{name}_parallel": size for name, size in parallel.items()}
    )


def _bad_result(hit: Hit) -> Iterable[Event]:
    rank, node, device, iteration, value = hit.match.groups()
    yield with_attributes(hit.make(rank=int(rank), host_name=node, step=int(iteration)), device=device, value=value)


PATTERNS = (
    LinePattern(
        id="megatron.iteration",
        event_name=Context.PROGRESS,
        regex=_TIME + r"iteration +(?P<step>[0-9]{1,12})",
        bulk=True,
        priority=30,
        samples=(
            " [2025-11-30 01:02:03.123456] iteration     1200/   50000 | consumed samples:      1228800 | lm loss: 2.504220E+00 |",
            " iteration     1200/   50000 | consumed samples:      1228800 | lm loss: NAN | loss scale: 1.0 |",
        ),
        lookalikes=(" validation loss at iteration 1200 | lm loss value: 2.401120E+00 | lm loss PPL: 1.103552E+01 | ",),
        source=_SOURCE,
        build=_progress,
    ),
    LinePattern(
        id="megatron.save_started",
        event_name=Context.CHECKPOINT_SAVE_STARTED,
        regex=_TIME
        + r"(?:saving checkpoint at|scheduled an async checkpoint save at) iteration +(?P<step>[0-9]{1,12}) to ",
        samples=(
            "saving checkpoint at iteration    1200 to /ckpt in torch_dist format",
            "  scheduled an async checkpoint save at iteration    1200 to /ckpt",
        ),
        lookalikes=("saving checkpoint every 1200 iterations to /ckpt",),
        source=_SOURCE,
        build=_checkpoint,
    ),
    LinePattern(
        id="megatron.saved",
        event_name=Context.CHECKPOINT_SAVED,
        regex=_TIME + r"successfully saved checkpoint (?:from|at) iteration +(?P<step>[0-9]{1,12}) to ",
        samples=("  successfully saved checkpoint from iteration    1200 to /ckpt [ t 1/8, p 1/4 ]",),
        lookalikes=("  successfully loaded checkpoint from /ckpt [ t 1/8, p 1/4 ] at iteration 1200",),
        source=_SOURCE,
        build=_checkpoint,
    ),
    LinePattern(
        id="megatron.load_started",
        event_name=Context.CHECKPOINT_LOAD_STARTED,
        regex=_TIME + r"loading (?:distributed )?checkpoint from [^\n]+ at iteration +(?P<step>[0-9]{1,12})",
        samples=(
            " loading distributed checkpoint from /ckpt at iteration 1200",
            " loading checkpoint from /ckpt at iteration 1200",
        ),
        lookalikes=("    will not load any checkpoints and will start from random",),
        source=_SOURCE,
        build=_checkpoint,
    ),
    LinePattern(
        id="megatron.loaded",
        event_name=Context.CHECKPOINT_LOADED,
        regex=_TIME + r"successfully loaded checkpoint from [^\n]+ at iteration +(?P<step>[0-9]{1,12})",
        samples=("  successfully loaded checkpoint from /ckpt [ t 1/8, p 1/4 ] at iteration 1200",),
        lookalikes=("  successfully saved checkpoint from iteration    1200 to /ckpt",),
        source=_SOURCE,
        build=_checkpoint,
    ),
    LinePattern(
        id="megatron.validation",
        event_name=Context.EVALUATION,
        regex=r"[ \t]*validation loss at iteration (?P<step>[0-9]{1,12})",
        samples=(" validation loss at iteration 1200 | lm loss value: 2.401120E+00 | lm loss PPL: 1.103552E+01 | ",),
        lookalikes=(" validation loss at the end of training for val data",),
        source=_SOURCE,
        build=_evaluation,
    ),
    LinePattern(
        id="megatron.evaluating",
        event_name=Context.EVALUATION,
        regex=r"[ \t]*Evaluating (?:iter [0-9]+/[0-9]+|on [0-9]+ samples)",
        samples=("Evaluating iter 1/32", "Evaluating on 65536 samples"),
        lookalikes=("Evaluating model quality is disabled",),
        source=_SOURCE,
        build=_evaluation,
    ),
    LinePattern(
        id="megatron.phase",
        event_name=Context.PHASE,
        regex=r"[ \t]*\[(before the start of training step|exiting program at iteration [0-9]+|exiting program after [^\]\n]+)\]",
        samples=(
            "[before the start of training step] datetime: 2025-11-30 01:02:03.123456 ",
            "[exiting program after receiving SIGTERM.] datetime: 2025-11-30 01:02:03",
        ),
        lookalikes=("[after megatron is initialized] datetime: 2025-11-30 01:02:03",),
        source=_SOURCE,
        build=_phase,
    ),
    LinePattern(
        id="megatron.finished",
        event_name=Context.TRAINING_FINISHED,
        regex=r"[ \t]*\[after training is done\]",
        samples=("[after training is done] datetime: 2025-11-30 01:02:03 ",),
        lookalikes=("[after dataloaders are built] datetime: 2025-11-30 01:02:03 ",),
        source=_SOURCE,
    ),
    LinePattern(
        id="megatron.world",
        event_name=Context.RUN_CONFIG,
        regex=r"[ \t]*using world size: ([0-9]{1,9}),",
        samples=(
            "using world size: 16, data-parallel size: 2, tensor-model-parallel size: 8, pipeline-model-parallel size: 1 ",
        ),
        lookalikes=("using torch.float16 for parameters ...",),
        source=_SOURCE,
        build=_world,
    ),
    LinePattern(
        id="megatron.bad_result",
        event_name=FaultCode.NAN_LOSS,
        role=Role.INITIATING,
        regex=(
            r"Rank ([0-9]{1,9}), node ([^ ,\n]+), device ([0-9]{1,4}), iteration ([0-9]{1,12}): "
            r"Unexpected result (-?(?:nan|inf|NaN|Inf))"
        ),
        anchor=Anchor.ANYWHERE,
        priority=60,
        samples=(
            "Rank 11, node node03, device 3, iteration 1201: Unexpected result nan "
            "(message='found NaN in local forward loss calculation')",
        ),
        lookalikes=("Unexpected result 17.2 on rank 11 at iteration #1201 invocation #0 (message='Spiky loss')",),
        source=_SOURCE,
        build=_bad_result,
    ),
)
DIALECT = Dialect(name="megatron", title="Megatron-LM", patterns=PATTERNS, source=_SOURCE)
