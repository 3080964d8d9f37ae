"""Laws of identity over arbitrary tables: nothing raises, rows keep their order, and what a line says is never overwritten."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.clocks import align
from correlator.core.event import Event
from correlator.core.files import LogFile
from correlator.core.schema import validate
from correlator.core.vocabulary import CollateralKind, Context, FaultCode, FileKind
from correlator.identity import identify
from tests.helpers_events import event, log, report, table

Parts = list[tuple[LogFile, list[Event]]]
NAMES = [*Context, *CollateralKind, FaultCode.CUDA_OOM, FaultCode.NATIVE_SEGFAULT]
small = st.none() | st.integers(-1, 9)
text = st.text(max_size=6)
json_text = (
    st.sampled_from(["[0, 1]", "[]", "[2147483648]", "{", '["node01"]', "[true]", "[[[", "-1", "16", "4", ""]) | text
)
attributes = st.dictionaries(
    st.sampled_from(
        [
            "global_ranks",
            "local_ranks",
            "nranks",
            "comm_id",
            "phase",
            "nodes",
            "tasks",
            "pod",
            "node",
            "ip",
            "members",
            "master_addr",
            "remote",
            "ran_ms",
            "from_rank",
            "checkpoint",
            "p2p",
        ]
    ),
    json_text,
    max_size=5,
)
hosts = st.sampled_from([None, "node01", "node02.cluster.local", "10.0.0.1", "localhost", "", "é", "[::1]"]) | text
zones = st.sampled_from([None, None, "Z", "-05:00", "+99:99", "x"])


@st.composite
def tables(draw: st.DrawFn) -> Parts:
    """Files of any kind with any hints, holding any events."""
    parts = []
    for number in range(draw(st.integers(0, 3))):
        file = log(
            f"file{number}",
            draw(st.sampled_from(list(FileKind))),
            rank=draw(small),
            local_rank=draw(small),
            node=draw(hosts),
            task_id=draw(small),
            attempt=draw(small),
            run_id=draw(st.sampled_from([None, "none_ab12cd34"])),
            pod=draw(st.none() | text),
        )
        events = [
            event(
                draw(st.sampled_from(NAMES)),
                line,
                seconds=draw(st.none() | st.floats(-1e6, 1e6)),
                rank=draw(small),
                local_rank=draw(small),
                node_rank=draw(small),
                task_id=draw(small),
                world_size=draw(small | st.just(2**31 - 1)),
                attempt=draw(small),
                process_pid=draw(small),
                group_rank=draw(small),
                step=draw(small),
                collective_seq=draw(small),
                host_name=draw(hosts),
                time_zone=draw(zones),
                process_group=draw(st.none() | text),
                gpu=draw(st.sampled_from([None, "0000:3b:00", "x"])),
                attributes=draw(attributes),
            )
            for line in range(1, draw(st.integers(0, 8)) + 1)
        ]
        parts.append((file, events))
    return parts


@settings(max_examples=20, deadline=None)
@given(tables())
def test_any_table_is_identified_and_aligned(parts: Parts) -> None:
    """Valid in, valid out, in the same order, deterministic, and stated ranks stay as stated."""
    files = [file for file, _ in parts]
    events = table(parts)
    result = identify(events, files, [report(file) for file in files])
    assert validate(result.events) == []
    assert result.events["event_id"].to_list() == events["event_id"].to_list()
    assert result.events["attempt"].null_count() == 0
    stated = events["rank"].is_not_null()
    assert result.events.filter(stated)["rank"].to_list() == events.filter(stated)["rank"].to_list()
    aligned = align(result.events, result.topology)
    assert validate(aligned.events) == []
    assert aligned.events["time_aligned"].null_count() == events["timestamp"].null_count()
    assert identify(events, files, [report(file) for file in files]).topology == result.topology


@given(st.permutations(range(3)))
def test_the_order_of_files_does_not_matter(order: list[int]) -> None:
    """The topology is a function of the set of files."""
    parts = [
        (
            log(f"{n}.log", FileKind.NODE_LOG, node=f"node{n}"),
            [event("rank_identity", 1, rank=n, local_rank=0, host_name=f"node{n}", world_size=3), event("cuda_oom", 2)],
        )
        for n in range(3)
    ]
    mixed = [parts[i] for i in order]
    one = identify(table(parts), [f for f, _ in parts], [report(f) for f, _ in parts])
    two = identify(table(mixed), [f for f, _ in mixed], [report(f) for f, _ in mixed])
    assert one.topology == two.topology
    assert pl.Series(one.events["rank"]).sort().to_list() == pl.Series(two.events["rank"]).sort().to_list()
