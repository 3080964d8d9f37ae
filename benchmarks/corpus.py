"""A run directory of any size, always the same for the same arguments: what a 64-rank Megatron job leaves behind.

    python -m benchmarks.corpus /tmp/corpus --size 1GB

One file a rank, in four prefix dialects; mean line 134 bytes; 18 % progress lines; NCCL noise; watchdog, traceback and
peer errors at the end of each rank and a few on the way; now and then a NUL byte, bytes that are no UTF-8, a line of 50
KB, a progress bar of carriage returns.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

BEGIN = datetime(2025, 11, 30, 1, 2, 3, tzinfo=UTC)
PROGRESS_SHARE = 0.18
BAD_BYTES_EVERY = 20_000
LONG_LINE_EVERY = 120_000
BAR_EVERY = 40_000
FAULT_EVERY = 4_000
BLOCK_LINES = 2_000
_NOISE_POOL = 4_000
_NOW = "<now>"
_NOW_BYTES = _NOW.encode()
MEAN_LINE_BYTES = 134
_LIVELY = 0.95
"""After this share of the expected number of steps rank 11 fails, and nobody gets any further."""

_SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe qui ro su ta ve wi xo ya ze".split()
_TIMEOUT = (
    "[E{c10d} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={step}, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600012 "
    "milliseconds before timing out."
)
_FAULTS = (
    "node{node:02d}:{pid}:{tid} [{local}] NCCL WARN NET/IB : Got completion from peer 10.0.0.{node}<45123> with "
    "status=12 opcode=0 len=0 vendor err 129 (Recv) localGid ::ffff:10.0.0.{node}",
    "[{stamp}] WARNING could not read shard {step} of the data set, trying again in 5 s: ConnectionResetError: "
    "[Errno 104] Connection reset by peer",
)
_TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/workspace/train.py", line 212, in <module>',
    "    main()",
    '  File "/workspace/train.py", line 187, in main',
    "    loss = step(model, batch)",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {local} has a total capacity of "
    "79.11 GiB of which 1.10 GiB is free.",
)


@dataclass(frozen=True, slots=True)
class Rank:
    """Who writes a file."""

    rank: int

    @property
    def node(self) -> int:
        """The node, eight ranks each."""
        return self.rank // 8

    @property
    def local(self) -> int:
        """The rank on its node."""
        return self.rank % 8

    @property
    def prefix(self) -> str:
        """The four ways in which launchers mark the lines of a rank; a node uses one of them."""
        return ("", f"[default{self.local}]:", f"[rank{self.rank}]:", f"{self.rank:2d}: ")[self.node % 4]


def write_corpus(folder: Path, size_bytes: int, files: int = 64, seed: int = 1) -> int:
    """Write the run; returns its size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    return sum(
        _write_file(folder / f"rank_{rank:05d}.log", Rank(rank), size_bytes // files, seed) for rank in range(files)
    )


def _write_file(path: Path, who: Rank, size_bytes: int, seed: int) -> int:
    rng = random.Random(f"{seed}:{who.rank}")
    written = 0
    with path.open("wb") as out:
        steps = int(size_bytes / MEAN_LINE_BYTES * PROGRESS_SHARE * _LIVELY)
        for block in _blocks(who, rng, steps):
            if written + len(block) >= size_bytes:
                written += out.write(block[: max(size_bytes - written, 0)].rpartition(b"\n")[0] + b"\n")
                break
            written += out.write(block)
        written += out.write(_last_words(who, steps))
    return written


def _blocks(who: Rank, rng: random.Random, steps: int) -> Iterator[bytes]:
    """Blocks of lines without end."""
    noise = [_noise(who, rng) for _ in range(_NOISE_POOL)]
    number, step, now, shown = 0, 0, BEGIN, b"2025-11-30 01:02:03,000"
    while True:
        lines: list[bytes] = []
        for _ in range(BLOCK_LINES):
            number += 1
            if rng.random() < PROGRESS_SHARE and step < steps:
                step += 1
                now = _when(step, rng.random())
                shown = f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}".encode()
                lines.append(_progress(who, rng, step, now))
            else:
                line = _special(who, rng, number, step, now) or noise[int(rng.random() * _NOISE_POOL)]
                lines.append(line.replace(_NOW_BYTES, shown))
        yield b"\n".join(lines) + b"\n"


def _when(step: int, lateness: float) -> datetime:
    """When a step ends, on a rank that prints it up to 20 ms late."""
    return BEGIN + timedelta(seconds=step, milliseconds=20 * lateness)


def _progress(who: Rank, rng: random.Random, step: int, now: datetime) -> bytes:
    return (
        f"{who.prefix} [{now:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/  500000 | elapsed time per iteration (ms): "
        f"{950 + 100 * rng.random():.1f} | lm loss: {2 + rng.random():.6E} |"
    ).encode()


def _noise(who: Rank, rng: random.Random) -> bytes:
    """One of the lines that mean nothing, about 130 bytes long."""
    if rng.random() < 0.4:
        peer = Rank((who.rank + 1) % 64)
        text = (
            f"node{who.node:02d}:{4000 + who.local}:{4100 + who.local} [{who.local}] NCCL INFO "
            f"Channel {rng.randrange(32):02d}/0 : {who.rank}[{who.local}] -> {peer.rank}[{peer.local}] "
            f"via P2P/CUMEM/read {rng.getrandbits(64):016x}"
        )
    else:
        words = " ".join("".join(rng.choices(_SYLLABLES, k=rng.randrange(1, 4))) for _ in range(rng.randrange(9, 30)))
        text = f"[{_NOW}] INFO data.loader {words}"
    return (who.prefix + text).encode()


def _special(who: Rank, rng: random.Random, number: int, step: int, now: datetime) -> bytes | None:
    """Now and then a line that is not like the others."""
    if number % FAULT_EVERY == 0:
        return (who.prefix + _fault(who, rng, step, now)).encode()
    if number % LONG_LINE_EVERY == 0:
        return who.prefix.encode() + b"state: " + b"0123456789abcdef" * 3200
    if number % BAR_EVERY == 0:
        return b"\r".join(b"Loading: %3d%%|%-20s| %d/100" % (n, b"#" * (n // 5), n) for n in range(0, 101, 5))
    if number % BAD_BYTES_EVERY == 0:
        return who.prefix.encode() + (b"cache \0\0\0 flushed" if rng.random() < 0.5 else b"name: caf\xe9 \xff\xfe")
    return None


def _fault(who: Rank, rng: random.Random, step: int, now: datetime) -> str:
    return rng.choice(_FAULTS).format(
        c10d=f"{now:%m%d %H:%M:%S.%f}", stamp=f"{now:%Y-%m-%d %H:%M:%S}", rank=who.rank, node=who.node, local=who.local,
        step=step, pid=4000 + who.local, tid=4100 + who.local,
    )  # fmt: skip


def _last_words(who: Rank, steps: int) -> bytes:
    """Rank 11 runs out of memory; all others time out ten minutes later."""
    if who.rank == 11:
        return "".join(f"{who.prefix}{line.format(local=who.local)}\n" for line in _TRACEBACK).encode()
    text = _TIMEOUT.format(c10d=f"{_when(steps + 600, 0):%m%d %H:%M:%S.%f}", rank=who.rank, step=steps + 1)
    return f"{who.prefix}{text}\n".encode()


def size_of(text: str) -> int:
    """`100MB`, `1GB` or a plain number of bytes."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if text.upper().endswith(unit):
            return int(float(text[: -len(unit)]) * factor)
    return int(text)


def main() -> None:
    """Write a corpus from the command line."""
    arguments = argparse.ArgumentParser(description="Write a generated run directory.")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--size", type=size_of, default=size_of("1GB"))
    arguments.add_argument("--files", type=int, default=64)
    arguments.add_argument("--force", action="store_true", help="replace the folder")
    options = arguments.parse_args()
    if options.force and options.folder.exists():
        shutil.rmtree(options.folder)
    print(f"{write_corpus(options.folder, options.size, options.files)} bytes in {options.files} files")


if __name__ == "__main__":
    main()
