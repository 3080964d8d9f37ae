"""Blocks that C++ prints: c10d errors with frames, `terminate called`, NCCL's error text (formats.md A3, A5, G3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Role
from correlator.parsers.base import Hit, Layer, Line, Record
from correlator.parsers.classify import FALLBACK, classify_exception
from correlator.parsers.records.traceback import stack_text
from correlator.parsers.records.window import Stitcher, Verdict, Window, carrier, collect, voice

if TYPE_CHECKING:
    from correlator.parsers.table import PatternTable

_TERMINATE = "terminate called"
_THROWN = re.compile(r"terminate called after throwing an instance of '(?P<type>[^'\n]{1,200})'")
_WHAT = re.compile(r"\s*what\(\):\s*(?P<what>[^\n]*)")
_GROUP_PREFIX = re.compile(r"(?:\[(?:PG |Rank )[^\]\n]{1,300}\] *)+")
_FRAME = re.compile(
    r"Exception raised from |frame #\d|<omitting python frames>|C\+\+ CapturedTraceback:|#\d{1,3} |<unknown function>"
)
_TEXT = re.compile(
    r"\s*what\(\):|(?:CUDA|HIP) kernel errors might|For debugging consider|Compile with `|Search for `"
    r"|Device-side assert"
    r"|nccl[A-Z]\w+: |Last error:|Unknown NCCL error|Original exception:|Stack trace of the failed collective"
)


class _Reader:
    """What follows such a head: frames, NCCL's and CUDA's further lines, and one word after `Last error:`."""

    def __init__(self, head: Line, window: Window) -> None:
        self._voice = voice(head)
        self._terminate = head.message.startswith(_TERMINATE)
        self._window = window
        self._named = False

    def __call__(self, line: Line) -> Verdict:
        text = line.message
        if voice(line) - self._voice or (voice(line) & {Layer.C10D}):
            return Verdict.STOP
        if not text.strip():
            return Verdict.HOLD
        named, self._named = self._named, text.startswith("Last error:")
        if text.startswith(_TERMINATE):
            return Verdict.STOP
        if _WHAT.match(text):
            return Verdict.TAKE if self._terminate else Verdict.STOP
        if named or _FRAME.match(text) or _TEXT.match(text):
            return Verdict.TAKE
        return Verdict.STOP


def _collect_block(head: Line, window: Window) -> Record:
    return collect("c10d_block", head, window, _Reader(head, window), key=carrier)


def _describe(hit: Hit, table: PatternTable) -> Iterable[Event]:
    """One event; `terminate called` takes its meaning from its `what()`."""
    record = hit.record
    if record is None or len(record.lines) == 1:
        return [hit.make()]
    facts: dict[str, object] = {"line_count": len(record.lines), "exception_stacktrace": stack_text(record)}
    thrown = _THROWN.match(record.lines[0].message)
    if thrown is None:
        return [hit.make(**facts)]
    what = next((match["what"] for line in record.lines if (match := _WHAT.match(line.message))), "")
    facts |= {"exception_type": thrown["type"], "exception_message": what or None}
    if what:
        facts["body"] = f"{record.lines[0].message}: {what}"
        meaning = classify_exception(
            thrown["type"].replace("::", "."), _GROUP_PREFIX.sub("", what, count=1), None, table
        )
        if meaning.signature != FALLBACK:
            collateral = meaning.role is not Role.INITIATING
            facts |= {
                "signature": meaning.signature,
                "event_name": CollateralKind.SECONDARY_ABORT if collateral else meaning.event_name,
                "role": Role.COLLATERAL if collateral else Role.INITIATING,
            }
    return [hit.make(**facts)]


C10D_BLOCK = Stitcher("c10d_block", _collect_block, _describe)
