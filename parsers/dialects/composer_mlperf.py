"""MosaicML Composer's console blocks and MLPerf's machine-readable lines (formats.md F6, F7)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from correlator.core.event import Event
from correlator.core.vocabulary import Context, Phase, TimeSource
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import checkpoint_name, named_step, with_attributes

_SOURCE = "formats.md F6"
_MLPERF_PHASES: dict[str, Phase] = {
    "init_start": Phase.INIT,
    "run_start": Phase.STEP,
    "block_start": Phase.STEP,
    "epoch_start": Phase.STEP,
    "eval_start": Phase.EVALUATION,
    "eval_stop": Phase.STEP,
}


def _loaded(hit: Hit) -> Iterable[Event]:
    name = checkpoint_name(hit.match[1])
    yield with_attributes(hit.make(step=named_step(name)), checkpoint=name)


def _evaluation(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), batch=hit.match[1])


def _mlperf(hit: Hit) -> Iterable[Event]:
    """`time_ms` is epoch time: it holds even where nothing else on the line says when."""
    try:
        fields = json.loads(hit.match[1])
    except (ValueError, RecursionError):
        return
    if not isinstance(fields, dict):
        return
    key, time_ms, metadata = str(fields.get("key")), fields.get("time_ms"), fields.get("metadata")
    status = metadata.get("status") if isinstance(metadata, dict) else None
    if key == "run_stop":
        event = with_attributes(hit.make(event_name=Context.TRAINING_FINISHED), status=status)
    elif key == "eval_accuracy":
        event = with_attributes(hit.make(event_name=Context.EVALUATION), value=fields.get("value"))
    elif key in _MLPERF_PHASES:
        event = with_attributes(hit.make(), phase=_MLPERF_PHASES[key].value)
    else:
        return
    if isinstance(time_ms, int) and 0 < time_ms < 2**43:
        event = replace(
            event,
            timestamp_ns=time_ms * 1_000_000,
            time_source=TimeSource.EXPLICIT,
            time_granularity_ms=1.0,
            time_zone="Z",
            observed_timestamp_ns=event.timestamp_ns,
        )
    yield event


PATTERNS = (
    LinePattern(
        id="composer.batch",
        event_name=Context.PROGRESS,
        regex=r"\[(?:epoch=[0-9]+(?:/[0-9]+)?\]\[)?batch=(?P<step>[0-9]{1,12})",
        bulk=True,
        priority=30,
        samples=("[epoch=1][batch=1200/50000]:", "[batch=1200/50000]:"),
        lookalikes=("[Eval batch=1/32] Eval on eval data:",),
        source=_SOURCE,
    ),
    LinePattern(
        id="composer.eval",
        event_name=Context.EVALUATION,
        regex=r"\[Eval batch=([0-9]+/[0-9]+)\]",
        samples=("[Eval batch=1/32] Eval on eval data:",),
        lookalikes=("[epoch=1][batch=1200/50000]:",),
        source=_SOURCE,
        build=_evaluation,
    ),
    LinePattern(
        id="composer.loaded",
        event_name=Context.CHECKPOINT_LOADED,
        regex=r"Trainer checkpoint loaded from ([^ \n]+)",
        anchor=Anchor.ANYWHERE,
        samples=(
            "2025-11-30 01:02:03,123: rank3[4245][MainThread]: INFO: composer.utils.checkpoint: "
            "Trainer checkpoint loaded from /ckpt/ep0-ba1200/",
        ),
        lookalikes=("2025-11-30 01:02:03,123: rank3[4245][MainThread]: INFO: composer.trainer: No checkpoint to load",),
        source=_SOURCE,
        build=_loaded,
    ),
    LinePattern(
        id="composer.trainer_saved",
        event_name=Context.CHECKPOINT_SAVED,
        regex=r"Checkpoint locally saved to ([^ \n]+)",
        anchor=Anchor.ANYWHERE,
        samples=(
            "2025-11-30 01:02:03,123: rank0[4242][MainThread]: DEBUG: composer.callbacks.checkpoint_saver: "
            "Checkpoint locally saved to /ckpt/ep0-ba1200/",
        ),
        lookalikes=("Checkpoint will be locally saved every 100ba",),
        source="composer/callbacks/checkpoint_saver.py",
        build=_loaded,
    ),
    LinePattern(
        id="mlperf.line",
        event_name=Context.PHASE,
        regex=r":::MLLOG[ \t]+(\{[^\n]*\})",
        anchor=Anchor.ANYWHERE,
        samples=(
            ':::MLLOG {"namespace": "", "time_ms": 1764464523123, "event_type": "POINT_IN_TIME", "key": "eval_accuracy", '
            '"value": 2.40, "metadata": {"file": "train.py", "lineno": 88, "samples_count": 12288}}',
            ':::MLLOG {"time_ms": 1764464523123, "key": "run_stop", "metadata": {"status": "aborted"}}',
        ),
        lookalikes=("MLLOG output is written to /results/mllog.txt",),
        source="formats.md F7",
        build=_mlperf,
    ),
)
DIALECT = Dialect(name="composer_mlperf", title="Composer, MLPerf", patterns=PATTERNS, source=_SOURCE)
