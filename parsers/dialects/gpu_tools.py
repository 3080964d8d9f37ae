"""Snapshots of nvidia-smi and DCGM that people save beside the logs (formats.md H6).

They show a state at some later time, so they are context: which GPU is which, and what its counters say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import with_attributes
from correlator.parsers.pci import normalise_pci

_SOURCE = "formats.md H6"
_LABEL = re.compile(r'(\w+)="([^"\n]*)"')
_KEYS = {
    "GPU UUID": "uuid",
    "Minor Number": "device_index",
    "DRAM Uncorrectable": "uncorrected_dram",
    "SRAM Uncorrectable": "uncorrected_sram",
    "SRAM Uncorrectable Parity": "uncorrected_sram",
    "Pending": "remap_pending",
    "Remapping Failure Occurred": "remap_failed",
    "HW Slowdown": "hw_slowdown",
    "HW Thermal Slowdown": "hw_thermal_slowdown",
    "GPU Recovery Action": "recovery_action",
}
_QUERY_LINE = re.compile(r"[ \t]+([A-Za-z][\w .]{0,60}?)[ \t]*: ([^\n]*)$")


def _table_row(hit: Hit) -> Iterable[Event]:
    """The ECC column counts since the last reload of the driver."""
    ecc = hit.match["ecc"]
    event = hit.make(gpu=normalise_pci(hit.match["address"]), attributes=())
    yield with_attributes(event, device_index=hit.match["index"], uncorrected_ecc=None if ecc == "N/A" else ecc)


def _query(hit: Hit) -> Iterable[Event]:
    """The first value of each fact that the block states: volatile counters stand before aggregate ones."""
    facts: dict[str, str] = {}
    for line in hit.record.messages[1:] if hit.record else ():
        match = _QUERY_LINE.match(line)
        if match and (name := _KEYS.get(match[1].strip())):
            facts.setdefault(name, match[2].strip())
    event = hit.make(gpu=normalise_pci(hit.match["address"]), attributes=())
    yield with_attributes(event, **facts)


def _metric(hit: Hit) -> Iterable[Event]:
    """A gauge that holds the last Xid for ever: neither a time nor a count (formats.md H1)."""
    labels = dict(_LABEL.findall(hit.match["labels"]))
    number = hit.match["value"]
    if number == "0":
        return
    event = hit.make(gpu=normalise_pci(labels.get("pci_bus_id", "")), host_name=labels.get("Hostname"), attributes=())
    yield with_attributes(
        event,
        xid=number,
        uuid=labels.get("UUID"),
        device_index=labels.get("gpu"),
        gauge=True,
        reason=labels.get("err_msg"),
    )


PATTERNS = (
    LinePattern(
        id="gpu_tools.table_row",
        event_name=Context.GPU_IDENTITY,
        regex=r"\|[ \t]+(?P<index>\d{1,3})  [^|\n]{5,80}\|[ \t]+(?P<address>[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]) (?:Off|On )[ \t]*\|"
        r"[ \t]+(?P<ecc>\d{1,12}|N/A|Off)[ \t]*\|",
        samples=(
            "|   3  NVIDIA H100 80GB HBM3          On  |   00000000:3B:00.0 Off |                    0 |",
            "|   0  Tesla V100-SXM2-16GB           On  |   00000000:1A:00.0 Off |                  N/A |",
        ),
        lookalikes=("|  GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",),
        source=_SOURCE,
        build=_table_row,
    ),
    LinePattern(
        id="gpu_tools.query",
        event_name=Context.GPU_IDENTITY,
        regex=r"GPU (?P<address>[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])$",
        samples=("GPU 00000000:3B:00.0",),
        lookalikes=("GPU 00000000:3B:00.0 is lost",),
        record="gpu_query",
        source=_SOURCE,
        build=_query,
    ),
    LinePattern(
        id="gpu_tools.snapshot_time",
        event_name=Context.MESSAGE,
        regex=r"Timestamp[ \t]+: (?P<taken_at>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})",
        samples=("Timestamp                                 : Sun Nov 30 01:02:03 2025",),
        lookalikes=("Timestamp: 1764464523",),
        source=_SOURCE,
    ),
    LinePattern(
        id="gpu_tools.no_devices",
        event_name=Context.MESSAGE,
        regex=r"No devices were found[ \t]*$",
        samples=("No devices were found",),
        lookalikes=("No devices were found to be busy",),
        source=_SOURCE,
    ),
    LinePattern(
        id="gpu_tools.error_cell",
        event_name=Context.MESSAGE,
        regex=r"\|[^\n]*\bERR!",
        samples=("| ERR!   35C    P0            ERR! / 700W |       1MiB /  81559MiB |      0%      Default |",),
        lookalikes=("| N/A    35C    P0             70W / 700W |       1MiB /  81559MiB |      0%      Default |",),
        source=_SOURCE,
    ),
    LinePattern(
        id="gpu_tools.link_inactive",
        event_name=Context.MESSAGE,
        regex=r"[ \t]+Link (?P<link>\d{1,2}): <inactive>",
        samples=("\t Link 4: <inactive>",),
        lookalikes=("\t Link 4: 26.562 GB/s",),
        source=_SOURCE,
    ),
    LinePattern(
        id="dcgm.health_row",
        event_name=Context.MESSAGE,
        regex=r"\| (?:GPU ID: (?P<device_index>\d{1,3})|-> (?P<subsystem>[\w ]+?))[ \t]*\| (?P<health>Warning|Failure|Error)\b",
        samples=("| GPU ID: 3                 | Warning                                            |",),
        lookalikes=("| GPU ID: 3                 | Healthy                                            |",),
        source=_SOURCE,
    ),
    LinePattern(
        id="dcgm.xid_gauge",
        event_name=Context.XID,
        regex=r"DCGM_FI_DEV_XID_ERRORS\{(?P<labels>[^}\n]*)\} (?P<value>\d{1,4})",
        samples=(
            'DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-34d7319c-5b19-1e75-186d-c187099e4fe5",pci_bus_id="00000000:3B:00.0",'
            'device="nvidia3",modelName="NVIDIA H100",Hostname="node03",err_code="79",err_msg="GPU has fallen off the bus"} 79',
        ),
        lookalikes=('DCGM_FI_DEV_GPU_TEMP{gpu="3"} 79',),
        anchor=Anchor.ANYWHERE,
        source="formats.md H1, H6",
        build=_metric,
    ),
)
DIALECT = Dialect(name="gpu_tools", title="nvidia-smi and DCGM snapshots", patterns=PATTERNS, source=_SOURCE)
