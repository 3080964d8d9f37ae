"""Kernel log lines (formats.md H1-H4): what the kernel says, and how a transport writes it down."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from benchmarks.scenarios.cluster import Node


class Transport(StrEnum):
    """How kernel messages were saved."""

    SYSLOG = "syslog"
    DMESG = "dmesg -T"
    ISO = "journalctl -o short-iso-precise"


def stamped(transport: Transport, node: Node, at: float, texts: Sequence[str]) -> list[str]:
    """Kernel messages as the transport prints them on the node's clock."""
    now = node.local(at)
    match transport:
        case Transport.SYSLOG:
            head = f"{now:%b} {now.day:2d} {now:%H:%M:%S} {node.name} kernel: [{at - node.boot_s:13.6f}] "
        case Transport.DMESG:
            head = f"[{now:%a %b} {now.day:2d} {now:%H:%M:%S %Y}] "
        case Transport.ISO:
            head = f"{now:%Y-%m-%dT%H:%M:%S.%f}{node.zone} {node.name} kernel: "
    return [head + text for text in texts]


def xid(bus: str, code: int, text: str, pid: int | None = None, name: str = "pt_main_thread") -> str:
    """An Xid of the NVIDIA driver."""
    who = "" if pid is None else f"pid={pid}, name={name}, "
    return f"NVRM: Xid (PCI:{bus}): {code}, {who}{text}"


def off_bus(bus: str, pid: int) -> list[str]:
    """Xid 79 with what the driver says after it."""
    return [
        xid(bus, 79, "GPU has fallen off the bus.", pid),
        f"NVRM: GPU {bus}.0: GPU has fallen off the bus.",
        f"NVRM: GPU {bus}.0: GPU serial number is 1650123456789.",
        xid(bus, 154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
    ]


def double_bit(bus: str, pid: int) -> list[str]:
    """An uncorrectable memory error that was contained."""
    return [
        xid(bus, 48, "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at physAddr "
            "0x7fdf0de80 partition 5, subpartition 1", pid),
        xid(bus, 63, "Row Remapper: New row (0x0000000018f31d80) marked for remapping, reset gpu to activate."),
        xid(bus, 94, "Contained: DRAM (0x2, 0x1). physAddr: 0x000000fa00 RST: No, D-RST: No", pid),
    ]  # fmt: skip


def page_fault(bus: str, pid: int) -> str:
    """Xid 31: an access outside of what is mapped."""
    return xid(
        bus, 31,
        "Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f2a_04000000. Fault is of "
        "type FAULT_PDE ACCESS_TYPE_VIRT_READ", pid,
    )  # fmt: skip


def nvlink(bus: str, pid: int | None, link: int = 14) -> str:
    """Xid 74."""
    return xid(bus, 74, f"NVLink: fatal error detected on link {link}(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)", pid)


def memory_kill(pid: int, *, cgroup: bool, name: str = "python3") -> list[str]:
    """The OOM killer's block, global or of a cgroup."""
    scope = "CONSTRAINT_MEMCG" if cgroup else "CONSTRAINT_NONE"
    where = "oom_memcg=/slurm/uid_1000/job_77" if cgroup else "global_oom"
    head = "Memory cgroup out of memory" if cgroup else "Out of memory"
    return [
        f"{name} invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
        f"oom-kill:constraint={scope},nodemask=(null),cpuset=/,mems_allowed=0-1,{where},task_memcg=/slurm/uid_1000/job_77,"
        f"task={name},pid={pid},uid=1000",
        f"{head}: Killed process {pid} ({name}) total-vm:87033376kB, anon-rss:60356340kB, file-rss:0kB, shmem-rss:0kB, "
        "UID:1000 pgtables:169956kB oom_score_adj:0",
        f"oom_reaper: reaped process {pid} ({name}), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
    ]


def segfault(pid: int, library: str, name: str = "python3") -> list[str]:
    """A segmentation fault as the kernel saw it."""
    return [
        f"{name}[{pid}]: segfault at 10 ip 00007f8a1b2c3d40 sp 00007ffd5e6f7a80 error 4 in {library}[7f8a1b200000+1c0000] "
        "likely on CPU 18 (core 2, socket 1)",
        "Code: ff ff 48 89 e5 41 57 41 56 41 55 41 54 53 48 83 ec 28 48 8b 07 <48> 8b 40 10",
    ]


QUIET = (
    'audit: type=1400 audit({epoch:.3f}:42): apparmor="STATUS" operation="profile_replace" name="snap.lxd"',
    "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
    "perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
    "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    "mlx5_core 0000:5c:00.0: mlx5_cmd_out_err:838:(pid 123): ACCESS_REG(0x805) op_mod(0x0) failed, status bad operation(0x2), "
    "syndrome (0x15c356), err(-22)",
)  # fmt: skip
"""What kernels say on healthy days."""
