"""Lines that PyTorch prints, by version (formats.md A1-A12, B1): prefixes, watchdog, NCCL errors, CUDA errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

SITE = "/opt/venv/lib/python3.11/site-packages"
_REMOTE = "remote process exited or there was a network error"
_HINT = (
    "Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data."
)
_SOURCES = {(2, 1): (475, 489, 495, 916), (2, 3): (563, 577, 583, 1414), (2, 4): (607, 621, 627, 1515)}
_NEWEST = (632, 684, 698, 1896)


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as its members print it."""

    local_id: int
    guid: str
    name: str
    members: tuple[int, ...]

    def tag(self, version: tuple[int, int], rank: int) -> str:
        """The second prefix of group messages (A2)."""
        own = self.members.index(rank)
        if version >= (2, 5):
            return f"[PG ID {self.local_id} PG GUID {self.guid}({self.name}) Rank {own}] "
        if version == (2, 4):
            return f"[PG {self.guid} ({self.name}) Rank {own}] "
        return f"[PG {self.guid} Rank {own}] " if version == (2, 3) else f"[Rank {own}] "


@dataclass(frozen=True, slots=True)
class Work:
    """One collective that a rank entered."""

    group: Group
    seq: int
    op: str
    numel_in: int
    numel_out: int
    timeout_ms: int

    def text(self) -> str:
        """WorkNCCL(...) as the watchdog prints it."""
        return (
            f"WorkNCCL(SeqNum={self.seq}, OpType={self.op}, NumelIn={self.numel_in}, NumelOut={self.numel_out}, "
            f"Timeout(ms)={self.timeout_ms})"
        )


@dataclass(frozen=True, slots=True)
class Torch:
    """A version of PyTorch with the NCCL it ships."""

    version: tuple[int, int]
    nccl: str

    def c10d(self, letter: str, now: datetime, rank: int | None, place: tuple[str, int], text: str) -> str:
        """A line of the C++ side (A1): no time up to 2.3, month without zero, false fraction."""
        file, line = place
        who = "" if rank is None or self.version < (2, 2) else f"[rank{rank}]:"
        if self.version < (2, 4):
            return f"{who}[{letter} {file}:{line}] {text}"
        fraction = (now.microsecond * 1117 + 90_217 * line) % 1_000_000_000
        stamp = f"{now.month}{now.day:02d} {now:%H:%M:%S}.{fraction:09d}"
        return f"{who}[{letter}{stamp} {file}:{line}] {text}"

    def agent(self, letter: str, now: datetime, pid: int, place: tuple[str, int], text: str) -> str:
        """A line of torch's Python loggers outside of workers (B1)."""
        module, line = place
        dotted = "torch." + module.removesuffix(".py").replace("/", ".")
        level = {"W": "WARNING", "E": "ERROR", "I": "INFO"}[letter]
        if self.version < (2, 3):
            return f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}] {dotted}: [{level}] {text}"
        number = pid if self.version >= (2, 5) else 139_876_000_000_000 + pid * 64
        return f"{letter}{now:%m%d %H:%M:%S}.{now.microsecond // 1000:03d}000 {number} torch/{module}:{line}] {text}"

    def hooked(self, rank: int, lines: Sequence[str]) -> list[str]:
        """A final traceback, prefixed by the excepthook (A9)."""
        if self.version < (2, 2):
            return list(lines)
        return [f"[rank{rank}]: {line}" if line else "" for line in lines]

    def cuda_error(self, text: str) -> list[str]:
        """`CUDA error: ...` with its hints (A10)."""
        kind = "torch.AcceleratorError" if self.version >= (2, 8) else "RuntimeError"
        dot = "." if self.version < (2, 3) else ""
        return [
            f"{kind}: CUDA error: {text}",
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might "
            "be incorrect.",
            f"For debugging consider passing CUDA_LAUNCH_BLOCKING=1{dot}",
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
            "",
        ]

    @property
    def oom_class(self) -> str:
        """The class of out-of-memory errors (A11)."""
        return "torch.OutOfMemoryError" if self.version >= (2, 5) else "torch.cuda.OutOfMemoryError"

    def oom(self, device: int, wanted: str = "2.00 GiB") -> str:
        """The message of an out-of-memory error, without its class."""
        total = "capacty" if self.version == (2, 1) else "capacity"
        return (
            f"CUDA out of memory. Tried to allocate {wanted}. GPU {device} has a total {total} of 79.15 GiB of which 1.05 "
            "GiB is free. Including non-PyTorch memory, this process has 78.05 GiB memory in use. Of the allocated memory "
            "70.10 GiB is allocated by PyTorch, and 5.90 GiB is reserved by PyTorch but unallocated. If reserved but "
            "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
            "fragmentation.  See documentation for Memory Management  "
            "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        )

    def lines_of(self) -> tuple[int, int, int, int]:
        """Source lines of the four watchdog messages."""
        return _SOURCES.get(self.version, _NEWEST)

    def watchdog(self, now: datetime, rank: int, work: Work, ran_ms: int, last: tuple[int, int]) -> list[str]:
        """The first lines of a collective timeout (A3); `last` = last enqueued and last completed work."""
        own = work.group.members.index(rank)
        caught, *_ = self.lines_of()
        tag = work.group.tag(self.version, rank)
        enqueued, completed = last
        out = [
            self.c10d(
                "E", now, rank, ("ProcessGroupNCCL.cpp", caught),
                f"[Rank {own}] Watchdog caught collective operation timeout: {work.text()} ran for {ran_ms} "
                "milliseconds before timing out.",
            )
        ]  # fmt: skip
        if self.version >= (2, 6):
            out.append(
                self.c10d(
                    "E", now, rank, ("ProcessGroupNCCL.cpp", 2268),
                    f"{tag} failure detected by watchdog at work sequence id: {work.seq} PG status: last enqueued work: "
                    f"{enqueued}, last completed work: {completed}",
                )
            )  # fmt: skip
        elif self.version >= (2, 4):
            out.append(
                self.c10d(
                    "E", now, rank, ("ProcessGroupNCCL.cpp", 1664),
                    f"{tag}Timeout at NCCL work: {work.seq}, last enqueued NCCL work: {enqueued}, last completed NCCL "
                    f"work: {completed}.",
                )
            )  # fmt: skip
        return out

    def dump_signal(
        self, now: datetime, rank: int, group: Group, origin: int | None, last: tuple[int, int]
    ) -> list[str]:
        """What a rank prints when a timeout makes it dump; `origin` = the rank that signalled, None = itself (A4)."""
        if self.version < (2, 6):
            return []
        tag = group.tag(self.version, rank)
        place = ("ProcessGroupNCCL.cpp", 1743)
        tail = (
            "we will try our best to dump the debug info. "
            f"Last enqueued NCCL work: {last[0]}, last completed NCCL work: {last[1]}.This is most likely caused by "
            "incorrect usages of collectives, e.g., wrong sizes used across ranks, the order of collectives is not same "
            "for all ranks or the scheduled collective, for some reason, didn't run."
        )
        if origin is None:
            first = self.c10d(
                "E", now, rank, ("ProcessGroupNCCL.cpp", 2103), f"{tag} First PG on this rank to signal dumping."
            )
            said = f"{tag}Received a dump signal due to a collective timeout from this local rank and {tail}"
        else:
            first = self.c10d(
                "E", now, rank, ("ProcessGroupNCCL.cpp", 1682),
                f"{tag}Observed flight recorder dump signal from another rank via TCPStore.",
            )  # fmt: skip
            said = f"{tag}Received a dump signal due to a collective timeout from  rank {origin} and {tail}"
        dumping = f"{tag}ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1"
        return [
            first,
            self.c10d("E", now, rank, place, said),
            self.c10d("E", now, rank, ("ProcessGroupNCCL.cpp", 1533), dumping),
        ]

    def taken_down(self, now: datetime, rank: int, group: Group, reason: Sequence[str]) -> list[str]:
        """The watchdog ends the process with an exception; `reason` = its text, the first line first (A3)."""
        _, some, avoid, terminated = self.lines_of()
        own = group.members.index(rank)
        name = "Process group watchdog" if self.version >= (2, 4) else "NCCL watchdog"
        tag = group.tag(self.version, rank)
        head = f"{tag}{name} thread terminated with exception: {reason[0]}"
        frames = _frames("checkTimeout" if "timeout" in reason[0] else "checkForNCCLErrorsInternal")
        kind = "c10::DistBackendError"
        work = "" if self.version < (2, 3) else f"[Rank {own}] "
        return [
            self.c10d(
                "E", now, rank, ("ProcessGroupNCCL.cpp", some), f"{work}Some NCCL operations have failed or timed out. {_HINT}"
            ),
            self.c10d(
                "E", now, rank, ("ProcessGroupNCCL.cpp", avoid),
                f"{work}To avoid data inconsistency, we are taking the entire process down.",
            ),
            self.c10d("E", now, rank, ("ProcessGroupNCCL.cpp", terminated), head),
            *reason[1:], *frames, "",
            f"terminate called after throwing an instance of '{kind}'",
            f"  what():  {head}", *reason[1:], *frames, "",
        ]  # fmt: skip

    def remote_error(self, last_error: str) -> list[str]:
        """The text of a lost peer as the watchdog says it (A5)."""
        return [
            f"NCCL error: {_REMOTE}, NCCL version {self.nccl}",
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
            "Last error:",
            last_error,
        ]

    def remote_exception(self, last_error: str) -> list[str]:
        """The same as a Python exception of the main thread."""
        return [
            "torch.distributed.DistBackendError: NCCL error in: "
            f"/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3384, {_REMOTE}, NCCL version {self.nccl}",
            *self.remote_error(last_error)[1:],
        ]


def _frames(function: str) -> list[str]:
    return [
        f"Exception raised from {function} at /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:635 "
        "(most recent call first):",
        f"frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f1111111111 in {SITE}/torch/lib/libc10.so)",
        f"frame #1: c10d::ProcessGroupNCCL::{function}() + 0x220 (0x7f2222222222 in {SITE}/torch/lib/libtorch_cuda.so)",
        "frame #2: <unknown function> + 0xd6df4 (0x7f3333333333 in /usr/lib/x86_64-linux-gnu/libstdc++.so.6)",
    ]


Frame = tuple[str, int, str, str]
STEP_FRAMES: tuple[Frame, ...] = (
    ("/workspace/train.py", 212, "<module>", "main()"),
    ("/workspace/train.py", 187, "main", "loss = train_step(model, batch)"),
    ("/workspace/train.py", 143, "train_step", "loss.backward()"),
    (f"{SITE}/torch/_tensor.py", 626, "backward", "torch.autograd.backward("),
)
REDUCE_FRAMES: tuple[Frame, ...] = (
    ("/workspace/train.py", 212, "<module>", "main()"),
    ("/workspace/train.py", 189, "main", "dist.all_reduce(loss)"),
    (f"{SITE}/torch/distributed/distributed_c10d.py", 2806, "all_reduce", "work = group.allreduce([tensor], opts)"),
)


def traceback(final: Sequence[str], frames: Sequence[Frame] = STEP_FRAMES) -> list[str]:
    """A Python traceback (G1); `final` = its last line, and what the message has beyond it."""
    out = ["Traceback (most recent call last):"]
    for file, line, function, source in frames:
        out += [f'  File "{file}", line {line}, in {function}', f"    {source}"]
    return out + list(final)
