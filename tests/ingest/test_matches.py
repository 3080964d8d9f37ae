"""Patterns are found through colours, NULs and JSON escapes, in the segment that holds them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.ingest.engines import HyperscanEngine
from correlator.ingest.matches import find_matches
from correlator.ingest.segments import MAX_SEGMENT_BYTES, SegmentIndex, segments_where
from correlator.ingest.selection import Selector
from correlator.parsers.base import LinePattern


def _found(patterns: tuple[LinePattern, ...], data: bytes) -> list[tuple[int, int, int]]:
    buffer = bytearray(data)
    index = SegmentIndex(buffer, len(data), open_end=True)
    matches = find_matches(HyperscanEngine(patterns), buffer, len(data), index, Selector(patterns).dense)
    return list(zip(matches.segments.tolist(), matches.ids.tolist(), matches.steps.tolist(), strict=True))


@pytest.mark.parametrize(
    "line",
    [
        b"\x1b[1;31mout\x1b[0m of memory",
        b"out of\0 memory",
        rb'{"log":"\u001b[31mout\u001b[0m of memory\n","stream":"stderr"}',
        b"o\x1b]0;title\x07ut of memory",
    ],
)
def test_a_pattern_is_found_through_control_sequences(table: Any, line: bytes) -> None:
    assert _found(table.patterns, b"one\n" + line + b"\r\nthree\rfour\n" + line) == [(1, 1, 0), (4, 1, 0)]


def test_a_pattern_with_quotes_and_brackets_is_found_in_json(make_pattern: Callable[..., LinePattern]) -> None:
    patterns = (
        make_pattern("file", r'File "[^"\n]+", line \d+, in <module>'),
        make_pattern("peer", r"10\.0\.0\.5<45123>"),
    )
    line = rb'{"log":"  File \"/a/b.py\", line 3, in \u003cmodule\u003e 10.0.0.5\u003c45123\u003e\n"}'
    assert _found(patterns, line) == [(0, 0, 0), (0, 1, 0)]


def test_the_step_of_a_coloured_line_is_read(table: Any) -> None:
    assert _found(table.patterns, b"step: 7\n\x1b[32mstep: \x1b[0m12\x1b[0m/100\n") == [(0, 6, 7), (1, 6, 12)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [b"\n", b"\r", b"\x1b[0m", b'\\"', b"\\u001b[1m", b"step: 3", b"[rank1]", b"\0", b"\\", b"\x1b"]
        )
    )
)
def test_cleaning_moves_no_match_to_another_segment(table: Any, parts: list[bytes]) -> None:
    """Whatever the plain scan finds is found, and nothing is found in a segment that has none of the pattern's letters."""
    data = b"".join(parts)
    buffer = bytearray(data)
    index = SegmentIndex(buffer, len(data), open_end=True)
    for segment, pattern, _ in _found(table.patterns, data):
        content = data[index.start(segment) : int(index.ends[segment])]
        assert {2: b"[rank1]", 6: b"step: 3"}[pattern] in content
    plain = {i for i in range(len(index)) if b"[rank1]" in data[index.start(i) : int(index.ends[i])]}
    assert plain <= {segment for segment, pattern, _ in _found(table.patterns, data) if pattern == 2}


def test_a_hole_of_nuls_costs_little_and_hides_nothing_behind_it(table: Any) -> None:
    """As a node leaves it that crashes; the next line is printed right behind it."""
    data = b"fine\n" + bytes(4 * MAX_SEGMENT_BYTES) + b"out of\0 memory\nend\n"
    tracemalloc.start()
    found = _found(table.patterns, data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [(1, 1, 0)]
    assert peak < 6 * len(data)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"#", b"#" * 9, b"b" * 300])), st.booleans())
def test_marked_segments_are_those_that_hold_a_mark(parts: list[bytes], open_end: bool) -> None:
    """Many marks or few."""
    data = bytearray(b"".join(parts))
    index = SegmentIndex(data, len(data), open_end=open_end)
    mask = np.frombuffer(data, dtype=np.uint8) == ord("#")
    plain = [i for i in range(len(index)) if b"#" in data[index.start(i) : int(index.ends[i])]]
    assert segments_where(mask, index).tolist() == plain
