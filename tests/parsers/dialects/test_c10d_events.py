"""The events that c10d, desync, Gloo and stack lines become."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Context, FaultCode, FileKind, Role
from correlator.parsers.dialects import c10d_signals, c10d_store, c10d_watchdog, desync, gloo, stack_lines
from correlator.parsers.table import PatternTable, build_table

HEAD = "[rank3]:[E1130 01:12:03.123456789 ProcessGroupNCCL.cpp:632] "
GROUP = "[PG ID 2 PG GUID 5(mesh_dp) Rank 1] "
WORK = "WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=2097152, Timeout(ms)=600000)"
TIMEOUT = f"Watchdog caught collective operation timeout: {WORK} ran for 600012 milliseconds before timing out."

Reading = Callable[[str], list[Event]]


@pytest.fixture(scope="module")
def table() -> PatternTable:
    """Only the dialects under test."""
    modules = (c10d_watchdog, c10d_signals, c10d_store, desync, gloo, stack_lines)
    return build_table([module.DIALECT for module in modules], ())


@pytest.fixture
def events(read_file: Callable[..., object], table: PatternTable) -> Reading:
    """The events of a rank log."""
    return lambda text: read_file(text.encode(), kind=FileKind.RANK_LOG, table=table).events  # type: ignore[attr-defined]


def only(found: list[Event]) -> Event:
    assert len(found) == 1, found
    return found[0]


def test_a_timeout_carries_its_work_and_is_collateral(events: Reading) -> None:
    event = only(events(f"{HEAD}[Rank 1] {TIMEOUT}\n"))
    assert (event.event_name, event.role) == (CollateralKind.COLLECTIVE_TIMEOUT, Role.COLLATERAL)
    assert (event.rank, event.collective_seq, event.collective_op) == (3, 4711, "ALLREDUCE")
    assert [event.attribute(name) for name in ("numel_in", "numel_out", "timeout_ms", "ran_ms")] == [
        "1048576",
        "2097152",
        "600000",
        "600012",
    ]


def test_the_fields_of_a_work_may_come_in_any_order_and_version(events: Reading) -> None:
    old = "WorkNCCL(OpType=ALLREDUCE, TensorShape=[1024, 8], Extra=1, SeqNum=7, Timeout(ms)=1800000)"
    event = only(
        events(f"[E ProcessGroupNCCL.cpp:828] [Rank 3] Watchdog caught collective operation timeout: {old} ran for 9\n")
    )
    assert (event.collective_seq, event.collective_op, event.rank) == (7, "ALLREDUCE", None)
    assert event.attribute("numel_out") == "8192"
    assert event.attribute("ran_ms") is None


def test_a_torn_timeout_is_still_a_timeout(events: Reading) -> None:
    event = only(events(f"{HEAD}[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=47"))
    assert event.event_name == CollateralKind.COLLECTIVE_TIMEOUT


def test_repetitions_of_a_timeout_are_no_second_timeout(events: Reading) -> None:
    repeated = f"Process group watchdog thread terminated with exception: [Rank 1] {TIMEOUT}"
    frames = "Exception raised from checkTimeout at /pytorch/x.cpp:635 (most recent call first):\nframe #0: c10::Error::Error() + 0x96\n"
    found = events(
        f"{HEAD}[Rank 1] {TIMEOUT}\n{HEAD}{GROUP}{repeated}\n{frames}\n  what():  {GROUP}{repeated}\n{frames}"
    )
    names = [event.event_name for event in found]
    assert names.count(CollateralKind.COLLECTIVE_TIMEOUT) == 1
    assert set(names[1:]) == {CollateralKind.SECONDARY_ABORT}
    assert found[1].line_count >= 3


def test_a_watchdog_that_dies_of_a_cuda_error_is_left_to_the_catalogue(events: Reading) -> None:
    assert not events(
        f"{HEAD}{GROUP}Process group watchdog thread terminated with exception: CUDA error: unknown error\n"
    )


@pytest.mark.parametrize(
    ("text", "group", "counters"),
    [
        (
            f"{GROUP} failure detected by watchdog at work sequence id: 4711 PG status: last enqueued work: 4713, last completed "
            "work: 4710",
            "5",
            ("4713", "4710"),
        ),
        (
            "[PG 2 Rank 3] Timeout at NCCL work: 4711, last enqueued NCCL work: 4713, last completed NCCL work: -1.",
            None,
            ("4713", "-1"),
        ),
        (
            f"{GROUP}Exception (either an error or timeout) detected by watchdog at work: 4711, last enqueued NCCL work: 4713, "
            "last completed NCCL work: 4710.",
            "5",
            ("4713", "4710"),
        ),
    ],
)
def test_work_status_of_each_version(events: Reading, text: str, group: str | None, counters: tuple[str, str]) -> None:
    event = only(events(f"{HEAD}{text}\n"))
    assert (event.event_name, event.collective_seq) == (Context.WORK_STATUS, 4711)
    assert (event.attribute("last_enqueued"), event.attribute("last_completed")) == counters
    if group is not None:
        assert (event.process_group, event.group_rank, event.attribute("pg_description")) == (group, 1, "mesh_dp")


@pytest.mark.parametrize(
    ("text", "from_rank", "local"),
    [
        ("Received a dump signal due to a collective timeout from  rank 7 and we will try our best", "7", None),
        ("Received a dump signal due to a collective timeout from this local rank and we will try", None, "true"),
        ("Received a global dump signal from rank 7, and will start to dump", "7", None),
        ("First PG on this rank to signal dumping.", None, "true"),
        ("Observed flight recorder dump signal from another rank via TCPStore.", None, None),
    ],
)
def test_dump_signals_say_who_observed(events: Reading, text: str, from_rank: str | None, local: str | None) -> None:
    event = only(events(f"{HEAD}{GROUP}{text}\n"))
    assert event.event_name == Context.DUMP_SIGNAL
    assert (event.attribute("from_rank"), event.attribute("local")) == (from_rank, local)


def test_a_dump_signal_keeps_the_counters_of_its_group(events: Reading) -> None:
    text = "Received a dump signal due to a collective timeout from  rank 7 and we. Last enqueued NCCL work: 4713, last completed NCCL work: 4710.This"
    event = only(events(f"{HEAD}{GROUP}{text}\n"))
    assert (event.attribute("last_enqueued"), event.attribute("last_completed")) == ("4713", "4710")


def test_an_asynchronous_remote_error_names_its_peer(events: Reading) -> None:
    text = (
        f"{HEAD}[Rank 1] Collective {WORK} raised the following async exception: NCCL error: remote process exited or there was a "
        "network error, NCCL version 2.26.2\nncclRemoteError: A call failed possibly due to a network error.\nLast error:\n"
        "NET/IB: Got completion from peer 10.0.0.5<52136> with status=12 opcode=129 len=0 vendor err 129 (Recv) hca mlx5_0\n"
    )
    event = only(events(text))
    assert (event.event_name, event.collective_seq) == (CollateralKind.REMOTE_PEER_LOST, 4711)
    assert (event.attribute("peer"), event.attribute("peer_port")) == ("10.0.0.5", "52136")


def test_a_process_that_ends_for_a_hung_watchdog(events: Reading) -> None:
    text = f"{HEAD}{GROUP}{GROUP}Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang."
    event = only(events(text + "\n"))
    assert (event.event_name, event.process_group) == (CollateralKind.HEARTBEAT_EXIT, "5")


def test_a_retried_connection_is_no_failure(events: Reading) -> None:
    text = "[W1130 01:00:05.000000001 socket.cpp:464] [c10d] The client socket has failed to connect to [node01]:29500 (errno: 111 - x)."
    event = only(events(text + "\n"))
    assert (event.event_name, event.attribute("remote"), event.attribute("remote_port")) == (
        Context.MESSAGE,
        "node01",
        "29500",
    )


REPORT = (
    f"{HEAD}Rank 3\n\t - [3] Timeout at collective: ALLREDUCE, #4711\n"
    "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
)


def test_a_desync_report_names_those_that_did_not_join(events: Reading) -> None:
    lines = (
        "\t   - [0, 1, 2, 3] joined but didn't finish collective #4711 (count from 1)\n"
        "\t     [5, 6] finished collective #4710, but didn't join collective #4711 (count from 1)\n"
        "\t - Snapshot of ranks' latest states:\n\t   #4710 finished ranks:\n\t     [5] finished ALLREDUCE\n"
    )
    found = events(REPORT + lines)
    named = [event for event in found if event.event_name == Context.NAMED_MISSING_RANKS]
    assert [json.loads(event.attribute("ranks") or "") for event in named] == [[5, 6]]
    assert (named[0].collective_seq, named[0].attribute("scope")) == (4711, "group")


def test_a_desync_report_without_absentees_names_those_that_hang_lowest(events: Reading) -> None:
    found = events(REPORT + "\t   - [2] joined but didn't finish collective #4710 (count from 1)\n")
    named = next(event for event in found if event.event_name == Context.NAMED_MISSING_RANKS)
    assert json.loads(named.attribute("ranks") or "") == [2]


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("[Rank 0]: Rank 5 failed to pass monitoredBarrier in 300000 ms", [5]),
        ("[Rank 0]: Ranks 5, 6 failed to pass monitoredBarrier in 300000 ms", [5, 6]),
        (
            "- To our best knowledge, ranks [5, 6] are the lagging ranks that caused this timeout. They never joined",
            [5, 6],
        ),
        (f"{GROUP} remote error detected from rank: 5", [5]),
    ],
)
def test_observers_that_name_ranks(events: Reading, text: str, ranks: list[int]) -> None:
    event = only(events(f"{HEAD}{text}\n"))
    assert event.event_name == Context.NAMED_MISSING_RANKS
    assert json.loads(event.attribute("ranks") or "") == ranks


def test_a_fingerprint_mismatch_is_a_fault_with_both_sides(events: Reading) -> None:
    one = "CollectiveFingerPrint(SequenceNumber=12, OpType=ALLREDUCE, TensorShape=[4], TensorDeviceTypes=TensorOptions(dtype=float (default)))"
    other = one.replace("=12", "=13").replace("ALLREDUCE", "BROADCAST")
    text = f"Detected mismatch between collectives on ranks. Rank 0 is running collective: {one}, but Rank 1 is running collective: {other}."
    event = only(events(f"{HEAD}[Rank 0] {text}\n"))
    assert (event.event_name, event.role) == (FaultCode.COLLECTIVE_MISMATCH, Role.INITIATING)
    assert json.loads(event.attribute("ranks") or "") == [0, 1]
    assert json.loads(event.attribute("ops") or "") == ["ALLREDUCE", "BROADCAST"]
    assert json.loads(event.attribute("seqs") or "") == [12, 13]


def test_gloo_gives_up_only_on_its_last_try(events: Reading) -> None:
    place = "rank=3, size=4, local=[10.0.0.3]:1210, remote=[10.0.0.5]:1961$3, error=SO_ERROR: Connection refused"
    line = (
        "[/gloo/transport/tcp/debug_logger.cc:9] ERROR failed to connect, willRetry={}, retry=1, retryLimit=3, "
        + place
        + "\n"
    )
    retry, failed = events(line.format(1) + line.format(0))
    assert (retry.event_name, failed.event_name) == (Context.MESSAGE, CollateralKind.REMOTE_PEER_LOST)
    assert (failed.attribute("peer"), failed.group_rank) == ("10.0.0.5", 3)


def test_the_stack_of_a_failed_collective_points_into_the_users_code(events: Reading) -> None:
    site = "/opt/venv/lib/python3.12/site-packages/torch/distributed/"
    text = (
        f"{HEAD}Stack trace of the failed collective: \n#0 all_gather_into_tensor from {site}distributed_c10d.py:3798\n"
        f"#1 wrapper from {site}c10d_logger.py:81\n#2 train_step from /workspace/train.py:401\n\n"
    )
    event = only(events(text))
    assert (event.event_name, event.attribute("waits_on")) == (Context.THREAD_STACK, "collective")
    assert event.attribute("user_frame") == "/workspace/train.py:401 train_step"


def test_a_timer_dump_shows_the_main_thread(events: Reading) -> None:
    text = (
        'Timeout (0:05:00)!\nThread 0x00007f2a4d7fe640 (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line 327 in wait\n'
        '  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap\n\nThread 0x00007f2b8c1fe740 (most recent call first):\n'
        '  File "/usr/lib/python3.11/queue.py", line 171 in get\n  File "/workspace/data.py", line 81 in next_batch\n'
        '  File "/workspace/train.py", line 228 in <module>\n'
    )
    event = only(events(text))
    assert (event.attribute("waits_on"), event.attribute("user_frame")) == (
        "dataloader",
        "/workspace/data.py:81 next_batch",
    )
