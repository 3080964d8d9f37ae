"""Lines that a container runtime cut into pieces of 16 KiB, put together again (formats.md E2).

CRI tags every piece but the last with `P`; docker's JSON leaves the newline out of them. Each of those is hit by the
pattern `kubernetes.partial`, so the pieces of a line are found from its first one on. A pattern that the cut went
through was hit in neither piece: what stands around a cut is searched for all patterns here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from correlator.parsers.peel import clean
from correlator.parsers.peel.segments import decode
from correlator.parsers.table import PatternTable

PARTIAL_ID = "kubernetes.partial"
_CRI = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([FP])(?::[A-Z:]{1,20})?(?: |$)")
_DOCKER_HEAD = b'{"log":"'
_DOCKER_END = re.compile(rb'(\\n)?","stream":"(stdout|stderr)"')
_HEAD_BYTES = 96
_LOOKAHEAD = 512
_MOST_PIECES = 64
_MOST_BYTES = 1 << 20
_AROUND = 256
_MOST_CUTS = 200
"""Cuts of one chunk around which all patterns are searched; each costs about a millisecond."""

Hits = Sequence[tuple[int, tuple[int, ...]]]


class RawLines(Protocol):
    """The part of `ChunkLines` that is needed."""

    @property
    def final(self) -> bool:
        """Whether the file ends with this chunk."""

    def __len__(self) -> int: ...

    def raw(self, index: int) -> bytes:
        """A line without its newline."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A cut line: its pieces by index, the first one first, and its text with the first one's prefixes."""

    pieces: tuple[int, ...]
    text: str
    cuts: tuple[int, ...]
    """Where in the text a piece ends and the next begins."""
    complete: bool


def join_partial(lines: RawLines, hits: Hits, table: PatternTable) -> tuple[Hits, dict[int, Joined]]:
    """The hits with those of later pieces moved to the first one, and the joined lines by their first index."""
    partial = table.ids.get(PARTIAL_ID)
    if partial is None or not any(partial in ids for _, ids in hits):
        return hits, {}
    joined: dict[int, Joined] = {}
    head_of: dict[int, int] = {}
    for index, ids in hits:
        if partial in ids and index not in head_of:
            line = _collect(lines, index, head_of)
            if line is not None:
                joined[index] = line
                head_of |= dict.fromkeys(line.pieces[1:], index)
    merged: dict[int, set[int]] = {}
    for index, ids in hits:
        merged.setdefault(head_of.get(index, index), set()).update(ids)
    for count, (index, line) in enumerate(joined.items()):
        if count < _MOST_CUTS:
            merged[index] |= _at_cuts(line, table)
    return sorted((index, tuple(sorted(ids))) for index, ids in merged.items()), joined


def _collect(lines: RawLines, first: int, taken: dict[int, int]) -> Joined | None:
    """The line that begins with a piece; None where that piece is no piece."""
    found = _piece(lines.raw(first))
    if found is None or found[1]:
        return None
    stream = found[0]
    pieces, contents, size = [first], [_content(lines.raw(first))], len(lines.raw(first))
    last = min(len(lines), first + _LOOKAHEAD)
    ended = False
    for index in range(first + 1, last):
        if len(pieces) >= _MOST_PIECES or size > _MOST_BYTES:
            ended = True
            break
        following = _piece(lines.raw(index))
        if following is None or following[0] != stream or index in taken:
            continue
        pieces.append(index)
        contents.append(_content(lines.raw(index)))
        size += len(lines.raw(index))
        if following[1]:
            ended = True
            break
    text, cuts = _together(lines.raw(first), contents)
    return Joined(tuple(pieces), text, cuts, complete=ended or last < len(lines) or lines.final)


def _piece(raw: bytes) -> tuple[bytes, bool] | None:
    """(stream, whether the line ends here), or None where it is no line of a container runtime."""
    if match := _CRI.match(raw[:_HEAD_BYTES]):
        return match[1], match[2] == b"F"
    if raw.startswith(_DOCKER_HEAD) and (match := _DOCKER_END.search(raw)):
        return match[2], match[1] is not None
    return None


def _content(raw: bytes) -> str:
    """What a piece holds of the line."""
    if match := _CRI.match(raw[:_HEAD_BYTES]):
        return clean(decode(raw[match.end() :]))
    document = _document(raw)
    log = document.get("log") if document is not None else None
    return log if isinstance(log, str) else ""


def _document(raw: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(decode(raw))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _together(first: bytes, contents: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    body = "".join(contents)
    match = _CRI.match(first[:_HEAD_BYTES])
    if match is None:
        return json.dumps({**(_document(first) or {}), "log": body}, ensure_ascii=False), ()
    head = clean(decode(first[: match.end()]))
    cuts, position = [], len(head)
    for content in contents[:-1]:
        position += len(content)
        cuts.append(position)
    return head + body, tuple(cuts)


def _at_cuts(line: Joined, table: PatternTable) -> set[int]:
    windows = [line.text[max(cut - _AROUND, 0) : cut + _AROUND] for cut in line.cuts] or [line.text[:16_384]]
    return {scan_id for scan_id, regex in enumerate(table.compiled) for text in windows if regex.search(text)}
