"""Flight-recorder dumps as torch pickles them (formats.md D)."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.scenarios.torch_text import STEP_FRAMES, Group, Torch

_NAMES = {
    "ALLREDUCE": "nccl:all_reduce",
    "_ALLGATHER_BASE": "nccl:_all_gather_base",
    "_REDUCE_SCATTER_BASE": "nccl:_reduce_scatter_base",
    "BROADCAST": "nccl:broadcast",
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One entry: a collective that this rank enqueued, on its host's clock."""

    group: Group
    seq: int
    op: str
    numel_in: int
    numel_out: int
    created_ns: int
    completed: bool


def dump(
    torch: Torch, entries: Sequence[Recorded], groups: Sequence[Group], timeout_ms: int, *, frames: bool = True
) -> bytes:
    """The pickle of one rank; entries in the order of their enqueueing."""
    version = {(2, 4): "2.1", (2, 6): "2.4"}.get(torch.version, "2.10")
    records = [_entry(number, one, timeout_ms, frames=frames) for number, one in enumerate(entries)]
    status = {}
    for group in groups:
        own = [one for one in entries if one.group.guid == group.guid]
        enqueued = max((one.seq for one in own), default=-1)
        completed = max((one.seq for one in own if one.completed), default=-1)
        status[str(group.local_id)] = {
            "last_enqueued_collective": enqueued,
            "last_started_collective": -1,
            "last_completed_collective": completed,
        }
    content: dict[str, Any] = {
        "version": version,
        "entries": records,
        "pg_config": {
            str(group.local_id): {"name": group.guid, "desc": group.name, "ranks": str(list(group.members))}
            for group in groups
        },
    }
    if version != "2.1":
        content["pg_status"] = status
    return pickle.dumps(content, protocol=2)


def _entry(number: int, one: Recorded, timeout_ms: int, *, frames: bool) -> dict[str, Any]:
    done = one.created_ns + 40_000_000 if one.completed else None
    entry: dict[str, Any] = {
        "record_id": number,
        "pg_id": one.group.local_id,
        "process_group": (one.group.guid, one.group.name),
        "collective_seq_id": one.seq,
        "p2p_seq_id": 0,
        "op_id": one.seq,
        "profiling_name": _NAMES[one.op],
        "time_created_ns": one.created_ns,
        "input_sizes": [[one.numel_in]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[one.numel_out]],
        "output_dtypes": ["BFloat16"],
        "state": "completed" if one.completed else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": done,
        "retired": one.completed,
        "timeout_ms": timeout_ms,
        "is_p2p": False,
    }
    if frames:
        entry["frames"] = [
            {"name": function, "filename": file, "line": line} for file, line, function, _ in reversed(STEP_FRAMES)
        ]
    return entry
