"""What the numbers of other layers mean: Xids, exit codes and signals, NCCL results, InfiniBand completions, counters.

Facts: formats.md H1 (Xid), C3 (ncclResult_t, ibv_wc_status), signal(7), Slurm's exit codes, NVIDIA's manual of GPU memory
errors (row remapping).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Layer = Literal["hardware", "software", "either", "consequence", "information"]
"""Whom an Xid points at: the card and its links, the code that runs on it, either, an event before it, or nobody."""


@dataclass(frozen=True, slots=True)
class XidMeaning:
    """One number of the driver's list."""

    number: int
    layer: Layer
    meaning: str


_XIDS: dict[int, tuple[Layer, str]] = {
    8: ("either", "a channel made no progress in time"),
    13: ("software", "a kernel raised an exception on the GPU"),
    31: ("software", "a kernel touched an address that is not mapped"),
    32: ("either", "the command stream to the GPU was damaged"),
    38: ("either", "the firmware watchdog of the driver fired"),
    43: ("consequence", "the channel of a process was reset after its fault; the GPU is fine"),
    45: ("consequence", "the driver cleaned up after a process that was killed or had failed"),
    48: ("hardware", "an uncorrectable (double-bit) error in GPU memory"),
    61: ("hardware", "a micro-controller of the GPU stopped"),
    62: ("hardware", "a micro-controller of the GPU halted"),
    63: ("hardware", "a memory row was marked for remapping at the next reset"),
    64: ("hardware", "a memory row could not be remapped"),
    69: ("either", "the graphics engine refused a command"),
    74: ("hardware", "an NVLink had a fatal error"),
    79: ("hardware", "the GPU fell off the PCIe bus"),
    92: ("information", "many single-bit errors were corrected"),
    94: ("hardware", "an uncorrectable memory error, contained to one process"),
    95: ("hardware", "an uncorrectable memory error, not contained"),
    108: ("consequence", "a peer's memory could not be reached over NVLink"),
    109: ("either", "a context switch on the GPU did not end in time"),
    110: ("hardware", "a security fault of the GPU"),
    119: ("hardware", "the system processor of the GPU did not answer"),
    120: ("hardware", "the system processor of the GPU crashed"),
    121: ("hardware", "an error on the link between the chips of the module"),
    136: ("hardware", "an NVLink could not be trained"),
    137: ("consequence", "an NVLink peer used memory that it may not"),
    140: ("hardware", "an uncorrectable memory error that the firmware could not handle"),
    143: ("hardware", "the GPU could not be initialised"),
    144: ("hardware", "an NVLink 5 unit reported an error (SAW)"),
    145: ("consequence", "an NVLink 5 unit reported an error (RLW), often after the other end was lost"),
    146: ("hardware", "an NVLink 5 unit reported an error (TLW)"),
    147: ("hardware", "an NVLink 5 unit reported an error (TREX)"),
    148: ("hardware", "an NVLink 5 unit reported an error (NVLPW_CTRL)"),
    149: ("hardware", "an NVLink 5 link went down or had a fatal event (NETIR)"),
    150: ("hardware", "an NVLink 5 unit reported an error (MSE)"),
    154: ("information", "the driver says which recovery it wants"),
    155: ("hardware", "a software-defined NVLink error"),
    156: ("information", "a part of the GPU was retired and a spare took its place"),
    157: ("hardware", "a part of the GPU could not be retired: no spare is left"),
    158: ("hardware", "the GPU ran into a fatal timeout"),
    160: ("information", "a memory channel was marked for repair at the next reboot"),
    161: ("hardware", "a memory channel could not be repaired: no spare is left"),
    167: ("hardware", "a PCIe transfer ran into a fatal timeout"),
    171: ("hardware", "detail to 48: the error was in DRAM"),
    172: ("hardware", "detail to 48: the error was in SRAM"),
}


def read_xid(number: int) -> XidMeaning | None:
    """The meaning of an Xid, or None for a number that is not on the list."""
    known = _XIDS.get(number)
    return None if known is None else XidMeaning(number, *known)


_RECOVERY = re.compile(r"recovery action changed from 0x[0-9a-f]+ \(([^()]*)\) to 0x[0-9a-f]+ \(([^()]*)\)")
_CAUSED_BY = re.compile(r"caused by previous Xid (\d{1,4})")
_RESET_NEEDED = re.compile(r"\bRST: (Yes|No)\b")


def xid_detail(message: str) -> str:
    """What an Xid line says beyond its number (empty where nothing): its cause, whether a reset is needed, what is wanted."""
    if match := _RECOVERY.search(message):
        return f"the driver asks for: {match[2]} (before: {match[1]})"
    if match := _CAUSED_BY.search(message):
        return f"it follows from Xid {match[1]}"
    if match := _RESET_NEEDED.search(message):
        return "the GPU needs a reset" if match[1] == "Yes" else "no reset of the GPU is needed"
    return ""


_SIGNALS: dict[int, tuple[str, str]] = {
    1: ("SIGHUP", "its terminal or session was closed"),
    2: ("SIGINT", "it was interrupted (Ctrl-C, or a launcher passing it on)"),
    3: ("SIGQUIT", "it was told to quit with a core"),
    4: ("SIGILL", "its CPU met an instruction that it does not know"),
    5: ("SIGTRAP", "it hit a trap"),
    6: ("SIGABRT", "it aborted itself: a failed check in native code, or a watchdog"),
    7: ("SIGBUS", "it touched mapped memory without backing: /dev/shm full, or a file cut short"),
    8: ("SIGFPE", "an arithmetic error in native code"),
    9: ("SIGKILL", "it was killed from outside; the signal does not say by whom"),
    10: ("SIGUSR1", "it got user signal 1, which schedulers send as a warning"),
    11: ("SIGSEGV", "native code touched memory that it must not"),
    12: ("SIGUSR2", "it got user signal 2, which schedulers send as a warning"),
    13: ("SIGPIPE", "whoever read its output was gone"),
    14: ("SIGALRM", "a timer of its own ran out"),
    15: ("SIGTERM", "it was told to stop: scheduler, launcher or operator"),
    24: ("SIGXCPU", "its CPU time limit was used up"),
    25: ("SIGXFSZ", "a file grew past its limit"),
    31: ("SIGSYS", "a forbidden system call (seccomp)"),
}
_EXITS: dict[int, str] = {
    0: "it ended well",
    1: "an error that its own output should explain (an uncaught Python exception, mostly)",
    2: "a wrong command line, or an error of the shell",
    125: "the container runtime, or Slurm's mark for out of memory",
    126: "the command was found but could not be executed",
    127: "the command was not found",
    255: "ssh or a launcher lost its connection, or the program said -1",
}


@dataclass(frozen=True, slots=True)
class ExitMeaning:
    """How a process ended."""

    code: int
    signal: int | None
    """The signal that ended it, from a negative code (torchelastic) or 128 + n (shells, containers)."""
    name: str
    """`SIGKILL`, or `exit code 2`."""
    meaning: str


def read_exit(code: int) -> ExitMeaning:
    """What an exit code says: negative = signal, 128 + n = signal n as shells and containers report it."""
    signal = -code if code < 0 else code - 128 if 128 < code <= 128 + 64 else None
    if signal is None:
        meaning = _EXITS.get(code, "a code of the program's own")
        return ExitMeaning(code, None, f"exit code {code}", meaning)
    name, meaning = _SIGNALS.get(signal, (f"signal {signal}", "a signal without a usual meaning"))
    return ExitMeaning(code, signal, name, meaning)


_NCCL_RESULTS: dict[int, tuple[str, str]] = {
    0: ("ncclSuccess", "no error"),
    1: ("ncclUnhandledCudaError", "a CUDA call inside NCCL failed: look for the first CUDA error of the process"),
    2: ("ncclSystemError", "a system call failed: sockets, shared memory, files, memory registration"),
    3: ("ncclInternalError", "a condition that NCCL does not expect; its WARN line names it"),
    4: ("ncclInvalidArgument", "an argument was refused: a pointer, a count, a type"),
    5: ("ncclInvalidUsage", "NCCL was used wrongly: two ranks on one GPU, mixed versions, mixed calls"),
    6: ("ncclRemoteError", "another process went away, or the network to it"),
    7: ("ncclInProgress", "not done yet: no error by itself"),
    8: ("ncclTimeout", "an operation did not end in time"),
}
_NCCL_TEXTS: dict[str, int] = {
    "unhandled cuda error": 1,
    "unhandled system error": 2,
    "internal error": 3,
    "invalid argument": 4,
    "invalid usage": 5,
    "remote process exited or there was a network error": 6,
}
_NCCL_NAME = re.compile(
    r"\bnccl(?:UnhandledCudaError|SystemError|InternalError|InvalidArgument|InvalidUsage|RemoteError)\b"
)
_NCCL_NUMBER = re.compile(r"(?: -> |retcode |NCCL Error )(\d)\b")


def read_nccl(text: str) -> tuple[str, str] | None:
    """(name, meaning) of the NCCL result that a message states: by name, by its words, or by its number."""
    if match := _NCCL_NAME.search(text):
        return next(item for item in _NCCL_RESULTS.values() if item[0] == match[0])
    lowered = text.lower()
    if "nccl" in lowered:
        for words, number in _NCCL_TEXTS.items():
            if words in lowered:
                return _NCCL_RESULTS[number]
    if match := _NCCL_NUMBER.search(text):
        return _NCCL_RESULTS.get(int(match[1]))
    return None


_COMPLETIONS: dict[int, tuple[str, str]] = {
    1: ("LOC_LEN_ERR", "a message was longer than its buffer: software"),
    2: ("LOC_QP_OP_ERR", "the local queue refused the work: software or adapter"),
    4: ("LOC_PROT_ERR", "local memory was not registered for this: software"),
    5: ("WR_FLUSH_ERR", "flushed after an earlier error on the same queue: look at the first completion"),
    9: ("REM_INV_REQ_ERR", "the other end refused the request"),
    10: ("REM_ACCESS_ERR", "the other end does not allow access to that memory: often freed or dead"),
    11: ("REM_OP_ERR", "the other end could not carry it out"),
    12: ("RETRY_EXC_ERR", "no answer from the other end after all retries: dead process, dead node, link or switch"),
    13: ("RNR_RETRY_EXC_ERR", "the other end was there but never ready to receive: its process hangs"),
    21: ("FATAL_ERR", "the local adapter failed"),
    22: ("RESP_TIMEOUT_ERR", "the answer did not come in time"),
    23: ("GENERAL_ERR", "an error of the transport without a more exact name"),
}
_VENDOR: dict[int, str] = {
    129: "mlx5: transport retry counter exceeded",
    136: "mlx5: remote access refused",
    249: "mlx5: flushed",
}
_STATUS = re.compile(r"with (?:status=(?:IBV_WC_[A-Z_]+\()?|error )(\d{1,3})")
_VENDOR_ERROR = re.compile(r"vendor[_ ]err[= ](\d{1,5})")


def read_completion(text: str) -> str | None:
    """What a failed InfiniBand completion says, in one phrase; None where the text has no status."""
    match = _STATUS.search(text)
    if match is None:
        return None
    name, meaning = _COMPLETIONS.get(int(match[1]), ("an unknown status", "see ibv_wc_status"))
    vendor = _VENDOR_ERROR.search(text)
    more = f" ({_VENDOR[int(vendor[1])]})" if vendor and int(vendor[1]) in _VENDOR else ""
    return f"status {match[1]} {name}: {meaning}{more}"


_CUDA_NUMBERS: dict[int, str] = {
    2: "cuda_oom", 3: "cuda_initialization", 9: "cuda_invalid_configuration", 35: "cuda_driver_insufficient",
    46: "cuda_initialization", 98: "cuda_no_kernel_image", 100: "cuda_initialization", 101: "cuda_invalid_device",
    209: "cuda_no_kernel_image", 214: "cuda_ecc_uncorrectable", 220: "gpu_nvlink", 222: "cuda_driver_insufficient",
    700: "cuda_illegal_address", 701: "cuda_invalid_configuration", 702: "cuda_launch_failure",
    710: "cuda_device_assert", 714: "cuda_launch_failure", 715: "cuda_launch_failure",
    716: "cuda_misaligned_address", 717: "cuda_launch_failure", 718: "cuda_launch_failure",
    719: "cuda_launch_failure", 802: "cuda_initialization", 803: "cuda_driver_insufficient",
    804: "cuda_driver_insufficient", 900: "cuda_stream_capture", 999: "cuda_launch_failure",
}  # fmt: skip


def code_of_cuda_number(number: int) -> str | None:
    """The fault code of a cudaError_t, or None."""
    return _CUDA_NUMBERS.get(number)
