"""The sentences of a verdict: one or two, as a person would say them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from correlator.core.model import Collateral
from correlator.core.ranges import fold_hosts, fold_numbers
from correlator.core.vocabulary import FAULT_CLASS, CollateralKind, FaultCode
from correlator.graphs.episodes import Episode, iso

MANY = 3
"""More places than this are folded to ranges."""

PLAIN: dict[FaultCode, str] = {
    FaultCode.CUDA_OOM: "ran out of GPU memory",
    FaultCode.CUDA_ILLEGAL_ADDRESS: "made an illegal GPU memory access",
    FaultCode.CUDA_DEVICE_ASSERT: "hit a device-side assert",
    FaultCode.CUDA_LAUNCH_FAILURE: "had an unspecified GPU launch failure",
    FaultCode.CUDA_MISALIGNED_ADDRESS: "made a misaligned GPU memory access",
    FaultCode.CUDA_NO_KERNEL_IMAGE: "has a library without code for its GPU",
    FaultCode.CUDA_DRIVER_INSUFFICIENT: "found a GPU driver that does not fit its CUDA",
    FaultCode.CUDA_STREAM_CAPTURE: "did in a CUDA graph capture what none can hold",
    FaultCode.CUDA_INVALID_DEVICE: "asked for a GPU that it does not have",
    FaultCode.CUDA_INVALID_CONFIGURATION: "launched a kernel in a shape that its GPU refuses",
    FaultCode.CUDA_INITIALIZATION: "could not start CUDA",
    FaultCode.CUBLAS_CUDNN_FAILURE: "failed in a CUDA library (cuBLAS or cuDNN)",
    FaultCode.CUDA_ECC_UNCORRECTABLE: "met an uncorrectable GPU memory error (ECC)",
    FaultCode.NATIVE_SEGFAULT: "crashed with a segmentation fault",
    FaultCode.NATIVE_ABORT: "aborted in native code",
    FaultCode.NATIVE_BUS_ERROR: "crashed with a bus error",
    FaultCode.GPU_OFF_BUS: "lost its GPU (fallen off the bus)",
    FaultCode.GPU_ECC_DBE: "met an uncorrectable GPU memory error (ECC)",
    FaultCode.GPU_NVLINK: "had a fatal NVLink error",
    FaultCode.GPU_GSP_TIMEOUT: "lost its GPU's system processor (GSP)",
    FaultCode.GPU_MMU_FAULT: "had a page fault on its GPU",
    FaultCode.GPU_THERMAL: "ran into the heat limit of its GPU",
    FaultCode.ILLEGAL_INSTRUCTION: "crashed on an instruction that its CPU lacks",
    FaultCode.NODE_LOST: "was lost",
    FaultCode.HOST_OOM_KILL: "was killed by the kernel for host memory",
    FaultCode.PROCESS_KILLED: "was killed (SIGKILL) by an unknown sender",
    FaultCode.PREEMPTED: "was stopped from outside",
    FaultCode.DISK_FULL: "could not write: the disk is full",
    FaultCode.STORAGE_IO: "failed on storage",
    FaultCode.SHM_EXHAUSTED: "ran out of shared memory (/dev/shm)",
    FaultCode.FILE_DESCRIPTOR_LIMIT: "ran out of file descriptors",
    FaultCode.NCCL_INTERNAL_ERROR: "failed inside NCCL",
    FaultCode.PYTHON_EXCEPTION: "failed with an exception",
    FaultCode.DATALOADER_WORKER_DIED: "lost a data-loader worker",
    FaultCode.COLLECTIVE_MISMATCH: "called another collective than its peers",
    FaultCode.RANK_STALLED: "never came to a collective in which its peers waited",
    FaultCode.NETWORK_FAULT: "had a network link fail",
    FaultCode.NCCL_INIT_FAILURE: "could not set up NCCL",
    FaultCode.RENDEZVOUS_TIMEOUT: "did not come to the rendezvous",
    FaultCode.IMPORT_ERROR: "could not import a module",
    FaultCode.ASSERTION_FAILURE: "failed an assertion",
    FaultCode.NAN_LOSS: "stopped on a loss that is not a number",
    FaultCode.CHECKPOINT_SAVE_FAILURE: "failed to save a checkpoint",
    FaultCode.CHECKPOINT_LOAD_FAILURE: "failed to load a checkpoint",
    FaultCode.DATA_ERROR: "failed on its input data",
    FaultCode.CONFIG_ERROR: "was configured wrongly",
    FaultCode.SILENT_EXIT: "left with a non-zero exit code and no word",
}
"""What a fault did, as the end of a sentence that begins with who. Others are said by their code."""

_KIND_PLAIN: dict[str, str] = {
    CollateralKind.COLLECTIVE_TIMEOUT: "waited for it until their watchdogs fired",
    CollateralKind.REMOTE_PEER_LOST: "lost the connection to a peer",
    CollateralKind.STORE_LOST: "lost the store",
    CollateralKind.TERMINATED_BY_LAUNCHER: "were stopped by their launcher",
    CollateralKind.SCHEDULER_CANCEL: "were cancelled with the job",
    CollateralKind.SECONDARY_ABORT: "aborted in its wake",
    CollateralKind.HEARTBEAT_EXIT: "were ended by their heartbeat monitor",
    CollateralKind.CONTEXT_POISONED: "failed on a poisoned CUDA context",
    CollateralKind.SILENT_EXIT: "vanished with it",
    CollateralKind.ACTOR_DIED: "died as actors",
}


def said(code: str) -> str:
    """What a fault did, in words."""
    fault = FaultCode(code)
    return PLAIN.get(fault, f"failed with {fault.value.replace('_', ' ')} ({FAULT_CLASS[fault].value})")


def _told(root: Episode) -> str:
    """What an episode did, in words; of a Python exception its type and the user's line."""
    if root.code != FaultCode.PYTHON_EXCEPTION:
        return said(root.code)
    kind = next((f.exception_type for f in root.facts if f.exception_type), None)
    frame = next((f.frame for f in root.facts if f.frame), None)
    words = f"raised {kind.rpartition('.')[2]}" if kind else "ended after an error that nothing knows"
    return f"{words} at {frame}" if frame else words


def who(roots: Sequence[Episode]) -> str:
    """`rank 17 on node02`, `ranks 32-39 on node04`, `node05`, `the job`."""
    ranks = [root.rank for root in roots if root.rank is not None]
    nodes = list(dict.fromkeys(root.node for root in roots if root.node))
    if not ranks:
        return (fold_hosts(nodes) if len(nodes) > MANY else " and ".join(nodes)) or "the job"
    if len(ranks) == 1 or len(nodes) <= 1:
        name = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {fold_numbers(ranks)}"
        return name + (f" on {nodes[0]}" if nodes else "")
    if len(roots) > MANY:
        return f"ranks {fold_numbers(ranks)} on {fold_hosts(nodes)}"
    return " and ".join(root.where for root in roots)


def identified(
    roots: Sequence[Episode], collateral: Sequence[Collateral], during: str | None = None, began: str | None = None
) -> str:
    """The verdict on one initiator, or on several that are one fault.

    `during` tells where in the run it broke, `began` when (ISO 8601, as the initiator has it).
    """
    root = roots[0]
    when = began[:19].replace("T", " ") if began else clock_time(root.onset_ns)
    step = f" in step {root.step}" if root.step is not None and not during else ""
    subject = who(roots)
    first = f"{_sentence(subject)} {_told(root)}{step}" + (f" at {when}" if when else "")
    first += f", {during}." if during else "."
    return f"{first} {_rest(collateral)}".rstrip()


def _sentence(subject: str) -> str:
    """The subject at the head of a sentence; host names keep their spelling."""
    return subject[0].upper() + subject[1:] if subject.startswith(("rank", "the ")) else subject


def clock_time(ns: int | None) -> str | None:
    """`2025-11-30 01:02:03` for a sentence, or None."""
    stamp = iso(ns, zoned=False)
    return None if stamp is None else stamp[:19].replace("T", " ")


def tied(
    roots: Sequence[Episode], collateral: Sequence[Collateral], during: str | None = None, began: str | None = None
) -> str:
    """The verdict on several independent faults that no clock can order."""
    if len({root.code for root in roots}) == 1:
        return f"{identified(roots, collateral, during, began)} Nothing orders them: treat them as one cause."
    parts = "; ".join(f"{root.where} {_told(root)}" for root in roots)
    return f"Several began independently: {parts}. No clock here can order them. {_rest(collateral)}".rstrip()


def undetermined(missing: Sequence[str], reason: str) -> str:
    """Why nobody is named, and what to get."""
    ask = f" Get {missing[0]}." if missing else ""
    return f"These files cannot tell who started it: {reason}.{ask}"


def _rest(collateral: Sequence[Collateral]) -> str:
    counts = Counter(entry.kind for entry in collateral if entry.rank is not None)
    if not counts:
        return ""
    parts = [f"{number} {_kind_said(kind, number)}" for kind, number in counts.most_common(3)]
    return "Of the other ranks " + ", ".join(parts) + "."


def _kind_said(kind: str, number: int) -> str:
    words = _KIND_PLAIN.get(kind, kind.replace("_", " "))
    return words.replace("were ", "was ", 1).replace("their ", "its ") if number == 1 else words
