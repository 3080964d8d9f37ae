"""DeepSpeed's engine: steps and checkpoints as its library logger prints them (formats.md F3).

`[Rank N]` in these lines is the global rank.
"""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import checkpoint_name, named_step, with_attributes

_SOURCE = "formats.md F3"
_RANK = r"(?:\[Rank (?P<rank>[0-9]{1,9})\] )?"
_TORCH = r"(?:\[Torch\] )?"


def _checkpoint(hit: Hit) -> Iterable[Event]:
    name = checkpoint_name(hit.match[2])
    step = named_step(hit.match[2])
    if step is not None:
        event = hit.make(step=step)
        yield with_attributes(event, checkpoint=name, tag=_tag(hit.match[2]))


def _tag(path: str) -> str | None:
    return next((part for part in path.split("/") if part.startswith("global_step")), None)


def _shard_saved(hit: Hit) -> Iterable[Event]:
    """One file of a checkpoint is written: the checkpoint is not complete by that, so it only shows a save under way."""
    for event in _checkpoint(hit):
        yield with_attributes(event, shard=hit.match[2].rstrip(".").rpartition("/")[2])


PATTERNS = (
    LinePattern(
        id="deepspeed.step",
        event_name=Context.PROGRESS,
        regex=_RANK + r"step=(?P<step>[0-9]{1,12})",
        bulk=True,
        priority=30,
        samples=(
            "[2025-11-30 01:02:03,123] [INFO] [logging.py:128:log_dist] [Rank 0] step=1200, skipped=3, lr=[1e-05], mom=[(0.9, 0.95)]",
        ),
        lookalikes=(
            "[2025-11-30 01:02:03,123] [INFO] [logging.py:128:log_dist] [Rank 0] DeepSpeed Final Optimizer = adam",
        ),
        source=_SOURCE,
    ),
    LinePattern(
        id="deepspeed.timer",
        event_name=Context.PROGRESS,
        regex=_RANK + r"epoch=[0-9]+/micro_step=[0-9]+/global_step=(?P<step>[0-9]{1,12})",
        bulk=True,
        priority=30,
        samples=(
            "[2025-11-30 01:02:03,123] [INFO] [timer.py:260:stop] epoch=0/micro_step=1200/global_step=1200, "
            "RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.1",
        ),
        lookalikes=(
            "[2025-11-30 01:02:03,123] [INFO] [logging.py:128:log_dist] [Rank 0] time (ms) | fwd: 10.1 | bwd: 20.1",
        ),
        source=_SOURCE,
    ),
    LinePattern(
        id="deepspeed.save_started",
        event_name=Context.CHECKPOINT_SAVE_STARTED,
        regex=_RANK + r"(?:Saving model checkpoint: |\[Torch\] Checkpoint )([^ \n]*global_step[^ \n]+)",
        samples=(
            "[2025-11-30 01:02:03,123] [INFO] [logging.py:96:log_dist] [Rank 0] Saving model checkpoint: "
            "/ckpt/global_step1200/mp_rank_00_model_states.pt",
            "[2025-11-30 01:02:03,123] [INFO] [logging.py:96:log_dist] [Rank 0] [Torch] Checkpoint global_step1200 is about to be saved!",
        ),
        lookalikes=("[2025-11-30 01:02:03,123] [INFO] [engine.py:3000:save] Saving model checkpoint: disabled",),
        source=_SOURCE,
        build=_checkpoint,
    ),
    LinePattern(
        id="deepspeed.shard",
        event_name=Context.CHECKPOINT_SAVE_STARTED,
        regex=_RANK + r"\[Torch\] Sav(?:ing|ed) ([^ \n]*global_step[^ \n]+)",
        priority=45,
        samples=(
            "[2025-11-30 01:02:03,123] [INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saving "
            "./output/checkpoint-1200/global_step1200/zero_pp_rank_0_mp_rank_00_model_states.pt...",
        ),
        lookalikes=("[2025-11-30 01:02:03,123] [INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saving tokenizer",),
        source=_SOURCE,
        build=_shard_saved,
    ),
    LinePattern(
        id="deepspeed.saved",
        event_name=Context.CHECKPOINT_SAVED,
        regex=_RANK + _TORCH + r"Checkpoint ([^ \n]*global_step[0-9]+) is ready now",
        priority=55,
        samples=(
            "[2025-11-30 01:02:03,123] [INFO] [logging.py:96:log_dist] [Rank 0] [Torch] Checkpoint global_step1200 is ready now!",
        ),
        lookalikes=(
            "[2025-11-30 01:02:03,123] [INFO] [logging.py:96:log_dist] [Rank 0] [Torch] Checkpoint global_step1200 is about to be saved!",
        ),
        source=_SOURCE,
        build=_checkpoint,
    ),
    LinePattern(
        id="deepspeed.load_started",
        event_name=Context.CHECKPOINT_LOAD_STARTED,
        regex=_RANK + _TORCH + r"Loading checkpoint from ([^ \n]*global_step[^ \n]+)",
        samples=(
            "[2025-11-30 01:02:03,123] [INFO] [torch_checkpoint_engine.py:27:load] [Torch] Loading checkpoint from "
            "/ckpt/global_step1200/mp_rank_00_model_states.pt...",
        ),
        lookalikes=("[2025-11-30 01:02:03,123] [INFO] [engine.py:2700:load] Loading checkpoint from /models/base",),
        source=_SOURCE,
        build=_checkpoint,
    ),
    LinePattern(
        id="deepspeed.loaded",
        event_name=Context.CHECKPOINT_LOADED,
        regex=_RANK + _TORCH + r"Loaded checkpoint from ([^ \n]*global_step[^ \n]+)",
        samples=(
            "[2025-11-30 01:02:03,123] [INFO] [torch_checkpoint_engine.py:29:load] [Torch] Loaded checkpoint from "
            "/ckpt/global_step1200/mp_rank_00_model_states.pt.",
        ),
        lookalikes=("[2025-11-30 01:02:03,123] [INFO] [engine.py:2700:load] Loaded checkpoint metadata",),
        source=_SOURCE,
        build=_checkpoint,
    ),
)
DIALECT = Dialect(name="deepspeed_engine", title="DeepSpeed engine", patterns=PATTERNS, source=_SOURCE)
