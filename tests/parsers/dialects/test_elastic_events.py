"""The events that torchrun's agents, NCCL's log and start-up prints become."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FileKind, TimeSource
from correlator.parsers.dialects import (
    nccl,
    rank_identity,
    torch_elastic,
    torch_elastic_records,
)
from correlator.parsers.table import PatternTable, build_table

AGENT = "I1130 01:02:03.123000 12345 torch/distributed/elastic/agent/server/api.py:525] "
API = "W1130 01:02:03.123000 12345 torch/distributed/elastic/multiprocessing/api.py:897] "
Reading = Callable[[str], list[Event]]


@pytest.fixture(scope="module")
def table() -> PatternTable:
    """Only the dialects under test."""
    modules = (torch_elastic, torch_elastic_records, nccl, rank_identity)
    return build_table([module.DIALECT for module in modules], ())


@pytest.fixture
def events(read_file: Callable[..., object], table: PatternTable) -> Reading:
    """The events of a launcher log."""
    return lambda text: read_file(text.encode(), kind=FileKind.LAUNCHER_LOG, table=table).events  # type: ignore[attr-defined]


def only(found: list[Event]) -> Event:
    assert len(found) == 1, found
    return found[0]


CHILD_FAILED = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2025-11-30_01:02:04
  host      : node03.cluster.local
  rank      : 11 (local_rank: 3)
  exitcode  : -6 (pid: 4246)
  error_file: <N/A>
  traceback : Signal 6 (SIGABRT) received by PID 4246
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-11-30_01:02:03
  host      : node03.cluster.local
  rank      : 10 (local_rank: 2)
  exitcode  : 1 (pid: 4245)
  error_file: /tmp/torchelastic_ab12cd/none_x9y8z7/attempt_0/2/error.json
  traceback : Traceback (most recent call last):
    File "/workspace/train.py", line 355, in main
      step()
    File "/workspace/train.py", line 41, in step
      x[key]
  KeyError: 'mixed'

============================================================
"""


def rows(found: list[Event]) -> list[Event]:
    return [event for event in found if event.event_name == Context.CHILD_FAILED_ROW]


def test_each_row_of_child_failed_error_is_an_event_at_its_own_line(events: Reading) -> None:
    signalled, root = rows(events(CHILD_FAILED))
    assert (signalled.rank, signalled.local_rank, signalled.exit_code, signalled.process_pid) == (11, 3, -6, 4246)
    assert (signalled.line_number, root.line_number) == (6, 15)
    assert (signalled.attribute("root"), root.attribute("root")) == ("false", "true")
    assert signalled.attribute("error_file") is None
    assert (root.attribute("error_file") or "").endswith("attempt_0/2/error.json")
    assert signalled.attribute("traceback") == "Signal 6 (SIGABRT) received by PID 4246"
    assert root.host_name == "node03.cluster.local"


def test_a_row_has_the_time_it_prints(events: Reading) -> None:
    root = rows(events(CHILD_FAILED))[1]
    assert (root.timestamp_ns, root.time_granularity_ms) == (1_764_464_523_000_000_000, 1000.0)
    assert root.time_source is TimeSource.EXPLICIT


def test_a_row_with_a_traceback_keeps_its_exception(events: Reading) -> None:
    root = rows(events(CHILD_FAILED))[1]
    assert (root.exception_type, root.exception_message) == ("KeyError", "'mixed'")
    assert root.attribute("traceback") == "KeyError: 'mixed'"


def test_prefixed_and_torn_blocks_keep_the_rows_they_have(events: Reading) -> None:
    prefixed = "".join(f"10: {line}\n" for line in CHILD_FAILED.split("\n")[:10])
    row = only(rows(events(prefixed)))
    assert (row.rank, row.exit_code) == (11, -6)


RENDEZVOUS = [
    "[default] Rendezvous complete for workers. Result:",
    "  restart_count=1",
    "  master_addr=node01",
    "  master_port=29500",
    "  group_rank=1",
    "  group_world_size=2",
    "  local_ranks=[0, 1]",
    "  role_ranks=[2, 3]",
    "  global_ranks=[2, 3]",
    "  role_world_sizes=[4, 4]",
    "  global_world_sizes=[4, 4]",
]


@pytest.mark.parametrize("repeated_prefix", [True, False])
def test_a_rendezvous_maps_local_to_global_ranks(events: Reading, repeated_prefix: bool) -> None:
    text = (
        "\n".join((AGENT if repeated_prefix or index == 0 else "") + line for index, line in enumerate(RENDEZVOUS))
        + "\n"
    )
    event = only(events(text))
    assert (event.event_name, event.node_rank, event.attempt, event.world_size) == (
        Context.RENDEZVOUS_COMPLETE,
        1,
        1,
        4,
    )
    assert json.loads(event.attribute("global_ranks") or "") == [2, 3]
    assert json.loads(event.attribute("local_ranks") or "") == [0, 1]
    assert (event.attribute("master_addr"), event.attribute("group_world_size")) == ("node01", "2")


@pytest.mark.parametrize(
    ("text", "name", "pid", "signal"),
    [
        (f"{API}Sending process 4243 closing signal SIGTERM", Context.WORKER_SIGNALLED, 4243, "SIGTERM"),
        (f"{API}Closing process 4243 via signal SIGTERM", Context.WORKER_SIGNALLED, 4243, "SIGTERM"),
        (
            f"{API}Unable to shutdown process 4243 via 15, forcefully exiting via 9",
            Context.WORKER_SIGNALLED,
            4243,
            "SIGKILL",
        ),
        (f"{AGENT}Received 15 death signal, shutting down workers", Context.AGENT_SIGNALLED, 12345, "SIGTERM"),
        (
            f"{AGENT}Received Signals.SIGINT death signal, shutting down workers",
            Context.AGENT_SIGNALLED,
            12345,
            "SIGINT",
        ),
        (
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 777 got signal: 1",
            Context.AGENT_SIGNALLED,
            777,
            "SIGHUP",
        ),
    ],
)
def test_signals_have_one_spelling(events: Reading, text: str, name: Context, pid: int, signal: str) -> None:
    event = only(events(text + "\n"))
    assert (event.event_name, event.process_pid, event.attribute("signal")) == (name, pid, signal)


def test_a_failed_worker(events: Reading) -> None:
    event = only(events(f"{API}failed (exitcode: -11) local_rank: 3 (pid: 4243) of binary: /opt/venv/bin/python\n"))
    assert (event.event_name, event.exit_code, event.local_rank, event.process_pid) == (
        Context.WORKER_FAILED,
        -11,
        3,
        4243,
    )


def test_the_restart_message_is_printed_before_the_count_goes_down(events: Reading) -> None:
    first = only(events(f"{AGENT}[default] Worker group FAILED. 3/3 attempts left; will restart worker group\n"))
    second = only(events(f"{AGENT}[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"))
    assert (first.event_name, first.attempt, second.attempt) == (Context.ATTEMPT_STARTED, 1, 2)


def test_event_json_places_and_fails_a_worker(events: Reading) -> None:
    inner = json.dumps({"group_world_size": 2, "local_rank": [3]})
    facts = {
        "global_rank": 11,
        "group_rank": 1,
        "worker_id": "4246",
        "hostname": "node03",
        "agent_restarts": 2,
        "metadata": inner,
    }
    line = json.dumps(
        {"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": 0, "metadata": facts}
    )
    identity, failed = events(f"{AGENT}{line}\n")
    for event in (identity, failed):
        assert (event.rank, event.local_rank, event.node_rank, event.process_pid) == (11, 3, 1, 4246)
        assert (event.host_name, event.attempt) == ("node03", 2)
    assert (identity.event_name, failed.event_name) == (Context.RANK_IDENTITY, Context.WORKER_FAILED)
    assert identity.signature != failed.signature


def test_a_communicator_line_maps_process_to_rank_and_gpu(events: Reading) -> None:
    text = "node03:4245:4311 [2] NCCL INFO ncclCommInitRank comm 0x55d0 rank 10 nranks 16 cudaDev 2 nvmlDev 2 busId 4b000 commId 0x9f8e - Init COMPLETE\n"
    event = only(events(text))
    assert (event.event_name, event.group_rank, event.rank) == (Context.NCCL_COMM_INIT, 10, None)
    assert (event.host_name, event.process_pid, event.gpu) == ("node03", 4245, "0000:4b:00")
    assert [event.attribute(name) for name in ("comm_id", "nranks", "phase", "cuda_dev")] == [
        "0x9f8e",
        "16",
        "complete",
        "2",
    ]


@pytest.mark.parametrize(
    ("words", "phase"),
    [("Init START", "start"), ("Abort START", "abort"), ("Abort COMPLETE", "abort"), ("Destroy COMPLETE", "destroy")],
)
def test_phases_of_a_communicator(events: Reading, words: str, phase: str) -> None:
    event = only(
        events(f"node03:4245:4311 [2] NCCL INFO comm 0x55d0 rank 10 nRanks 16 cudaDev 2 busId 4b000 - {words}\n")
    )
    assert event.attribute("phase") == phase


def test_addresses_of_a_node(events: Reading) -> None:
    found = events(
        "node03:4245:4311 [2] NCCL INFO Bootstrap : Using eth0:10.0.0.3<0>\n"
        "node03:4245:4311 [2] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.3<0>\n"
    )
    assert [(event.host_name, event.attribute("ip")) for event in found] == [("node03", "10.0.0.3")] * 2


def test_an_operation_counter_is_hexadecimal(events: Reading) -> None:
    text = "node03:4245:4311 [2] NCCL INFO ReduceScatter: opCount 12f sendbuff 0x7f recvbuff 0x7f count 8 datatype 7 op 0 root 0 comm 0x55 [nranks=16] stream 0x1\n"
    event = only(events(text))
    assert (event.collective_seq, event.collective_op) == (0x12F, "REDUCE_SCATTER")


def test_ras_names_a_process_that_is_not_the_writer(events: Reading) -> None:
    event = only(events("  Process 4246 on node 10.0.0.5 managing GPU 3\n"))
    assert (event.event_name, event.process_pid) == (Context.NAMED_MISSING_RANKS, None)
    assert (event.attribute("peer"), event.attribute("peer_pid")) == ("10.0.0.5", "4246")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "2025-11-30 01:02:03,123 [INFO] trainer: [rank 3] init process group: rank 3/64 local_rank 3 host node03",
            (3, 3, 64, "node03"),
        ),
        ("[INFO] env: rank=9 local_rank=1 world=64 host=node03 pid=68 gpu=0000:43:00", (9, 1, 64, "node03")),
        ("initializing process group: rank 0 of 8, master node00:25841", (0, None, 8, None)),
        ("RANK=3 LOCAL_RANK=1 WORLD_SIZE=64 MASTER_ADDR=node00", (3, 1, 64, None)),
        ("{'LOCAL_RANK': '1', 'RANK': '3', 'WORLD_SIZE': '64'}", (3, 1, 64, None)),
        ("Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/16", (3, None, 16, None)),
    ],
)
def test_prints_that_tell_who_a_process_is(events: Reading, text: str, expected: tuple[object, ...]) -> None:
    event = only(events(text + "\n"))
    assert (event.rank, event.local_rank, event.world_size, event.host_name) == expected


def test_rank_without_local_rank_may_be_a_pod_and_is_no_identity(events: Reading) -> None:
    assert not events("RANK=2 WORLD_SIZE=8 MASTER_ADDR=node00\n")
