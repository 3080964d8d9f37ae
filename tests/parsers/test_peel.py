"""The peeler: every layer of formats.md, any order and depth, and no bytes that break it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import FileKind, Severity
from correlator.parsers.base import FileContext, Prefix
from correlator.parsers.peel import clean, embedded_start, peel, segments

SECOND = 1_764_464_523_000_000_000
WORK = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4711)"


def facts(prefix: Prefix) -> dict[str, object]:
    """The facts that were peeled, without times and layers."""
    ignored = {"layers", "stamp", "outer_stamp"}
    named = {name: getattr(prefix, name) for name in Prefix.__dataclass_fields__ if name not in ignored}
    return {
        name: value
        for name, value in named.items()
        if value is not None and value is not False and (name, value) != ("repeated", 1)
    }


def names(prefix: Prefix) -> str:
    """The layers, outermost first, as one line."""
    return " ".join(prefix.layers)


CASES: tuple[tuple[str, str, dict[str, object], str], ...] = (
    (
        f"2025-11-30T01:02:03.123456789Z stderr F [default3]:[rank11]:[E1130 01:02:03.987654321 ProcessGroupNCCL.cpp:632] [Rank 11] {WORK}",
        "cri tee rank c10d work_rank",
        {
            "stream": "stderr",
            "local_rank": 3,
            "rank": 11,
            "group_rank": 11,
            "severity": Severity.ERROR,
            "source_file": "ProcessGroupNCCL.cpp:632",
        },
        WORK,
    ),
    (
        '{"log":"[rank3]: torch.OutOfMemoryError: CUDA out of memory.\\n","stream":"stderr","time":"2025-11-30T01:02:03.1Z"}',
        "docker_json rank",
        {"stream": "stderr", "rank": 3},
        "torch.OutOfMemoryError: CUDA out of memory.",
    ),
    (
        "11: node03:4245:4311 [3] NCCL INFO comm 0x55d0c0ffee00 rank 11 nranks 16 - Abort COMPLETE",
        "srun_label nccl",
        {"task_id": 11, "host": "node03", "pid": 4245, "device_index": 3, "severity": Severity.INFO},
        "comm 0x55d0c0ffee00 rank 11 nranks 16 - Abort COMPLETE",
    ),
    (
        "node02: [2025-11-30 01:02:06,345] [ERROR] [launch.py:341:sigkill_handler] ['python'] exits with return code = -11",
        "pdsh deepspeed",
        {"host": "node02", "severity": Severity.ERROR, "source_file": "launch.py:341", "logger": "sigkill_handler"},
        "['python'] exits with return code = -11",
    ),
    ("[1,11]<stderr>:terminate called", "mpi_tag", {"task_id": 11, "stream": "stderr"}, "terminate called"),
    (
        "[1,mpirank:11,algo-2]<stderr>:RuntimeError: CUDA error",
        "mpi_tag",
        {"task_id": 11, "host": "algo-2", "stream": "stderr"},
        "RuntimeError: CUDA error",
    ),
    (
        "(TrainWorker pid=4245, ip=10.0.0.5) [2025-11-30 01:02:03 TP3] model.py:918 - step 120: {'loss': nan}  [repeated 7x across cluster]",
        "ray logging",
        {"pid": 4245, "ip": "10.0.0.5", "logger": "TrainWorker", "source_file": "model.py:918", "repeated": 7},
        "step 120: {'loss': nan}",
    ),
    (
        "[default1]:[rank9]:W0105 01:02:03.123000 4245 torch/_dynamo/convert_frame.py:906] [3/8] torch._dynamo hit",
        "tee rank torch_python",
        {
            "local_rank": 1,
            "rank": 9,
            "pid": 4245,
            "severity": Severity.WARN,
            "source_file": "torch/_dynamo/convert_frame.py:906",
        },
        "torch._dynamo hit",
    ),
    (
        "Nov  3 01:02:03 node03 kernel: [680111.646286] NVRM: Xid (PCI:0000:5d:00): 63, pid=4245, Row Remapper",
        "kernel",
        {"host": "node03"},
        "NVRM: Xid (PCI:0000:5d:00): 63, pid=4245, Row Remapper",
    ),
    ("[680111.647000] [ T4245] NVRM: Xid (PCI:0000:5d:00): 94", "kernel", {}, "NVRM: Xid (PCI:0000:5d:00): 94"),
    (
        "kern  :warn  : 2025-11-30T01:02:03,284616+00:00 NVRM: Xid",
        "kernel",
        {"severity": Severity.WARN},
        "NVRM: Xid",
    ),
    (
        "(Worker_TP3 pid=4245) ERROR 11-30 01:02:03 [multiproc_executor.py:487] RuntimeError: NCCL error",
        "ray vllm",
        {"pid": 4245, "logger": "Worker_TP3", "severity": Severity.ERROR, "source_file": "multiproc_executor.py:487"},
        "RuntimeError: NCCL error",
    ),
    (
        "srun: error: node[03-04]: tasks 8-10,12-23: Terminated",
        "slurm",
        {"logger": "srun", "severity": Severity.ERROR},
        "node[03-04]: tasks 8-10,12-23: Terminated",
    ),
    (
        "10: slurmstepd: error: Detected 1 oom_kill event in StepId=123456.0.",
        "srun_label slurm",
        {"task_id": 10, "logger": "slurmstepd", "severity": Severity.ERROR},
        "Detected 1 oom_kill event in StepId=123456.0.",
    ),
    ('[rank3]:   File "x.py", line 1', "rank", {"rank": 3}, '  File "x.py", line 1'),
    (
        "[rank3]:[E105 01:02:03.1 ProcessGroupNCCL.cpp:632] [PG ID 2 PG GUID 5(mesh_tp) Rank 1]  failure",
        "rank c10d process_group",
        {
            "rank": 3,
            "group_rank": 1,
            "process_group": "5",
            "process_group_id": "2",
            "process_group_description": "mesh_tp",
            "severity": Severity.ERROR,
            "source_file": "ProcessGroupNCCL.cpp:632",
        },
        "failure",
    ),
    (
        "[E ProcessGroupNCCL.cpp:475] [PG 2 (mesh_tp) Rank 3] msg",
        "c10d process_group",
        {
            "group_rank": 3,
            "process_group_id": "2",
            "process_group_description": "mesh_tp",
            "severity": Severity.ERROR,
            "source_file": "ProcessGroupNCCL.cpp:475",
        },
        "msg",
    ),
    (
        "[2025-11-30 01:02:03] node03:4245:4311 [2] misc/socket.cc:71 (socketProgress) NCCL WARN text",
        "nccl",
        {
            "host": "node03",
            "pid": 4245,
            "device_index": 2,
            "source_file": "misc/socket.cc:71",
            "logger": "socketProgress",
            "severity": Severity.WARN,
        },
        "text",
    ),
    (
        "[2025-11-30 01:00:00,123] [INFO] [logging.py:128:log_dist] [Rank 0] step=1",
        "deepspeed work_rank",
        {"rank": 0, "severity": Severity.INFO, "source_file": "logging.py:128", "logger": "log_dist"},
        "step=1",
    ),
    ("2026-11-30 01:56:49,473 INFO [rank 3] msg", "logging rank", {"rank": 3, "severity": Severity.INFO}, "msg"),
    ("[2026-11-30 02:03:14,521][train][INFO] - msg", "logging", {"logger": "train", "severity": Severity.INFO}, "msg"),
    ("11/30/2026 02:01:06 - INFO - train -   msg", "logging", {"logger": "train", "severity": Severity.INFO}, "msg"),
    ("[02:01:31] (3) msg", "logging rank", {"rank": 3}, "msg"),
    (
        "2026-11-30 02:00:49.358 | INFO     | train:main:169 - msg",
        "logging",
        {"logger": "train", "severity": Severity.INFO},
        "msg",
    ),
    (
        "[rank0]:[titan] 2026-05-03 14:32:27,760 - root - INFO - msg",
        "rank logging",
        {"rank": 0, "logger": "root", "severity": Severity.INFO},
        "msg",
    ),
    (
        "2026-03-05 00:37:52,876 [INFO] trainer: [rank 3] msg",
        "logging rank",
        {"rank": 3, "logger": "trainer", "severity": Severity.INFO},
        "msg",
    ),
    ("[default1]:[3] INFO: msg", "tee logging", {"local_rank": 1, "rank": 3, "severity": Severity.INFO}, "msg"),
    (
        "[INFO|trainer.py:3993] 2026-06-16 19:08:52,138 >> msg",
        "logging",
        {"severity": Severity.INFO, "source_file": "trainer.py:3993"},
        "msg",
    ),
    (
        "[NeMo I 2025-11-30 01:02:03 nemo_logging:393 rank:3] msg",
        "logging",
        {"rank": 3, "severity": Severity.INFO, "source_file": "nemo_logging:393"},
        "msg",
    ),
    (
        "2025-11-30 01:02:03,123: rank3[4245][MainThread]: INFO: composer.x: msg",
        "logging",
        {"rank": 3, "pid": 4245, "logger": "composer.x", "severity": Severity.INFO},
        "msg",
    ),
    ("2025-11-30T01:02:03.123456Z [info     ] msg rank=3", "logging", {"severity": Severity.INFO, "rank": 3}, "msg"),
    ("[11/30/25 01:02:03] INFO     msg", "logging", {"severity": Severity.INFO}, "msg"),
    (
        '{"event": "msg", "level": "error", "timestamp": "2025-11-30T01:02:03.123456Z", "rank": 3}',
        "json_log",
        {"rank": 3, "severity": Severity.ERROR},
        "msg",
    ),
    (
        '{"level":50,"time":1764464523123,"pid":4245,"hostname":"node03","msg":"x"}',
        "json_log",
        {"pid": 4245, "host": "node03", "severity": Severity.ERROR},
        "x",
    ),
    ('time="2025-11-30T01:02:03Z" level=error msg="a \\"b\\""', "logging", {"severity": Severity.ERROR}, 'a "b"'),
    (
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 4243",
        "torch_python",
        {"logger": "torch.distributed.elastic.multiprocessing.api", "severity": Severity.WARN},
        "Sending process 4243",
    ),
    (
        "[2025-11-30 01:02:03,123] torch.distributed.run: [WARNING] msg",
        "torch_python",
        {"logger": "torch.distributed.run", "severity": Severity.WARN},
        "msg",
    ),
    (
        "W1130 01:02:03.123000 139876543210880 torch/distributed/run.py:793] msg",
        "torch_python",
        {"source_file": "torch/distributed/run.py:793", "severity": Severity.WARN},
        "msg",
    ),
    (
        "I1130 01:57:53.741640 24537 train.py:127] msg",
        "glog",
        {"pid": 24537, "source_file": "train.py:127", "severity": Severity.INFO},
        "msg",
    ),
    (
        "[2025-11-30 01:02:03.   123: E horovod/common/operations.cc:697] [3]: msg",
        "horovod",
        {"rank": 3, "source_file": "horovod/common/operations.cc:697", "severity": Severity.ERROR},
        "msg",
    ),
    (
        "[2025-11-30 01:02:03,123 E 4242 4311] (raylet) node_manager.cc:3041: msg",
        "ray",
        {"pid": 4242, "logger": "raylet", "source_file": "node_manager.cc:3041", "severity": Severity.ERROR},
        "msg",
    ),
    (
        "[pod/job-worker-3/pytorch] 2025-11-30T01:02:03.123456789Z [rank3]: Traceback (most recent call last):",
        "kubectl rank",
        {"pod": "job-worker-3", "rank": 3},
        "Traceback (most recent call last):",
    ),
    (
        "<4>1 2025-11-30T01:02:03.123456Z node03 kernel - - - msg",
        "kernel",
        {"host": "node03", "severity": Severity.WARN},
        "msg",
    ),
    ("Sun 2025-11-30 01:02:03 CET node03 kernel: msg", "kernel", {"host": "node03"}, "msg"),
    (
        "Nov 30 01:02:03 node03 python3[4245]: msg",
        "syslog",
        {"host": "node03", "pid": 4245, "logger": "python3"},
        "msg",
    ),
    (
        "10.0.0.5: kern: warning: [2025-11-30T01:02:03.288830314Z]: msg",
        "kernel",
        {"ip": "10.0.0.5", "severity": Severity.WARN},
        "msg",
    ),
    ("[2025-11-30T01:02:03.123] [77.0] error: *** STEP", "slurm_daemon", {"severity": Severity.ERROR}, "*** STEP"),
    ("Sun Nov 30 01:02:03 2025[1,3]<stdout>:msg", "mpi_tag", {"task_id": 3, "stream": "stdout"}, "msg"),
    (
        "RuntimeError: CUDA error: device-side assert triggered",
        "",
        {},
        "RuntimeError: CUDA error: device-side assert triggered",
    ),
    ("step 3: loss 2.5", "", {}, "step 3: loss 2.5"),
    ("rank 0: batch 0 done", "", {}, "rank 0: batch 0 done"),
    ("mlx5_0: link up", "", {}, "mlx5_0: link up"),
)


@pytest.mark.parametrize(("text", "layers", "expected", "message"), CASES, ids=[case[0][:50] for case in CASES])
def test_peels_exactly_what_is_printed(
    text: str, layers: str, expected: dict[str, object], message: str, context_of: Callable[..., FileContext]
) -> None:
    """Layers outermost first, each fact once, and the message untouched."""
    prefix, rest = peel(text, context_of(FileKind.CONSOLE_LOG))
    assert (names(prefix), facts(prefix), rest) == (layers, expected, message)


def test_colours_of_ray_are_taken_off_before_peeling(context: FileContext) -> None:
    """Ray colours its prefix and its suffix."""
    raw = b"\x1b[36m(TrainWorker pid=4245, ip=10.0.0.5)\x1b[0m step 1 \x1b[32m [repeated 7x across cluster]\x1b[0m"
    [(_, text)] = segments(raw)
    prefix, message = peel(text, context)
    assert (prefix.pid, prefix.repeated, message) == (4245, 7, "step 1")


def test_carriage_returns_split_a_line_and_keep_offsets() -> None:
    """The error behind a progress bar is a segment of its own; CRLF splits nothing."""
    bar = b"Epoch 3:  45%|####5     | 450/1000 [07:30<09:10,  1.00s/it, loss=2.5]"
    error = b"[rank3]:[E424 01:02:03.000000042 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught"
    assert [offset for offset, _ in segments(bar + b"\r" + error + b"\r")] == [0, len(bar) + 1]


def test_a_message_torn_into_another_is_found() -> None:
    """Markers of another writer in mid-line begin a message (formats.md R6)."""
    assert embedded_start("loss 2.5[rank3]:[E424 01:02:03.000000042 ProcessGroupNCCL.cpp:629] x") == 8
    assert embedded_start("terminate called after throwing an instance of 'terminate called after throwing") == 48
    assert embedded_start("[rank3]: nothing else") is None


@pytest.mark.parametrize(
    "raw", ["\ufeffmsg".encode(), "msg".encode("utf-16"), b"\x00m\x00sg", b"\x1b]0;t\x07m\x1b[1;31msg\x1b[0m"]
)
def test_marks_zeros_and_colours_leave_the_text(raw: bytes) -> None:
    """BOM, UTF-16, NUL and escape sequences do not reach a message."""
    assert segments(raw) == [(0, "msg")]


def test_collectors_time_is_the_lines_time_and_the_other_is_kept(context: FileContext) -> None:
    """Every line of a container's file has the runtime's stamp; the program's own is kept beside it."""
    prefix, _ = peel("2025-11-30T01:02:03.5Z stdout F 2025-11-30 02:02:02,250 INFO x.y: msg", context)
    assert prefix.stamp is not None
    assert prefix.outer_stamp is not None
    assert prefix.stamp.ns == SECOND + 500_000_000
    assert prefix.outer_stamp.ns == SECOND + 3_599_250_000_000


def test_a_label_is_no_label_in_the_file_of_one_rank(context_of: Callable[..., FileContext]) -> None:
    """`3: ` in a rank's own log is text."""
    prefix, message = peel("3: x", context_of(FileKind.RANK_LOG))
    assert (prefix.layers, message) == ((), "3: x")


def test_kernel_time_becomes_wall_time_once_the_boot_time_is_known(context_of: Callable[..., FileContext]) -> None:
    """The RTC line at 2.31 s anchors all other lines of the file."""
    context = context_of(FileKind.KERNEL_LOG)
    before, _ = peel("[    1.000000] Linux version 5.15", context)
    assert before.stamp is not None
    assert (before.stamp.ns, before.stamp.boot_seconds) == (None, 1.0)
    peel("[    2.310000] rtc_cmos 00:01: setting system clock to 2026-02-18T23:18:14 UTC (1771456694)", context)
    after, _ = peel("[   12.310000] NVRM: x", context)
    assert after.stamp is not None
    assert after.stamp.ns == 1_771_456_704_000_000_000


LAYERS = (
    "2025-11-30T01:02:03.123456789Z stderr F ",
    "[default3]:",
    "[rank11]:",
    "[1,3]<stderr>:",
    "(TrainWorker pid=4245) ",
    "[E1130 01:02:03.987654321 ProcessGroupNCCL.cpp:632] ",
    "[Rank 3] ",
    "[PG ID 2 PG GUID 5(mesh_tp) Rank 3] ",
    "srun: error: ",
    "node03:4245:4311 [2] NCCL INFO ",
)


@given(st.lists(st.sampled_from(LAYERS), max_size=8))
def test_any_stack_of_prefixes_is_peeled_to_the_message(stack: list[str]) -> None:
    """Any order and any depth: one layer for each prefix, and the same message."""
    context = FileContext("x", FileKind.NODE_LOG, FileHints(), RunHints(SECOND))
    prefix, message = peel("".join(stack) + "boom", context)
    assert message == "boom"
    assert len(prefix.layers) == len(stack)


@given(st.binary(max_size=300))
def test_any_bytes_peel_to_a_tail_of_their_text(raw: bytes) -> None:
    """Nothing raises; without a JSON wrapper the message is the end of the text."""
    context = FileContext("x", FileKind.TEXT, FileHints(), RunHints(None))
    for _, text in segments(raw):
        _, message = peel(text, context)
        assert text.endswith(message) or text.startswith("{")


@given(st.text(max_size=120), st.sampled_from(LAYERS))
def test_text_behind_a_prefix_never_raises(text: str, layer: str) -> None:
    """Hostile words after a real prefix are only words."""
    context = FileContext("x", FileKind.CONSOLE_LOG, FileHints(), RunHints(SECOND))
    _, message = peel(clean(layer + text), context)
    assert isinstance(message, str)
