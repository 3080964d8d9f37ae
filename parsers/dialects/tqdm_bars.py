"""Progress bars of tqdm: `Epoch 3:  45%|####5     | 450/1000 [07:30<09:10,  1.00s/it, loss=2.5]` (formats.md F5, F2).

Only a bar without a description, or with one that speaks of training, counts steps of the training; bars of downloads,
checkpoint shards, tokenisation and evaluation do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import printed_loss, with_attributes

_SOURCE = "formats.md F5"
_REST = re.compile(r"/(\d{1,12}) \[")
_EPOCH = re.compile(r"[Ee]poch:? *\[?(\d{1,7})(/\d+)?")
_GLOBAL_STEP = re.compile(r"global_step=(\d{1,12})")
_OTHER_WORK = re.compile(r"eval|valid|test|load|download|tokeni[sz]|map|filter|predict|sanity|sav", re.IGNORECASE)


def _bar(hit: Hit) -> Iterable[Event]:
    message = hit.line.message
    rest = _REST.match(message, hit.match.end())
    description = message[: hit.match.start("step")].partition("%|")[0]
    if rest is None or _OTHER_WORK.search(description):
        return
    step, epoch = _global_step(int(hit.match["step"]), int(rest[1]), description, message[rest.end() :])
    event = hit.make(step=step, loss=printed_loss(message[rest.end() :]))
    yield with_attributes(event, total=rest[1], epoch=epoch)


def _global_step(count: int, total: int, description: str, tail: str) -> tuple[int, int | None]:
    """The step over all epochs: a bar that is named after an epoch starts again at 0 in each.

    Lightning counts epochs from 0; who prints `Epoch 1/3` counts from 1.
    """
    epoch = _EPOCH.search(description)
    done = 0
    if epoch:
        done = int(epoch[1]) - (1 if epoch[2] else 0)
    if printed := _GLOBAL_STEP.search(tail):
        return int(printed[1]), int(epoch[1]) if epoch else None
    return count + max(done, 0) * total, int(epoch[1]) if epoch else None


PATTERNS = (
    LinePattern(
        id="tqdm.training_bar",
        event_name=Context.PROGRESS,
        regex=(
            r"[ \t]*(?:(?:[Ee]poch|EPOCH|[Tt]rain|TRAIN|[Ss]teps?|[Ii]ter|[Ff]ine-?tun|[Pp]re-?train|[Gg]lobal|[Bb]atch|[Oo]ptimi)"
            r"[^%|\n]*: *)?[0-9]{1,3}%\|[^|\n]*\| *(?P<step>[0-9]{1,12})"
        ),
        bulk=True,
        priority=22,
        samples=(
            "Epoch 3:  45%|####5     | 450/1000 [07:30<09:10,  1.00s/it, v_num=0, loss=2.5]",
            "  0%|          | 5/100000 [00:48<266:39:22,  9.60s/it]",
            "Train:   0%|          | 1/2440 [00:49<33:21:40, 49.24s/it]",
            "steps:   1%|1         | 97/7800 [02:07<2:43:22,  1.31s/it, avr_loss=0.125]",
            "Epoch 0: :   6%|6         | 120/2000 [10:00<2:36:40, v_num=0, reduced_train_loss=2.590, global_step=119.0]",
        ),
        lookalikes=(
            "Loading checkpoint shards: 100%|##########| 30/30 [00:18<00:00,  1.47it/s]",
            "Downloading data:  45%|####5     | 450/1000 [07:30<09:10,  1.00MB/s]",
            "Map (num_proc=8):  10%|#         | 100/1000 [00:30<04:30, 3.3 examples/s]",
            "Validation DataLoader 0: 100%|##########| 13/13 [00:02<00:00,  6.1it/s]",
        ),
        source=_SOURCE,
        build=_bar,
    ),
)
DIALECT = Dialect(name="tqdm_bars", title="tqdm progress bars", patterns=PATTERNS, source=_SOURCE)
