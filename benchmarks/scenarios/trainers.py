"""Progress and checkpoint lines of trainers (formats.md F1-F5, I5)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum


class Trainer(StrEnum):
    """A fashion of progress lines."""

    MEGATRON = "megatron"
    TITAN = "torchtitan"
    LOGGER = "python logging"
    HF = "hf trainer"


def writes_progress(trainer: Trainer, rank: int, world: int) -> bool:
    """Megatron's last rank, the first rank of the HF trainer, every rank of the others."""
    match trainer:
        case Trainer.MEGATRON:
            return rank == world - 1
        case Trainer.HF:
            return rank == 0
        case Trainer.TITAN | Trainer.LOGGER:
            return True


def started(trainer: Trainer, now: datetime, rank: int, world: int, local: int, host: str) -> str:
    """A line of the start; most name the rank."""
    match trainer:
        case Trainer.TITAN:
            return f"[rank{rank}]:[titan] {_comma(now)} - root - INFO - Starting job: pretrain, world size {world}"
        case Trainer.LOGGER:
            return f"{_comma(now)} - trainer - INFO - init process group: rank {rank}/{world} local_rank {local} host {host}"
        case Trainer.MEGATRON:
            return "> initializing torch distributed ..."
        case Trainer.HF:
            who = f"Process rank: {rank}, device: cuda:{local}, n_gpu: 1, distributed training: True"
            return f"[WARNING|training_args.py:2125] {_comma(now)} >> {who}"


def progress(trainer: Trainer, now: datetime, rank: int, step: int, loss: float) -> str:
    """One step is done."""
    match trainer:
        case Trainer.MEGATRON:
            return (
                f" [{now:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/   50000 | consumed samples: {step * 1024:12d} | elapsed "
                f"time per iteration (ms): 5123.4 | learning rate: 1.500000E-04 | global batch size:  1024 | lm loss: "
                f"{loss:.6E} | loss scale: 1.0 | grad norm: 0.231 | number of skipped iterations:   0 | number of nan "
                "iterations:   0 |"
            )
        case Trainer.TITAN:
            return (
                f"[rank{rank}]:[titan] {_comma(now)} - root - INFO - step: {step:2d}  loss: {loss:8.5f}  grad_norm:  0.2310  "
                "memory: 70.12GiB(88.50%)  tps: 5,123  tflops: 412.34  mfu: 41.69%"
            )
        case Trainer.LOGGER:
            return f"{_comma(now)} - trainer - INFO - step {step} loss {loss:.4f} lr 1.5e-04 grad_norm 0.231"
        case Trainer.HF:
            bar = f"\r{step * 100 // 50_000:3d}%|{'#' * (step * 10 // 50_000):10}| {step}/50000 [07:30<9:10:00,  1.00s/it]"
            return (
                f"{bar}{{'loss': {loss:.4f}, 'grad_norm': 0.231, 'learning_rate': 1.5e-05, 'epoch': {step / 1000:.2f}}}"
            )


def saving(trainer: Trainer, now: datetime, rank: int, step: int) -> list[str]:
    """A checkpoint is begun; only rank 0 says so in most trainers."""
    match trainer:
        case Trainer.MEGATRON:
            return [f"saving checkpoint at iteration {step:7d} to /ckpt in torch_dist format"] if rank == 0 else []
        case Trainer.TITAN:
            said = "Saving the checkpoint (or staging if async is enabled)."
            return [f"[rank{rank}]:[titan] {_comma(now)} - root - INFO - {said}"]
        case Trainer.LOGGER:
            return [f"{_comma(now)} - trainer - INFO - Saving checkpoint to /ckpt/step_{step:06d}"] if rank == 0 else []
        case Trainer.HF:
            return (
                [f"[INFO|trainer.py:4236] {_comma(now)} >> Saving model checkpoint to out/checkpoint-{step}"]
                if rank == 0
                else []
            )


def saved(trainer: Trainer, now: datetime, rank: int, step: int) -> list[str]:
    """A checkpoint is complete."""
    match trainer:
        case Trainer.MEGATRON:
            return (
                [f"  successfully saved checkpoint from iteration {step:7d} to /ckpt [ t 1/1, p 1/1 ]"]
                if rank == 0
                else []
            )
        case Trainer.TITAN:
            said = "Finished saving the checkpoint (or staging if async is enabled)in 3.21 seconds."
            return [f"[rank{rank}]:[titan] {_comma(now)} - root - INFO - {said}"]
        case Trainer.LOGGER:
            return (
                [f"{_comma(now)} - trainer - INFO - Saved checkpoint /ckpt/step_{step:06d} in 3.2 s"]
                if rank == 0
                else []
            )
        case Trainer.HF:
            return []


def finished(trainer: Trainer, now: datetime, rank: int, step: int) -> str:
    """Training is over and all is well."""
    match trainer:
        case Trainer.MEGATRON:
            return f"[after training is done] datetime: {now:%Y-%m-%d %H:%M:%S.%f} "
        case Trainer.TITAN:
            return f"[rank{rank}]:[titan] {_comma(now)} - root - INFO - Training completed"
        case Trainer.LOGGER:
            return f"{_comma(now)} - trainer - INFO - training finished at step {step}"
        case Trainer.HF:
            return "{'train_runtime': 3600.1, 'train_samples_per_second': 81.3, 'train_loss': 2.1, 'epoch': 3.0}"


def logged(now: datetime, level: str, text: str) -> str:
    """Any line of Python's logging."""
    return f"{_comma(now)} - trainer - {level} - {text}"


def _comma(now: datetime) -> str:
    return f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}"
