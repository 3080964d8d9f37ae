"""py-spy and faulthandler dumps: what the main thread waits for and where the user's code stands."""

from __future__ import annotations

import pytest

from correlator.core.event import Event
from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import Context, FileKind
from correlator.parsers.base import FileContext
from correlator.parsers.dumps.stack_dump import parse_stack_dump
from correlator.parsers.thread_stacks import StackFrame, WaitsOn, user_frame, waits_on

PY_SPY = """Process 4245: /opt/conda/bin/python -u train.py
Python v3.11.7 (/opt/conda/bin/python3.11)

Thread 4245 (idle): "MainThread"
    Condition.wait (threading.py:327)
    Queue.get (queue.py:171)
    Prefetcher.next_batch (data.py:81)
    main (train.py:153)
    <module> (train.py:228)
Thread 4300 (idle): "Thread-3 (_pin_memory_loop)"
    get (queue.py:171)
    _pin_memory_loop (torch/utils/data/_utils/pin_memory.py:52)
    _bootstrap (threading.py:1002)
Thread 4301 (active): "saver"
    write (torch/serialization.py:700)
    _bootstrap (threading.py:1002)
"""
FAULTHANDLER = """Timeout (0:05:00)!
Thread 0x00007f2a4d7fe640 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007f2b8c1fe740 (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 5356 in barrier
  File "/workspace/train.py", line 88 in <module>
"""


def parse(text: str, rank: int | None = 3) -> list[Event]:
    hints = FileHints(rank=rank, pid=99)
    return parse_stack_dump(text.encode(), FileContext("pyspy/rank3.txt", FileKind.STACK_DUMP, hints, RunHints()))


def test_py_spy_main_thread_and_telling_others() -> None:
    main, saver = parse(PY_SPY)
    assert (main.event_name, main.rank, main.process_pid, main.line_number) == (Context.THREAD_STACK, 3, 4245, 4)
    assert (main.attribute("waits_on"), main.attribute("main")) == ("dataloader", "true")
    assert main.attribute("user_frame") == "data.py:81 Prefetcher.next_batch"
    assert (main.code_file_path, main.code_line_number) == ("data.py", 81)
    assert (saver.attribute("thread"), saver.attribute("waits_on"), saver.attribute("main")) == (
        "saver",
        "checkpoint_write",
        "false",
    )
    assert PY_SPY.encode()[main.byte_offset :].startswith(b"Thread 4245")


def test_faulthandler_prints_the_main_thread_without_a_name() -> None:
    (main,) = parse(FAULTHANDLER)
    assert (main.attribute("waits_on"), main.attribute("user_frame")) == (
        "collective",
        "/workspace/train.py:88 <module>",
    )
    assert main.process_pid == 99


def test_several_processes_keep_their_pids() -> None:
    second = PY_SPY.replace("4245", "5000")
    assert [event.process_pid for event in parse(PY_SPY + second) if event.attribute("main") == "true"] == [4245, 5000]


def test_text_without_threads_gives_nothing() -> None:
    assert parse("Error: failed to get process executable name\n") == []


def frames(*lines: tuple[str, str]) -> list[StackFrame]:
    return [StackFrame(function, path, 1) for function, path in lines]


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (frames(("all_reduce", "torch/distributed/distributed_c10d.py"), ("step", "train.py")), WaitsOn.COLLECTIVE),
        (frames(("_engine_run_backward", "torch/autograd/graph.py"), ("step", "train.py")), WaitsOn.COLLECTIVE),
        (
            frames(("barrier", "torch/distributed/distributed_c10d.py"), ("save", "torch/serialization.py")),
            WaitsOn.COLLECTIVE,
        ),
        (frames(("get", "queue.py"), ("main", "train.py")), WaitsOn.QUEUE),
        (frames(("get", "queue.py"), ("_next_data", "torch/utils/data/dataloader.py")), WaitsOn.DATALOADER),
        (frames(("sleep", "train.py")), WaitsOn.SLEEP),
        (frames(("acquire", "filelock/_api.py"), ("load", "hub.py")), WaitsOn.FILE_LOCK),
        (frames(("wait", "threading.py"), ("compile_fx", "torch/_inductor/compile_fx.py")), WaitsOn.COMPILE),
        (
            frames(("forward", "model.py"), ("_fn", "torch/_dynamo/eval_frame.py"), ("main", "train.py")),
            WaitsOn.UNKNOWN,
        ),
        (frames(("backward", "deepspeed/runtime/activation_checkpointing/checkpointing.py")), WaitsOn.UNKNOWN),
        ([], WaitsOn.UNKNOWN),
    ],
)
def test_the_innermost_telling_frame_decides(stack: list[StackFrame], expected: WaitsOn) -> None:
    assert waits_on(stack) is expected


def test_library_frames_are_not_the_users() -> None:
    stack = frames(
        ("wait", "threading.py"), ("f", "torch/nn/x.py"), ("g", "/opt/venv/lib/python3.11/site-packages/y.py")
    )
    assert user_frame(stack) is None
    assert user_frame([*stack, StackFrame("step", "src/train.py", 7)]) == StackFrame("step", "src/train.py", 7)
