"""What a thread waits for, and where in the user's code it stands, from its frames (innermost first)."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


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


_RULES: tuple[tuple[WaitsOn, re.Pattern[str]], ...] = (
    (
        WaitsOn.COLLECTIVE,
        re.compile(
            r"torch/distributed/(?:distributed_c10d|_functional_collectives|c10d_logger)\.py|nccl|c10d|ProcessGroup|Work\.wait"
            r"|\b(?:all_?reduce|all_?gather|reduce_scatter|all_?to_?all|monitored_barrier|_?barrier|broadcast\w*) "
            r"|_engine_run_backward|cuda\w*Synchronize|torch/cuda/(?:__init__|streams)\.py",
            re.IGNORECASE,
        ),
    ),
    (
        WaitsOn.COMPILE,
        re.compile(r"torch/_inductor/|torch/_dynamo/|torch/utils/cpp_extension\.py|triton/|_TORCH_COMPILE|nvcc"),
    ),
    (WaitsOn.FILE_LOCK, re.compile(r"(?i)filelock|file_lock|file_baton|fcntl|\bflock\b|lockf|portalocker")),
    (
        WaitsOn.CHECKPOINT_WRITE,
        re.compile(
            r"torch/distributed/checkpoint/|torch/serialization\.py|safetensors|dist_checkpointing|checkpointing\.py"
            r"|\b(?:save_checkpoint|save_state|async_save|save_pretrained) ",
        ),
    ),
    (
        WaitsOn.DATALOADER,
        re.compile(
            r"torch/utils/data/|dataloader|data_loader|data_iterator|prefetch|\b(?:next_batch|get_batch|_next_data|__getitem__) "
            r"|\bDataset|webdataset|(?:^|[ /])datasets/",
            re.IGNORECASE,
        ),
    ),
    (WaitsOn.QUEUE, re.compile(r"(?:^|[ /])queue\.py|multiprocessing/(?:queues|connection|synchronize)\.py|\bSimpleQueue|\bQueue\.")),
    (WaitsOn.SLEEP, re.compile(r"\bsleep |nanosleep")),
)
_WEAK = frozenset({WaitsOn.QUEUE, WaitsOn.SLEEP})
"""A queue or a sleep is only how one waits: a data loader, a compilation or a checkpoint further out says what for."""
_OUTER = frozenset({WaitsOn.DATALOADER, WaitsOn.COMPILE, WaitsOn.CHECKPOINT_WRITE, WaitsOn.FILE_LOCK})
_FRAMEWORKS = frozenset(
    "torch torchvision torchaudio torchtext deepspeed transformers accelerate lightning pytorch_lightning lightning_fabric "
    "apex transformer_engine flash_attn triton numpy pandas pyarrow ray datasets tqdm wandb jax jaxlib flax".split()
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
    """The innermost frame outside Python itself and installed packages; py-spy cuts paths at the package (`torch/..`)."""
    return next((frame for frame in frames if _own(frame)), None)


def _own(frame: StackFrame) -> bool:
    if frame.line is None or _INSTALLED.search(frame.path):
        return False
    first, _, rest = frame.path.partition("/")
    module = first.removesuffix(".py") if not rest else first
    return module not in sys.stdlib_module_names and module not in _FRAMEWORKS
