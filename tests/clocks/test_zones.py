"""Zones: what is printed, what is a whole zone, and what is only a large offset."""

from __future__ import annotations

import pytest

from correlator.clocks.zones import zone_ms, zone_name

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Z", 0), ("utc", 0), ("+01:00", HOUR_MS), ("-0500", -5 * HOUR_MS), ("+0545", 20_700_000), ("+05", 5 * HOUR_MS)],
)
def test_printed_zones(text: str, expected: int) -> None:
    """Each spelling of a zone gives its offset."""
    assert zone_ms(text) == expected


@pytest.mark.parametrize("text", [None, "", "CET", "01:00", "+1:00", "+-100"])
def test_what_is_no_zone(text: str | None) -> None:
    """Abbreviations are ambiguous and broken text is nothing."""
    assert zone_ms(text) is None


@pytest.mark.parametrize(
    ("offset_ms", "expected"),
    [
        (2 * HOUR_MS - 3_500.0, "UTC+02:00 against the others"),
        (-7 * HOUR_MS - 11_316.0, "UTC-07:00 against the others"),
        (20_700_000.0, "UTC+05:45 against the others"),
        (45_000.0, None),
        (HOUR_MS / 2 + 400_000.0, None),
        (40 * HOUR_MS * 1.0, None),
    ],
)
def test_whole_zones_are_named(offset_ms: float, expected: str | None) -> None:
    """A whole zone plus a clock's own error is a zone; seconds, odd halves of a quarter and days are not."""
    assert zone_name(offset_ms) == expected
