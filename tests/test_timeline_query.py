"""Asking the timeline: what people write, which rows are meant, the rows around them, and where the order is uncertain."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.core.errors import UsageError
from correlator.core.model import ClockEstimate, ClockModel
from correlator.core.schema import polars_schema
from correlator.core.vocabulary import ClockStatus, FaultCode, Severity
from correlator.timeline_query import (
    Moment,
    OrderMarks,
    Query,
    Vicinity,
    parse_events,
    parse_moment,
    parse_nodes,
    parse_ranks,
    parse_time,
    select,
)

LAST = datetime(2025, 11, 30, 18, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2025-11-30T17:35:37.124Z", datetime(2025, 11, 30, 17, 35, 37, 124000, tzinfo=UTC)),
        ("2025-11-30 17:35", datetime(2025, 11, 30, 17, 35, tzinfo=UTC)),
        ("2025-11-30T18:35:37+01:00", datetime(2025, 11, 30, 17, 35, 37, tzinfo=UTC)),
        ("17:35", datetime(2025, 11, 30, 17, 35, tzinfo=UTC)),
        ("17:35:37.124", datetime(2025, 11, 30, 17, 35, 37, 124000, tzinfo=UTC)),
        ("18:10", datetime(2025, 11, 29, 18, 10, tzinfo=UTC)),
        ("10 minutes ago", LAST - timedelta(minutes=10)),
        ("1.5 hours ago", LAST - timedelta(minutes=90)),
        ("Nov 30 17:35 CET", datetime(2025, 11, 30, 16, 35, tzinfo=UTC)),
        ("yesterday 5pm", datetime(2025, 11, 29, 17, tzinfo=UTC)),
    ],
)
def test_times_in_words_are_relative_to_the_end_of_the_run(text: str, expected: datetime) -> None:
    """Never to now; a time of day is the last one before the end."""
    assert parse_time(text, LAST) == expected


@pytest.mark.parametrize("text", ["", "rubbish", "41", "99:99", "2025-13-45", "start", "\x00", "1" * 400, "٣"])
def test_what_is_no_time_is_a_usage_error(text: str) -> None:
    """With an example of what is."""
    with pytest.raises(UsageError, match="not a time") as error:
        parse_time(text, LAST)
    assert "10 minutes ago" in (error.value.hint or "")


@given(st.text(max_size=30))
def test_no_words_raise_anything_else(text: str) -> None:
    """A time, or a usage error."""
    with suppress(UsageError):
        assert parse_time(text, LAST).tzinfo is not None


def test_ranks_nodes_and_events_are_lists_with_ranges() -> None:
    """As the reports print them."""
    assert parse_ranks("3,8-10") == (3, 8, 9, 10)
    known = ["node01", "node02", "node10", "login1"]
    assert parse_nodes(["node[01-02]", "login*"], known) == ("node01", "node02", "login1")
    assert parse_events(["cuda_oom, checkpoint_save*"]) == (
        "cuda_oom", "checkpoint_save_failure", "checkpoint_save_started", "checkpoint_saved",
    )  # fmt: skip
    assert parse_events(["initiating"]) == ("initiating",)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: parse_ranks("x"), "3,8-15"),
        (lambda: parse_ranks("0-99999999999"), "3,8-15"),
        (lambda: parse_nodes(["nod01"], ["node01"]), "node01"),
        (lambda: parse_nodes(["a["], ["node01"]), "node["),
        (lambda: parse_events(["cuda_om"]), "cuda_oom"),
    ],
)
def test_typos_get_a_hint(call: object, hint: str) -> None:
    """A usage error, not an empty answer."""
    with pytest.raises(UsageError) as error:
        call()  # type: ignore[operator]
    assert hint in (error.value.hint or "")


def rows(count: int, **columns: object) -> pl.DataFrame:
    """Rows a second apart, of rank 0, that say their number."""
    start = LAST - timedelta(seconds=count)
    values: dict[str, object] = {
        "event_id": list(range(1000000, 1000000 + count)),
        "timestamp": [start + timedelta(seconds=n) for n in range(count)],
        "time_aligned": [start + timedelta(seconds=n) for n in range(count)],
        "time_granularity_ms": [1.0] * count,
        "rank": [0] * count,
        "host_name": ["node01"] * count,
        "clock_domain": ["node01"] * count,
        "log_file_path": ["rank_0.log"] * count,
        "line_number": list(range(1, count + 1)),
        "byte_offset": list(range(0, 100 * count, 100)),
        "event_name": ["progress"] * count,
        "role": ["context"] * count,
        "body": [f"row {n}" for n in range(count)],
    } | columns
    schema = polars_schema()
    frame = pl.DataFrame(
        {name: pl.Series(values.get(name, [None] * count), dtype=dtype) for name, dtype in schema.items()}
    )
    return frame.with_columns(pl.lit("context").cast(pl.Categorical()).alias("signature"))


def numbers(query: Query, frame: pl.DataFrame, block: int = 1000) -> list[int]:
    """Which rows are shown, by their place in the frame, when they come in blocks."""
    blocks = [frame.slice(start, block) for start in range(0, frame.height, block)]
    shown = [row for found in select(query, blocks) for row in found["event_id"].to_list()]
    return [row - 1000000 for row in shown]


def test_each_filter_narrows() -> None:
    """By rank, node, time, level, event and words; what has no severity counts by its role."""
    frame = rows(
        6,
        rank=[0, 1, 2, None, 1, 1],
        host_name=["a", "a", "b", None, "b", "b"],
        severity_number=[None, 9, 13, 17, None, None],
        event_name=["progress", "progress", "message", "message", "cuda_oom", "store_lost"],
        role=["context", "context", "context", "context", "initiating", "collateral"],
        exception_stacktrace=[None, None, None, None, "File x\nValueError: bad", None],
    )
    assert numbers(Query(ranks=(1, 2)), frame) == [1, 2, 4, 5]
    assert numbers(Query(nodes=("b",)), frame) == [2, 4, 5]
    assert numbers(Query(since=LAST - timedelta(seconds=2)), frame) == [4, 5]
    assert numbers(Query(until=LAST - timedelta(seconds=5)), frame) == [0, 1]
    assert numbers(Query(level=Severity.ERROR), frame) == [3, 4, 5]
    assert numbers(Query(level=Severity.INFO), frame) == [0, 1, 2, 3, 4, 5]
    assert numbers(Query(events=("cuda_oom", "collateral")), frame) == [4, 5]
    assert numbers(Query(words="(?i)valueerror|row 0"), frame) == [0, 4]
    assert numbers(Query(ranks=(1,), words="row"), frame) == [1, 4, 5]


@pytest.mark.parametrize("words", ["(", "(?=x)", r"\1", "a{1000000}", "[z-a]"])
def test_a_bad_regular_expression_says_what_is_wrong(words: str) -> None:
    """Rust's words, in one line."""
    with pytest.raises(UsageError, match="not a regular expression") as error:
        numbers(Query(words=words), rows(1))
    assert error.value.hint
    assert "col(" not in error.value.hint


def test_a_hostile_expression_takes_no_time() -> None:
    """Rust's engine is linear: what takes Python's for ever is done at once."""
    assert numbers(Query(words="(a+)+$"), rows(1, body=["a" * 50_000 + "b"])) == []


def test_rows_around_a_place() -> None:
    """A time, a line, or the end where the time lies behind it; only rows that count are counted."""
    frame = rows(20)
    assert numbers(Query(around=Moment(time=LAST - timedelta(seconds=10)), context=2), frame) == [8, 9, 10, 11, 12]
    assert numbers(Query(around=Moment(time=LAST - timedelta(seconds=9.5)), context=1), frame) == [10, 11, 12]
    assert numbers(Query(around=Moment(file="rank_0.log", line_number=4), context=1), frame) == [2, 3, 4]
    assert numbers(Query(around=Moment(time=LAST + timedelta(days=1)), context=3), frame) == [17, 18, 19]
    assert numbers(Query(around=Moment(time=LAST - timedelta(days=1)), context=1), frame) == [0, 1]
    assert numbers(Query(words="row (3|17)$", since=LAST - timedelta(seconds=18), context=2), frame) == [
        2,
        3,
        4,
        5,
        15,
        16,
        17,
        18,
        19,
    ]


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 6), st.integers(1, 7))
def test_context_does_not_depend_on_blocks(hits: list[bool], context: int, block: int) -> None:
    """For any hits and any blocks: those within the distance of a hit, each once, in order."""
    frame = pl.DataFrame({"n": range(len(hits))})
    vicinity = Vicinity(context)
    found = []
    for start in range(0, len(hits), block):
        part = pl.Series(hits[start : start + block], dtype=pl.Boolean)
        found += vicinity.feed(frame.slice(start, block), part)["n"].to_list()
    near = [n for n in range(len(hits)) if any(hits[max(0, n - context) : n + context + 1])]
    assert found == near


def test_a_place_is_a_time_an_event_or_a_line() -> None:
    """Ids and lines that the run does not have are usage errors, or the nearest event above."""
    frame = rows(5, line_number=[1, 5, 9, 12, 20])
    assert parse_moment("1000002", frame, LAST, all_lines=False) == Moment(file="rank_0.log", line_number=9)
    assert parse_moment("rank_0.log:11", frame, LAST, all_lines=False) == Moment(file="rank_0.log", line_number=9)
    assert parse_moment("rank_0.log:11", frame, LAST, all_lines=True) == Moment(file="rank_0.log", line_number=11)
    assert parse_moment("17:35", frame, LAST, all_lines=False).time == parse_time("17:35", LAST)
    with pytest.raises(UsageError, match="no event has the id"):
        parse_moment("99999999999999999999", frame, LAST, all_lines=False)
    with pytest.raises(UsageError, match="not a time"):
        parse_moment("other.log:3", frame, LAST, all_lines=False)


def clocks(**intervals: tuple[float, float]) -> ClockModel:
    """Clocks by node, with the interval of their offsets in ms."""
    return ClockModel(
        tuple(ClockEstimate(node, sum(i) / 2, i, None, None, 9, ClockStatus.ALIGNED) for node, i in intervals.items())
    )


def marks(model: ClockModel, *places: tuple[str, str, float | None]) -> list[bool]:
    """Which of the rows (file, clock, seconds) are uncertain, fed one by one and all at once alike."""
    base = datetime(2025, 11, 30, tzinfo=UTC)
    times = [None if second is None else base + timedelta(seconds=second) for _, _, second in places]
    frame = rows(
        len(places), log_file_path=[p[0] for p in places], clock_domain=[p[1] for p in places], timestamp=times
    )
    whole = OrderMarks(model)(frame).to_list()
    one_by_one = OrderMarks(model)
    assert [one_by_one(frame.slice(n, 1)).item() for n in range(frame.height)] == whole
    return whole


def test_order_is_uncertain_where_the_clocks_cannot_tell() -> None:
    """Within a file and on one clock it is certain; between clocks only beyond their intervals."""
    model = clocks(a=(0, 0), b=(-100, 100))
    assert marks(model, ("f", "a", 1), ("f", "a", 1)) == [False, False]
    assert marks(model, ("f", "a", 1), ("g", "a", 1)) == [False, True]
    assert marks(model, ("f", "a", 1), ("g", "a", 1.1)) == [False, False]
    assert marks(model, ("f", "a", 1), ("g", "b", 1.05)) == [False, True]
    assert marks(model, ("f", "a", 1), ("g", "b", 1.2)) == [False, False]
    assert marks(model, ("f", "a", 1), ("g", "unknown", 900)) == [False, True]
    assert marks(model, ("f", "a", 1), ("g", "a", None), ("g", "a", None)) == [False, True, False]


def test_every_fault_can_be_asked_for() -> None:
    """The names of the catalogue are the names of events."""
    assert parse_events(map(str, FaultCode)) == tuple(map(str, FaultCode))
