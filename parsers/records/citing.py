"""Which line of a record the body of its event quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from correlator.core.event import Event
from correlator.parsers.base import Line, Record

_FRAME = re.compile(r"(?P<function>\S{1,200}) \((?P<path>[^()\n]{1,1000}):(?P<line>\d{1,9})\)$")
_LEAST = 8
"""Characters of a line that must be in a body put together from several lines."""


def cited(event: Event, record: Record | None) -> Event:
    """The event with the place of the line that its body quotes, where that is not the head of the record."""
    if record is None or len(record.lines) < 2 or event.body_line_number is not None:
        return event
    words = event.body.partition("\n")[0].strip()
    own = next((index for index, line in enumerate(record.lines) if line.byte_offset == event.byte_offset), None)
    if own is None or not words or words in record.lines[own].message:
        return event
    line = _quoted(words, record.lines[own + 1 :])
    if line is None:
        return event
    return replace(event, body_line_number=line.line_number, body_byte_offset=line.byte_offset)


def _quoted(words: str, lines: Iterable[Line]) -> Line | None:
    """The line that holds the words; else the one of a frame that they name; else the last whose words they end with."""
    lines = list(lines)
    if whole := next((line for line in lines if words in line.message), None):
        return whole
    if frame := _FRAME.match(words):
        places = (f"{frame['path']}:{frame['line']}", f'File "{frame["path"]}", line {frame["line"]}')
        return next((line for line in lines if any(place in line.message for place in places)), None)
    tails = [line for line in lines if len(text := _bare(line.message)) >= _LEAST and words.endswith(text)]
    return max(tails, key=lambda line: len(_bare(line.message)), default=None)


def _bare(message: str) -> str:
    return message.strip().removeprefix("what():").strip()
