"""Lines of the kernel log that are noise, hints or recoveries rather than faults (formats.md H1, H3).

They carry the words "error" or "failed" on healthy machines too; known by name, they cannot be taken for a cause.
"""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FaultCode, Role, Severity, TimeSource
from correlator.parsers.base import Anchor, Build, Dialect, Hit, Layer, LinePattern
from correlator.parsers.dialects.support import with_attributes
from correlator.parsers.pci import normalise_pci
from correlator.parsers.timestamps import parse_stamp

_KERNEL = frozenset({Layer.KERNEL})
_SYSTEM = frozenset({Layer.KERNEL, Layer.SYSLOG})
_SOURCE = "formats.md H3"
_PCI = r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"


def _noted(note: str) -> Build:
    """The default event with a word that says what kind of note it is."""

    def build(hit: Hit) -> Iterable[Event]:
        yield with_attributes(hit.make(), note=note)

    return build


def _shutdown(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), phase="shutdown")


def _clock_unstable(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), unstable=True)


def _gpu_gone(hit: Hit) -> Iterable[Event]:
    """Three lines: the first has the address, the third says what happened."""
    lines = hit.record.messages if hit.record else ()
    if any("fallen off the bus" in line for line in lines):
        yield hit.make(gpu=normalise_pci(hit.match["address"]), line_count=len(lines), attributes=())


def _hardware_event(hit: Hit) -> Iterable[Event]:
    """A line of an IPMI event log; its date is American, its clock the controller's."""
    stamp = parse_stamp(hit.match["when"].replace(" | ", " "), hit.context)
    event = hit.make(attributes=())
    if stamp is not None and stamp.ns is not None and event.timestamp_ns is None:
        event = hit.make(
            attributes=(), timestamp_ns=stamp.ns, time_source=TimeSource.EXPLICIT, time_granularity_ms=1000.0
        )
    yield with_attributes(event, sensor=hit.match["sensor"].strip(), state=hit.match["state"].strip())


_NOISE = (
    LinePattern(
        id="kernel.peer_memory_freed",
        event_name=Context.MESSAGE,
        regex=r"nvidia-peermem \w+:\d+ ERROR detected invalid context, skipping further processing",
        requires=_KERNEL,
        samples=(
            "[12345.678901] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further "
            "processing",
        ),
        lookalikes=("[12345.678901] nvidia-peermem loaded",),
        source="formats.md H1: printed when a process that registered memory ends",
        build=_noted("process_ended"),
    ),
    LinePattern(
        id="kernel.driver_check",
        event_name=Context.MESSAGE,
        regex=r"NVRM: (?:nvCheck\w+|nvAssert\w+|rpcRmApi\w+): ",
        requires=_KERNEL,
        samples=(
            "[12345.678901] NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51) returned",
            "[12345.678901] NVRM: rpcRmApiControl_GSP: GspRmControl failed: hClient=0xc1d00069",
        ),
        lookalikes=("[12345.678901] NVRM: Xid (PCI:0000:5d:00): 45, pid=4245, name=python3, Ch 00000001",),
        priority=8,
        source="formats.md H1",
    ),
    LinePattern(
        id="kernel.gpu_locked",
        event_name=Context.MESSAGE,
        regex=r"NVRM: (?:krcWatchdog_IMPL: RC watchdog: GPU is probably locked!|GPU [0-9a-fA-F:.]{10,20}: rm_init_adapter failed)",
        requires=_KERNEL,
        severity=Severity.ERROR,
        samples=(
            "[12345.678901] NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7",
            "[12345.678901] NVRM: GPU 0000:3b:00.0: rm_init_adapter failed, device minor number 3",
        ),
        lookalikes=("[12345.678901] NVRM: krcWatchdog_IMPL: RC watchdog: enabled",),
        source="formats.md H1",
    ),
    LinePattern(
        id="kernel.corrected_memory_error",
        event_name=Context.MESSAGE,
        regex=r"(?:EDAC MC\d+: \d+ CE |mce: \[Hardware Error\]: Machine check events logged|\{\d+\}\[Hardware Error\]: event severity: corrected)",
        requires=_KERNEL,
        samples=(
            "[12345.678901] EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1d)",
            "[12345.678901] mce: [Hardware Error]: Machine check events logged",
        ),
        lookalikes=("[12345.678901] EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",),
        source=_SOURCE,
        build=_noted("corrected"),
    ),
    LinePattern(
        id="kernel.machine_check",
        event_name=Context.MESSAGE,
        regex=r"(?:mce: )?\[Hardware Error\]: CPU (?P<cpu>\d{1,5}): Machine Check(?: Exception)?: [0-9a-f]{1,4} Bank (?P<bank>\d{1,3}): "
        r"(?P<status>[0-9a-f]{1,16})",
        requires=_KERNEL,
        samples=("[12345.678901] mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: be00000000800400",),
        lookalikes=("[12345.678901] mce: CPU supports 32 MCE banks",),
        source=_SOURCE,
    ),
    LinePattern(
        id="kernel.memory_failure",
        event_name=Context.MESSAGE,
        regex=r"Memory failure: 0x[0-9a-f]+: recovery action for (?P<page>[^:\n]+): (?P<result>Recovered|Ignored|Failed|Delayed)",
        requires=_KERNEL,
        samples=("[12345.678901] Memory failure: 0x12345: recovery action for dirty LRU page: Recovered",),
        lookalikes=("[12345.678901] Memory failure: 0x12345: Sending SIGBUS",),
        source=_SOURCE,
    ),
    LinePattern(
        id="kernel.pcie_error",
        event_name=Context.MESSAGE,
        regex=(
            rf"(?:pcieport {_PCI}: (?:AER: (?:Multiple )?(?P<kind>Corrected|Uncorrect(?:ed|able))(?: \((?P<severity_word>Non-Fatal|Fatal)\))? "
            rf"error (?:message )?received(?: from|:) ?(?:id=)?(?P<pci>{_PCI})?|pciehp: Slot\((?P<slot>[^)\n]*)\): Link Down)"
            rf"|[a-z0-9_]+ (?P<device_pci>{_PCI}): PCIe Bus Error: severity=(?P<bus_severity>Corrected))"
        ),
        requires=_KERNEL,
        samples=(
            "[12345.678901] pcieport 0000:40:01.0: AER: Multiple Uncorrectable (Fatal) error message received from 0000:41:00.0",
            "[12345.678901] pcieport 0000:40:01.0: pciehp: Slot(5): Link Down",
            "[12345.678901] nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        ),
        lookalikes=(
            "[12345.678901] pcieport 0000:40:01.0: AER: enabled with IRQ 35",
            "[12345.678901] nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        ),
        source=_SOURCE,
    ),
    LinePattern(
        id="kernel.adapter_note",
        event_name=Context.MESSAGE,
        regex=(
            rf"mlx5_core (?P<pci>{_PCI}): (?:mlx5_cmd_out_err:\d+:\(pid \d+\): (?P<command>\w+)\([^\n]*failed, status "
            r"(?P<status>[^(\n]*)\(|mlx5_pcie_event:\d+:\(pid \d+\): Detected insufficient power)"
        ),
        requires=_KERNEL,
        samples=(
            "[12345.678901] mlx5_core 0000:5c:00.0: mlx5_cmd_out_err:838:(pid 123): ACCESS_REG(0x805) op_mod(0x0) failed, status "
            "bad operation(0x2), syndrome (0x305684), err(-22)",
            "[12345.678901] mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 123): Detected insufficient power on the PCIe slot (27W).",
        ),
        lookalikes=("[12345.678901] mlx5_core 0000:5c:00.0: firmware version: 28.39.1002",),
        source=_SOURCE,
    ),
    LinePattern(
        id="kernel.cpu_stall",
        event_name=Context.MESSAGE,
        regex=r"rcu: INFO: rcu_\w+ (?:detected (?:expedited )?stalls on|self-detected stall on)",
        requires=_KERNEL,
        samples=("[12345.678901] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:",),
        lookalikes=("[12345.678901] rcu: Hierarchical RCU implementation.",),
        source=_SOURCE,
    ),
    LinePattern(
        id="kernel.cpu_throttled",
        event_name=Context.MESSAGE,
        regex=r"(?:mce: )?CPU(?P<cpu>\d{1,5}): (?:Core|Package) temperature (?:is )?above threshold, cpu clock (?:is )?throttled",
        requires=_KERNEL,
        samples=(
            "[12345.678901] mce: CPU12: Package temperature above threshold, cpu clock throttled (total events = 1)",
        ),
        lookalikes=("[12345.678901] mce: CPU12: Package temperature/speed normal (total events = 1)",),
        source=_SOURCE,
    ),
    LinePattern(
        id="kernel.lustre_error",
        event_name=Context.MESSAGE,
        regex=r"LustreError: \d+:\d+:\((?P<place>[\w.]+:\d+):\w+\(\)\) ",
        requires=_KERNEL,
        samples=("[12345.678901] LustreError: 4245:0:(file.c:123:ll_read()) scratch: read failed: rc = -5",),
        lookalikes=("[12345.678901] LustreError: 167-0: scratch-OST0002: This client was evicted by scratch-OST0002",),
        priority=20,
        source=_SOURCE,
    ),
    LinePattern(
        id="kernel.gpfs_error",
        event_name=Context.MESSAGE,
        regex=r"mmfs: \[[EX]\] ",
        severity=Severity.ERROR,
        samples=("Nov 30 01:02:03 node03 mmfs[812]: mmfs: [E] Disk failure. Volume gpfs1. rc = 5.",),
        lookalikes=("Nov 30 01:02:03 node03 mmfs[812]: mmfs: [I] Mounted gpfs1.",),
        source=_SOURCE,
    ),
    LinePattern(
        id="kernel.group_killed",
        event_name=Context.MESSAGE,
        regex=r"Tasks in (?P<cgroup>[^ \n]+) are going to be killed due to memory\.oom\.group set",
        requires=_KERNEL,
        samples=("[12345.678903] Tasks in /kubepods/a are going to be killed due to memory.oom.group set",),
        lookalikes=("[12345.678903] Tasks in /kubepods/a killed as a result of limit of /kubepods/a",),
        source=_SOURCE,
    ),
    LinePattern(
        id="kernel.amd_scheduler",
        event_name=Context.MESSAGE,
        regex=r"amdgpu [0-9a-f:.]{10,14}: amdgpu: (?:MES failed to respond to msg=|GPU reset begin)",
        requires=_KERNEL,
        samples=(
            "[12345.678901] amdgpu 0000:0e:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE",
            "[12345.678901] amdgpu 0000:0e:00.0: amdgpu: GPU reset begin!",
        ),
        lookalikes=("[12345.678901] amdgpu 0000:0e:00.0: amdgpu: MES ready",),
        source=_SOURCE,
    ),
)

_LIFE = (
    LinePattern(
        id="kernel.recovered",
        event_name=Context.MESSAGE,
        regex=(
            rf"(?:mlx5_core {_PCI}[^\n]*: (?:Link up|Port module event: module \d+, Cable plugged)|IPv6: ADDRCONF\(NETDEV_\w+\): "
            r"(?P<interface>[\w.-]+): link becomes ready|nfs: server (?P<server>[^ \n]+) OK|Lustre: [^\n]*: Connection restored to "
            r"|amdgpu [0-9a-f:.]{10,14}: amdgpu: GPU reset\(\d+\) succeeded)"
        ),
        requires=_KERNEL,
        samples=(
            "[12345.678901] mlx5_core 0000:41:00.0 enp65s0f0np0: Link up",
            "[12345.678901] IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready",
            "[12345.678901] nfs: server 10.0.1.9 OK",
            "[12345.678901] Lustre: scratch-OST0002-osc-ffff9a0c: Connection restored to 10.0.1.2@o2ib (at 10.0.1.2@o2ib)",
            "[12345.678901] amdgpu 0000:0e:00.0: amdgpu: GPU reset(2) succeeded!",
        ),
        lookalikes=("[12345.678901] mlx5_core 0000:41:00.0 enp65s0f0np0: Link down",),
        source=_SOURCE,
        build=_noted("recovered"),
    ),
    LinePattern(
        id="kernel.system_stopped",
        event_name=Context.KERNEL_BOOT,
        regex=r"(?: systemd-shutdown\[\d+\]: (?:Syncing|Sending SIG|Unmounting|Powering|Rebooting)|: Power key pressed)",
        requires=_SYSTEM,
        samples=(
            "Nov 30 01:02:03 node03 systemd-shutdown[1]: Syncing filesystems and block devices.",
            "Nov 30 01:02:03 node03 systemd-logind[812]: Power key pressed.",
        ),
        lookalikes=("Nov 30 01:02:03 node03 systemd-logind[812]: Watching system buttons on power key",),
        anchor=Anchor.LINE,
        source=_SOURCE,
        build=_shutdown,
    ),
    LinePattern(
        id="kernel.clock_unstable",
        event_name=Context.MESSAGE,
        regex=r"clocksource: timekeeping watchdog on CPU\d+: Marking clocksource '(?P<clocksource>[\w-]+)' as unstable",
        requires=_KERNEL,
        samples=(
            "[12345.678901] clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is "
            "too large:",
        ),
        lookalikes=("[12345.678901] clocksource: Switched to clocksource tsc",),
        source="formats.md H5",
        build=_clock_unstable,
    ),
    LinePattern(
        id="kernel.hardware_event",
        event_name=Context.MESSAGE,
        regex=r"[ \t]*[0-9a-f]{1,5} \| (?P<when>\d\d/\d\d/\d{4} \| \d\d:\d\d:\d\d)(?: [A-Z]{3,4})? \| (?P<sensor>[^|\n]+)\| "
        r"(?P<state>[^|\n]+)\| Asserted",
        samples=(" 1a | 11/30/2025 | 01:02:03 | Power Supply #0x71 | Failure detected | Asserted",),
        lookalikes=(" 1a | 11/30/2025 | 01:02:03 | Power Supply #0x71 | Failure detected | Deasserted",),
        source="formats.md H3: ipmitool sel list",
        build=_hardware_event,
    ),
    LinePattern(
        id="kernel.gpu_gone",
        event_name=FaultCode.GPU_OFF_BUS,
        role=Role.INITIATING,
        regex=r"NVRM: The NVIDIA GPU (?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])",
        requires=_KERNEL,
        record="xid_block",
        samples=("[12345.678901] NVRM: The NVIDIA GPU 0000:3b:00.0",),
        lookalikes=("[12345.678901] NVRM: The NVIDIA probe routine was not called for 8 device(s).",),
        priority=55,
        source="formats.md H1: three lines at the start of the driver",
        build=_gpu_gone,
    ),
)

DIALECT = Dialect(
    name="kernel_notes",
    title="Linux kernel log, notes and recoveries",
    patterns=_NOISE + _LIFE,
    source="formats.md H1, H3, H5",
)
