"""Small readers that several dialects share: host lists, id ranges, checkpoint names, losses and printed times."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from correlator.core.event import Event

_EXPANSION_LIMIT = 65_536
"""Log text is untrusted: `node[0-999999999]` must not fill the memory. No cluster comes near this."""

SIGNAL_NUMBERS: dict[str, int] = {
    "Hangup": 1,
    "Interrupt": 2,
    "Quit": 3,
    "Illegal instruction": 4,
    "Trace/breakpoint trap": 5,
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Killed": 9,
    "User defined signal 1": 10,
    "Segmentation fault": 11,
    "User defined signal 2": 12,
    "Broken pipe": 13,
    "Alarm clock": 14,
    "Terminated": 15,
    "CPU time limit exceeded": 24,
    "File size limit exceeded": 25,
}
"""strsignal(3) texts of Linux."""

_NUMBERED_NAME = re.compile(r"(?:step|iter(?:ation)?|checkpoint|ckpt|(?<![a-z])ba)[-_=]?(\d{1,12})", re.IGNORECASE)
_LOSS = re.compile(
    r"(?:^|[\s,|{'\"<(\[-])(?:lm |train/|training |avr_|total_|reduced_train_|train_|g_)?loss(?:/train/total)?"
    r"['\"]?\s*[:= ]\s*['\"]?([-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|nan|inf))\b",
    re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def with_attributes(event: Event, **facts: object) -> Event:
    """The event with further attributes; a fact that is None is left out, a bool is written `true` or `false`."""
    added = tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in facts.items()
        if value is not None
    )
    return replace(event, attributes=event.attributes + added)


def json_list(values: Iterable[int | str]) -> str:
    """A list as the one-line JSON text that attributes hold."""
    return json.dumps(list(values), separators=(",", ":"))


def expand_ids(text: str) -> tuple[int, ...]:
    """`8-10,12` -> (8, 9, 10, 12). Parts that are no range are passed over; the result is capped."""
    ids: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            continue
        start = int(first[:9])
        stop = int(last[:9]) if last else start
        ids.extend(range(start, min(stop, start + _EXPANSION_LIMIT - len(ids) - 1) + 1))
        if len(ids) >= _EXPANSION_LIMIT:
            break
    return tuple(ids)


def expand_hosts(text: str) -> tuple[str, ...]:
    """A Slurm host list, `node[03-04,07],gpu1` -> (node03, node04, node07, gpu1); several brackets multiply."""
    hosts: list[str] = []
    for part in _split_outside_brackets(text):
        hosts.extend(_expand_brackets(part)[: _EXPANSION_LIMIT - len(hosts)])
        if len(hosts) >= _EXPANSION_LIMIT:
            break
    return tuple(hosts)


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [part for part in [*parts, current] if part]


def _expand_brackets(text: str) -> list[str]:
    names = [""]
    for index, piece in enumerate(re.split(r"\[([0-9,\-]*)\]", text)):
        endings = [piece] if index % 2 == 0 else list(islice(_padded_numbers(piece), _EXPANSION_LIMIT))
        names = list(islice((name + ending for name in names for ending in endings), _EXPANSION_LIMIT))
    return names


def _padded_numbers(text: str) -> Iterable[str]:
    for part in text.split(","):
        width = len(part.partition("-")[0])
        yield from (f"{number:0{width}d}" for number in expand_ids(part))


def wall_clock_ns(text: str) -> int | None:
    """A printed ISO time as ns since the epoch, read as UTC where it has no zone; None if it is no such time."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    elapsed = moment - _EPOCH
    return ((elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds) * 1_000


def checkpoint_name(path: str) -> str:
    """The name of the checkpoint that a printed path belongs to: the innermost component that carries a step.

    Shard files inside it have no name of their own, and DeepSpeed's `global_stepN` inside Hugging Face's
    `checkpoint-N` is a part of the latter. Without a step anywhere it is the last component.
    """
    components = [part for part in path.strip("'\"`,;() ").rstrip("./").split("/") if part not in ("", ".", "..")]
    for index in range(len(components) - 1, -1, -1):
        if named_step(components[index]) is None:
            continue
        outer = components[index - 1] if index else ""
        if components[index].startswith("global_step") and re.fullmatch(r"checkpoint-\d+", outer):
            return outer
        return components[index]
    return components[-1] if components else path.strip()


def named_step(name: str) -> int | None:
    """The step in the name of a checkpoint: `step_000010`, `iter_0001200`, `epoch=3-step=400.ckpt`, `ep1-ba20`."""
    found = _NUMBERED_NAME.findall(name)
    return int(found[-1]) if found else None


def printed_loss(text: str) -> float | None:
    """The training loss printed in a line (`loss: 2.5`, `lm loss: NAN`, `'loss': '0.1'`), or None."""
    match = _LOSS.search(text)
    return float(match[1]) if match else None
