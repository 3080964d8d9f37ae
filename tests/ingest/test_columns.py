"""Events become rows of the declared table whatever they hold, with ids that are stable and distinct."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.core.event import Event
from correlator.core.files import FileHints, LogFile
from correlator.core.schema import validate
from correlator.core.vocabulary import FileKind, Role, Severity, TimeSource
from correlator.ingest.columns import FILE_INDEX, TEXT_LIMIT, ColumnBuilder, event_id

FILE = LogFile("node03/rank_5.log", "/x", FileKind.RANK_LOG, FileHints(node="node03", stream="stderr"))
any_text = st.text(st.characters(), max_size=30)  # lone surrogates too: JSON escapes can print them
any_int = st.integers(-(10**25), 10**25)


def _event(**fields: Any) -> Event:
    given_fields: dict[str, Any] = {"line_number": 1, "byte_offset": 0} | fields
    return Event(event_name="cuda_oom", role=Role.INITIATING, signature="cuda_oom.torch", **given_fields)


def _frame(builder: ColumnBuilder) -> pl.DataFrame:
    table = pl.from_arrow(pa.concat_tables(builder.take()))
    assert isinstance(table, pl.DataFrame)
    return table.drop(FILE_INDEX)


def test_a_row_has_every_field_of_its_event_and_file() -> None:
    builder = ColumnBuilder()
    event = _event(
        timestamp_ns=1_700_000_000_123_456_789,
        time_source=TimeSource.EXPLICIT,
        observed_timestamp_ns=5,
        severity=Severity.ERROR,
        rank=5,
        loss=1.5,
        attributes=(("peer", "node04"),),
    )
    builder.add([event], FILE, 7)
    frame = _frame(builder)
    assert validate(frame) == []
    row = frame.row(0, named=True)
    wanted = {
        "severity_number": 17,
        "severity_text": "ERROR",
        "rank": 5,
        "loss": 1.5,
        "clock_domain": "node03",
        "log_iostream": "stderr",
        "file_kind": "rank_log",
        "log_file_path": "node03/rank_5.log",
        "attributes": [{"key": "peer", "value": "node04"}],
        "time_source": "explicit",
        "time_aligned": None,
        "role": "initiating",
    }
    assert {name: row[name] for name in wanted} == wanted
    assert frame["timestamp"].to_physical().to_list() == [1_700_000_000_123_456_789]


@settings(max_examples=40, deadline=None)
@given(rank=any_int, pid=any_int, time=any_int, body=any_text, key=any_text, loss=st.floats() | any_int)
def test_any_value_fits_or_becomes_null(rank: int, pid: int, time: int, body: str, key: str, loss: float) -> None:
    builder = ColumnBuilder()
    event = _event(
        rank=rank, process_pid=pid, timestamp_ns=time, body=body, host_name=body, attributes=((key, body),), loss=loss
    )
    builder.add([event, _event()], FILE, 0)
    frame = _frame(builder)
    assert validate(frame) == []
    assert frame["rank"].to_list() == [rank if -(2**31) <= rank < 2**31 else None, None]
    if not math.isnan(loss):
        assert frame["loss"][0] == float(loss)


def test_a_number_that_does_not_fit_spoils_no_other_row() -> None:
    builder = ColumnBuilder()
    builder.add([_event(rank=3), _event(rank=10**12), _event(rank=4)], FILE, 0)
    assert _frame(builder)["rank"].to_list() == [3, None, 4]


def test_a_huge_text_keeps_its_ends() -> None:
    builder = ColumnBuilder()
    builder.add([_event(body="a" * 10**6 + "the end")], FILE, 0)
    body = _frame(builder)["body"][0]
    assert len(body) < TEXT_LIMIT + 100
    assert body.endswith("the end")


def test_ids_are_stable_and_differ_where_events_share_a_place() -> None:
    frames = []
    for _ in range(2):
        builder = ColumnBuilder(rows_per_table=2)
        builder.add([_event(), _event(), _event(byte_offset=9), _event()], FILE, 0)
        frames.append(_frame(builder))
    first, second = (frame["event_id"].to_list() for frame in frames)
    assert first == second
    assert len(set(first)) == 4
    assert first[0] == event_id("node03/rank_5.log", 0, "cuda_oom.torch", 0)


def test_tables_are_cut_at_their_size() -> None:
    builder = ColumnBuilder(rows_per_table=3)
    builder.add([_event(line_number=n) for n in range(1, 8)], FILE, 0)
    tables = builder.take()
    assert [table.num_rows for table in tables] == [3, 3, 1]
    assert builder.take() == []
