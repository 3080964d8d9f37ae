"""PyTorch Lightning and NeMo on top of it: checkpoints, steps, phases (formats.md F2, F5)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import checkpoint_name, named_step, printed_loss, with_attributes

_SOURCE = "formats.md F2, F5"
_SAVING = re.compile(r"saving model to '?([^'\n]+?)'? as top")
_GLOBAL_STEP = re.compile(r"\bglobal_step: (\d{1,12})")


def _epoch_end(hit: Hit) -> Iterable[Event]:
    """`was not in top k` is a step without a save; `saving model to` announces a save and has no end line."""
    saving = _SAVING.search(hit.line.message)
    step = int(hit.match[2])
    if saving is None:
        yield with_attributes(hit.make(event_name=Context.EVALUATION, step=step), epoch=hit.match[1])
        return
    yield with_attributes(hit.make(step=step), checkpoint=checkpoint_name(saving[1]), epoch=hit.match[1])


def _restoring(hit: Hit) -> Iterable[Event]:
    name = checkpoint_name(hit.match[1])
    yield with_attributes(hit.make(step=named_step(name)), checkpoint=name)


def _iteration(hit: Hit) -> Iterable[Event]:
    """`iteration` counts inside the epoch; `global_step` over all."""
    message = hit.line.message
    step = _GLOBAL_STEP.search(message)
    yield hit.make(step=int(step[1]) if step else int(hit.match["step"]), loss=printed_loss(message))


def _stopped(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), reason=hit.match[1])


PATTERNS = (
    LinePattern(
        id="lightning.epoch_end",
        event_name=Context.CHECKPOINT_SAVE_STARTED,
        regex=r"Epoch ([0-9]{1,7}), global step ([0-9]{1,12}): ",
        samples=(
            "Epoch 0, global step 500: 'reduced_train_loss' reached 2.5 (best 2.5), saving model to "
            "'/ckpt/epoch=0-step=500.ckpt' as top 3",
            "Epoch 3, global step 1200: 'val_loss' was not in top 1",
        ),
        lookalikes=("Epoch 0: :   6%|6         | 120/2000 [10:00<2:36:40, v_num=0, global_step=119.0]",),
        source=_SOURCE,
        build=_epoch_end,
    ),
    LinePattern(
        id="lightning.restoring",
        event_name=Context.CHECKPOINT_LOAD_STARTED,
        regex=r"Restoring states from the checkpoint path at ([^ \n]+)",
        anchor=Anchor.ANYWHERE,
        samples=("Restoring states from the checkpoint path at /ckpt/epoch=3-step=400.ckpt",),
        lookalikes=("Restoring tokenizer from /ckpt/tokenizer.model",),
        source=_SOURCE,
        build=_restoring,
    ),
    LinePattern(
        id="lightning.restored",
        event_name=Context.CHECKPOINT_LOADED,
        regex=r"Restored (?:all states from|model weights from) the checkpoint (?:at|file at) ([^ \n]+)",
        anchor=Anchor.ANYWHERE,
        samples=("Restored all states from the checkpoint at /ckpt/epoch=3-step=400.ckpt",),
        lookalikes=("Restored the default sampler",),
        source=_SOURCE,
        build=_restoring,
    ),
    LinePattern(
        id="lightning.stopped",
        event_name=Context.TRAINING_FINISHED,
        regex=r"`?Trainer\.fit`? stopped: `?(max_steps|max_epochs|max_time|[A-Za-z_ ]+)",
        samples=("`Trainer.fit` stopped: `max_steps=2000` reached.",),
        lookalikes=("`Trainer.fit` started with 8 devices",),
        source=_SOURCE,
        build=_stopped,
    ),
    LinePattern(
        id="lightning.validation_bar",
        event_name=Context.EVALUATION,
        regex=r"(?:Validation|Validation DataLoader|Validation DataLoader [0-9]+): +[0-9]{1,3}%\|",
        priority=12,
        samples=("Validation DataLoader 0: 100%|##########| 13/13 [00:02<00:00,  6.1it/s]",),
        lookalikes=("Epoch 3:  45%|####5     | 450/1000 [07:30<09:10,  1.00s/it, v_num=0, loss=2.5]",),
        source=_SOURCE,
    ),
    LinePattern(
        id="nemo.iteration",
        event_name=Context.PROGRESS,
        regex=r"Training epoch [0-9]+, iteration (?P<step>[0-9]{1,12})",
        bulk=True,
        priority=30,
        samples=(
            "Training epoch 0, iteration 120/1999 | lr: 3e-05 | global_batch_size: 512 | global_step: 120 | "
            "reduced_train_loss: 2.233 | train_step_timing in s: 5.146",
        ),
        lookalikes=("Validation: iteration 3/16",),
        source=_SOURCE,
        build=_iteration,
    ),
)
DIALECT = Dialect(name="lightning", title="PyTorch Lightning, NeMo", patterns=PATTERNS, source=_SOURCE)
