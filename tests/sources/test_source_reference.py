"""The date of a run, from stamps that carry a year."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.core.files import Compression, RunHints
from correlator.sources.reference import latest_stamps, run_hints
from correlator.sources.sample import Sample


def epoch(*fields: int) -> int:
    return int(datetime(*fields, tzinfo=UTC).timestamp())  # type: ignore[arg-type, misc]


def stamps(text: str) -> tuple[int, ...]:
    return latest_stamps(Sample(text.encode(), b"", Compression.NONE, whole=True))


@pytest.mark.parametrize(
    "line",
    [
        "2026-02-10 00:05:32,123 [INFO] x",
        "2026-02-10T00:05:32.123456+01:00 node03 kernel: x",
        "[2026/02/10 00:05:32] x",
        "[Tue Feb 10 00:05:32 2026] NVRM: x",
        "Tue Feb 10 00:05:32 UTC 2026",
        "02/10/2026 00:05:32 - INFO - x",
        "[02/10/26 00:05:32] INFO x",
        '10.0.0.5 - - [10/Feb/2026:00:05:32 +0000] "GET /"',
        "  time      : 2026-02-10_00:05:32",
        "slurmstepd: error: *** STEP 123456.0 ON node03 CANCELLED AT 2026-02-10T00:05:32 DUE TO TIME LIMIT ***",
        ':::MLLOG {"namespace": "", "time_ms": 1770681932000, "key": "x"}',
        '{"MESSAGE":"x","__REALTIME_TIMESTAMP":"1770681932123456"}',
        '{"message": {"message": "x", "extraInfo": {"timestamp": "1770681932"}}}',
        "1770681932.123456 node03 kernel: x",
        "Feb 10 00:05:32 node03 kernel: audit: type=1400 audit(1770681932.305:2787): x",
    ],
)
def test_each_stamp_with_a_year_is_read(line: str) -> None:
    assert stamps(line + "\n") == (epoch(2026, 2, 10, 0, 5, 32),)


@pytest.mark.parametrize(
    "line",
    [
        "Feb 10 00:05:32 node03 kernel: x",
        "[rank3]:[E210 00:05:32.123456789 ProcessGroupNCCL.cpp:632] x",
        "2026-13-45 00:05:32 x",
        "1970-01-01 00:00:00 x",
        "x" * 150 + " 2026-02-10 00:05:32",
        "step 1770681932 loss 2.0",
    ],
)
def test_what_has_no_year_or_no_sense_gives_no_stamp(line: str) -> None:
    assert stamps(line + "\n") == ()


def files(*stamps: int) -> list[tuple[int]]:
    """Files with one stamp each."""
    return [(stamp,) for stamp in stamps]


def test_the_end_of_most_files_wins_over_a_file_of_another_year() -> None:
    run = [epoch(2026, 2, 10, 0, minute) for minute in range(5)]
    assert run_hints(files(*run, epoch(2026, 9, 1)), None) == RunHints(run[-1] * 10**9)
    assert run_hints(files(epoch(2019, 1, 1), *run), None) == RunHints(run[-1] * 10**9)


def test_a_stray_stamp_is_outvoted_in_its_own_file() -> None:
    """An audit epoch half a year ahead, a licence of another year: the file's other lines say when it was."""
    told = [epoch(2026, 2, 10, 0, minute) for minute in range(3)]
    assert run_hints([(epoch(2026, 8, 10), *told), (epoch(2019, 1, 1), *told)], None) == RunHints(told[-1] * 10**9)


def test_a_small_group_of_later_files_is_the_run_among_dumps_of_an_older_one() -> None:
    """Two of eight files end a month after the other six: the run is the later one."""
    older = [epoch(2026, 1, 10, 0, minute) for minute in range(6)]
    run = [epoch(2026, 2, 10, 0, minute) for minute in range(2)]
    assert run_hints(files(*older, *run), None) == RunHints(run[-1] * 10**9)


def test_a_lone_stamp_is_better_than_none() -> None:
    assert run_hints(files(epoch(2024, 5, 6)), 10**18) == RunHints(epoch(2024, 5, 6) * 10**9)


def test_a_lone_stamp_of_the_far_future_loses_against_another_one() -> None:
    assert run_hints(files(epoch(2024, 5, 6), epoch(2098, 1, 1)), None) == RunHints(epoch(2024, 5, 6) * 10**9)


def test_without_stamps_the_newest_file_counts_and_says_so() -> None:
    assert run_hints([()], 5) == RunHints(5, from_mtime=True)
    assert run_hints([], None) == RunHints(None, from_mtime=False)


@given(st.text(max_size=300))
def test_any_line_can_be_searched(text: str) -> None:
    """Stamps are always inside the years that a run can have."""
    assert all(epoch(2015, 1, 1) <= stamp < epoch(2100, 1, 1) for stamp in stamps(text))
