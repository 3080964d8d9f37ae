"""The first look at a file: its head and its tail, decompressed, read once."""

from __future__ import annotations

import os
from dataclasses import dataclass

from correlator.core.files import Compression
from correlator.sources.limits import KIB, Limits
from correlator.sources.streams import LogStream, compression_of, open_regular
from correlator.sources.utf16 import utf16_codec


@dataclass(frozen=True, slots=True)
class Sample:
    """Both ends of a file, decompressed; no tail where the head is the whole file or the end is out of reach."""

    head: bytes
    tail: bytes
    compression: Compression
    whole: bool
    """The head is all there is."""
    cut_off: str | None = None


def take_sample(location: str, limits: Limits) -> Sample:
    """Read head and tail. Raises OSError where the file cannot be opened or read at all."""
    with open_regular(location) as raw:
        descriptor = raw.fileno()
        head = os.read(descriptor, limits.head_bytes)
        compression = compression_of(head)
        if compression is not Compression.NONE or utf16_codec(head):
            return _packed_sample(location, compression, limits)
        if len(head) < limits.head_bytes:
            return Sample(head, b"", compression, whole=True)
        size = os.fstat(descriptor).st_size
        start = max(len(head), size - limits.tail_bytes)
        tail = os.pread(descriptor, limits.tail_bytes, start) if size > len(head) else b""
        return Sample(head, tail, compression, whole=not tail)


def _packed_sample(location: str, compression: Compression, limits: Limits) -> Sample:
    with LogStream(open_regular(location), compression, limits) as stream:
        head = _read(stream, limits.head_bytes)
        tail, reached, ended = b"", len(head), len(head) < limits.head_bytes
        while not ended and reached < limits.tail_reach_bytes:
            piece = _read(stream, 64 * KIB)
            tail = (tail + piece)[-limits.tail_bytes :]
            reached += len(piece)
            ended = len(piece) < 64 * KIB
        return Sample(head, tail if ended else b"", compression, whole=ended and not tail, cut_off=stream.cut_off)


def _read(stream: LogStream, size: int) -> bytes:
    """Exactly `size` bytes, or all up to the end."""
    buffer = bytearray(size)
    filled = 0
    while filled < size:
        count = stream.readinto(memoryview(buffer)[filled:])
        if not count:
            break
        filled += count
    return bytes(buffer[:filled])
