"""Hardware or software: what the kernel log of a node says about the moment at which a process failed.

A CUDA error is ambiguous until the kernel log speaks: an Xid of hardware class on the same GPU makes it hardware, a log
that covers the moment and holds none makes it software, and without such a log only somebody who fetches it can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from correlator.advice.codes import read_xid
from correlator.advice.lines import Line
from correlator.core.files import FileReport
from correlator.core.vocabulary import FAULT_CLASS, FaultClass, FaultCode, FileKind

_NEAR_NS = 15 * 60 * 10**9
"""An Xid this long before a process failed can still be its cause: hangs end in timeouts of ten minutes and more."""
_AFTER_NS = 60 * 10**9
_HARDWARE = frozenset(str(code) for code, kind in FAULT_CLASS.items() if kind is FaultClass.HARDWARE)


class KernelSays(StrEnum):
    """What a kernel log says about one moment of one node."""

    HARDWARE = "hardware"
    SOFTWARE = "software"
    CLEAN = "clean"
    """It covers the moment and holds no Xid of the GPU."""
    NOT_THEN = "not_then"
    """There is one, but it ends before the moment, begins after it, or nobody knows when."""
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class KernelView:
    """The verdict of the kernel log, and where it stands."""

    says: KernelSays
    place: str = ""
    """`file:line` of the Xid, or the file that is clean."""
    words: str = ""


def kernel_view(failed: Line, lines: Sequence[Line], reports: Sequence[FileReport]) -> KernelView:
    """What the kernel log of the failed process's node says about it. Times are those of the node's own clock."""
    near = [line for line in lines if line.node == failed.node and _is_xid(line) and _near(line, failed)]
    ours = [line for line in near if failed.gpu is None or line.gpu is None or line.gpu == failed.gpu]
    for line in ours:
        if line.name in _HARDWARE or _layer(line) == "hardware":
            return KernelView(KernelSays.HARDWARE, line.place, line.body)
    for line in ours:
        if line.name in FaultCode.__members__.values() or _layer(line) == "software":
            return KernelView(KernelSays.SOFTWARE, line.place, line.body)
    logs = [report for report in reports if report.kind is FileKind.KERNEL_LOG and report.node == failed.node]
    if failed.node is None or not logs:
        return KernelView(KernelSays.ABSENT)
    until_ns = failed.printed_ns
    if failed.inherited:  # it happened somewhere between that time and the end of its file
        ends = (report.last_time_ns for report in reports if report.path == failed.file)
        until_ns = next((end for end in ends if end is not None), None)
    covering = [report for report in logs if _covers(report, failed.printed_ns, until_ns)]
    if covering:
        return KernelView(KernelSays.CLEAN, covering[0].path)
    return KernelView(KernelSays.NOT_THEN, logs[0].path)


def _is_xid(line: Line) -> bool:
    return "xid" in line.attributes or (line.file_kind == FileKind.KERNEL_LOG and line.name in _HARDWARE)


def _layer(line: Line) -> str:
    number = line.attributes.get("xid", "")
    known = read_xid(int(number)) if number.isdigit() else None
    return "" if known is None else known.layer


def _near(line: Line, failed: Line) -> bool:
    if line.aligned_ns is None or failed.aligned_ns is None:
        return line.attempt == failed.attempt
    after_ns = _NEAR_NS if failed.inherited else _AFTER_NS
    return -after_ns <= failed.aligned_ns - line.aligned_ns <= _NEAR_NS


def _covers(report: FileReport, from_ns: int | None, until_ns: int | None) -> bool:
    first, last = report.first_time_ns, report.last_time_ns
    if from_ns is None or until_ns is None or first is None or last is None:
        return False
    return first <= from_ns and until_ns <= last
