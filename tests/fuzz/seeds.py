"""Where the search begins: real lines, documents and archives, small, so that chance gets far."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import zstandard

from correlator.core.catalogue.loader import BUILTIN_FILES
from correlator.parsers.table import pattern_table

ROOT = Path(__file__).parent.parent.parent
STAMPS = (
    "2025-11-30 23:59:59,123", "E1130 23:59:59.123456", "Nov 30 23:59:59", "Sun Nov 30 23:59:59 2025", "11/30/2025 23:59:59",
    "2025-11-30T23:59:59.123456789Z", "30/Nov/2025:23:59:59 +0000", "1764547199.123", "[12345.678901]", "23:59:59", "20251130-23:59:59",
)  # fmt: skip


def seeds(target: str) -> Iterator[bytes]:
    """Inputs of one target that it takes."""
    match target:
        case "peeler" | "lines" | "engines":
            yield from _samples()
            yield from _heads(2000)
        case "timestamps":
            yield from (stamp.encode() for stamp in STAMPS)
            yield from ("\n".join(f"{stamp} step {n}" for n in range(4)).encode() for stamp in STAMPS)
        case "pickles" | "flight_recorder":
            yield from _dumps()
        case "documents":
            yield from _documents()
        case "catalogue":
            for name in BUILTIN_FILES:
                text = (ROOT / "correlator" / "core" / "catalogue" / name).read_bytes()
                yield from (b"[" + part for part in text.split(b"\n[")[1:30:9])
        case "archives":
            yield from (bytes([number]) + data for number, data in enumerate(_archives()))
        case "whole_run":
            yield from _heads(6000)
            yield from (b"x\n\0FILE nccl_trace_rank_%d\n" % rank + dump for rank, dump in enumerate(_dumps()))


def _samples() -> Iterator[bytes]:
    for pattern in pattern_table().patterns:
        yield from (sample.encode() for sample in pattern.samples[:1])


def _heads(size: int) -> Iterator[bytes]:
    for path in sorted((ROOT / "sample_runs").glob("*/run/**/*.log"))[::9]:
        data = path.read_bytes()
        yield data[:size]
        yield data[-size:]


def _dumps() -> Iterator[bytes]:
    entry = {
        "record_id": 7, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 7, "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_764_547_199_000_000_000, "input_sizes": ((8,),), "output_sizes": ((8,),), "state": "started",
        "frames": [{"name": "step", "filename": "train.py", "line": 41}], "retired": False, "timeout_ms": 600_000,
    }  # fmt: skip
    status = {"0": {"last_enqueued_collective": 9, "last_started_collective": 7, "last_completed_collective": 6}}
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    value = {"version": "2.4", "entries": [entry, {**entry, "record_id": 8}], "pg_config": config, "pg_status": status}
    yield from (pickle.dumps(value, protocol) for protocol in range(6))
    yield json.dumps(value).encode()
    yield pickle.dumps([entry], 2)


def _documents() -> Iterator[bytes]:
    stack = (
        "Traceback (most recent call last):\n  File \"/w/train.py\", line 41, in step\n    x[key]\nKeyError: 'mixed'\n"
    )
    extra = {"py_callstack": stack, "timestamp": "1764464523"}
    yield json.dumps({"message": {"message": "KeyError: 'mixed'", "extraInfo": extra, "errorCode": 1}}).encode()
    yield json.dumps({"message": "RuntimeError: boom", "timestamp": 1764464523}).encode()
    for path in sorted((ROOT / "sample_runs").glob("*/run/**/*pyspy*/*"))[:3]:
        yield path.read_bytes()[:3000]


def _archives() -> Iterator[bytes]:
    line = b"[rank3]: 2026-03-01 10:00:00,123 torch.OutOfMemoryError: CUDA out of memory\n"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in ("run/rank_3.log", "run/rank_4.log"):
            info = tarfile.TarInfo(name)
            info.size = len(line)
            tar.addfile(info, io.BytesIO(line))
    yield buffer.getvalue()
    yield gzip.compress(buffer.getvalue(), mtime=0)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("run/rank_3.log", line * 3)
    yield packed.getvalue()
    yield zstandard.ZstdCompressor().compress(line * 9)
    yield gzip.compress(line * 9, mtime=0)
