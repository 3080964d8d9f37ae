"""What a Python exception means: its fault code or collateral kind, by the catalogue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from correlator.core.vocabulary import CollateralKind, FaultCode, Role
from correlator.parsers.base import Anchor
from correlator.parsers.exceptions import ExceptionBlock, Relation, decisive_order
from correlator.parsers.table import PatternTable, pattern_table

FALLBACK = "python.exception"
INTERRUPTED = "python.interrupted"
_MAX_TEXT = 16_384
_INTERRUPTS = frozenset({"KeyboardInterrupt", "SystemExit", "SignalException"})
# Raised to steer the program, not because something failed: what was raised while handling one is the failure.
_CONTROL_FLOW = frozenset(
    {"Empty", "Full", "StopIteration", "StopAsyncIteration", "GeneratorExit", "TimeoutExpired", "BlockingIOError"}
)


@dataclass(frozen=True, slots=True)
class Classification:
    """The event that an exception is."""

    event_name: str
    role: Role
    signature: str
    match: re.Match[str] | None = field(default=None, compare=False, repr=False)
    """Where a signature recognised it; its named groups are facts of the event."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The block of a chain that began it, and what it means."""

    block: ExceptionBlock
    classification: Classification


def classify_exception(
    exception_type: str, message: str, stack: str | None = None, table: PatternTable | None = None
) -> Classification:
    """The meaning of `exception_type: message`. Never raises; what no signature knows is a Python exception.

    Args:
        exception_type: class as printed, dotted or not (tried both ways).
        message: all lines of the message.
        stack: the frames as text, for signatures that ask where it was raised.
        table: None = the built-in dialects and catalogue.
    """
    table = table or pattern_table()
    message = message[:_MAX_TEXT]
    short = exception_type.rpartition(".")[2] if "(" not in exception_type else exception_type
    texts = dict.fromkeys((f"{exception_type}: {message}", f"{short}: {message}"))
    for text in texts:
        if (found := _search(text, stack, table)) is not None:
            return found
    if message and (found := _search(message, stack, table)) is not None:
        return found
    if short in _INTERRUPTS:
        return Classification(CollateralKind.TERMINATED_BY_LAUNCHER, Role.COLLATERAL, INTERRUPTED)
    return Classification(FaultCode.PYTHON_EXCEPTION, Role.INITIATING, FALLBACK)


def _search(text: str, stack: str | None, table: PatternTable) -> Classification | None:
    for index in table.exception_ids:
        pattern, regex, frames = table.patterns[index], table.compiled[index], table.stacks[index]
        if frames is not None and not (stack and frames.search(stack)):
            continue
        match = regex.match(text) if pattern.anchor is Anchor.START else regex.search(text)
        if match is not None:
            return Classification(pattern.event_name, pattern.role, pattern.id, match)
    return None


def decide(blocks: Sequence[ExceptionBlock], table: PatternTable | None = None) -> Decision | None:
    """The exception of a chain that started it (formats.md G1), or None where no block has a final line.

    The first block, except that an exception which only steers the program (an empty queue) gives way to what followed,
    and one that no signature knows gives way to a later one that names a fault.
    """
    found = [
        Decision(block, classify_exception(block.type, block.message, block.stack, table))
        for block in decisive_order(blocks)
    ]
    telling = [decision for decision in found if not _steers(decision)] or found
    if not telling:
        return None
    first = telling[0]
    if first.classification.signature != FALLBACK:
        return first
    faults = (
        decision
        for decision in telling[1:]
        if decision.classification.role is Role.INITIATING and decision.classification.signature != FALLBACK
    )
    return next(faults, first)


def _steers(decision: Decision) -> bool:
    name = decision.block.type.rpartition(".")[2]
    return name in _CONTROL_FLOW and decision.block.relation is Relation.CONTEXT
