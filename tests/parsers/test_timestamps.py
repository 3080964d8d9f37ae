"""Times: every layout, missing years, days and zones, and the one use of dateparser."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import patch

import dateparser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import FileKind
from correlator.parsers.base import FileContext
from correlator.parsers.timestamps import civil, day_number, epoch, month_day, parse_stamp
from correlator.parsers.timestamps_discovery import MAX_SAMPLES, discover

SECOND = 1_764_464_523_000_000_000
MS = 1_000_000


def at(reference_ns: int | None = SECOND, last_ns: int | None = None) -> FileContext:
    """A file of a run whose latest stamp is `reference_ns`."""
    return FileContext("x", FileKind.TEXT, FileHints(), RunHints(reference_ns), last_ns=last_ns)


LAYOUTS = (
    ("2025-11-30 01:02:03", SECOND, 1000.0, None),
    ("2025-11-30T01:02:03,123", SECOND + 123 * MS, 1.0, None),
    ("2025-11-30 01:02:03.123456", SECOND + 123_456_000, 0.001, None),
    ("2025-11-30T01:02:03.123456789Z", SECOND + 123_456_789, 1e-6, "Z"),
    ("2025-11-30T02:02:03+0100", SECOND, 1000.0, "+0100"),
    ("2025-11-30T02:02:03+01:00", SECOND, 1000.0, "+01:00"),
    ("2025-11-29T20:02:03-05", SECOND, 1000.0, "-05"),
    ("2025-11-30 01:02:03 UTC", SECOND, 1000.0, "UTC"),
    ("2025/11/30 01:02:03", SECOND, 1000.0, None),
    ("2025-11-30_01:02:03", SECOND, 1000.0, None),
    ("20251130-01:02:03", SECOND, 1000.0, None),
    ("30/Nov/2025:01:02:03 +0000", SECOND, 1000.0, "+0000"),
    ("Sun Nov 30 01:02:03 2025", SECOND, 1000.0, None),
    ("Sun 2025-11-30 02:02:03 CET", SECOND, 1000.0, "CET"),
    ("Nov 30 2025 01:02:03", SECOND, 1000.0, None),
    ("Nov 30 01:02:03", SECOND, 1000.0, None),
    ("Nov 30 01:02:03.5", SECOND + 500 * MS, 100.0, None),
    ("11/30/25 01:02:03", SECOND, 1000.0, None),
    ("25/11/30 01:02:03", SECOND, 1000.0, None),
    ("25-11-30 01:02:03.000", SECOND, 1.0, None),
    ("30-11-25 01:02:03", SECOND, 1000.0, None),
    ("30/11/2025, 01:02:03", SECOND, 1000.0, None),
    ("11/30/2025 01:02:03", SECOND, 1000.0, None),
    ("30/11/2025 01:02:03", SECOND, 1000.0, None),
    ("11-30 01:02:03", SECOND, 1000.0, None),
    ("1130 01:02:03.250", SECOND + 250 * MS, 1.0, None),
    ("01:02:03", SECOND, 1000.0, None),
    ("1764464523", SECOND, 1000.0, "Z"),
    ("1764464523.5", SECOND + 500 * MS, 100.0, "Z"),
    ("1764464523123", SECOND + 123 * MS, 1.0, "Z"),
    ("1764464523123456", SECOND + 123_456_000, 0.001, "Z"),
    ("1764464523123456789", SECOND + 123_456_789, 1e-6, "Z"),
)


@pytest.mark.parametrize(("text", "ns", "granularity_ms", "zone"), LAYOUTS, ids=[layout[0] for layout in LAYOUTS])
def test_reads_a_layout(text: str, ns: int, granularity_ms: float, zone: str | None) -> None:
    """Time in UTC, resolution and printed zone."""
    stamp = parse_stamp(text, at())
    assert stamp is not None
    assert (stamp.ns, stamp.granularity_ms, stamp.zone) == (ns, pytest.approx(granularity_ms), zone)


@pytest.mark.parametrize(
    "text", ["2025-13-01 00:00:00", "2025-02-30 00:00:00", "25:00:00", "12345", "", "0000 00:00:00", "x"]
)
def test_what_is_no_time_is_none(text: str) -> None:
    """Out of range parts are refused, not wrapped."""
    assert parse_stamp(text, at()) is None


@pytest.mark.parametrize(("text", "month", "day"), [("105", 1, 5), ("1130", 11, 30), ("424", 4, 24), ("0105", 1, 5)])
def test_the_month_of_c10d_is_unpadded(text: str, month: int, day: int) -> None:
    """`E105` is January 5 (formats.md R2), and its fraction is no better than a second (R3)."""
    stamp = month_day(f"{text} 01:02:03.123456789", at(), fake_fraction=True)
    assert stamp is not None
    assert stamp.ns is not None
    moment = datetime.fromtimestamp(stamp.ns // 10**9, UTC)
    assert (moment.month, moment.day, stamp.granularity_ms) == (month, day, 1000.0)


def test_a_missing_year_is_the_nearest_one_also_over_new_year() -> None:
    """December lines of a run that ends in January belong to the year before."""
    january = civil(2026, 1, 1, "00:10:00")
    assert january is not None
    stamp = parse_stamp("Dec 31 23:59:59", at(january.ns))
    assert stamp == civil(2025, 12, 31, "23:59:59")


def test_a_missing_day_is_nearest_to_the_files_last_time() -> None:
    """A clock that passed midnight is on the next day."""
    evening = civil(2025, 11, 29, "23:59:58")
    assert evening is not None
    assert parse_stamp("00:00:01", at(None, evening.ns)) == civil(2025, 11, 30, "00:00:01")


def test_without_any_reference_the_time_stays_unknown() -> None:
    """No year and nothing to take it from: None, not the epoch."""
    stamp = parse_stamp("Nov 30 01:02:03", at(None))
    assert stamp is not None
    assert stamp.ns is None


@given(st.datetimes(datetime(1970, 1, 1), datetime(2199, 12, 31)))
def test_digit_arithmetic_agrees_with_datetime(moment: datetime) -> None:
    """The calendar is the calendar."""
    stamp = parse_stamp(moment.isoformat(sep=" ", timespec="microseconds"), at())
    assert stamp is not None
    delta = moment - datetime(1970, 1, 1)
    assert stamp.ns == ((delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds) * 1000


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_none(text: str) -> None:
    """Nothing raises."""
    parse_stamp(text, at())
    epoch(text)


def test_leap_days_exist_only_in_leap_years() -> None:
    """Also for the centuries."""
    assert day_number(2000, 2, 29) is not None
    assert day_number(2100, 2, 29) is None


UNKNOWN = [f"30.11.2025 / 01:02:{second:02d} worker says hello {second}" for second in range(40)]


def test_an_unknown_layout_is_discovered_from_few_lines() -> None:
    """dateparser sees at most 20 stamps of a file; the generated regex reads all others."""
    context = at()
    with patch.object(dateparser, "parse", wraps=dateparser.parse) as parse:
        layout = discover(UNKNOWN, context)
        assert 0 < parse.call_count <= MAX_SAMPLES
        assert layout is not None
        seen = parse.call_count
        found = layout.match("30.11.2025 / 01:02:03 worker says hello", context)
        assert parse.call_count == seen
    assert found is not None
    assert (found[0].ns, found[1]) == (SECOND, "worker says hello")


def test_no_layout_is_sought_where_one_is_known() -> None:
    """dateparser is not called for a file that we can read."""
    with patch.object(dateparser, "parse") as parse:
        assert discover(["2025-11-30 01:02:03 INFO x"] * 30, at()) is None
        assert discover(["epoch 3 took 00:01:02", "done"] * 30, at()) is None
    assert parse.call_count == 0


@given(st.lists(st.text(max_size=60), max_size=8))
def test_discovery_never_raises(lines: list[str]) -> None:
    """Free text is no layout, and no error."""
    with patch.object(dateparser, "parse", return_value=None):
        assert discover(lines, at()) is None
