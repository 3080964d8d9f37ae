"""Chunks and segments: nothing lost, nothing twice, lines numbered as `wc -l` would, whatever the chunk size."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.ingest.reader import ChunkReader, Limits
from correlator.ingest.segments import MAX_SEGMENT_BYTES, ChunkSegments, SegmentIndex

logs = st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"bc", b"\0\xff", b"word" * 9]), max_size=50).map(
    b"".join
)


def reference(data: bytes) -> list[tuple[int, int, bytes]]:
    """Line number, offset and content of every segment, the plain way."""
    found: list[tuple[int, int, bytes]] = []
    start, line = 0, 1
    for separator in re.finditer(rb"\r\n|\n|\r", data):
        found.append((line, start, data[start : separator.start()]))
        line += separator.group().endswith(b"\n")
        start = separator.end()
    if data and not data.endswith(b"\n"):
        found.append((line, start, data[start:]))
    return found


def read(data: bytes, limits: Limits, keep: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """All segments through the reader; `keep` bytes of each chunk are asked for again with the next one."""
    reader = ChunkReader(limits)
    reader.open(io.BytesIO(data))
    line = 1
    while (chunk := reader.next_chunk()) is not None:
        index = SegmentIndex(reader.buffer, chunk.length, open_end=chunk.final or chunk.forced)
        lines = ChunkSegments(reader.buffer, index, offset=reader.offset, line_number=line, final=chunk.final)
        done = len(lines)
        while not chunk.final and done and chunk.length - index.start(done) < keep:
            done -= 1
        yield from ((lines.number(i), lines.offset(i), lines.raw(i)) for i in range(done))
        line += index.lines_before(done)
        reader.consume(min(index.start(done), chunk.length), chunk)


@settings(max_examples=40, deadline=None)
@given(data=logs, chunk_bytes=st.integers(1, 80), keep=st.integers(0, 60))
def test_segments_are_those_of_the_plain_way(data: bytes, chunk_bytes: int, keep: int) -> None:
    assert list(read(data, Limits(chunk_bytes=chunk_bytes), keep)) == reference(data)


@settings(max_examples=40, deadline=None)
@given(data=logs, chunk_bytes=st.integers(1, 20), line_bytes=st.integers(1, 20))
def test_cut_lines_lose_nothing(data: bytes, chunk_bytes: int, line_bytes: int) -> None:
    """Pieces of a line that is too long have its number, and their own offsets; joined they are the file."""
    pieces = list(read(data, Limits(chunk_bytes=chunk_bytes, line_bytes=line_bytes)))
    lines = {number: b"" for number, _, _ in pieces}
    for number, offset, raw in pieces:
        lines[number] += raw
        assert data[offset : offset + len(raw)] == raw
    assert (
        list(lines.values())
        == [line.replace(b"\r", b"") for line in data.removesuffix(b"\n").split(b"\n")][: len(lines)]
    )


def test_a_progress_bar_is_cut_at_its_carriage_returns_before_it_fills_the_memory() -> None:
    data = b"".join(b"\r%3d%%" % n for n in range(1000))
    reader = ChunkReader(Limits(chunk_bytes=64))
    reader.open(io.BytesIO(data))
    while (chunk := reader.next_chunk()) is not None:
        reader.consume(chunk.length, chunk)
    assert len(reader.buffer) <= 2 * 64


def test_only_the_head_of_a_huge_segment_is_handed_out() -> None:
    data = bytearray(b"x" * (MAX_SEGMENT_BYTES + 5) + b"\n")
    lines = ChunkSegments(data, SegmentIndex(data, len(data), open_end=False), offset=0, line_number=1, final=True)
    assert len(lines.raw(0)) == MAX_SEGMENT_BYTES


def test_the_head_of_a_huge_segment_is_what_stands_behind_a_hole_of_nuls() -> None:
    data = bytearray(b"a" + bytes(3 * MAX_SEGMENT_BYTES) + b"b" * MAX_SEGMENT_BYTES + b"\n")
    lines = ChunkSegments(data, SegmentIndex(data, len(data), open_end=False), offset=0, line_number=1, final=True)
    assert lines.raw(0) == b"a" + b"b" * (MAX_SEGMENT_BYTES - 1)


@pytest.mark.parametrize("index", [-1, 2])
def test_a_segment_that_is_not_there_is_an_index_error(index: int) -> None:
    data = bytearray(b"a\nb\n")
    lines = ChunkSegments(data, SegmentIndex(data, 4, open_end=False), offset=0, line_number=1, final=True)
    with pytest.raises(IndexError):
        lines.raw(index)


def test_the_buffer_shrinks_again_after_a_long_line() -> None:
    reader = ChunkReader(Limits(chunk_bytes=64))
    reader.open(io.BytesIO(b"x" * 5000))
    while (chunk := reader.next_chunk()) is not None:
        reader.consume(chunk.length, chunk)
    assert len(reader.buffer) >= 5000
    reader.open(io.BytesIO(b""))
    assert len(reader.buffer) == 64
