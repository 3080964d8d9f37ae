"""Hyperscan and Python's `re` find the same patterns in the same segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.ingest.engines import Engine, HyperscanEngine, ReEngine, make_engine
from correlator.ingest.segments import SegmentIndex
from correlator.parsers.base import LinePattern

FRAGMENTS = [
    b"\n", b"\r", b"\r\n", b"\0", b"\xff\xfe", "é█".encode(), b" ", b"\t", b"step: ", b"1", b"20", b"[rank3]", b"ValueError: ",
    b"Out of Memory", b"begin", b"end", b"a", b"b", b"RECORD", b"x" * 3000, b"\x0b", b"\x85",
]  # fmt: skip
logs = st.lists(st.sampled_from(FRAGMENTS), max_size=60).map(b"".join)


def _pairs(engine: Engine, data: bytes) -> set[tuple[int, int]]:
    buffer = bytearray(data) + bytearray(16)
    index = SegmentIndex(buffer, len(data), open_end=True)
    ends, ids = engine.scan(buffer, len(data))
    return set(zip(index.locate(ends).tolist(), ids.tolist(), strict=True))


@pytest.fixture(scope="module")
def both(table: Any) -> tuple[Engine, Engine]:
    return HyperscanEngine(table.patterns), ReEngine(table.patterns)


@settings(max_examples=40, deadline=None)
@given(data=logs)
def test_both_engines_find_the_same_pairs(both: tuple[Engine, Engine], data: bytes) -> None:
    fast, slow = both
    assert _pairs(fast, data) == _pairs(slow, data)


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=300))
def test_both_engines_agree_on_any_bytes(both: tuple[Engine, Engine], data: bytes) -> None:
    fast, slow = both
    assert _pairs(fast, data) == _pairs(slow, data)


def test_the_last_match_of_a_segment_is_reported(both: tuple[Engine, Engine]) -> None:
    """The step of a progress line is read backwards from there."""
    for engine in both:
        ends, ids = engine.scan(b"step: 12345/9\nstep: 7", 21)
        progress = ends[ids == 6]
        assert {11, 21} <= set(progress.tolist())
        assert max(progress[progress <= 13]) == 11


def test_only_the_given_length_is_scanned(both: tuple[Engine, Engine]) -> None:
    for engine in both:
        ends, _ = engine.scan(bytearray(b"RECORD RECORD"), 6)
        assert ends.tolist() == [6]


def test_a_pattern_that_hyperscan_refuses_runs_through_re_and_says_so(make_pattern: Callable[..., LinePattern]) -> None:
    patterns = [make_pattern("good", "foo"), make_pattern("twice", r"(?P<x>[ab])-\1"), make_pattern("last", "bar")]
    engine = HyperscanEngine(patterns)
    ends, ids = engine.scan(b"foo a-a bar a-b", 15)
    assert sorted(zip(ends.tolist(), ids.tolist(), strict=True)) == [(3, 0), (7, 1), (11, 2)]
    assert len(engine.warnings) == 1
    assert "twice" in engine.warnings[0]


def test_a_pattern_that_another_hides_is_found_all_the_same() -> None:
    """Hyperscan loses the first of these two where they share a database and some text stands before the match."""
    samples = (
        "[5] finished collective #4710, but didn't join collective #4711",
        "[0, 1] joined but didn't finish collective #4711",
    )
    regexes = (
        r"\[(\d[\d, ]*)\] finished collective #\d+, but didn't join collective #(\d+)",
        r"\[(\d[\d, ]*)\] joined but didn't finish collective #(\d+)",
    )
    patterns = tuple(
        LinePattern(id=sample, event_name="message", regex=regex, samples=(sample,), lookalikes=())
        for sample, regex in zip(samples, regexes, strict=True)
    )
    engine = HyperscanEngine(patterns)
    assert engine.warnings == ()
    for prefix in (b"", b"some text that stands before it "):
        data = b"".join(prefix + sample.encode() + b"\n" for sample in samples)
        assert _pairs(engine, data) == {(0, 0), (1, 1)}


def test_an_empty_table_and_an_empty_buffer_find_nothing(table: Any) -> None:
    assert all(len(part) == 0 for part in HyperscanEngine(()).scan(b"abc", 3))
    for force_re in (False, True):
        ends, ids = make_engine(table, force_re=force_re).scan(b"", 0)
        assert len(ends) == 0
        assert (ends.dtype, ids.dtype) == (np.dtype(np.int64), np.dtype(np.int32))
