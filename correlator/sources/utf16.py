"""UTF-16 with a byte order mark, as Windows tools and PowerShell redirections write logs: read as UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Final

_CODECS: Final = {codecs.BOM_UTF16_LE: ("utf-16-le", 1), codecs.BOM_UTF16_BE: ("utf-16-be", 0)}
"""Codec by byte order mark, and which byte of a pair is the high one."""
_LOOKED_AT: Final = 1024
_ASCII_SHARE: Final = 0.25
"""Logs in any language are this much digits, blanks and English; other binary files may begin with the mark, too."""


def utf16_codec(head: bytes) -> str | None:
    """The codec of a text that begins so, or None where it is no UTF-16 with a mark.

    >>> utf16_codec("step 1".encode("utf-16"))
    'utf-16-le'
    """
    known = _CODECS.get(bytes(head[:2]))
    if known is None:
        return None
    codec, high = known
    high_bytes = bytes(head[2 + high : _LOOKED_AT : 2])
    return codec if high_bytes and high_bytes.count(0) >= _ASCII_SHARE * len(high_bytes) else None


def utf8_blocks(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same text in UTF-8; blocks that are no UTF-16 as they are. What cannot be decoded is U+FFFD."""
    decoder: codecs.IncrementalDecoder | None = None
    first = True
    for block in blocks:
        rest = block
        if first and (codec := utf16_codec(block)):
            decoder = codecs.getincrementaldecoder(codec)("replace")
            rest = block[2:]
        first = False
        if text := rest if decoder is None else decoder.decode(rest).encode():
            yield text
    if decoder is not None and (text := decoder.decode(b"", final=True).encode()):
        yield text
