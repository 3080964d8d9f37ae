"""Thousands of device-side assertion lines, one for each GPU thread, as one record (formats.md A10)."""

from __future__ import annotations

import re

from correlator.parsers.base import Line, Record
from correlator.parsers.records.window import Stitcher, Verdict, Window, collect

_ASSERT = re.compile(r"[^\n]{1,500}: block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion `")


def _collect(head: Line, window: Window) -> Record:
    def take(line: Line) -> Verdict:
        return Verdict.TAKE if _ASSERT.match(line.message) else Verdict.STOP

    return collect("device_assert_burst", head, window, take)


STITCHER = Stitcher("device_assert_burst", _collect)
