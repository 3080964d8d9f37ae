"""Structural lines of the kernel log: Xid reports, GPU identities, boots (formats.md H1, H3, H4).

Which Xid codes are faults is the catalogue's matter; its signatures have a higher priority than the general Xid line here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from correlator.core.event import Event
from correlator.core.vocabulary import Context, TimeSource
from correlator.parsers.base import Anchor, Dialect, Hit, Layer, LinePattern
from correlator.parsers.dialects.support import wall_clock_ns, with_attributes
from correlator.parsers.pci import normalise_pci

_KERNEL = frozenset({Layer.KERNEL})
_CAUSE = re.compile(r"caused by previous Xid (\d+)")
_PROCESS = re.compile(r"pid=(\d{1,9})")
_NAME = re.compile(r"name=([^,<\n]+)")
_RECOVERY = re.compile(r"recovery action changed from .* to 0x[0-9a-f]+ \(([^)]*)\)")


def _xid(hit: Hit) -> Iterable[Event]:
    rest = hit.line.message[hit.match.end() :]
    pid, name, cause, action = (pattern.search(rest) for pattern in (_PROCESS, _NAME, _CAUSE, _RECOVERY))
    event = hit.make(gpu=normalise_pci(hit.match[1]), process_pid=int(pid[1]) if pid else None)
    yield with_attributes(
        event,
        xid=int(hit.match[2]),
        pid_name=name[1] if name else None,
        caused_by_xid=cause[1] if cause else None,
        recovery_action=action[1] if action else None,
    )


def _gpu_identity(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(gpu=normalise_pci(hit.match[1])), uuid=hit.match[2])


def _boot(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), phase="boot")


def _shutdown(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), phase="shutdown")


def _clock_set(hit: Hit) -> Iterable[Event]:
    """The hardware clock gives the wall clock of this moment, to the second: an anchor for time since boot."""
    event = with_attributes(hit.make(), phase="clock_set", epoch_s=hit.match[2])
    wall_ns = wall_clock_ns(hit.match[1])
    if event.timestamp_ns is None and wall_ns is not None:
        event = replace(
            event, timestamp_ns=wall_ns, time_source=TimeSource.EXPLICIT, time_granularity_ms=1000.0, time_zone="Z"
        )
    yield event


PATTERNS = (
    LinePattern(
        id="kernel.xid",
        event_name=Context.XID,
        regex=r"NVRM: (?:GPU Board )?Xid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})[^)\n]*\): ([0-9]{1,4}),",
        anchor=Anchor.ANYWHERE,
        requires=_KERNEL,
        priority=10,
        samples=(
            "[12345.678901] NVRM: Xid (PCI:0000:5d:00): 45, pid=4245, name=python3, Ch 00000001 caused by previous Xid 149",
            "Nov  3 01:02:03 node03 kernel: [680.646286] NVRM: Xid (PCI:0000:5d:00): 154, pid='<unknown>', "
            "name=<unknown>, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
            "[680111.647000] [ T4245] NVRM: Xid (PCI:0000:5d:00 GPU-I:05): 43, pid=4245, name=pt_main_thread, Ch 00000020",
        ),
        lookalikes=(
            "[12345.678901] NVRM: GPU at PCI:0000:3b:00: GPU-34d7319c-5b19-1e75-186d-c187099e4fe5",
            "2025-11-30 01:02:03,123 [INFO] docs: see 'NVRM: Xid (PCI:0000:5d:00): 45, pid=1' in the manual",
        ),
        record="xid_block",
        source="formats.md H1",
        build=_xid,
    ),
    LinePattern(
        id="kernel.gpu_identity",
        event_name=Context.GPU_IDENTITY,
        regex=r"NVRM: GPU at (?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}): (GPU-[0-9a-f-]{36})",
        requires=_KERNEL,
        samples=("[12345.678901] NVRM: GPU at PCI:0000:3b:00: GPU-34d7319c-5b19-1e75-186d-c187099e4fe5",),
        lookalikes=("[12345.678901] NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1463)",),
        source="formats.md H1",
        build=_gpu_identity,
    ),
    LinePattern(
        id="kernel.boot",
        event_name=Context.KERNEL_BOOT,
        regex=r"Linux version [0-9]+\.[0-9]+",
        requires=_KERNEL,
        samples=("[    0.000000] Linux version 5.15.0-91-generic (buildd@host) (gcc 11.4.0) #101-Ubuntu SMP",),
        lookalikes=("2025-11-30 01:02:03,123 [INFO] env: Linux version 5.15.0",),
        source="formats.md H3",
        build=_boot,
    ),
    LinePattern(
        id="kernel.journal_boot",
        event_name=Context.KERNEL_BOOT,
        regex=r"-- (?:Boot [0-9a-f]{32}|Reboot) --",
        samples=("-- Boot 1a2b3c4d5e6f708192a3b4c5d6e7f809 --", "-- Reboot --"),
        lookalikes=("-- No entries --", "-- Logs begin at Sun 2025-11-30 00:00:00 UTC. --"),
        source="formats.md H3, H4",
        build=_boot,
    ),
    LinePattern(
        id="kernel.shutdown",
        event_name=Context.KERNEL_BOOT,
        regex=r"(?:reboot: (?:Restarting system|Power down|System halted)|systemd-shutdown\[[0-9]+\]: )",
        requires=frozenset({Layer.KERNEL, Layer.SYSLOG}),
        samples=("[98765.432100] reboot: Restarting system",),
        lookalikes=("[98765.432100] reboot: Power off mode is 1",),
        source="formats.md H3",
        build=_shutdown,
    ),
    LinePattern(
        id="kernel.clock_set",
        event_name=Context.KERNEL_BOOT,
        regex=r"rtc[_a-z0-9-]* [^ \n]+: setting system clock to ([0-9-]{10}[T ][0-9:]{8}) UTC \(([0-9]{9,11})\)",
        requires=_KERNEL,
        samples=("[    2.345678] rtc_cmos 00:01: setting system clock to 2025-11-30T01:02:03 UTC (1764464523)",),
        lookalikes=("[    2.345678] rtc_cmos 00:01: registered as rtc0",),
        source="formats.md H4",
        build=_clock_set,
    ),
)
DIALECT = Dialect(name="kernel", title="Linux kernel log", patterns=PATTERNS, source="formats.md H1-H4")
