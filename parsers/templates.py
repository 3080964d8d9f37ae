"""The mould of a message that no signature knows: its words, with everything that differs from rank to rank masked.

Two lines of one mould are the same error; who is the only one to print it, and first, is a suspect (peers.md step 5).
"""

from __future__ import annotations

import re
from dataclasses import replace

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FaultCode
from correlator.parsers.classify import FALLBACK

MOST_CHARACTERS = 160
"""Enough to tell two messages apart; what follows is mostly the data that they are about."""
_SCANNED = 400
_VARIES = re.compile(
    r"(?P<text>\x27[^\x27\n]{0,120}\x27|\"[^\"\n]{0,120}\"|`[^`\n]{0,120}`)"
    r"|(?P<place>[a-z][a-z0-9+]{1,9}://[^ \t\n,;]+|(?:[\w.~-]*/)+[\w.%+=:@~-]*)"
    r"|(?P<n>0x[0-9a-fA-F]+|(?<![\w.])[+-]?\d[\d.,:/eExX_-]*(?:%|[a-zA-Z]{1,3}\b)?|\b[0-9a-fA-F]{8,}\b)"
    r"|(?P<name>\b(?=\w*\d)\w+(?:[.-]\w+)*)"
)
_REPEATED = re.compile(r"(<(?:n|name)>)(?:[ ,;x]*<(?:n|name)>)+")
_OF_UNKNOWN = frozenset({Context.MESSAGE, FaultCode.PYTHON_EXCEPTION, FaultCode.NATIVE_ABORT})


def template_of(message: str) -> str:
    """The first line of a message with numbers, names that hold a number, places and quoted words masked."""
    line = message.lstrip().partition("\n")[0][:_SCANNED]
    masked = _REPEATED.sub(r"\1", _VARIES.sub(lambda match: f"<{match.lastgroup}>", line))
    return " ".join(masked.split())[:MOST_CHARACTERS]


def with_template(event: Event) -> Event:
    """The event with its mould, where nothing knows it better than by its words; any other as it is."""
    if event.event_name not in _OF_UNKNOWN or event.template is not None:
        return event
    said = event.body
    if event.signature == FALLBACK and event.exception_type is not None:
        said = f"{event.exception_type}: {event.exception_message or ''}"
    return replace(event, template=template_of(said) or None)
