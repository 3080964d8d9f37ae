"""`correlator.read_flight_recorder`: what torch writes is what we read; what is no dump is said so."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import correlator
from correlator.core.errors import InputError

ENTRY: dict[str, Any] = {
    "frames": [{"name": "step", "filename": "/workspace/train.py", "line": 88}],
    "record_id": 7,
    "pg_id": 2,
    "process_group": ("5", "mesh_dp"),
    "collective_seq_id": 4711,
    "p2p_seq_id": 0,
    "op_id": 4712,
    "profiling_name": "nccl:_all_gather_base",
    "time_created_ns": 1_764_464_523_123_456_789,
    "input_sizes": [[1024]],
    "input_dtypes": ["BFloat16"],
    "output_sizes": [[16, 1024]],
    "output_dtypes": ["BFloat16"],
    "state": "started",
    "time_discovered_started_ns": 1_764_464_523_223_456_789,
    "time_discovered_completed_ns": None,
    "retired": False,
    "timeout_ms": 600_000,
    "is_p2p": False,
}
DUMP: dict[str, Any] = {
    "version": "2.4",
    "entries": [ENTRY],
    "pg_config": {"5": {"name": "5", "desc": "mesh_dp", "ranks": "[3, 11]"}},
    "pg_status": {
        "2": {"last_enqueued_collective": 4713, "last_started_collective": 4711, "last_completed_collective": 4710}
    },
}

WRITE_DUMPS = """
import os, sys
os.environ["TORCH_FR_BUFFER_SIZE"] = "64"
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # else it looks for an address of the host's name
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, folder, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    pair = dist.new_group([0, 1], group_desc="mesh_tp")
    values = torch.ones(4, 8)
    dist.all_reduce(values)
    dist.broadcast(values, 0)
    dist.all_gather([torch.zeros(4, 8) for _ in range(2)], values)
    dist.all_reduce(torch.ones(2, dtype=torch.int64), group=pair)
    dist.send(values, 1) if rank == 0 else dist.recv(values, 0)
    dist.barrier()
    from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json
    with open(os.path.join(folder, f"comm_lib_trace_rank_{rank}"), "wb") as file:
        file.write(_dump_fr_trace())
    text = _dump_fr_trace_json()
    with open(os.path.join(folder, f"trace_rank_{rank}.json"), "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, args=(sys.argv[1], sys.argv[2]), nprocs=2)
"""
COMPARED = (
    "record_id pg_id collective_seq_id p2p_seq_id op_id profiling_name time_created_ns time_discovered_started_ns "
    "time_discovered_completed_ns state timeout_ms retired is_p2p thread_id thread_name"
).split()


def plain(entry: Any) -> dict[str, Any]:
    """An entry of ours in the shape of torch's."""
    found = {name: getattr(entry, name) for name in COMPARED}
    found |= {
        "process_group": (entry.process_group, entry.description),
        "input_sizes": [list(shape) for shape in entry.input_sizes],
        "output_sizes": [list(shape) for shape in entry.output_sizes],
        "input_dtypes": list(entry.input_dtypes),
        "output_dtypes": list(entry.output_dtypes),
        "frames": [{"name": frame.name, "filename": frame.filename, "line": frame.line} for frame in entry.frames],
    }
    return found


@pytest.mark.slow
def test_it_reads_what_torch_itself_writes(tmp_path: Path) -> None:
    """Dumps of two real ranks (CPU, gloo): the same entries as torch's own loader gives, from pickle and from JSON."""
    pytest.importorskip("torch")
    loader = pytest.importorskip("torch.distributed.flight_recorder.components.loader")
    script = tmp_path / "write_dumps.py"
    script.write_text(WRITE_DUMPS)
    port = str(random.SystemRandom().randint(20_000, 40_000))
    subprocess.run([sys.executable, str(script), str(tmp_path), port], check=True, timeout=100)
    for rank in (0, 1):
        file = tmp_path / f"comm_lib_trace_rank_{rank}"
        theirs = loader.read_dump("comm_lib_trace_rank_", str(file))
        ours = correlator.read_flight_recorder(file)
        assert (ours.rank, ours.version, ours.problem) == (rank, theirs["version"], None)
        assert len(ours.entries) >= 4
        wanted = [{name: entry[name] for name in plain(ours.entries[0])} for entry in theirs["entries"]]
        assert [plain(entry) for entry in ours.entries] == wanted
        later = {"frames": [], "retired": True}  # JSON has no frames, and is written a moment after the pickle
        read = correlator.read_flight_recorder(tmp_path / f"trace_rank_{rank}.json")
        assert [plain(entry) | later for entry in read.entries] == [plain(entry) | later for entry in ours.entries]
        assert read.rank == rank


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("form", ["pickle", "json"])
def test_every_form_gives_the_same_entry(tmp_path: Path, form: str, packed: bool) -> None:
    """Pickle and JSON, packed or not, with the rank from the name."""
    data = pickle.dumps(DUMP, protocol=2) if form == "pickle" else json.dumps(DUMP).encode()
    file = tmp_path / ("nccl_trace_rank_11" + (".json" if form == "json" else "") + (".gz" if packed else ""))
    file.write_bytes(gzip.compress(data) if packed else data)
    dump = correlator.read_flight_recorder(file)
    assert (dump.rank, dump.version, dump.problem) == (11, "2.4", None)
    (entry,) = dump.entries
    assert plain(entry) == {name: ENTRY.get(name) for name in plain(entry)}
    assert entry.operation == "_ALLGATHER_BASE"
    assert dump.groups[0].members == (3, 11)
    assert (dump.statuses[0].group, dump.statuses[0].last_enqueued) == ("5", 4713)


def test_an_empty_dump_is_a_dump(tmp_path: Path) -> None:
    """No entries, or none that survived a cut: that is said, not raised."""
    empty = tmp_path / "nccl_trace_rank_0"
    empty.write_bytes(pickle.dumps({"version": "2.4", "entries": [], "pg_config": {}}, protocol=2))
    assert correlator.read_flight_recorder(empty).entries == ()
    torn = tmp_path / "nccl_trace_rank_1"
    torn.write_bytes(pickle.dumps(DUMP | {"entries": [ENTRY] * 50}, protocol=2)[:-40])
    dump = correlator.read_flight_recorder(torn)
    assert dump.problem == "truncated"
    assert 0 < len(dump.entries) <= 50


@pytest.mark.parametrize(
    "data",
    [b"", b"step 120 loss 2.5\n", b"\x80\x02cos\nsystem\n(S'true'\ntR.", b"{}", b"\x1f\x8bnot gzip", b"\x80\x02N."],
    ids=["empty", "text", "code", "foreign json", "broken gzip", "None"],
)
def test_what_is_no_dump_is_an_input_error(tmp_path: Path, data: bytes) -> None:
    """Nothing is executed, and the one line says what is wrong."""
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(data)
    with pytest.raises(InputError, match="nccl_trace_rank_0"):
        correlator.read_flight_recorder(file)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    """So that the command line can say it."""
    with pytest.raises(InputError, match="cannot be read"):
        correlator.read_flight_recorder(tmp_path / "nccl_trace_rank_0")


def test_one_list_in_many_places_cannot_fill_the_memory(tmp_path: Path) -> None:
    """A pickle may refer to a long list from every entry."""
    shapes = [[1] * 1000] * 1000
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(pickle.dumps({"version": "2.4", "entries": [{"input_sizes": shapes}] * 1000}, protocol=2))
    with pytest.raises(InputError, match="values"):
        correlator.read_flight_recorder(file)


EARLIEST: dict[str, Any] = {
    "seq_id": 4711,
    "pg_id": 2,
    "profiling_name": "nccl:all_reduce",
    "time_created_ns": 1_764_464_523_123_456_789,
    "input_sizes": [[1024]],
    "output_sizes": [[1024]],
    "state": "completed",
    "frames": [{"name": "step", "filename": "/workspace/train.py", "line": 88}],
}
ADDED_2_4 = {"timeout_ms": 600_000}
ADDED_2_10 = {"thread_id": "139876543210880", "thread_name": "pt_main_thread"}
FIRST_SCHEMA = {key: value for key, value in ENTRY.items() if key != "timeout_ms"}
VERSIONS: list[tuple[str, Any]] = [
    ("1", [EARLIEST]),
    ("2.1", {"version": "2.1", "entries": [FIRST_SCHEMA], "pg_config": DUMP["pg_config"]}),
    ("2.4", {**DUMP, "entries": [FIRST_SCHEMA | ADDED_2_4]}),
    (
        "2.9",
        {
            **DUMP,
            "version": "2.9",
            "entries": [FIRST_SCHEMA | ADDED_2_4 | {"thread_id": "7"}],
            "nccl_version": "2.26.2",
        },
    ),
    (
        "2.10",
        {
            **DUMP,
            "version": "2.10",
            "comm_lib_version": "2.27.3",
            "nccl_comm_state": {},
            "entries": [FIRST_SCHEMA | ADDED_2_4 | ADDED_2_10],
        },
    ),
]


@pytest.mark.parametrize("encoding", ["pickle", "json"])
@pytest.mark.parametrize(("version", "document"), VERSIONS, ids=[version for version, _ in VERSIONS])
def test_every_schema_gives_what_it_holds_and_none_for_the_rest(
    version: str, document: Any, encoding: str, tmp_path: Path
) -> None:
    """Versions 1.x to 2.10, as formats.md D lists what each added."""
    file = tmp_path / "nccl_trace_rank_11"
    file.write_bytes(pickle.dumps(document, protocol=2) if encoding == "pickle" else json.dumps(document).encode())
    dump = correlator.read_flight_recorder(file)
    (entry,) = dump.entries
    new = tuple(map(int, version.split("."))) >= (2, 1)
    assert (dump.rank, dump.version, dump.problem) == (11, version, None)
    assert (entry.pg_id, entry.collective_seq_id, entry.profiling_name.startswith("nccl:")) == (2, 4711, True)
    assert entry.frames[0].line == 88
    assert entry.timeout_ms == (600_000 if version in ("2.4", "2.9", "2.10") else None)
    assert (entry.op_id, entry.process_group) == ((4712, "5") if new else (None, None))
    assert entry.thread_name == ("pt_main_thread" if version == "2.10" else None)
    assert dump.comm_lib_version == {"2.9": "2.26.2", "2.10": "2.27.3"}.get(version)
    assert [group.members for group in dump.groups] == ([(3, 11)] if new else [])
    assert len(dump.statuses) == (1 if version in ("2.4", "2.9", "2.10") else 0)
