"""One GPU's block of `nvidia-smi -q`: indented lines up to the next GPU (formats.md H6)."""

from __future__ import annotations

from correlator.parsers.base import Line, Record
from correlator.parsers.records.window import Stitcher, Verdict, Window, carrier, collect


def _collect(head: Line, window: Window) -> Record:
    """What a signature knows of the block stays an event of its own."""

    def take(line: Line) -> Verdict:
        if not line.message.strip():
            return Verdict.HOLD
        if line.message[:1] not in " \t":
            return Verdict.STOP
        return Verdict.TAKE if window.begins(line) is None else Verdict.SKIP

    return collect("gpu_query", head, window, take, key=carrier)


STITCHER = Stitcher("gpu_query", _collect)
