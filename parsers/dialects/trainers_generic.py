"""Progress and evaluation as hand-written training scripts print them (formats.md F5, F8).

A step alone is no progress (`Step 1: downloading`): what follows the number must be a training metric. The bulk patterns end
at the step, so the builder looks at the rest of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, Phase
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import printed_loss, with_attributes

_SOURCE = "formats.md F"
_RANK = r"[ \t]*(?:\[rank[ :]{0,2}(?P<rank>[0-9]{1,9})\]:?[ \t]*)?"
_METRIC = re.compile(
    r"loss|\blr\b|learning_rate|grad_?norm|tokens?/s|tok/s|\btps\b|samples/s|it/s|s/it|ms/step|s/step|step_time|time/step|"
    r"throughput|\bmfu\b|\bppl\b|tflop|\beta\b",
    re.IGNORECASE,
)
_NOT_TRAINING = re.compile(r"[\s:,|(-]*(?:val(?:id(?:ation)?)?|eval(?:uation)?|test)[ _/]", re.IGNORECASE)
_TOTAL = re.compile(r" ?/ ?(\d{1,12})")
_UPDATES = re.compile(r"num_updates=(\d{1,12})")
_VAL_LOSS = re.compile(
    r"(?:val(?:id(?:ation)?)?|eval)[ _/]?loss['\"]?[ :=]+([-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|nan|inf))", re.IGNORECASE
)


def _rest(hit: Hit) -> str | None:
    """What follows the step if it reads like a training metric, else None."""
    rest = hit.line.message[hit.match.end() :]
    if rest.startswith("%") or _NOT_TRAINING.match(rest):
        return None
    return rest if _METRIC.search(rest) else None


def _step(hit: Hit) -> Iterable[Event]:
    rest = _rest(hit)
    if rest is not None:
        yield hit.make(loss=printed_loss(rest))


def _batch(hit: Hit) -> Iterable[Event]:
    rest = hit.line.message[hit.match.end() :]
    if rest.startswith((" done", " finished", ",", ":", " loss")):
        yield hit.make(loss=printed_loss(rest))


def _epoch_step(hit: Hit) -> Iterable[Event]:
    """The number counts inside the epoch. With the printed total it becomes the step over all epochs.

    `Epoch 1/10` counts epochs from 1; a lone epoch number counts from 0 where it is followed by a bracket, as the
    reference trainers print it, and from 1 otherwise.
    """
    rest = _rest(hit)
    if rest is None:
        return
    count = int(hit.match["step"])
    head = hit.match[0]
    epoch = re.search(r"(\d{1,7})( ?/ ?\d+)?", head)
    total = _TOTAL.match(rest)
    updates = _UPDATES.search(rest)
    done = int(epoch[1]) if epoch else 0
    if epoch and (epoch[2] or not re.match(r"[Ee]poch: ?\[\d+\]", head)):
        done -= 1
    step = int(updates[1]) if updates else count + max(done, 0) * (int(total[1]) if total else 0)
    yield with_attributes(hit.make(step=step, loss=printed_loss(rest)), epoch=epoch[1] if epoch else None)


def _grouped(hit: Hit) -> Iterable[Event]:
    yield hit.make(step=int(hit.match[1].replace(",", "")[:12]), loss=printed_loss(hit.line.message))


def _evaluation(hit: Hit) -> Iterable[Event]:
    value = _VAL_LOSS.search(hit.line.message)
    yield with_attributes(hit.make(), val_loss=float(value[1]) if value else None)


def _finished(hit: Hit) -> Iterable[Event]:
    """`Training finished epoch 3` goes on; only an end of the sentence ends the training."""
    rest = hit.line.message[hit.match.end() :].strip()
    if not rest or rest[0] in ".!,;:(" or rest.startswith(("in ", "after ", "successfully", "at ")):
        yield hit.make()


def _started(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), phase=Phase.STEP.value)


PATTERNS = (
    LinePattern(
        id="trainer.step",
        event_name=Context.PROGRESS,
        regex=(
            _RANK + r"(?:\[?(?:[Tt]rain(?:ing)?|completed)\]?:? )?"
            r"\[?(?:[Gg]lobal[ _])?(?:[Ss]tep|STEP|[Ii]ter(?:ation)?)[ \t]*[:=#\[]?[ \t]*(?P<step>[0-9]{1,12})"
        ),
        bulk=True,
        priority=20,
        samples=(
            "2025-11-30 01:02:03,123 [INFO] trainer: [rank 8] step 1 | loss 5.98 | lr 3.0e-05 | step_time 1.234s | tokens/s 51234",
            "2025-11-30 01:02:03,123 INFO [rank 3] step 2/80 loss 1.10 lr 1.0e-03 12.1 ms/step",
            "[2025-11-30 01:02:03 TP3] model.py:918 - step 120: {'train/loss': 0.12, 'train/grad_norm': 0.9, 'train/step': 120}",
            "iter 100: loss 2.3012, time 135.20ms, mfu 17.55%",
            "(TaskRunner pid=4245) step:12 - global_seqlen/mean:1024.0 - actor/pg_loss:0.01 - perf/throughput:812.3",
        ),
        lookalikes=(
            "2025-11-30 01:02:03,123 [INFO] checkpoint: saving step 1200 to /ckpt/run7/step_1200",
            "2025-11-30 01:02:03,123 [WARNING] trainer: slow step: watchdog timeout threshold is 30.0 s, no action taken",
        ),
        source=_SOURCE,
        build=_step,
    ),
    LinePattern(
        id="trainer.bare_step",
        event_name=Context.PROGRESS,
        regex=r"Training: step (?P<step>[0-9]{1,12})",
        bulk=True,
        priority=22,
        samples=("I1130 01:02:03.451247 140641718562816 trainer.py:501] Training: step 198",),
        lookalikes=("Training: steps of the warm-up",),
        source="formats.md I1",
    ),
    LinePattern(
        id="trainer.batch_done",
        event_name=Context.PROGRESS,
        regex=r"rank (?P<rank>[0-9]{1,9}): batch (?P<step>[0-9]{1,12})",
        bulk=True,
        priority=20,
        samples=("rank 0: batch 0 done, loss 2.3",),
        lookalikes=("rank 0: batch size 8",),
        source=_SOURCE,
        build=_batch,
    ),
    LinePattern(
        id="trainer.epoch_step",
        event_name=Context.PROGRESS,
        regex=(
            _RANK
            + r"(?:[Tt]rain(?:ing|_inner)?(?::| \|)? )?(?:[Ee]poch|EPOCH|Epoch\(train\))[ \t]*[:=]?[ \t]*\[?[ \t]*[0-9]{1,7}(?:[ \t]*/[ \t]*[0-9]+)?\]?"
            r"[ \t,|:-]*(?:[Ss]teps?|[Ii]ter(?:ation)?|[Bb]atch)?[ \t]*[:=]?[ \t]*\[?[ \t]*(?P<step>[0-9]{1,12})"
        ),
        bulk=True,
        priority=18,
        samples=(
            "06/03/2025 14:06:16 - INFO -   Epoch: 1/10, Step: 50/375, Lr: 0.000025, Loss: 5.900000, Time/step: 0.918629",
            "Epoch [3/10], Step [450/1000], Loss: 0.5123",
            "Epoch: [0]  [  10/5005]  eta: 1:02:03  lr: 0.1  img/s: 812.1  loss: 6.9123 (6.9301)",
            "2025-11-30 01:02:03 | INFO | train_inner | epoch 001:    100 / 5000 loss=9.1, ppl=548.7, num_updates=100, lr=1e-05",
        ),
        lookalikes=("epoch 3 finished", "epochs: 3, steps of each: 450"),
        source=_SOURCE,
        build=_epoch_step,
    ),
    LinePattern(
        id="trainer.angle_iter",
        event_name=Context.PROGRESS,
        regex=r"<epoch:[ \t]*[0-9]+, iter:[ \t]*([0-9][0-9,]*[0-9]|[0-9]),",
        anchor=Anchor.ANYWHERE,
        priority=20,
        samples=("25-11-30 01:02:03.123 : <epoch:  8, iter:   1,000, lr:4.000e-04> G_loss: 4.300e-02 ",),
        lookalikes=("<epoch:  8, done>",),
        source=_SOURCE,
        build=_grouped,
    ),
    LinePattern(
        id="trainer.evaluation",
        event_name=Context.EVALUATION,
        regex=_RANK
        + r"(?:\[?[Ee]val(?:uation)?\]?:? (?:at )?)?(?:step|iter(?:ation)?)[ :=]+(?P<step>[0-9]{1,12})[ :,|-]+(?:val|eval)[a-z_ /]*loss",
        priority=35,
        samples=(
            "2025-11-30 01:02:03,123 [INFO] eval: step 5025 val_loss 2.2616 val_ppl 9.596",
            "2025-11-30 01:02:03,123 INFO [rank 0] eval step 24: val_loss 1.23 ppl 3.4",
        ),
        lookalikes=("2025-11-30 01:02:03,123 INFO [rank 3] step 2/80 loss 1.10 lr 1.0e-03 12.1 ms/step",),
        source=_SOURCE,
        build=_evaluation,
    ),
    LinePattern(
        id="trainer.finished",
        event_name=Context.TRAINING_FINISHED,
        regex=(
            _RANK + r"(?:[A-Za-z_][\w.]{0,60}: )?[Tt]raining (?:has |is |was )?(?:finished|completed?|done)"
            r"(?: (?:at|after) (?:global )?(?:step|iteration) (?P<step>[0-9]{1,12}))?"
        ),
        priority=30,
        samples=(
            "2025-11-30 01:02:03,123 INFO [rank 0] training finished at step 24",
            "[titan] 2025-11-30 01:02:03,123 - root - INFO - Training completed",
            "2025-11-30 01:02:03,123 INFO train: Training completed",
        ),
        lookalikes=("2025-11-30 01:02:03,123 [INFO] trainer: resuming training of job 77",),
        source=_SOURCE,
        build=_finished,
    ),
    LinePattern(
        id="trainer.started",
        event_name=Context.PHASE,
        regex=_RANK
        + r"(?:[Ss]tarting training|[Tt]raining started|[Ss]tart(?:ing)? the training loop|running training)",
        priority=30,
        samples=("2025-11-30 01:02:03,123 [INFO] trainer: starting training", "running training / 3 epochs"),
        lookalikes=("2025-11-30 01:02:03,123 [INFO] trainer: training data ready",),
        source=_SOURCE,
        build=_started,
    ),
)
DIALECT = Dialect(name="trainers_generic", title="Training scripts", patterns=PATTERNS, source=_SOURCE)
