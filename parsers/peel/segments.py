"""From the bytes of a physical line to clean text, one piece for each segment between carriage returns."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|\x1b[@-_]?"
    r"|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f\ufeff]"
)
_NEEDS_CLEANING = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ufeff]")
_EMBEDDED = re.compile(
    r"\[default\d{1,6}\]:"
    r"|\[rank\d{1,6}\]:(?:\[[FEWIV]\d{3,4} \d\d:|\[[FEWIV] [\w.]+:\d| ?Traceback \(| ?[\w.]{0,80}(?:Error|Exception)\b)"
    r"|\[[FEW]\d{3,4} \d\d:\d\d:\d\d\.\d{9} \w+\.[ch]pp:\d"
    r"|terminate called after throwing"
    r"|\[\d{1,9},(?:mpirank:)?\d{1,9}(?:,[\w.-]{1,253})?\](?:<std(?:err|out)>)?:"
)


def clean(text: str) -> str:
    """`text` without ANSI sequences, NULs, byte order marks and other control characters but the tab."""
    return _CONTROL.sub("", text) if _NEEDS_CLEANING.search(text) else text


def decode(raw: bytes) -> str:
    """UTF-8 (bad bytes replaced), or UTF-16 where the bytes begin with its mark."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw[: len(raw) & ~1].decode("utf-16", errors="replace")
    return raw.decode("utf-8", errors="replace")


def segments(raw: bytes, limit: int = 1 << 18) -> list[tuple[int, str]]:
    """(byte offset in the line, clean text) of each segment; the last carriage return of a CRLF splits nothing.

    Of a segment longer than `limit` bytes only its beginning is kept.
    """
    body = raw.removesuffix(b"\r")
    if b"\r" not in body:
        return [(0, _text(body, limit))]
    pieces: list[tuple[int, str]] = []
    offset = 0
    for piece in body.split(b"\r"):
        pieces.append((offset, _text(piece, limit)))
        offset += len(piece) + 1
    return pieces


def _text(piece: bytes, limit: int) -> str:
    """Clean text of a segment. The hole that copytruncate leaves in front of a line does not count (formats.md R9)."""
    return clean(decode(piece[:limit] if len(piece) <= limit else piece.lstrip(b"\0")[:limit]))


def embedded_start(message: str) -> int | None:
    """Where in a message another writer's line begins (torn lines, formats.md R6); None if nowhere."""
    match = _EMBEDDED.search(message, 1)
    return match.start() if match else None
