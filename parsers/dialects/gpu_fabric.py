"""NVSwitch SXid lines, the fabric manager, and HIP memory faults (formats.md H2, I3)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FaultCode, Role
from correlator.parsers.base import Anchor, Dialect, Hit, Layer, LinePattern
from correlator.parsers.dialects.support import with_attributes
from correlator.parsers.pci import normalise_pci

_SOURCE = "formats.md H2"
_SXID = r"SXid \(PCI:([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\): ([0-9]{5}), "


def _sxid(hit: Hit) -> Iterable[Event]:
    """The address is the switch's, so it is no `gpu`."""
    link = hit.match[3]
    yield with_attributes(hit.make(), sxid=int(hit.match[2]), nvswitch=normalise_pci(hit.match[1]), link=link)


def _fabric(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), sxid=int(hit.match[2]), nvswitch=normalise_pci(hit.match[3]), link=hit.match[4])


def _hip_fault(hit: Hit) -> Iterable[Event]:
    """`node-2` is the HSA agent of this host: neither a rank nor a device index."""
    yield with_attributes(hit.make(), hsa_node=hit.match[1], address=hit.match[2], reason=hit.match[3])


def _amdgpu_fault(hit: Hit) -> Iterable[Event]:
    """The process stands in the line itself (older drivers) or in the next one."""
    lines = hit.record.messages if hit.record else (hit.line.message,)
    process = next((match for match in map(_AMD_PROCESS.search, lines) if match), None)
    address = next((match for match in map(_AMD_ADDRESS.search, lines) if match), None)
    event = hit.make(
        gpu=normalise_pci(hit.match["address"]),
        process_pid=int(process[2]) if process else None,
        line_count=len(lines),
        attributes=(),
    )
    yield with_attributes(
        event, hub=hit.match["hub"], pid_name=process[1] if process else None, address=address[1] if address else None
    )


_AMD_PROCESS = re.compile(r"(?:Process|process) ([^ \n]{1,64}) pid (\d{1,9})")
_AMD_ADDRESS = re.compile(r"in page starting at address (0x[0-9a-f]{1,16})")
PATTERNS = (
    LinePattern(
        id="nvswitch.sxid_fatal",
        event_name=FaultCode.GPU_NVLINK,
        role=Role.INITIATING,
        regex=_SXID + r"Fatal, (?:Link ([0-9]{1,3}) )?",
        anchor=Anchor.ANYWHERE,
        requires=frozenset({Layer.KERNEL}),
        priority=55,
        samples=(
            "[12345.678901] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up (First)",
        ),
        lookalikes=(
            "[12345.678901] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
        ),
        source=_SOURCE,
        build=_sxid,
    ),
    LinePattern(
        id="nvswitch.sxid",
        event_name=Context.XID,
        regex=_SXID + r"Non-fatal, (?:Link ([0-9]{1,3}) )?",
        anchor=Anchor.ANYWHERE,
        requires=frozenset({Layer.KERNEL}),
        priority=10,
        samples=(
            "[12345.678901] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
        ),
        lookalikes=("[12345.678901] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Severity 0 Engine instance 32",),
        source=_SOURCE,
        build=_sxid,
    ),
    LinePattern(
        id="fabric_manager.fatal",
        event_name=FaultCode.GPU_NVLINK,
        role=Role.INITIATING,
        regex=(
            r"detected NVSwitch (fatal) error ([0-9]{5}) on fid [0-9]+ on NVSwitch pci bus id ([0-9a-fA-F:.]+)"
            r"(?: physical id [0-9]+)?(?: port ([0-9]{1,3}))?"
        ),
        anchor=Anchor.ANYWHERE,
        priority=55,
        samples=(
            "[Nov 30 2025 01:02:03] [ERROR] [tid 12727] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id "
            "00000000:86:00.0 physical id 3 port 33",
        ),
        lookalikes=(
            "[Nov 30 2025 01:02:03] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id "
            "00000000:86:00.0 physical id 3 port 33",
        ),
        source=_SOURCE,
        build=_fabric,
    ),
    LinePattern(
        id="fabric_manager.non_fatal",
        event_name=Context.XID,
        regex=(
            r"detected NVSwitch (non-fatal) error ([0-9]{5}) on fid [0-9]+ on NVSwitch pci bus id ([0-9a-fA-F:.]+)"
            r"(?: physical id [0-9]+)?(?: port ([0-9]{1,3}))?"
        ),
        anchor=Anchor.ANYWHERE,
        priority=10,
        samples=(
            "[Nov 30 2025 01:02:03] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id "
            "00000000:86:00.0 physical id 3 port 33",
        ),
        lookalikes=("[Nov 30 2025 01:02:03] [INFO] [tid 12727] detected 6 NVSwitches",),
        source=_SOURCE,
        build=_fabric,
    ),
    LinePattern(
        id="fabric_manager.topology",
        event_name=FaultCode.GPU_NVLINK,
        role=Role.INITIATING,
        regex=r"detected number of NVSwitches don't match with any supported system topology",
        anchor=Anchor.ANYWHERE,
        priority=45,
        samples=(
            "[Nov 30 2025 01:02:03] [CRITICAL] [tid 12727] detected number of NVSwitches don't match with any supported system "
            "topology, aborting fabric manager",
        ),
        lookalikes=("[Nov 30 2025 01:02:03] [INFO] [tid 12727] detected system topology matches HGX-2",),
        source=_SOURCE,
    ),
    LinePattern(
        id="fabric_manager.multicast",
        event_name=Context.MESSAGE,
        regex=r"failed to find the GPU handle [0-9]+ in the multicast team request setup",
        anchor=Anchor.ANYWHERE,
        samples=(
            "[Nov 30 2025 01:02:03] [ERROR] [tid 12727] failed to find the GPU handle 5410063385821516767 in the multicast team "
            "request setup 6130285411925746235.",
        ),
        lookalikes=("[Nov 30 2025 01:02:03] [INFO] [tid 12727] multicast team request setup done",),
        source=_SOURCE,
    ),
    LinePattern(
        id="amdgpu.page_fault",
        event_name=FaultCode.GPU_MMU_FAULT,
        role=Role.INITIATING,
        regex=r"amdgpu (?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): amdgpu: \[(?P<hub>\w+)\] (?:no-retry |retry )?page fault \(",
        requires=frozenset({Layer.KERNEL}),
        record="amdgpu_fault",
        priority=65,
        samples=(
            "[12345.678901] amdgpu 0000:0e:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:173 vmid:8 pasid:32791)",
            "[12345.678901] amdgpu 0000:0e:00.0: amdgpu: [mmhub0] no-retry page fault (src_id:0 ring:173 vmid:8 pasid:32791, "
            "for process python3 pid 4245 thread python3 pid 4245)",
        ),
        lookalikes=("[12345.678901] amdgpu 0000:0e:00.0: amdgpu: [gfxhub] ready",),
        source="formats.md H3",
        build=_amdgpu_fault,
    ),
    LinePattern(
        id="hip.memory_fault",
        event_name=FaultCode.CUDA_ILLEGAL_ADDRESS,
        role=Role.INITIATING,
        regex=(
            r"Memory access fault by GPU node-([0-9]{1,4}) \(Agent handle: 0x[0-9a-f]+\) on address (0x[0-9a-f]+)\. "
            r"Reason: ([^.\n]+)"
        ),
        anchor=Anchor.ANYWHERE,
        priority=55,
        samples=(
            "Memory access fault by GPU node-2 (Agent handle: 0x5640a8bb1980) on address 0x7feea09c5000. "
            "Reason: Page not present or supervisor privilege.",
        ),
        lookalikes=("GPU node-2 (Agent handle: 0x5640a8bb1980) ready",),
        source="formats.md I3",
        build=_hip_fault,
    ),
)
DIALECT = Dialect(
    name="gpu_fabric", title="NVSwitch, fabric manager, HIP", patterns=PATTERNS, source="formats.md H2, I3"
)
