"""Hardware or software: what the kernel log of a node says about the moment at which a process failed.

A CUDA error is ambiguous until the kernel log speaks: an Xid of hardware class on the same GPU makes it hardware, a log
that covers the moment and holds none makes it software, and without such a log only somebody who fetches it can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import assert_never

from correlator.advice.codes import read_xid
from correlator.advice.lines import Line
from correlator.core.files import FileReport
from correlator.core.model import ClockModel
from correlator.core.vocabulary import FAULT_CLASS, FaultClass, FaultCode, FileKind

_NEAR_NS = 15 * 60 * 10**9
"""An Xid this long before a process failed can still be its cause: hangs end in timeouts of ten minutes and more."""
_AFTER_NS = 60 * 10**9
_HARDWARE = frozenset(str(code) for code, kind in FAULT_CLASS.items() if kind is FaultClass.HARDWARE)


class KernelSays(StrEnum):
    """What a kernel log says about one moment of one node."""

    HARDWARE = "hardware"
    SOFTWARE = "software"
    NEARBY = "nearby"
    """A hardware Xid on the same node at that time, but nothing says that it is the GPU of the failed process."""
    CLEAN = "clean"
    """Its lines begin before the moment and end after it, and none is an Xid of the GPU."""
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
    """The Xid as printed, or the times that the file covers."""

    def told(self, node: str | None) -> tuple[bool, str]:
        """Whether it settles hardware or software, and in which words; else which file would."""
        match self.says:
            case KernelSays.HARDWARE:
                return True, f"{self.place} has a hardware Xid of the GPU at that time: hardware"
            case KernelSays.SOFTWARE:
                return True, f"{self.place} has an Xid of a fault in code at that time: software"
            case KernelSays.NEARBY:
                return False, f"{self.place} has a hardware Xid at that time; no line says whether it is of this GPU"
            case KernelSays.CLEAN:
                return True, f"{self.place} covers that time ({self.words}) and has no Xid of the GPU: software"
            case KernelSays.NOT_THEN:
                span = f" ({self.words})" if self.words else ""
                return False, f"{self.place} does not cover that time{span}: whether the GPU is to blame stays open"
            case KernelSays.ABSENT:
                return False, f"no kernel log of {node or 'its node'} is here: it would tell code from hardware"
            case _:
                assert_never(self.says)


@dataclass(frozen=True, slots=True)
class KernelLogs:
    """The kernel logs of a run: what was read of them, and on whose clock they print."""

    reports: Sequence[FileReport] = ()
    clocks: ClockModel = field(default_factory=lambda: ClockModel(()))
    domains: Mapping[str, str] = field(default_factory=dict)
    """File -> its clock, of files that hold an event."""
    damaged: frozenset[str] = frozenset()
    """Files of which a part could not be read: what they do not say proves nothing."""

    def of_node(self, node: str | None) -> list[FileReport]:
        """The kernel logs of a node."""
        return [r for r in self.reports if node is not None and r.kind is FileKind.KERNEL_LOG and r.node == node]

    def clock_of(self, report: FileReport) -> str | None:
        """Whose clock a kernel log prints; None where the node's kernel has a clock of its own and the file shows neither."""
        known = self.domains.get(report.path)
        apart = any(estimate.node == f"{report.node} (kernel)" for estimate in self.clocks.estimates)
        return known or (None if apart else report.node)


def kernel_view(failed: Line, lines: Sequence[Line], logs: KernelLogs) -> KernelView:
    """What the kernel log of the failed process's node says about it."""
    near = [line for line in lines if line.node == failed.node and _is_xid(line) and _near(line, failed)]
    hardware = [line for line in near if line.name in _HARDWARE or _layer(line) == "hardware"]
    for line in hardware:
        if failed.gpu is not None and line.gpu == failed.gpu:
            return KernelView(KernelSays.HARDWARE, line.place, line.body)
    for line in near:
        same = failed.gpu is None or line.gpu is None or line.gpu == failed.gpu
        if (
            same
            and (line.name in FaultCode.__members__.values() or _layer(line) == "software")
            and line not in hardware
        ):
            return KernelView(KernelSays.SOFTWARE, line.place, line.body)
    for line in hardware:
        if failed.gpu is None or line.gpu is None:
            return KernelView(KernelSays.NEARBY, line.place, line.body)
    reports = logs.of_node(failed.node)
    if not reports:
        return KernelView(KernelSays.ABSENT)
    until_ns = failed.printed_ns
    if failed.inherited:  # it happened somewhere between that time and the end of its file
        until_ns = next((report.last_time_ns for report in logs.reports if report.path == failed.file), None)
    for report in reports:
        if _covers(report, failed, until_ns, logs):
            return KernelView(KernelSays.CLEAN, report.path, _span(report))
    return KernelView(KernelSays.NOT_THEN, reports[0].path, _span(reports[0]))


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


def _covers(report: FileReport, failed: Line, until_ns: int | None, logs: KernelLogs) -> bool:
    """Whether the lines of a kernel log, events or not, certainly begin before a failure and end after it."""
    first, last, from_ns = report.first_time_ns, report.last_time_ns, failed.printed_ns
    if from_ns is None or until_ns is None or first is None or last is None or report.path in logs.damaged:
        return False
    clock = logs.clock_of(report)
    before = logs.clocks.gap_ms(clock, first, failed.domain, from_ns)
    after = logs.clocks.gap_ms(failed.domain, until_ns, clock, last)
    return before is not None and after is not None and before[0] >= 0 and after[0] >= 0


def _span(report: FileReport) -> str:
    """`lines of 01:00:02 to 01:40:11`, on the file's own clock; empty where no line has a time."""
    if report.first_time_ns is None or report.last_time_ns is None:
        return ""
    try:
        first, last = (
            datetime.fromtimestamp(ns // 10**9, tz=UTC) for ns in (report.first_time_ns, report.last_time_ns)
        )
    except (OverflowError, ValueError, OSError):
        return ""
    layout = "%H:%M:%S" if first.date() == last.date() else "%Y-%m-%d %H:%M:%S"
    return f"lines of {first:{layout}} to {last:{layout}}"
