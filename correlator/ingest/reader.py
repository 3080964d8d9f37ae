"""Files in chunks: one reused buffer, cut at the last line end, the rest carried to the front of the next chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

CHUNK_BYTES = 8 * 1024 * 1024
"""Best of 1, 4, 8 and 32 MiB from end to end (performance.md c)."""
LINE_LIMIT_BYTES = CHUNK_BYTES
"""A longer segment is cut, so that the buffer is bounded; the cut counts as a carriage return would and is noted."""


class Readable(Protocol):
    """The part of a binary stream that is used."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer as far as possible and say how far; 0 or None at the end."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes that bound the memory of a reading process; smaller ones are for tests."""

    chunk_bytes: int = CHUNK_BYTES
    line_bytes: int = LINE_LIMIT_BYTES
    record_bytes: int = 4 * 1024 * 1024
    """An open multi-line record is carried over up to this size, then closed as it is."""
    whole_file_bytes: int = 64 * 1024 * 1024
    """How much of a dump that must be parsed as one document is read."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What lies at the front of the buffer: `length` bytes, to be consumed from the left."""

    length: int
    final: bool
    """Nothing follows."""
    forced: bool
    """Cut inside a segment that is longer than the limit."""


class ChunkReader:
    """Reads one stream at a time; the buffer outlives the stream."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stream: Readable | None = None
        self._byte_limit: int | None = None
        self.buffer = bytearray()
        self._reset()

    def _reset(self) -> None:
        if not 0 < len(self.buffer) <= 2 * self._limits.chunk_bytes:
            self.buffer = bytearray(self._limits.chunk_bytes)
        self._held = 0
        self._seen = 0
        self.offset = 0
        self.bytes_read = 0
        self.failure: str | None = None
        self.limit_reached = False
        self._ended = False

    def open(self, stream: Readable, byte_limit: int | None = None) -> None:
        """Begin a stream; after `byte_limit` bytes it is taken to have ended, and `limit_reached` says so."""
        self._stream = stream
        self._byte_limit = byte_limit
        self._reset()

    def next_chunk(self) -> Chunk | None:
        """The next chunk, or None behind the final one. What was not consumed of the last chunk is its beginning.

        A stream that fails in the middle (truncated gzip, I/O error) ends there; `failure` says why.
        """
        if self._ended:
            return None
        searched = self._seen
        while True:
            more = self._fill(self._held + self._limits.chunk_bytes)
            if not more:
                self._ended = True
                return Chunk(self._held, final=True, forced=False)
            cut = self._last_break(searched)
            if cut > self._seen:
                return Chunk(cut, final=False, forced=False)
            if self._held - self._seen >= self._limits.line_bytes:
                ends_in_return = self.buffer[self._held - 1] == 13  # it may be half of a \r\n
                return Chunk(self._held - ends_in_return, final=False, forced=True)
            searched = max(self._held - 1, self._seen)

    def consume(self, count: int, chunk: Chunk) -> None:
        """Drop `count` bytes from the front; the rest of the chunk is given again with the next one."""
        view = memoryview(self.buffer)
        view[: self._held - count] = view[count : self._held]
        self._held -= count
        self._seen = chunk.length - count
        self.offset += count

    def _last_break(self, searched: int) -> int:
        """Behind the last newline, else behind the last carriage return that is surely alone; 0 if there is neither."""
        newline = self.buffer.rfind(b"\n", searched, self._held)
        if newline >= 0:
            return newline + 1
        return self.buffer.rfind(b"\r", searched, self._held - 1) + 1

    def _fill(self, wanted: int) -> bool:
        """Read until `wanted` bytes are held; False when the stream ended before that."""
        if len(self.buffer) < wanted:
            larger = bytearray(wanted)
            larger[: self._held] = memoryview(self.buffer)[: self._held]
            self.buffer = larger
        while self._held < wanted:
            if self._byte_limit is not None and self.bytes_read >= self._byte_limit:
                self.limit_reached = True
                return False
            count = self._read(wanted)
            if not count:
                return False
            self._held += count
            self.bytes_read += count
        return True

    def _read(self, wanted: int) -> int:
        stop = wanted
        if self._byte_limit is not None:
            stop = min(stop, self._held + self._byte_limit - self.bytes_read)
        if self._stream is None:
            return 0
        try:
            return self._stream.readinto(memoryview(self.buffer)[self._held : stop]) or 0
        except Exception as error:  # noqa: BLE001  (every decompressor has errors of its own; none may end the run)
            self.failure = f"{type(error).__name__}: {error}".strip(": ")
            return 0

    def read_all(self) -> bytes:
        """The whole stream as one piece, up to the byte limit."""
        pieces = []
        while self._fill(self._limits.chunk_bytes):
            pieces.append(bytes(memoryview(self.buffer)[: self._held]))
            self._held = 0
        pieces.append(bytes(memoryview(self.buffer)[: self._held]))
        self._ended = True
        return b"".join(pieces)
