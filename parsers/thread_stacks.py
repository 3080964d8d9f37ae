"""Threads printed by py-spy and faulthandler: their frames, what they wait for, where they stand in the user's code."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

_MAX_THREADS = 4_096
_PROCESS = re.compile(r"Process (\d{1,9}): (.*)$")
_PY_SPY_THREAD = re.compile(r'Thread (?:0x)?([0-9A-Fa-f]{1,20}) \(([^)]{1,40})\)(?:: "(.{0,200})")?')
_FAULT_THREAD = re.compile(
    r"(Current thread|Thread) (0x[0-9a-fA-F]{1,16})(?: \[([^\]]{0,200})\])? \(most recent call first\):"
)
_PY_SPY_FRAME = re.compile(r"(.{1,500}?) \(([^()]{1,1000}?)(?::(\d{1,9}))?\)$")
_FAULT_FRAME = re.compile(r'File "([^"]{1,1000})", line (\d{1,9}) in (.{0,500})$')
_WORKER_FUNCTIONS = frozenset({"_worker_loop", "_bootstrap", "_bootstrap_inner", "_pin_memory_loop"})


class WaitsOn(StrEnum):
    """What the innermost telling frame of a thread does."""

    COLLECTIVE = "collective"
    DATALOADER = "dataloader"
    QUEUE = "queue"
    FILE_LOCK = "file_lock"
    COMPILE = "compile"
    CHECKPOINT_WRITE = "checkpoint_write"
    SLEEP = "sleep"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One frame as a dump prints it; `line` is None for native code."""

    function: str
    path: str
    line: int | None
    printed_line: int | None = field(default=None, compare=False)
    """Line of the dump that holds it, 1-based."""


@dataclass(slots=True)
class Thread:
    """One printed thread; frames are innermost first, as both tools print them."""

    line_number: int
    byte_offset: int
    pid: int | None
    name: str | None
    state: str | None
    current: bool = False
    line_count: int = 1
    frames: list[StackFrame] = field(default_factory=list)

    @property
    def main(self) -> bool:
        """py-spy names the main thread; in faulthandler's dump it is the one that began at module level."""
        inner = {frame.function for frame in self.frames}
        if inner & _WORKER_FUNCTIONS:
            return False
        return self.name == "MainThread" or (bool(self.frames) and self.frames[-1].function == "<module>")


_RULES: tuple[tuple[WaitsOn, re.Pattern[str]], ...] = (
    (
        WaitsOn.COLLECTIVE,
        re.compile(
            r"torch/distributed/(?:distributed_c10d|_functional_collectives|c10d_logger)\.py|\bnccl[A-Z]|libnccl|c10d::|ProcessGroup"
            r"|\b(?:all_?reduce|all_?gather|reduce_scatter|all_?to_?all|monitored_barrier|_?barrier|broadcast\w*) "
            r"|_engine_run_backward|cuda\w*Synchronize|torch/cuda/(?:__init__|streams)\.py",
            re.IGNORECASE,
        ),
    ),
    (
        WaitsOn.COMPILE,
        re.compile(
            r"torch/_dynamo/(?:convert_frame|symbolic_convert|output_graph)\.py|torch/utils/cpp_extension\.py|triton/compiler"
            r"|torch/_inductor/(?:compile_fx|async_compile|graph|scheduler|select_algorithm|compile_worker)\b"
            r"|(?<!__call__ )torch/_inductor/codecache\.py|nvcc"
        ),
    ),
    (WaitsOn.FILE_LOCK, re.compile(r"(?i)filelock|file_lock|file_baton|fcntl|\bflock\b|lockf|portalocker")),
    (
        WaitsOn.CHECKPOINT_WRITE,
        re.compile(
            r"torch/distributed/checkpoint/|torch/serialization\.py|safetensors|dist_checkpointing"
            r"|(?<!activation_checkpointing/)checkpointing\.py"
            r"|\b(?:save_checkpoint|save_state|async_save|save_pretrained) ",
        ),
    ),
    (
        WaitsOn.DATALOADER,
        re.compile(
            r"torch/utils/data/|dataloader|data_loader|data_iterator|prefetch|\bDataset|webdataset|(?:^|[ /])datasets/"
            r"|\b(?:next_batch|get_batch|_next_data|__getitem__) ",
            re.IGNORECASE,
        ),
    ),
    (
        WaitsOn.QUEUE,
        re.compile(
            r"(?:^|[ /])queue\.py|multiprocessing/(?:queues|connection|synchronize)\.py|\bSimpleQueue|\bQueue\."
        ),
    ),
    (WaitsOn.SLEEP, re.compile(r"\bsleep |nanosleep")),
)
_WEAK = frozenset({WaitsOn.QUEUE, WaitsOn.SLEEP})
"""A queue or a sleep is only how one waits: a data loader, a compilation or a checkpoint further out says what for."""
_OUTER = frozenset({WaitsOn.DATALOADER, WaitsOn.COMPILE, WaitsOn.CHECKPOINT_WRITE, WaitsOn.FILE_LOCK})
_FRAMEWORKS = frozenset(
    "torch torchvision torchaudio torchtext deepspeed transformers accelerate lightning pytorch_lightning "
    "lightning_fabric apex transformer_engine flash_attn triton "
    "numpy pandas pyarrow ray datasets tqdm wandb jax jaxlib flax".split()
)
_INSTALLED = re.compile(r"site-packages/|dist-packages/|/lib/python\d|/lib64/python\d|^<|\.so(?:\.|$)|\.cpp$|\.cu$")
_DEPTH = 64


def waits_on(frames: Sequence[StackFrame]) -> WaitsOn:
    """What a thread waits for: the innermost telling frame decides, except that a mere queue asks further out."""
    weak: WaitsOn | None = None
    for frame in frames[:_DEPTH]:
        kind = _kind(frame)
        if kind is None:
            continue
        if weak is None and kind not in _WEAK:
            return kind
        if weak is not None and kind in _OUTER:
            return kind
        weak = weak or kind
    return weak or WaitsOn.UNKNOWN


def _kind(frame: StackFrame) -> WaitsOn | None:
    text = f"{frame.function} {frame.path}"[:512]
    return next((kind for kind, pattern in _RULES if pattern.search(text)), None)


def user_frame(frames: Sequence[StackFrame]) -> StackFrame | None:
    """The innermost frame outside Python and installed packages; py-spy cuts paths at the package (`torch/..`)."""
    return next((frame for frame in frames if _own(frame)), None)


def _own(frame: StackFrame) -> bool:
    if frame.line is None or _INSTALLED.search(frame.path):
        return False
    first, _, rest = frame.path.partition("/")
    module = first.removesuffix(".py") if not rest else first
    return module not in sys.stdlib_module_names and module not in _FRAMEWORKS


def parse_threads(text: str) -> Iterator[Thread]:
    """The threads of a dump in printed order; `Process N:` heads give the pid."""
    pid: int | None = None
    thread: Thread | None = None
    offset = 0
    count = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip()
        if match := _PROCESS.match(line):
            pid = int(match[1])
        elif begun := _begin(line, number, offset, pid):
            if thread is not None:
                yield thread
            thread, count = begun, count + 1
            if count > _MAX_THREADS:
                return
        elif thread is not None and (frame := _frame(line, number)) is not None:
            thread.frames.append(frame)
            thread.line_count += 1
        offset += len(raw.encode("utf-8", errors="replace")) + 1
    if thread is not None:
        yield thread


def _begin(line: str, number: int, offset: int, pid: int | None) -> Thread | None:
    if match := _FAULT_THREAD.match(line):
        return Thread(number, offset, pid, match[3], None, current=match[1] == "Current thread")
    if match := _PY_SPY_THREAD.match(line):
        return Thread(number, offset, pid, match[3], match[2])
    return None


def _frame(line: str, number: int) -> StackFrame | None:
    text = line.strip()
    if line[:1] not in " \t" or not text:
        return None
    if match := _FAULT_FRAME.match(text):
        return StackFrame(match[3], match[1], int(match[2]), number)
    if match := _PY_SPY_FRAME.match(text):
        return StackFrame(match[1], match[2], int(match[3]) if match[3] else None, number)
    return None
