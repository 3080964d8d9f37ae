"""The loop over all prefix rules."""

from __future__ import annotations

import re
from functools import lru_cache

from correlator.parsers.base import FileContext, Layer, Prefix
from correlator.parsers.peel import kernel, launchers, loggers, nccl, structured, torch, transport
from correlator.parsers.peel.state import Peeling, Rule
from correlator.parsers.timestamps import NS_PER_SECOND

_MAX_DEPTH = 16
_REPEATED = re.compile(
    r" ?\[repeated (\d{1,9})x across (?:cluster|all nodes|node)\]|(?<=.) \(Ray deduplicates logs by default\.[^\n]*$"
)
_CLOCK_SET = re.compile(r"setting system clock to [^\n]{10,40} \((\d{10})\)")

RULES: tuple[Rule, ...] = (
    *transport.RULES,
    *kernel.RULES,
    *launchers.RULES,
    *torch.RULES,
    *nccl.RULES,
    *structured.RULES,
    *loggers.RULES,
)


@lru_cache(maxsize=4096)
def _candidates(start: str) -> tuple[Rule, ...]:
    """The rules for a text by its first two characters."""
    return tuple(rule for rule in RULES if rule.may_begin(start))


def peel(text: str, context: FileContext) -> tuple[Prefix, str]:
    """The facts of all prefixes of a clean line, and the message that is left. Never raises.

    Args:
        text: one segment, control sequences removed.
        context: the file; its boot anchor and last known time are updated as lines teach them.
    """
    peeling = Peeling(context)
    message = text
    while len(peeling.layers) < _MAX_DEPTH and message:
        for rule in _candidates(message[:2]):
            match = rule.regex.match(message)
            if match and (rest := rule.apply(peeling, match)) is not None:
                message = rest
                break
        else:
            break
    if Layer.RAY in peeling.layers and "repeated" in message:
        message = _strip_repeated(peeling, message)
    if not peeling.stamps and context.layout is not None:
        message = _apply_layout(peeling, message)
    prefix = peeling.freeze()
    _learn(prefix, message, context)
    return prefix, message


def _strip_repeated(peeling: Peeling, message: str) -> str:
    def keep(match: re.Match[str]) -> str:
        if match[1]:
            peeling.repeated = int(match[1])
        return ""

    return _REPEATED.sub(keep, message).rstrip()


def _apply_layout(peeling: Peeling, message: str) -> str:
    layout = peeling.context.layout
    found = layout.match(message, peeling.context) if layout is not None else None
    if found is None:
        return message
    stamp, rest = found
    peeling.layers.append(Layer.LOGGING)
    peeling.add_stamp(Layer.LOGGING, stamp)
    return rest


def _learn(prefix: Prefix, message: str, context: FileContext) -> None:
    """Remember the file's last time, and where kernel time 0 lies on the wall clock (formats.md H4)."""
    stamp = prefix.stamp
    if stamp is None:
        return
    if stamp.boot_seconds is not None and context.boot_epoch_ns is None:
        boot_ns = round(stamp.boot_seconds * NS_PER_SECOND)
        if stamp.ns is not None:
            context.boot_epoch_ns = stamp.ns - boot_ns
        elif match := _CLOCK_SET.search(message):
            context.boot_epoch_ns = int(match[1]) * NS_PER_SECOND - boot_ns
    if stamp.ns is not None:
        context.last_ns = stamp.ns
