"""Writers of one node in several zones: found by what they say about the same moment."""

from __future__ import annotations

import pytest

from correlator.clocks import Aligned, align
from correlator.clocks.zones import split_zones
from correlator.core.model import Topology
from correlator.core.vocabulary import FileKind
from tests.helpers_events import at, event, log, table

HOUR = 3600.0
AGENT = log("agent.log", FileKind.LAUNCHER_LOG, node="node01")
RANK = log("rank.log", FileKind.RANK_LOG, node="node01")
DUMP = log("nccl_trace_rank_0", FileKind.FLIGHT_RECORDER, node="node01")
ERROR = log("error.json", FileKind.ERROR_FILE, node="node01")


def run(*parts: tuple) -> Aligned:
    return align(table(parts), Topology(world_size=None, ranks=(), nodes=("node01",)))


def steps(hours: float = 0.0) -> list:
    return [event("progress", line, seconds=hours * HOUR + 100 * line, step=line, rank=0) for line in range(100)]


def signals(seconds: float, name: str) -> list:
    return [event(name, 900 + pid, seconds=seconds, process_pid=pid) for pid in (41, 42)]


def test_an_agent_two_hours_ahead_of_its_workers_is_told_though_their_lines_overlap() -> None:
    """SIGTERM as the agent sends it and as the workers report it lie two hours apart: a zone, named, and undone."""
    job = [*steps(), *signals(9950.2, "terminated_by_launcher")]
    agent = [event("launcher_started", 1, seconds=2 * HOUR), *signals(9950.0 + 2 * HOUR, "worker_signalled")]
    aligned = run((RANK, job), (AGENT, agent))
    tied = aligned.clocks.estimate("node01 (agent)")
    assert tied is not None
    assert tied.offset_ms == pytest.approx(2 * HOUR * 1000)
    assert tied.timezone == "UTC+02:00 against the node's other lines"
    assert aligned.clocks.gap_ms("node01 (agent)", at(9950 + 2 * HOUR), "node01", at(9950)) == pytest.approx((0.0, 0.0))


def test_one_zone_is_no_split() -> None:
    """The same moment at the same time: one clock."""
    events = table(
        [(RANK, [*steps(), *signals(50.1, "terminated_by_launcher")]), (AGENT, signals(50, "worker_signalled"))]
    )
    assert split_zones(events).ties == ()


def test_an_error_file_tells_the_zone_of_the_log() -> None:
    """Epoch seconds in error.json, local time in the log, one exception: the log is an hour ahead of UTC."""
    fields = {"rank": 0, "exception_type": "KeyError", "exception_message": "'tokens'"}
    logged = event("python_exception", 101, seconds=9950.4, **fields)
    written = event("python_exception", 1, seconds=9950.0 - HOUR, time_zone="Z", time_granularity_ms=1000.0, **fields)
    [tie] = split_zones(table([(RANK, [*steps(), logged]), (ERROR, [written])])).ties
    assert tie.shift_ms == -HOUR * 1000
    assert tie.zone == "the node's local time is UTC+01:00"


@pytest.mark.parametrize(("hours", "expected"), [(0.0, []), (5.5, [-5.5 * HOUR * 1000])])
def test_a_flight_recorder_is_tied_by_the_enqueue(hours: float, expected: list[float]) -> None:
    """Half an hour of hanging lies between the entry and the line, but not between the enqueue and the line minus N."""
    entry = event("collective_entry", 1, seconds=100.0, time_zone="Z", rank=0, collective_seq=7, process_group="0")
    waited = {"ran_ms": 1_800_000}
    line = event("collective_timeout", 2, seconds=hours * HOUR + 1900.1, rank=0, collective_seq=7, attributes=waited)
    ties = split_zones(table([(DUMP, [entry]), (RANK, [line])])).ties
    assert [tie.shift_ms for tie in ties] == expected


def test_a_pause_without_pairs_is_no_zone() -> None:
    """No zone is less than an hour: half an hour between a dump and the log is a pause."""
    entry = event("collective_entry", 1, seconds=100.0, time_zone="Z", rank=0)
    assert split_zones(table([(DUMP, [entry]), (RANK, [event("message", 2, seconds=1900.0)])])).ties == ()


def test_the_row_of_an_agents_table_and_the_error_file_are_one_second() -> None:
    """The agent prints the file's epoch in its local time: nine hours between them are its zone."""
    row = event(
        "child_failed_row",
        3,
        seconds=9950.0 + 9 * HOUR,
        time_granularity_ms=1000.0,
        rank=0,
        exception_type="KeyError",
        attributes={"error_file": "/tmp/x/error.json"},
    )
    written = event("python_exception", 1, seconds=9950.0, time_zone="Z", time_granularity_ms=1000.0, rank=0)
    [tie] = split_zones(
        table([(AGENT, [event("launcher_started", 1, seconds=9 * HOUR), row]), (ERROR, [written])])
    ).ties
    assert tie.shift_ms == -9 * HOUR * 1000
    assert tie.zone == "the node's local time is UTC+09:00"


def test_a_row_without_an_error_file_is_the_agents_own_second() -> None:
    """Detected by the agent when its children were gone: no second statement of the child's end."""
    row = event("child_failed_row", 3, seconds=9950.0 + 9 * HOUR, time_granularity_ms=1000.0, rank=0)
    written = event("python_exception", 1, seconds=9950.0, time_zone="Z", time_granularity_ms=1000.0, rank=0)
    assert [tie.shift_ms for tie in split_zones(table([(AGENT, [row]), (ERROR, [written])])).ties] != [-9 * HOUR * 1000]


@pytest.mark.parametrize(("late_s", "expected"), [(0.7, [2 * HOUR * 1000]), (4.0, [])])
def test_a_device_fault_ties_the_kernel_log_to_its_rank(late_s: float, expected: list[float]) -> None:
    """The kernel logs the Xid in local time, the rank meets it within two seconds in UTC."""
    kernel = log("kern.log", FileKind.KERNEL_LOG, node="node01")
    gpu = "0000:3b:00"
    xid = event("gpu_off_bus", 1, seconds=9950.0 + 2 * HOUR, gpu=gpu)
    met = event("cuda_launch_failure", 200, seconds=9950.0 + late_s, gpu=gpu, rank=0)
    ties = split_zones(table([(RANK, [*steps(), met]), (kernel, [xid])])).ties
    assert [tie.shift_ms for tie in ties if tie.shift_ms] == expected
