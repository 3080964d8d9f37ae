"""Multi-line records: what they take in, what they leave, whole and cut at any line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from correlator.core.event import Event
from correlator.core.vocabulary import FileKind, Role

Reader = Callable[..., object]


def events_of(parsed: object) -> list[Event]:
    """The events of a parsed file."""
    found: list[Event] = parsed.events  # type: ignore[attr-defined]
    return found


def tracebacks(parsed: object) -> list[Event]:
    """Those with a Python stack."""
    return [event for event in events_of(parsed) if event.exception_stacktrace and event.exception_type]


CUDA = b"""Traceback (most recent call last):
  File "/workspace/train.py", line 88, in <module>
    main()
    ~~~~^^
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1751, in _call_impl
    return self._call_impl(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
RuntimeError: CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.

a plain line
"""


def test_a_cuda_error_takes_its_hints_and_names_the_users_frame(read_file: Reader) -> None:
    """One event at the head; torch's own frame is not the user's."""
    [event] = tracebacks(read_file(CUDA))
    assert (event.event_name, event.line_number, event.line_count) == ("cuda_device_assert", 1, 11)
    assert (event.code_file_path, event.code_line_number) == ("/workspace/train.py", 88)
    assert event.body == "RuntimeError: CUDA error: device-side assert triggered"


CHAIN = b"""[rank3]: Traceback (most recent call last):
[rank3]:   File "/workspace/train.py", line 10, in save
[rank3]:     f.write(data)
[rank3]: OSError: [Errno 5] Something odd

[rank3]: The above exception was the direct cause of the following exception:

[rank3]: Traceback (most recent call last):
[rank3]:   File "/workspace/train.py", line 20, in main
[rank3]:     save()
[rank3]: CustomError: could not save
"""


def test_the_first_exception_of_a_chain_is_the_cause(read_file: Reader) -> None:
    """All blocks are one record; bare empty lines between them belong to it."""
    [event] = tracebacks(read_file(CHAIN))
    assert (event.exception_type, event.rank, event.line_count) == ("OSError", 3, 11)
    assert event.code_line_number == 10


def test_an_empty_queue_gives_way_to_what_was_raised_while_handling_it(read_file: Reader) -> None:
    """queue.Empty steers the DataLoader; the killed worker is the failure."""
    data = b"""Traceback (most recent call last):
  File "/opt/lib/python3.11/queue.py", line 180, in get
    raise Empty
_queue.Empty

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/workspace/train.py", line 3, in <module>
    for batch in loader:
RuntimeError: DataLoader worker (pid(s) 5123) exited unexpectedly
"""
    [event] = tracebacks(read_file(data))
    assert (event.event_name, event.exception_type) == ("dataloader_worker_died", "RuntimeError")


def test_a_workers_exception_is_the_inner_one(read_file: Reader) -> None:
    """`Original Traceback` holds the cause (formats.md G4)."""
    data = b"""Traceback (most recent call last):
  File "/workspace/train.py", line 3, in <module>
    for batch in loader:
ValueError: Caught ValueError in DataLoader worker process 3.
Original Traceback (most recent call last):
  File "/workspace/data.py", line 7, in __getitem__
    raise ValueError("bad token id 151937")
ValueError: bad token id 151937

next
"""
    [event] = tracebacks(read_file(data))
    assert (event.exception_message, event.code_file_path) == ("bad token id 151937", "/workspace/data.py")
    assert event.line_count == 8


def test_interleaved_tracebacks_are_put_together_by_rank(read_file: Reader) -> None:
    """Lines of two ranks in any mixture, a launcher's line torn in between."""
    first = [
        f"[rank1]: {line}"
        for line in ("Traceback (most recent call last):", '  File "a.py", line 1, in f', "KeyError: 'x'")
    ]
    second = [line.replace("rank1", "rank2").replace("KeyError: 'x'", "IndexError: y") for line in first]
    torn = "W1130 01:02:03.123000 12345 torch/distributed/elastic/agent.py:1] noise"
    lines = [first[0], second[0], second[1], torn, first[1], second[2], first[2]]
    found = tracebacks(read_file("\n".join(lines).encode(), kind=FileKind.NODE_LOG))
    assert {(event.rank, event.exception_type, event.line_count) for event in found} == {
        (1, "KeyError", 3),
        (2, "IndexError", 3),
    }


def test_groups_chains_notes_and_syntax_errors_are_read(read_file: Reader) -> None:
    """The inner exception of a group is its cause; a note belongs to the message."""
    group = b"""  + Exception Group Traceback (most recent call last):
  |   File "x.py", line 4, in <module>
  |     raise ExceptionGroup("many", errors)
  | ExceptionGroup: many (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "x.py", line 2, in <module>
    |     raise ValueError("inner")
    | ValueError: inner
    +------------------------------------
plain
"""
    [event] = tracebacks(read_file(group))
    assert (event.exception_type, event.line_count) == ("ValueError", 10)
    syntax = b'Traceback (most recent call last):\n  File "a.py", line 3\n    def (\n        ^\nSyntaxError: invalid syntax\n'
    [event] = tracebacks(read_file(syntax))
    assert (event.exception_type, event.code_line_number, event.line_count) == ("SyntaxError", 3, 5)


def test_an_ignored_exception_is_no_fault(read_file: Reader) -> None:
    """`Exception ignored in` goes on without harm."""
    data = b'Exception ignored in: <function P.__del__ at 0x7f>\nTraceback (most recent call last):\n  File "a.py", line 3, in f\nOSError: x\n'
    [event] = events_of(read_file(data))
    assert (event.role, event.line_count) == (Role.CONTEXT, 4)


def test_nccls_last_error_is_part_of_the_message(read_file: Reader) -> None:
    """The word after `Last error:` is NCCL's, whatever it says (formats.md A5)."""
    data = b"""Traceback (most recent call last):
  File "/workspace/train.py", line 1, in f
torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, unhandled system error, NCCL version 2.26.2
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
Last error:
socketProgress: Connection closed by remote peer node03.cluster.local<43210>
plain
"""
    [event] = tracebacks(read_file(data))
    assert event.line_count == 6
    assert event.exception_message is not None
    assert event.exception_message.endswith("node03.cluster.local<43210>")


CHILD_FAILED = b"""Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:@
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-11-30_01:02:03
  host      : node03.cluster.local
  rank      : 10 (local_rank: 2)
  exitcode  : 1 (pid: 4245)
  error_file: /tmp/x/error.json
  traceback : Traceback (most recent call last):
    File "/workspace/train.py", line 9, in main
      boom()
  RuntimeError: CUDA error: device-side assert triggered
@@
============================================================
after
""".replace(b"@@", b"  ").replace(b":@", b": ")


def test_a_child_failed_table_becomes_rows_and_their_faults(read_file: Reader) -> None:
    """The agent's own traceback ends before the table; a row with a traceback is classified too."""
    events = events_of(read_file(CHILD_FAILED, kind=FileKind.LAUNCHER_LOG))
    row = next(event for event in events if event.event_name == "child_failed_row")
    assert (row.rank, row.local_rank, row.exit_code, row.process_pid) == (10, 2, 1, 4245)
    fault = next(event for event in events if event.event_name == "cuda_device_assert")
    assert (fault.rank, fault.role, fault.code_file_path) == (10, Role.INITIATING, "/workspace/train.py")
    assert not [event for event in events if event.event_name == "python_exception"]


WATCHDOG = b"""[rank3]:[E1130 01:13:03.124456789 ProcessGroupNCCL.cpp:1896] [PG ID 2 PG GUID 5(mesh_dp) Rank 3] Process group watchdog thread terminated with exception: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.
Exception raised from checkTimeout at ProcessGroupNCCL.cpp:635 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f in libc10.so)
<omitting python frames>
frame #4: <unknown function> + 0xd6df4 (0x7f in libstdc++.so.6)

Exception raised from ncclCommWatchdog at ProcessGroupNCCL.cpp:1521 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f in libc10.so)

terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG ID 2 PG GUID 5(mesh_dp) Rank 3] Process group watchdog thread terminated with exception: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.
Exception raised from checkTimeout at ProcessGroupNCCL.cpp:635 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f in libc10.so)
plain
"""


def test_a_watchdogs_stacks_and_its_terminate_are_two_collateral_records(read_file: Reader) -> None:
    """Both blocks of frames belong to the error; `what()` decides what the abort means."""
    events = events_of(read_file(WATCHDOG))
    assert [(event.line_number, event.line_count) for event in events] == [(1, 8), (10, 4)]
    assert {event.role for event in events} == {Role.COLLATERAL}
    assert events[1].event_name == "secondary_abort"


def test_a_faulthandler_dump_is_one_record(read_file: Reader) -> None:
    """The crashed thread's innermost user frame is the place."""
    data = b"""Fatal Python error: Segmentation fault

Thread 0x00007f2a4d7fe640 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  ...

Current thread 0x00007f2b8c1fe740 (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/torch/autograd/graph.py", line 825 in _engine_run_backward
  File "/workspace/train.py", line 40 in step
  File "/workspace/train.py", line 99 in <module>

Extension modules: numpy.core._multiarray_umath, torch._C (total: 84)
plain
"""
    [event] = events_of(read_file(data))
    assert (event.event_name, event.line_count) == ("native_segfault", 12)
    assert (event.code_file_path, event.code_line_number) == ("/workspace/train.py", 40)


def test_thousands_of_device_asserts_fold_into_few_events(read_file: Reader) -> None:
    """One line a GPU thread, bounded records."""
    line = "/pytorch/Indexing.cu:1422: indexSelect: block: [12,0,0], thread: [{},0,0] Assertion `a < b` failed."
    data = "\n".join(line.format(index) for index in range(5000)).encode()
    parsed = read_file(data)
    assert len(events_of(parsed)) == 3
    assert parsed.folded_segments + parsed.event_segments == 5000  # type: ignore[attr-defined]


def test_a_dead_actor_names_its_process(read_file: Reader) -> None:
    """pid and ip stand in indented lines under the exception (formats.md E3)."""
    data = b"ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: T\n\tpid: 4245\n\tip: 10.0.0.5\nplain\n"
    [event] = events_of(read_file(data))
    assert (event.process_pid, event.attribute("ip"), event.line_count) == (4245, "10.0.0.5", 4)


def test_a_kernel_oom_report_is_folded_but_its_victim_is_an_event(read_file: Reader) -> None:
    """The table between trigger and victim is one record."""
    data = b"""[100.000001] python3 invoked oom-killer: gfp_mask=0x140cca(GFP), order=0, oom_score_adj=0
[100.000002] CPU: 3 PID: 1 Comm: python3
[100.000003] Mem-Info:
[100.000004] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[100.000005] [   4245]  1000  4245    21758343 15089085   1000        0             0 python3
[100.000006] Out of memory: Killed process 4245 (python3) total-vm:87033376kB, anon-rss:60356340kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:169956kB oom_score_adj:0
"""
    events = events_of(read_file(data, kind=FileKind.KERNEL_LOG))
    assert [(event.line_number, event.line_count) for event in events] == [(1, 5), (6, 1)]
    assert (events[1].event_name, events[1].process_pid) == ("host_oom_kill", 4245)


WHOLE = CUDA + CHAIN + CHILD_FAILED + WATCHDOG + CHAIN.replace(b"rank3", b"rank5")


def summary(parsed: object) -> list[tuple[object, ...]]:
    """What must not depend on how a file is cut."""
    return [
        (event.signature, event.line_number, event.byte_offset, event.line_count, event.rank, event.body)
        for event in events_of(parsed)
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 41])
def test_records_survive_chunk_borders(size: int, read_file: Reader) -> None:
    """A record that is open at the end of a chunk is given again and read as if the file were whole."""
    whole = read_file(WHOLE, kind=FileKind.NODE_LOG)
    cut = read_file(WHOLE, kind=FileKind.NODE_LOG, chunk_lines=size)
    assert summary(cut) == summary(whole)
    assert cut.event_segments == whole.event_segments  # type: ignore[attr-defined]
    assert cut.folded_segments == whole.folded_segments  # type: ignore[attr-defined]


PIECES = st.sampled_from(WHOLE.split(b"\n")[:60])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.one_of(PIECES, st.binary(max_size=40)), max_size=30), size=st.integers(1, 9))
def test_any_mixture_of_lines_is_accounted_for(lines: list[bytes], size: int, read_file: Reader) -> None:
    """Torn and shuffled records never raise, no segment counts twice, and cutting changes no event."""
    data = b"\n".join(lines)
    whole = read_file(data, kind=FileKind.NODE_LOG)
    cut = read_file(data, kind=FileKind.NODE_LOG, chunk_lines=size)
    assert whole.event_segments + whole.folded_segments <= whole.segments  # type: ignore[attr-defined]
    assert summary(cut) == summary(whole)


TRACE = (
    b'x\n[rank3]: Traceback (most recent call last):\n[rank3]:   File "/w/a.py", line 1, in f\n[rank3]:     g()\n'
    b"[rank3]: KeyError: 'mixed'\nplain\n"
)
TERMINATED = (
    b"terminate called after throwing an instance of 'c10::DistBackendError'\n"
    b"  what():  [PG ID 0 PG GUID 0 Rank 3] Process group watchdog thread terminated with exception: NCCL error: remote "
    b"process exited or there was a network error, NCCL version 2.26.2\n"
)
FAILED = (
    b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n========================================\ntrain.py FAILED\n----------------------------------------\nFailures:\n"
    b"  <NO_OTHER_FAILURES>\n----------------------------------------\nRoot Cause (first observed failure):\n[0]:\n  time      : 2025-11-30_01:02:03\n"
    b"  host      : node03\n  rank      : 10 (local_rank: 2)\n  exitcode  : 1 (pid: 4245)\n  error_file: <N/A>\n"
    b'  traceback : Traceback (most recent call last):\n    File "/w/a.py", line 1, in f\n      g()\n'
    b"  KeyError: 'mixed'\n  \n========================================\n"
)


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (TRACE, 5, b"KeyError: 'mixed'"),
        (TERMINATED, 2, b"NCCL error: remote process exited"),
        (FAILED, 12, b"rank      : 10 (local_rank: 2)"),
    ],
)
def test_the_quoted_line_of_a_record_is_known(data: bytes, line: int, words: bytes, read_file: Reader) -> None:
    """A person who looks the cited line up finds the words there, not the head of the record."""
    event = next(event for event in read_file(data).events if event.body_line_number is not None)  # type: ignore[attr-defined]
    assert event.body_line_number == line
    assert words in data[event.body_byte_offset :].split(b"\n")[0]
    assert event.line_number < line
