"""Flight-recorder dumps of all versions and in both encodings become the same events."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.core.event import Event
from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import Context, FileKind
from correlator.parsers.base import FileContext
from correlator.parsers.dumps import WHOLE_FILE
from correlator.parsers.dumps.flight_recorder import parse_flight_recorder
from correlator.parsers.dumps.recording import operation_name

CREATED_NS = 1_764_464_523_000_000_123


def context(rank: int | None = 3) -> FileContext:
    return FileContext("fr/nccl_trace_rank_3", FileKind.FLIGHT_RECORDER, FileHints(rank=rank), RunHints())


def entry(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "record_id": number,
        "pg_id": 1,
        "process_group": ("5", "mesh_dp"),
        "collective_seq_id": number + 1,
        "p2p_seq_id": 0,
        "op_id": number + 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": CREATED_NS + number,
        "input_sizes": [[1024, 8]],
        "output_sizes": [[1024, 8]],
        "input_dtypes": ["Float"],
        "state": "completed",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": CREATED_NS + number + 5,
        "retired": True,
        "is_p2p": False,
        "timeout_ms": 600000,
        "frames": [
            {
                "name": "all_reduce",
                "filename": "/opt/venv/lib/python3.11/site-packages/torch/distributed/x.py",
                "line": 9,
            },
            {"name": "train_step", "filename": "/workspace/train.py", "line": 41},
        ],
    } | changes


def dump(*entries: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "version": "2.10",
        "pg_config": {
            "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
            "5": {"name": "5", "desc": "mesh_dp", "ranks": "[1, 3]"},
        },
        "pg_status": {
            "0": {"last_enqueued_collective": 4, "last_started_collective": -1, "last_completed_collective": 4},
            "1": {"last_enqueued_collective": 12, "last_started_collective": 11, "last_completed_collective": 10},
        },
        "entries": list(entries),
    } | changes


def parsed(value: object) -> list[Event]:
    return parse_flight_recorder(pickle.dumps(value, 2), context())


def named(events: list[Event], name: Context) -> list[Event]:
    return [event for event in events if event.event_name == name]


def test_an_entry_has_all_its_facts() -> None:
    event = named(
        parsed(dump(entry(7, state="scheduled", retired=False, time_discovered_completed_ns=None))),
        Context.COLLECTIVE_ENTRY,
    )[0]
    assert (event.rank, event.process_group, event.collective_seq, event.collective_op) == (3, "5", 8, "ALLREDUCE")
    assert (event.timestamp_ns, event.time_zone) == (CREATED_NS + 7, "Z")
    facts = dict(event.attributes)
    assert facts["state"] == "scheduled"
    assert (facts["p2p"], facts["retired"], facts["finished"]) == ("false", "false", "false")
    assert (facts["input_sizes"], facts["dtypes"], facts["record_id"]) == ("[[1024, 8]]", "Float", "7")
    assert facts["frame"] == "/workspace/train.py:41 train_step"


def test_groups_and_counters() -> None:
    events = parsed(dump(entry(7)))
    groups = {
        event.process_group: json.loads(event.attribute("members") or "")
        for event in named(events, Context.PROCESS_GROUP)
    }
    assert groups == {"0": [0, 1, 2, 3], "5": [1, 3]}
    idle, stuck = named(events, Context.WORK_STATUS)
    assert (idle.process_group, idle.collective_seq) == ("0", None)
    assert (stuck.process_group, stuck.collective_seq) == ("5", 11)
    assert [
        stuck.attribute(name) for name in ("last_enqueued", "last_started", "last_completed", "pg_description")
    ] == [
        "12",
        "11",
        "10",
        "mesh_dp",
    ]


def test_ranks_may_be_a_list_and_the_config_keyed_by_id() -> None:
    events = parsed(dump(entry(7), pg_config={"1": {"name": "5", "desc": "mesh_dp", "ranks": [1, 3]}}))
    group = named(events, Context.PROCESS_GROUP)[0]
    assert (group.process_group, group.attribute("members")) == ("5", "[1,3]")


def test_without_counters_the_entries_give_them() -> None:
    value = dump(entry(7), entry(8, state="started"), entry(9, state="scheduled"), pg_status={})
    status = named(parsed(value), Context.WORK_STATUS)[0]
    assert [status.attribute(name) for name in ("last_enqueued", "last_started", "last_completed")] == ["10", "9", "8"]
    assert status.collective_seq == 9


def test_a_retired_gloo_entry_is_finished() -> None:
    value = dump(entry(7, profiling_name="gloo:all_reduce", state="scheduled", retired=True), pg_status={})
    events = parsed(value)
    assert named(events, Context.COLLECTIVE_ENTRY)[0].attribute("finished") == "true"
    assert named(events, Context.WORK_STATUS)[0].attribute("last_completed") == "8"


def test_an_unnamed_default_group_gets_the_name_its_entries_use() -> None:
    config = {"": {"name": "", "desc": "", "ranks": "[0, 1]"}}
    value = dump(
        entry(7, pg_id=0, process_group=["0", "default_pg"]),
        pg_config=config,
        pg_status={"0": {"last_enqueued_collective": "8"}},
    )
    events = parsed(value)
    assert {event.process_group for event in events if event.process_group} == {"0"}


def test_pickle_and_json_agree() -> None:
    value = dump(entry(7), entry(8, state="scheduled", process_group=("0", "default_pg"), pg_id=0))
    as_json = json.loads(json.dumps(value))
    for item in as_json["entries"]:
        item["time_discovered_started_ns"] = 0
    as_json["pg_status"] = {
        key: {name: str(n) for name, n in item.items()} for key, item in as_json["pg_status"].items()
    }
    assert parse_flight_recorder(json.dumps(as_json).encode(), context()) == parsed(value)


def test_the_earliest_versions_are_a_bare_list() -> None:
    old = {
        "record_id": 0,
        "pg_id": 0,
        "seq_id": 5,
        "profiling_name": "nccl:broadcast",
        "state": "scheduled",
        "input_sizes": [[2]],
    }
    events = parsed([old])
    assert named(events, Context.FLIGHT_RECORDER_DUMP)[0].attribute("version") == "1"
    event = named(events, Context.COLLECTIVE_ENTRY)[0]
    assert (event.collective_seq, event.collective_op, event.process_group) == (5, "BROADCAST", None)


def test_only_the_end_of_a_long_group_and_its_unfinished_entries_are_kept() -> None:
    long = [entry(number) for number in range(500)]
    long[10]["state"] = "scheduled"
    events = parsed(dump(*long))
    kept = [int(event.attribute("record_id") or -1) for event in named(events, Context.COLLECTIVE_ENTRY)]
    assert kept == [10, *range(436, 500)]
    assert events[0].attribute("entries") == "500"


def test_entries_are_ordered_by_record_id() -> None:
    kept = named(parsed(dump(entry(9), entry(7), entry(8))), Context.COLLECTIVE_ENTRY)
    assert [event.attribute("record_id") for event in kept] == ["7", "8", "9"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (b"\0" * 40, "empty file"),
        (b"hello", "not a dump"),
        (b"\x80\x02cos\nsystem\n.", "not a dump"),
        (b'{"entries": [{"record_id": 1}, {"rec', "truncated"),
        (b'{"some": "json"}', "not a flight-recorder dump"),
        (pickle.dumps(dump(entry(1)), 2)[:-400], "truncated"),
        (pickle.dumps(dump(), 2), "no entries"),
    ],
)
def test_a_dump_that_says_little_is_evidence_with_a_reason(data: bytes, reason: str) -> None:
    event = parse_flight_recorder(data, context())[0]
    assert event.event_name == Context.FLIGHT_RECORDER_DUMP
    assert reason in (event.attribute("reason") or "")
    assert event.rank == 3


def test_a_torn_json_dump_keeps_its_whole_entries() -> None:
    text = json.dumps({"entries": [entry(1), entry(2), entry(3)], "version": "2.10"})
    events = parse_flight_recorder(text[: text.index('"record_id": 3') + 5].encode(), context())
    assert len(named(events, Context.COLLECTIVE_ENTRY)) == 2


def test_every_event_of_a_dump_has_its_own_offset() -> None:
    events = parsed(dump(entry(1), entry(2)))
    assert len({(event.byte_offset, event.signature) for event in events}) == len(events)


@pytest.mark.parametrize(
    ("profiled", "operation"),
    [
        ("all_reduce", "ALLREDUCE"),
        ("_all_gather_base", "_ALLGATHER_BASE"),
        ("_reduce_scatter_base", "_REDUCE_SCATTER_BASE"),
        ("all_to_all", "ALLTOALL"),
        ("all_reduce_barrier", "BARRIER"),
        ("ALLGATHER_coalesced", "ALLGATHER_COALESCED"),
        ("send 0->1", "SEND"),
        ("recv 0<-1", "RECV"),
        ("", "UNKNOWN"),
    ],
)
def test_operations_are_named_as_the_watchdog_names_them(profiled: str, operation: str) -> None:
    assert operation_name(profiled) == operation


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
entry_keys = st.sampled_from(sorted(entry(0)))


@settings(max_examples=40)
@given(st.lists(st.dictionaries(entry_keys, junk), max_size=4), junk, junk, junk)
def test_no_content_of_a_dump_raises(rows: list[dict[str, Any]], config: Any, status: Any, version: Any) -> None:
    value = {"entries": rows, "pg_config": config, "pg_status": status, "version": version}
    events = parse_flight_recorder(json.dumps(value).encode(), context(None))
    assert events[0].attribute("entries") == str(len(rows))
    for event in events:
        assert event.collective_seq is None or -(2**63) <= event.collective_seq < 2**63


@pytest.mark.parametrize("kind", list(WHOLE_FILE))
def test_no_bytes_raise(kind: FileKind) -> None:
    @given(st.binary(max_size=400))
    def check(data: bytes) -> None:
        assert all(event.line_number >= 1 for event in WHOLE_FILE[kind](data, context()))

    check()
