"""Hugging Face Trainer and its relatives (swift, LLaMA-Factory): log dicts, checkpoints, phases (formats.md F5).

The dict of a log step carries no step number; the progress bar around it does (dialect `tqdm_bars`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, Phase
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import checkpoint_name, named_step, printed_loss, with_attributes

_SOURCE = "formats.md F5"
_STEP = re.compile(r"'global_step(?:/max_steps)?': '?(\d{1,12})")
_EPOCH = re.compile(r"'epoch': '?([0-9.]{1,20})")
_EVAL_LOSS = re.compile(r"'eval_loss': '?([-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|nan|inf))")
_BAR = re.compile(r"%\|[^|\n]*\| *(\d{1,12})/\d")


def _log_dict(hit: Hit) -> Iterable[Event]:
    text = hit.line.message[hit.match.start() :]
    bar = _BAR.search(hit.line.message[: hit.match.start()])
    step, epoch = _STEP.search(text) or bar, _EPOCH.search(text)
    event = hit.make(loss=printed_loss(text), step=int(step[1]) if step else None)
    yield with_attributes(event, epoch=epoch[1] if epoch else None)


def _eval_dict(hit: Hit) -> Iterable[Event]:
    value = _EVAL_LOSS.search(hit.line.message)
    yield with_attributes(hit.make(), val_loss=float(value[1]) if value else None)


def _save_started(hit: Hit) -> Iterable[Event]:
    """The bar has no newline of its own: it may stand in front of the logger line, and it tells the step reached."""
    name = checkpoint_name(hit.match[1])
    yield with_attributes(hit.make(step=named_step(name)), checkpoint=name)
    bar = _BAR.search(hit.line.text)
    if bar and bar.end() < hit.line.text.find("Saving model"):
        yield hit.make(event_name=Context.PROGRESS, step=int(bar[1]))


def _named(hit: Hit) -> Iterable[Event]:
    name = checkpoint_name(hit.match[1])
    step = named_step(name)
    if step is not None:
        yield with_attributes(hit.make(step=step), checkpoint=name)


def _resumed(hit: Hit) -> Iterable[Event]:
    step = int(hit.match[1])
    yield with_attributes(hit.make(step=step), checkpoint=f"checkpoint-{step}")


def _training(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), phase=Phase.STEP.value)


PATTERNS = (
    LinePattern(
        id="hf.log_dict",
        event_name=Context.PROGRESS,
        regex=r"\{'loss': ",
        anchor=Anchor.ANYWHERE,
        priority=25,
        samples=(
            "{'loss': 2.5042, 'grad_norm': 0.231, 'learning_rate': 1.5e-05, 'epoch': 0.12}",
            "{'loss': nan, 'grad_norm': nan, 'epoch': 0.12, 'global_step/max_steps': '12/2440', 'percentage': '0.5%'}",
            "  1%|1         | 12/2440 [00:07<09:10,  1.00s/it]{'loss': '2.5', 'epoch': '0.1'}",
        ),
        lookalikes=("{'eval_loss': 2.4, 'eval_runtime': 12.3, 'epoch': 1.0}", "{'lr': 1e-5, 'loss_scale': 1.0}"),
        source=_SOURCE,
        build=_log_dict,
    ),
    LinePattern(
        id="hf.eval_dict",
        event_name=Context.EVALUATION,
        regex=r"\{'eval_[a-z_]+': ",
        anchor=Anchor.ANYWHERE,
        priority=25,
        samples=("{'eval_loss': 2.4, 'eval_runtime': 12.3, 'eval_samples_per_second': 81.3, 'epoch': 1.0}",),
        lookalikes=("{'loss': 2.5042, 'grad_norm': 0.231, 'learning_rate': 1.5e-05, 'epoch': 0.12}",),
        source=_SOURCE,
        build=_eval_dict,
    ),
    LinePattern(
        id="slime.eval_dict",
        event_name=Context.EVALUATION,
        regex=r"eval (?P<step>\d{1,12}): \{'eval",
        samples=("eval 12: {'eval/aime': 0.33}",),
        lookalikes=("perf 12: {'perf/rollout_time': 33.1}",),
        priority=30,
        source="formats.md F8",
    ),
    LinePattern(
        id="hf.train_summary",
        event_name=Context.TRAINING_FINISHED,
        regex=r"\{'train_runtime': ",
        anchor=Anchor.ANYWHERE,
        priority=30,
        samples=("{'train_runtime': 3600.1, 'train_samples_per_second': 12.1, 'train_loss': 2.1, 'epoch': 3.0}",),
        lookalikes=("{'eval_runtime': 12.3}",),
        source=_SOURCE,
    ),
    LinePattern(
        id="hf.completed",
        event_name=Context.TRAINING_FINISHED,
        regex=r"Training completed\. Do not forget to share your model",
        anchor=Anchor.ANYWHERE,
        samples=("Training completed. Do not forget to share your model on huggingface.co/models =)",),
        lookalikes=("Do not forget to share your model on the hub",),
        source=_SOURCE,
    ),
    LinePattern(
        id="hf.save_started",
        event_name=Context.CHECKPOINT_SAVE_STARTED,
        regex=r"Saving model checkpoint to ([^ \n]+)",
        anchor=Anchor.ANYWHERE,
        samples=(
            "[INFO|trainer.py:4236] 2025-11-30 01:02:03,123 >> Saving model checkpoint to out/checkpoint-1200",
            "  0%|          | 225/250000 [04:14<501:01:04,  7.22s/it][INFO|trainer.py:3993] 2025-11-30 01:02:03,123 >> "
            "Saving model checkpoint to output/checkpoint-225",
        ),
        lookalikes=("[INFO|trainer.py:4236] 2025-11-30 01:02:03,123 >> Saving model checkpoints every 400 steps",),
        source=_SOURCE,
        build=_save_started,
    ),
    LinePattern(
        id="hf.tokenizer_saved",
        event_name=Context.CHECKPOINT_SAVED,
        regex=r"Special tokens file saved in ([^ \n]+)/special_tokens_map\.json",
        anchor=Anchor.ANYWHERE,
        samples=(
            "[INFO|tokenization_utils_base.py:2646] 2025-11-30 01:02:03,123 >> Special tokens file saved in "
            "output/checkpoint-225/special_tokens_map.json",
        ),
        lookalikes=(
            "[INFO|configuration_utils.py:423] 2025-11-30 01:02:03,123 >> Configuration saved in output/checkpoint-225/config.json",
        ),
        source="transformers Trainer._save: the tokenizer is written after the weights",
        build=_named,
    ),
    LinePattern(
        id="hf.load_started",
        event_name=Context.CHECKPOINT_LOAD_STARTED,
        regex=r"Loading model from ([^ \n]*checkpoint-[0-9]+[^ \n]*)",
        anchor=Anchor.ANYWHERE,
        samples=("[INFO|trainer.py:2800] 2025-11-30 01:02:03,123 >> Loading model from out/checkpoint-1200.",),
        lookalikes=("[INFO|modeling_utils.py:3000] 2025-11-30 01:02:03,123 >> Loading model from /models/base-8b",),
        source="transformers Trainer._load_from_checkpoint",
        build=_named,
    ),
    LinePattern(
        id="hf.resumed",
        event_name=Context.CHECKPOINT_LOADED,
        regex=r"[ \t]*Continuing training from global step ([0-9]{1,12})",
        anchor=Anchor.ANYWHERE,
        samples=("[INFO|trainer.py:2100] 2025-11-30 01:02:03,123 >>   Continuing training from global step 1200",),
        lookalikes=("  Continuing training from checkpoint, will skip to saved global_step",),
        source=_SOURCE,
        build=_resumed,
    ),
    LinePattern(
        id="hf.evaluation",
        event_name=Context.EVALUATION,
        regex=r"\*{5} Running (?:[Ee]valuation|[Pp]rediction)[^\n]*\*{5}",
        anchor=Anchor.ANYWHERE,
        samples=("[INFO|trainer.py:4400] 2025-11-30 01:02:03,123 >> ***** Running Evaluation *****",),
        lookalikes=("***** Running training *****",),
        source=_SOURCE,
    ),
    LinePattern(
        id="hf.training",
        event_name=Context.PHASE,
        regex=r"\*{5} Running training \*{5}",
        anchor=Anchor.ANYWHERE,
        samples=("06/03/2025 14:06:16 - INFO -   ***** Running training *****",),
        lookalikes=("***** Running Evaluation *****", "*****************************************"),
        source=_SOURCE,
        build=_training,
    ),
)
DIALECT = Dialect(name="hf_trainer", title="Hugging Face Trainer", patterns=PATTERNS, source=_SOURCE)
