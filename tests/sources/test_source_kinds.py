"""What a file is: by its lines first, by its name where they do not tell."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.core.files import Compression, FileHints, LogFile
from correlator.core.vocabulary import FileKind
from correlator.sources import discover
from correlator.sources.content import read_traits
from correlator.sources.kinds import line_file_kind
from correlator.sources.sample import Sample

AGENT = "W1130 01:02:03.123000 12345 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4243 closing signal SIGTERM\n"
STEP = "2026-03-01 10:00:00,123 [INFO] trainer: step 12 loss 2.5\n"
TABLE = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    + "=" * 40
    + "\ntrain.py FAILED\n"
    + "-" * 40
    + "\nFailures:\n[1]:\n  time      : 2026-03-01_10:00:00\n  host      : node03\n  rank      : 9 (local_rank: 1)\n"
    "  exitcode  : -6 (pid: 2456800)\n  error_file: <N/A>\n  traceback : Signal 6 (SIGABRT) received by PID 2456800\n"
)
XID = "NVRM: Xid (PCI:0000:5d:00): 79, pid=4245, GPU has fallen off the bus.\n"
DUMP = {"version": "2.4", "entries": [{"collective_seq_id": 1, "process_group": ("0", "default_pg")}], "pg_config": {}}


def lines(text: str, times: int = 6) -> bytes:
    return (text * times).encode()


def ranks(template: str, numbers: range) -> bytes:
    return "".join(template.format(n=number, local=number % 8) for number in numbers for _ in range(3)).encode()


def json_lines(*rows: dict[str, object]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def only(folder: Path, name: str, data: bytes) -> LogFile:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    with discover([folder]) as run:
        return next(file for file in run.files if file.path == name)


KERNEL = [
    ("dmesg", lines(f"[12345.678901] {XID}")),
    ("dmesg with caller", lines(f"[  130.456250] [  T1946] {XID}")),
    ("dmesg with priority", lines(f"<4>[12345.678901] {XID}")),
    ("dmesg -T", lines(f"[Sun Nov 30 01:02:03 2025] {XID}")),
    ("dmesg -x iso", lines(f"kern  :warn  : 2025-11-30T01:02:03,284616+00:00 {XID}")),
    ("dmesg iso", lines(f"2025-11-30T01:02:03,123456+01:00 {XID}")),
    ("journal short", lines(f"Nov  3 01:02:03 node03 kernel: {XID}")),
    ("journal short-precise", lines(f"Nov 30 01:02:03.123456 node03 kernel: {XID}")),
    ("journal short-iso", lines(f"2025-11-30T01:02:03+0100 node03 kernel: {XID}")),
    ("journal short-full", lines(f"Sun 2025-11-30 01:02:03 CET node03 kernel: {XID}")),
    ("journal short-unix", lines(f"1764464523.123456 node03 kernel: {XID}")),
    ("rsyslog iso", lines(f"2025-11-30T01:02:03.123456+01:00 node03 kernel: {XID}")),
    ("rfc 5424", lines(f"<4>1 2025-11-30T01:02:03.123456Z node03 kernel - - - {XID}")),
    ("talos", lines(f"10.0.0.5: kern: warning: [2025-11-30T01:02:03.288830314Z]: {XID}")),
    (
        "journal json",
        json_lines(*[{"MESSAGE": XID, "__REALTIME_TIMESTAMP": "1764464523123456", "_HOSTNAME": "node03"}] * 5),
    ),
]


@pytest.mark.parametrize("data", [data for _, data in KERNEL], ids=[name for name, _ in KERNEL])
@pytest.mark.parametrize("name", ["node03.log", "rank_3.log", "whatever.txt"])
def test_kernel_lines_make_a_kernel_log_under_any_name(tmp_path: Path, name: str, data: bytes) -> None:
    assert only(tmp_path, name, data).kind is FileKind.KERNEL_LOG


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("rank_3.log", lines(STEP), FileKind.RANK_LOG),
        ("none_u2r3zl_f/attempt_0/3/stderr.log", lines(STEP), FileKind.RANK_LOG),
        ("node03.log", lines(STEP), FileKind.NODE_LOG),
        ("console.log", lines(STEP), FileKind.CONSOLE_LOG),
        ("notes.txt", b"bring cake\n", FileKind.TEXT),
        ("notes.txt", lines(STEP), FileKind.CONSOLE_LOG),
        ("node03.log", ranks("[default{local}]:[rank{n}]: step 3\n", range(8, 16)), FileKind.NODE_LOG),
        ("job.log", ranks("[default{local}]:step 3\n", range(8)), FileKind.NODE_LOG),
        ("job.log", ranks("[rank{n}]: step 3\n", range(16)), FileKind.CONSOLE_LOG),
        ("job.log", ranks("[default{local}]:[rank{n}]: step 3\n", range(16)), FileKind.CONSOLE_LOG),
        ("slurm-77.out", ranks(" {n}: step 3\n", range(8)), FileKind.CONSOLE_LOG),
        ("job.log", ranks("[1,{n}]<stderr>:step 3\n", range(8)), FileKind.CONSOLE_LOG),
        ("job.log", ranks("node{n:02d}: step 3\n", range(4)), FileKind.CONSOLE_LOG),
        ("job.log", ranks("node{n:02d}:4245:4311 [0] NCCL INFO x\n[rank{n}]: y\n", range(4)), FileKind.CONSOLE_LOG),
        ("slurm-77.out", b"srun: error: node03: task 7: Killed\nsrun: Terminating StepId=77.0\n", FileKind.SCHEDULER_LOG),
        ("slurmctld.log", lines("[2026-03-01T10:00:00.123] error: Nodes node05 not responding\n"), FileKind.SCHEDULER_LOG),
        ("slurm-77_3.out", ranks("2026-03-01 10:00:00 [rank {n}] step 3\n", range(24, 32)), FileKind.NODE_LOG),
        ("slurm-77_3.out", ranks("2026-03-01 10:00:00 [rank {n}] step 3\n", range(3, 4)), FileKind.RANK_LOG),
        ("slurm-77_3.out", lines(AGENT), FileKind.NODE_LOG),
        ("torchrun.log", lines(AGENT), FileKind.LAUNCHER_LOG),
        ("node03.log", lines(AGENT) + TABLE.encode(), FileKind.LAUNCHER_LOG),
        ("agent_node03.log", b"[W1130 01:56:43.985569818 socket.cpp:207] [c10d] err=-3\n", FileKind.LAUNCHER_LOG),
        ("torchrun.log", lines(AGENT) + ranks("[default{local}]:step 3\n", range(8)), FileKind.NODE_LOG),
        ("node03.log", lines("WARNING:torch.distributed.run:x\n"), FileKind.LAUNCHER_LOG),
        ("nccl.node03.4245.log", lines("node03:4245:4311 [2] NCCL INFO Using network IB\n"), FileKind.NCCL_DEBUG_LOG),
        ("debug.txt", lines("node03:4245:4311 [2] NCCL INFO Using network IB\n"), FileKind.NCCL_DEBUG_LOG),
        ("rank_3.log", lines("node03:4245:4311 [2] NCCL INFO Using network IB\n"), FileKind.RANK_LOG),
        ("driver.txt", lines("(TrainWorker pid=4245, ip=10.0.0.5) step 3\n"), FileKind.RAY_LOG),
        ("session_1/logs/raylet.out", lines("[2026-03-01 10:00:00,123 E 4242 4311] (raylet) x.cc:1: y\n"), FileKind.RAY_LOG),
        ("pods.txt", b"NAME    READY   STATUS   RESTARTS   AGE   IP   NODE\na-0   1/1  Running 0 1m 10.0.0.5 node03\n", FileKind.POD_LISTING),
        ("pods/a-worker-3.log", lines(f"2026-03-01T10:00:00.123456789Z stderr F {AGENT}"), FileKind.LAUNCHER_LOG),
        ("pods/a-worker-3.log", lines("2026-03-01T10:00:00.123456789Z stderr F [rank3]: x\n"), FileKind.RANK_LOG),
        ("pods/a-worker-3.log", json_lines(*[{"log": "[rank3]: x\n", "stream": "stderr", "time": "2026-03-01T10:00:00.1Z"}] * 4), FileKind.RANK_LOG),
        ("unit.txt", lines("Nov 30 01:02:03 node03 python3[4245]: Traceback (most recent call last):\n"), FileKind.CONSOLE_LOG),
        ("nccl_trace_rank_3", pickle.dumps(DUMP, 2), FileKind.FLIGHT_RECORDER),
        ("anything.bin", pickle.dumps(DUMP, 4), FileKind.FLIGHT_RECORDER),
        ("nccl_trace_rank_3", pickle.dumps(DUMP, 2)[:20], FileKind.FLIGHT_RECORDER),
        ("fr.json", json.dumps(DUMP).encode(), FileKind.FLIGHT_RECORDER),
        ("fr_trace_rank_1.json", b'{"version":"2.10","pg_config":{}}', FileKind.FLIGHT_RECORDER),
        ("error.json", b'{"message": {"message": "KeyError: 1", "extraInfo": {"timestamp": "1764464523"}}}', FileKind.ERROR_FILE),
        ("pyspy.txt", b'Process 25867: python train.py\nPython v3.11.7 (/usr/bin/python3)\n\nThread 25867 (idle): "MainThread"\n', FileKind.STACK_DUMP),
    ],
)  # fmt: skip
def test_content_and_name_together_decide_the_kind(tmp_path: Path, name: str, data: bytes, kind: FileKind) -> None:
    assert only(tmp_path, name, data).kind is kind


def test_a_rank_in_the_name_of_a_merged_file_is_dropped(tmp_path: Path) -> None:
    """Many ranks in the lines outweigh one rank in the name: nobody may be blamed for all of it."""
    file = only(tmp_path, "rank_3.log", ranks("[rank{n}]: step 3\n", range(16)))
    assert file.kind is FileKind.CONSOLE_LOG
    assert file.hints.rank is None


def test_a_rank_in_the_name_that_the_lines_deny_is_dropped(tmp_path: Path) -> None:
    """worker3.log of global rank 27 with local rank 3: the number was the local rank."""
    said = only(tmp_path, "worker3.log", lines("[default3]:[rank27]: step\n"))
    assert (said.hints.rank, said.hints.local_rank) == (None, 3)
    unsaid = only(tmp_path, "worker4.log", lines("[rank28]: step\n"))
    assert (unsaid.hints.rank, unsaid.hints.local_rank) == (None, None)


def test_one_line_of_another_rank_is_a_quotation(tmp_path: Path) -> None:
    data = lines("[rank3]: step\n", 40) + b"[rank7]: said this\n"
    assert only(tmp_path, "rank_3.log", data).hints.rank == 3


def test_a_progress_bar_does_not_hide_the_line_behind_it(tmp_path: Path) -> None:
    bar = "50%|#####     | 5/10\r" * 20
    data = ranks(bar + "[rank{n}]: step 3\n", range(8))
    assert only(tmp_path, "out.log", data).kind is FileKind.CONSOLE_LOG


def test_ranks_that_repeat_on_every_node_are_local(tmp_path: Path) -> None:
    for node in ("node00", "node01"):
        for number in range(4):
            file = only(tmp_path, f"{node}/rank_{number}.log", lines(STEP))
    with discover([tmp_path]) as run:
        hints = [(file.hints.node, file.hints.rank, file.hints.local_rank) for file in run.files]
    assert hints == [(node, None, number) for node in ("node00", "node01") for number in range(4)]
    assert file.hints.local_rank == 3


def test_ranks_that_differ_between_nodes_are_global(tmp_path: Path) -> None:
    for number in range(4):
        only(tmp_path, f"node0{number // 2}/rank_{number}.log", lines(STEP))
    with discover([tmp_path]) as run:
        assert [(file.hints.rank, file.hints.local_rank) for file in run.files] == [(n, None) for n in range(4)]


def test_a_plain_word_is_a_node_once_lines_name_it_as_a_host(tmp_path: Path) -> None:
    """`aurora/` could be anything, until a table of the launcher says host."""
    assert only(tmp_path, "aurora/rank_1.log", lines(STEP)).hints.node is None
    (tmp_path / "torchrun.log").write_text(TABLE.replace("node03", "aurora.cluster.local"))
    with discover([tmp_path]) as run:
        assert next(file for file in run.files if "rank_1" in file.path).hints.node == "aurora"


def test_names_of_logs_are_read_although_they_look_like_code(tmp_path: Path) -> None:
    assert only(tmp_path, "train.py", lines(STEP)).kind is FileKind.CONSOLE_LOG


def test_empty_files_stay_where_their_names_tell_who_was_silent(tmp_path: Path) -> None:
    only(tmp_path, "rank_1.log", lines(STEP))
    for name in ("rank_2.log", "nccl_trace_rank_3", "notes.txt"):
        (tmp_path / name).touch()
    with discover([tmp_path]) as run:
        kinds = {file.path: file.kind for file in run.files}
        assert kinds["rank_2.log"] is FileKind.RANK_LOG
        assert kinds["nccl_trace_rank_3"] is FileKind.FLIGHT_RECORDER
        assert [(row.path, row.reason) for row in run.skipped] == [("notes.txt", "empty")]


@given(st.binary(max_size=2000), st.text(max_size=30))
def test_any_bytes_have_a_kind(data: bytes, name: str) -> None:
    """Counting lines and deciding never raises."""
    traits = read_traits(Sample(data, b"", Compression.NONE, whole=True))
    assert isinstance(line_file_kind(name, traits, FileHints(), named=False), FileKind)


@pytest.mark.parametrize(
    "piece", [b"a:", b"1", b"a.", b"[", b" ", b"torch/", b"\x1b[", b"x-1", b"[default1", b"2026-", b"a1 "]
)
def test_hostile_lines_are_counted_fast(piece: bytes) -> None:
    """No prefix pattern may backtrack its way into seconds."""
    data = (piece * 400 + b"\n") * 50
    assert read_traits(Sample(data[:65536], b"", Compression.NONE, whole=True)).lines <= 600
