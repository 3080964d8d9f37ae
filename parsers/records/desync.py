"""The desync report of c10d: tab-indented lines under a head (formats.md A6)."""

from __future__ import annotations

import re

from correlator.parsers.base import Line, Record
from correlator.parsers.records.window import Stitcher, Verdict, Window, carrier, collect, voice

_PART = re.compile(r"[ \t]+(?:- |#\d|\[[\d, ]+\]|\w)")


def _collect(head: Line, window: Window) -> Record:
    def take(line: Line) -> Verdict:
        if voice(line):
            return Verdict.STOP
        if not line.message.strip():
            return Verdict.HOLD
        return Verdict.TAKE if _PART.match(line.message) else Verdict.STOP

    return collect("desync_report", head, window, take, key=carrier)


STITCHER = Stitcher("desync_report", _collect)
