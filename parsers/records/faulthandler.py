"""faulthandler's dump of all threads after `Fatal Python error` (formats.md G2)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from correlator.core.event import Event
from correlator.parsers.base import Hit, Line, Record
from correlator.parsers.exceptions import ExceptionBlock, parse_frame
from correlator.parsers.records.traceback import stack_text
from correlator.parsers.records.window import Stitcher, Verdict, Window, collect, voice

if TYPE_CHECKING:
    from correlator.parsers.table import PatternTable

_THREAD = re.compile(
    r"(?P<current>Current )?[Tt]hread(?:'s C stack trace)? ?(?P<id>0x[0-9a-f]+)?[^\n]{0,80}\(most recent call first\):"
)
_LAST = re.compile(r"Extension modules: ")
_BODY = re.compile(
    r'\s+File "|\s+<no Python frame>|\s+Binary file |\s+\.\.\.|Python runtime state: |\s+<truncated|\s+[/<]'
)


class _Reader:
    def __init__(self, head: Line) -> None:
        self._voice = voice(head)

    def __call__(self, line: Line) -> Verdict:
        text = line.message
        if voice(line) - self._voice:
            return Verdict.SKIP
        if not text.strip():
            return Verdict.HOLD
        if _LAST.match(text):
            return Verdict.LAST
        return Verdict.TAKE if _THREAD.match(text) or _BODY.match(text) else Verdict.STOP


def _collect(head: Line, window: Window) -> Record:
    return collect("faulthandler", head, window, _Reader(head))


def _describe(hit: Hit, _table: PatternTable) -> Iterable[Event]:
    record = hit.record
    if record is None:
        return [hit.make()]
    frame = _current_thread(record.messages).user_frame
    return [
        hit.make(
            line_count=len(record.lines),
            exception_stacktrace=stack_text(record) if len(record.lines) > 1 else None,
            code_file_path=frame.path if frame else None,
            code_line_number=frame.line if frame else None,
        )
    ]


def _current_thread(messages: Iterable[str]) -> ExceptionBlock:
    """The frames of the thread that crashed, turned round: faulthandler prints the innermost first."""
    block = ExceptionBlock()
    inside = False
    for message in messages:
        if match := _THREAD.match(message):
            inside = match["current"] is not None
        elif inside and (frame := parse_frame(message)):
            block.frames.insert(0, frame)
    return block


STITCHER = Stitcher("faulthandler", _collect, _describe)
