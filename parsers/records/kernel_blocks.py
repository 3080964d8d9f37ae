"""Blocks of the kernel log: the OOM killer's report and the lines that follow an Xid (formats.md H1, H3)."""

from __future__ import annotations

import re

from correlator.parsers.base import Line, Record
from correlator.parsers.records.window import Stitcher, Verdict, Window, carrier, collect

_OOM_PART = re.compile(
    r"CPU: \d|Hardware name: |Call Trace:|\s+(?:\? )?\S+\+0x|\s*</?(?:TASK|IRQ|NMI)>|RIP: |RSP: |RAX: |RDX: |RBP:"
    r" |R1\d: |Code: "
    r"|Mem-Info:|memory: usage |swap: usage |kmem: usage |Memory cgroup stats|active_anon|\s+\w+:\d|Node \d"
    r"|lowmem_reserve|\d+ total pagecache"
    r"|\d+ pages |\d+ page|Free swap|Total swap|Tasks state|Tasks in |\[ *(?:pid|\d+) *\]|anon \d|file \d|\w+"
    r" \d+$|oom-kill:|Swap cache"
    r"|Unreclaimable|Killed |Out of memory: |Memory cgroup out of memory: |cpuset=|memory\+swap"
)
_OOM_END = re.compile(r"oom-kill:|(?:Memory cgroup o|O)ut of memory: Kill|Killed process \d|oom_reaper: ")
_XID_MORE = re.compile(
    r"[ \t]*NVRM: (?!Xid|GPU Board|GPU at|loading|The NVIDIA)[^\n]*|[ \t]+(?:Channel|Intr|Error|EXCEPTION)"
)
_GONE = re.compile(r"[ \t]*NVRM: fallen off the bus and is not responding")
_XID_LIMIT = 32


def _oom(head: Line, window: Window) -> Record:
    """From `invoked oom-killer` up to the line that names the victim, which begins an event of its own."""

    def take(line: Line) -> Verdict:
        if _OOM_END.match(line.message):
            return Verdict.STOP
        return Verdict.TAKE if _OOM_PART.match(line.message) else Verdict.SKIP

    return collect("kernel_oom", head, window, take, key=carrier)


def _xid(head: Line, window: Window) -> Record:
    """Further NVRM lines directly behind an Xid: the dump of engine state, never another Xid."""
    taken = 0

    def take(line: Line) -> Verdict:
        nonlocal taken
        taken += 1
        if _GONE.match(line.message):
            return Verdict.LAST if head.message.startswith("NVRM: The NVIDIA GPU") else Verdict.STOP
        if taken > _XID_LIMIT or window.begins(line) is not None:
            return Verdict.STOP
        return Verdict.TAKE if _XID_MORE.match(line.message) else Verdict.STOP

    return collect("xid_block", head, window, take, key=carrier)


KERNEL_OOM = Stitcher("kernel_oom", _oom)
XID_BLOCK = Stitcher("xid_block", _xid)
