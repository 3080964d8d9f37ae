"""Checkpoints as hand-written training scripts print them: saving, saved, resumed from (formats.md F)."""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import checkpoint_name, named_step, with_attributes

_SOURCE = "formats.md F"
_RANK = r"(?:\[rank[ :]{0,2}(?P<rank>[0-9]{1,9})\]:?[ \t]*)?(?:\[?(?:checkpoint|ckpt)(?:er|ing)?\]?:? )?"
_NUMBERED = r"['\"]?([^ \n'\"]*(?:[Ss][Tt][Ee][Pp]|[Ii][Tt][Ee][Rr]|[Cc]heckpoint|[Cc]kpt|[Ee]poch|[Bb]atch)[A-Za-z]*[-_=]?[0-9][^ \n'\"]*)"
_NOUN = r"(?:the |a |full |sharded |distributed |model |training |async |final )*(?:checkpoint|ckpt|model|state)"


def _named(hit: Hit) -> Iterable[Event]:
    """The path is the last unnamed group that matched; a step printed beside it counts more than one in the name."""
    path = next(group for group in reversed(hit.match.groups()) if group)
    name = checkpoint_name(path)
    printed = hit.match.groupdict().get("step")
    yield with_attributes(hit.make(step=int(printed) if printed else named_step(path)), checkpoint=name)


PATTERNS = (
    LinePattern(
        id="checkpoint.saving_step",
        event_name=Context.CHECKPOINT_SAVE_STARTED,
        regex=_RANK + r"[Ss]aving (?:checkpoint (?:for|at) )?step (?P<step>[0-9]{1,12}) (?:to|in|at) ([^ \n]+)",
        priority=40,
        samples=("2025-11-30 01:02:03,123 [INFO] checkpoint: saving step 1200 to /ckpt/run7/step_1200",),
        lookalikes=("2025-11-30 01:02:03,123 [INFO] checkpoint: saving every 100 steps to /ckpt/run7",),
        source=_SOURCE,
        build=_named,
    ),
    LinePattern(
        id="checkpoint.saving",
        event_name=Context.CHECKPOINT_SAVE_STARTED,
        regex=_RANK
        + r"(?:[Ss]aving|[Ww]riting|[Ss]tart(?:ed|ing) (?:to save|saving)) "
        + _NOUN
        + r"(?: (?:to|at|in|as|into|for|state to))?:? "
        + _NUMBERED,
        priority=40,
        samples=(
            "2025-11-30 01:02:03,123 INFO [rank 0] saving checkpoint step_000010",
            "2025-11-30 01:02:03,123 [INFO] trainer: Saving model checkpoint to /ckpt/step_1200",
        ),
        lookalikes=(
            "2025-11-30 01:02:03,123 [INFO] trainer: saving checkpoint shards with 8 threads",
            "2025-11-30 01:02:03,123 INFO [rank 0] saved checkpoint step_000010 (8 shards) in 0.03 s",
        ),
        source=_SOURCE,
        build=_named,
    ),
    LinePattern(
        id="checkpoint.saved",
        event_name=Context.CHECKPOINT_SAVED,
        regex=_RANK
        + r"(?:(?:[Ss]uccessfully )?(?:[Ss]aved|[Ww]rote)|[Ff]inished (?:saving|writing)) "
        + _NOUN
        + r"(?: (?:to|at|in|as|into|for))?:? "
        + _NUMBERED,
        priority=38,
        samples=(
            "2025-11-30 01:02:03,123 INFO [rank 0] saved checkpoint step_000010 (8 shards) in 0.03 s",
            "2025-11-30 01:02:03,123 [INFO] trainer: Saved checkpoint to /ckpt/iter_000100",
        ),
        lookalikes=("2025-11-30 01:02:03,123 [INFO] trainer: saved config to /ckpt/run7/config.yaml",),
        source=_SOURCE,
        build=_named,
    ),
    LinePattern(
        id="checkpoint.saved_path",
        event_name=Context.CHECKPOINT_SAVED,
        regex=_RANK + r"[Ss]aved " + _NUMBERED + r" in [0-9.]+ ?(?:s|ms|sec|seconds)",
        priority=40,
        samples=("2025-11-30 01:02:03,123 [INFO] checkpoint: saved /ckpt/run7/step_1200 in 12.3s",),
        lookalikes=("2025-11-30 01:02:03,123 [INFO] metrics: saved 12 rows in 0.3s",),
        source=_SOURCE,
        build=_named,
    ),
    LinePattern(
        id="checkpoint.saved_passive",
        event_name=Context.CHECKPOINT_SAVED,
        regex=_RANK
        + r"(?:[Cc]heckpoint|[Cc]kpt|[Mm]odel(?: checkpoint)?)(?: "
        + _NUMBERED
        + r")? (?:was |has been |is )?(?:successfully )?(?:saved|written)(?: successfully)?(?: (?:to|at|in):? "
        + _NUMBERED
        + r")?",
        priority=36,
        samples=(
            "2025-11-30 01:02:03,123 [INFO] trainer: checkpoint saved to /ckpt/iter_000100",
            "2025-11-30 01:02:03,123 [INFO] trainer: Checkpoint step_1200 saved",
        ),
        lookalikes=("2025-11-30 01:02:03,123 [INFO] trainer: checkpoint interval is 100 steps",),
        source=_SOURCE,
        build=lambda hit: _named(hit) if any(hit.match.groups()[1:]) else (),
    ),
    LinePattern(
        id="checkpoint.loaded",
        event_name=Context.CHECKPOINT_LOADED,
        regex=_RANK
        + r"(?:(?:[Ss]uccessfully )?(?:[Ll]oaded|[Rr]estored)(?: "
        + _NOUN
        + r")?(?: (?:from|at))?"
        + r"|[Rr]esum(?:ed|ing)(?: training)?(?: run)? from(?: "
        + _NOUN
        + r")?):? "
        + _NUMBERED,
        priority=38,
        samples=(
            "2025-11-30 01:02:03,123 [INFO] trainer: [rank 3] resumed from /ckpt/run7/step_1200",
            "2025-11-30 01:02:03,123 [INFO] trainer: Loaded checkpoint from /ckpt/step_1200",
        ),
        lookalikes=(
            "2025-11-30 01:02:03,123 [ERROR] trainer: previous run ended with an error; resuming fresh",
            "2025-11-30 01:02:03,123 [INFO] trainer: Loaded tokenizer from /models/base-8b",
        ),
        source=_SOURCE,
        build=_named,
    ),
    LinePattern(
        id="checkpoint.loading",
        event_name=Context.CHECKPOINT_LOAD_STARTED,
        regex=_RANK + r"(?:[Ll]oading|[Rr]estoring)(?: " + _NOUN + r")? from:? " + _NUMBERED,
        priority=38,
        samples=("2025-11-30 01:02:03,123 [INFO] trainer: Loading checkpoint from /ckpt/step_1200",),
        lookalikes=("Loading checkpoint shards: 100%|##########| 30/30 [00:18<00:00,  1.47it/s]",),
        source=_SOURCE,
        build=_named,
    ),
)
DIALECT = Dialect(name="checkpoints", title="Checkpoints of training scripts", patterns=PATTERNS, source=_SOURCE)
