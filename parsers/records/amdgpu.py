"""The lines in which amdgpu tells of one page fault (formats.md H3)."""

from __future__ import annotations

import re

from correlator.parsers.base import Line, Record
from correlator.parsers.records.window import Stitcher, Verdict, Window, carrier, collect

_MORE = re.compile(
    r"amdgpu [0-9a-f:.]{10,14}: amdgpu:(?:[ \t]+(?:Process |for process |in process |in page starting at address |Faulty UTCL2"
    r"|MORE_FAULTS|WALKER_ERROR|PERMISSION_FAULTS|MAPPING_ERROR|RW:|cookie)| \w+_L2_PROTECTION_FAULT_STATUS)"
)


def _collect(head: Line, window: Window) -> Record:
    def take(line: Line) -> Verdict:
        return Verdict.TAKE if _MORE.match(line.message) else Verdict.STOP

    return collect("amdgpu_fault", head, window, take, key=carrier)


STITCHER = Stitcher("amdgpu_fault", _collect)
