r"""Which pattern occurs in which segment, also where control sequences or JSON escapes stand between its letters.

Colour codes (``\x1b[31mError\x1b[0m: ...``), NUL bytes and the escapes of a container runtime's JSON (``File
\"train.py\"``, ``10.0.0.5\u003c45123\u003e``) are taken away before a message is matched, so the scan must not miss for
them. The segments that have any are scanned a second time without them; what either scan finds counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from correlator.ingest.engines import Engine
from correlator.ingest.quota import THIN_EXPONENT, Quota
from correlator.ingest.segments import INDEX_BLOCK_BYTES, Positions, SegmentIndex, segment_head, segments_where

PROBE_BYTES = 256 * 1024
"""The head of a chunk, of which its dense lines are counted."""
_MARKS = (b"\x1b", b"\0")
_BACKSLASH = b"\\"
_ESCAPED = np.frombuffer(b'"/u\\', dtype=np.uint8)
_SEQUENCE = re.compile(
    rb"(?:\x1b|\\u001[bB])\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    rb"|\x1b\][^\x07\x1b\n\r]{0,4096}(?:\x07|\x1b\\)"  # titles, links
    rb"|\x1b[@-_]?"
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\x1b")) + b"\x7f"
_JSON_ESCAPE = re.compile(rb"\\(?:u00([2-7][0-9a-fA-F])|([\"\\/]))")
_MAX_DIGITS = 18  # of an int64


@dataclass(frozen=True, slots=True)
class Matches:
    """Each pair of segment and pattern once, ordered by both; columns of equal length."""

    segments: Positions
    ids: Positions
    steps: Positions
    """The number that the last match of a dense pattern ends with; 0 for others."""
    thin: bool = False
    """In parts of the chunk dense patterns were looked for at steps alone that are multiples of 2**THIN_EXPONENT."""


def find_matches(
    engine: Engine,
    buffer: bytearray,
    length: int,
    index: SegmentIndex,
    dense: NDArray[np.bool_],
    quota: Quota | None = None,
) -> Matches:
    """All pairs of the chunk.

    Args:
        engine: what finds the patterns.
        buffer: the chunk.
        length: its length.
        index: its segments.
        dense: of each pattern, whether its step is wanted.
        quota: how many dense segments will be kept, where those that will not need not be found.
    """
    found = _scan_chunk(engine, buffer, length, index, dense, quota)
    thin = found.thin
    marked = _marked(buffer, length, index)
    if len(marked):
        cleaned = _cleaned(buffer, index, marked)
        inner = SegmentIndex(cleaned, len(cleaned), open_end=True)
        more = _scan(engine, cleaned, len(cleaned), inner, dense)
        found = _together([replace(more, segments=marked[more.segments]), found], thin=thin)
    return replace(_distinct(found, max(len(dense), 1)), thin=thin)


def _scan_chunk(
    engine: Engine,
    buffer: bytearray,
    length: int,
    index: SegmentIndex,
    dense: NDArray[np.bool_],
    quota: Quota | None,
) -> Matches:
    """All matches of a chunk, of which hardly a byte is scanned twice.

    Its head tells how many dense ones to expect; where most would be left out, only head and tail are searched for all,
    and what lies between the last of them and the tail.
    """
    head_end = index.start(int(index.locate(np.array([PROBE_BYTES]))[0])) if length >= 4 * PROBE_BYTES else 0
    if quota is None or not head_end:
        return _scan(engine, buffer, length, index, dense)
    head = _scan(engine, buffer, head_end, index, dense)
    lines = len(np.unique(head.segments[dense[head.ids]]))
    if lines * length <= quota.dense * head_end:
        return _together([head, _scan(engine, buffer, length, index, dense, start=head_end)], thin=False)
    tail_bytes = max(PROBE_BYTES // 2, 2 * max(quota.tail, quota.last_tail) * head_end // lines)
    tail_start = index.start(int(index.locate(np.array([max(length - tail_bytes, head_end)]))[0]))
    tail_start = min(max(tail_start, head_end), length)
    middle = _scan(engine, buffer, tail_start, index, dense, start=head_end, thin=True)
    tail = _scan(engine, buffer, length, index, dense, start=tail_start)
    parts = [head, middle, tail]
    wanted = max(quota.tail, quota.last_tail) - len(np.unique(tail.segments[dense[tail.ids]]))
    if wanted > 0:  # training stopped before the tail: its last steps must be exact all the same
        found = np.unique(middle.segments[dense[middle.ids]])
        behind = found[-(wanted >> THIN_EXPONENT) - 2 :]
        start = index.start(int(behind[0])) if len(behind) else head_end
        parts.insert(2, _scan(engine, buffer, tail_start, index, dense, start=start))
    return _together(parts, thin=True)


def _together(parts: Sequence[Matches], *, thin: bool) -> Matches:
    return Matches(
        np.concatenate([part.segments for part in parts]),
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.steps for part in parts]),
        thin,
    )


def _scan(
    engine: Engine,
    buffer: bytearray,
    length: int,
    index: SegmentIndex,
    dense: NDArray[np.bool_],
    *,
    start: int = 0,
    thin: bool = False,
) -> Matches:
    """All matches as (segment, pattern, step), ordered by their ends."""
    ends, found = engine.scan(buffer, length, start=start, thin=thin)
    order = np.argsort(ends, kind="stable")
    ends, ids = ends[order], found[order].astype(np.int64)
    steps = np.zeros(len(ends), dtype=np.int64)
    stepping = dense[ids]
    steps[stepping] = step_before(buffer, ends[stepping])
    segments = index.locate(ends)
    inside = segments < len(index)
    return Matches(segments[inside], ids[inside], steps[inside])


def _distinct(found: Matches, patterns: int) -> Matches:
    """The last match of each pair."""
    keys = found.segments * patterns + found.ids
    pairs, last = np.unique(keys[::-1], return_index=True)
    return Matches(pairs // patterns, pairs % patterns, found.steps[::-1][last])


def step_before(buffer: bytearray | bytes, ends: Positions) -> Positions:
    """The decimal number that ends at each offset; 0 where no digit stands before it.

    >>> step_before(b"step 120/500 x", np.array([8, 12, 14])).tolist()
    [120, 500, 0]
    """
    data = np.frombuffer(buffer, dtype=np.uint8)
    steps = np.zeros(len(ends), dtype=np.int64)
    reading = np.ones(len(ends), dtype=np.bool_)
    for place in range(_MAX_DIGITS):
        positions = ends - 1 - place
        digits = data[np.maximum(positions, 0)].astype(np.int64) - ord("0")
        reading &= (positions >= 0) & (digits >= 0) & (digits <= 9)
        if not reading.any():
            break
        steps[reading] += digits[reading] * 10**place
    return steps


def _marked(buffer: bytearray, length: int, index: SegmentIndex) -> Positions:
    """The segments that hold a control sequence or an escape."""
    data = np.frombuffer(buffer, dtype=np.uint8, count=length)
    found = [segments_where(data == mark[0], index) for mark in _MARKS if buffer.find(mark, 0, length) >= 0]
    if buffer.find(_BACKSLASH, 0, length - 1) >= 0:
        found += _escaped(data, index)
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def _escaped(data: NDArray[np.uint8], index: SegmentIndex) -> Iterator[Positions]:
    """The segments that hold an escape of JSON, block by block."""
    for start in range(0, len(data) - 1, INDEX_BLOCK_BYTES):
        stop = min(start + INDEX_BLOCK_BYTES, len(data) - 1)
        places = np.flatnonzero(data[start:stop] == _BACKSLASH[0]) + start
        places = places[np.isin(data[places + 1], _ESCAPED)]
        if len(places):
            segments = np.unique(index.locate(places + 1))
            yield segments[segments < len(index)]


def _cleaned(buffer: bytearray, index: SegmentIndex, segments: Positions) -> bytearray:
    """The given segments as they read when they are decoded, one a line."""
    text = b"\n".join(_content(buffer, index, segment) for segment in segments.tolist())
    plain = _SEQUENCE.sub(b"", text).translate(None, _CONTROLS)
    return bytearray(_JSON_ESCAPE.sub(_unescaped, plain) + b"\n")


def _content(buffer: bytearray, index: SegmentIndex, segment: int) -> bytes:
    return segment_head(buffer, index.start(segment), int(index.ends[segment])).rstrip(b"\r")


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)]) if match[1] else match[2]
