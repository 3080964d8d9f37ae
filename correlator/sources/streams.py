"""Plain bytes from a file, whatever packs them; a stream that breaks off gives what it has and says why.

gzip goes through isal (1.3 GB/s for each core, performance.md section e) or zlib where isal has no wheel; zstd through
zstandard. Both may hold several members or frames (rotated logs are concatenated). A gzip member is decoded by hand
rather than by `igzip.open` because a buffered reader throws away what it has decoded when the next block is damaged.
"""

from __future__ import annotations

import io
import os
import stat
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, cast

import zstandard

from correlator.core.files import Compression, LogFile
from correlator.sources.limits import KIB, Limits
from correlator.sources.utf16 import utf8_blocks, utf16_codec

if TYPE_CHECKING:
    from collections.abc import Callable

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"

_READ: Final = 256 * KIB
_GZIP_OUT: Final = 256 * KIB
"""What one call may decode: the most that is lost in front of a damaged block."""
_ZSTD_IN: Final = 2 * KIB
"""zstandard cannot bound what one call decodes; a block of 4 bytes can hold 128 KiB, so 2 KiB bound it to 64 MiB."""


class _Gunzip(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def _gzip_engine() -> tuple[Callable[[], _Gunzip], tuple[type[Exception], ...]]:
    try:
        from isal import isal_zlib
    except ImportError:
        return (lambda: cast("_Gunzip", zlib.decompressobj(wbits=31))), (zlib.error,)
    damaged = cast("type[Exception]", isal_zlib.error)
    return (lambda: cast("_Gunzip", isal_zlib.decompressobj(wbits=31))), (zlib.error, damaged)


_gunzip, _GZIP_ERRORS = _gzip_engine()


class CutOffError(Exception):
    """A packed stream cannot be read on; the message is the reason. Never leaves this module."""


def compression_of(head: bytes) -> Compression:
    """How the file is packed, from its first bytes; its name does not matter."""
    if head.startswith(GZIP_MAGIC):
        return Compression.GZIP
    if head.startswith(ZSTD_MAGIC):
        return Compression.ZSTD
    return Compression.NONE


def open_regular(location: str) -> BinaryIO:
    """Open a regular file, unbuffered; never waits on a FIFO or a device that took its place. Raises OSError."""
    descriptor = os.open(location, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOCTTY", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            message = "not a regular file"
            raise OSError(message)  # noqa: TRY301 - the descriptor is closed in one place
        return cast("BinaryIO", os.fdopen(descriptor, "rb", buffering=0))
    except BaseException:
        os.close(descriptor)
        raise


def open_stream(file: LogFile, limits: Limits | None = None) -> LogStream:
    """The decompressed bytes of a file. Raises OSError where it cannot be opened at all."""
    return LogStream(open_regular(file.location), file.compression, limits)


class LogStream(io.RawIOBase):
    """A readable stream of decompressed bytes that ends early instead of raising; UTF-16 comes as UTF-8.

    After the end, `cut_off` is None, or the reason why bytes are missing. `transcoded`: there are more or fewer bytes
    than in the file.
    """

    def __init__(self, raw: BinaryIO, compression: Compression, limits: Limits | None = None) -> None:
        super().__init__()
        self.cut_off: str | None = None
        self.transcoded = False
        self._started = False
        self._raw = raw
        self._limits = limits or Limits()
        self._taken = 0
        self._given = 0
        self._pending = memoryview(b"")
        self._plain = compression is Compression.NONE
        self._blocks = utf8_blocks(_BLOCKS[compression](self._packed()))

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the buffer as far as the stream reaches; 0 at the end, also at an end that comes too early."""
        view = memoryview(buffer).cast("B")
        if not self._plain:
            return self._read_packed(view)
        count = self._read_plain(view)
        if self._started or utf16_codec(bytes(view[: min(count, KIB)])) is None:
            self._started = True
            return count
        self._plain, self.transcoded = False, True
        self._blocks = utf8_blocks(chain([bytes(view[:count])], self._packed()))
        return self._read_packed(view)

    def close(self) -> None:
        """Close the file below as well."""
        if not self.closed:
            self._pending = memoryview(b"")
            self._raw.close()
        super().close()

    def _read_plain(self, view: memoryview) -> int:
        try:
            return self._raw.readinto(view) or 0  # type: ignore[attr-defined]
        except OSError as error:
            self.cut_off = f"cannot be read on: {error.strerror or error}"
            return 0

    def _read_packed(self, view: memoryview) -> int:
        filled = 0
        while filled < len(view) and (self._pending or self._next_block()):
            size = min(len(view) - filled, len(self._pending))
            view[filled : filled + size] = self._pending[:size]
            self._pending = self._pending[size:]
            filled += size
        return filled

    def _next_block(self) -> bool:
        """Decode one more block into `_pending`; False at the end."""
        if self.cut_off is not None:
            return False
        try:
            block = next(self._blocks, None)
        except CutOffError as error:
            self.cut_off = str(error)
            return False
        if block is None:
            return False
        self._pending = memoryview(block)
        self._given += len(block)
        if self._given > self._limits.ratio_from_bytes and self._given > self._limits.ratio * max(self._taken, 1):
            self.cut_off = f"expands more than {self._limits.ratio} times"
        return True

    def _packed(self) -> Iterator[bytes]:
        """Pieces of the packed file; ends early at a read error."""
        while True:
            try:
                piece = self._raw.read(_READ)
            except OSError as error:
                reason = f"cannot be read on: {error.strerror or error}"
                raise CutOffError(reason) from error
            if not piece:
                return
            self._taken += len(piece)
            yield piece


def _gzip_blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Decode gzip members one after another. Zeros after a member are padding; other bytes are damage."""
    decoder: _Gunzip | None = None
    for piece in pieces:
        rest = piece
        while rest:
            if decoder is None:
                rest = rest.lstrip(b"\0")
                if not rest:
                    break
                decoder = _gunzip()
            try:
                block = decoder.decompress(rest, _GZIP_OUT)
            except _GZIP_ERRORS as error:
                reason = f"damaged gzip: {error}"
                raise CutOffError(reason) from error
            rest = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            if decoder.eof:
                decoder = None
            if block:
                yield block
    if decoder is not None:
        yield from _drain(decoder)


def _drain(decoder: _Gunzip) -> Iterator[bytes]:
    """What a decoder still holds when the file ends inside a member."""
    while not decoder.eof:
        try:
            block = decoder.decompress(b"", _GZIP_OUT)
        except _GZIP_ERRORS:
            block = b""
        if not block:
            reason = "gzip ends early"
            raise CutOffError(reason)
        yield block


def _zstd_blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Decode zstd frames one after another."""
    decoder = None
    for piece in pieces:
        start = 0
        while start < len(piece):
            if decoder is None:
                decoder = zstandard.ZstdDecompressor().decompressobj()
            part = piece[start : start + _ZSTD_IN]
            try:
                block = decoder.decompress(part)
            except zstandard.ZstdError as error:
                reason = f"damaged zstd: {error}"
                raise CutOffError(reason) from error
            start += len(part)
            if decoder.eof:
                start -= len(decoder.unused_data)
                decoder = None
            if block:
                yield block
    if decoder is not None:
        reason = "zstd ends early"
        raise CutOffError(reason)


def _no_blocks(_pieces: Iterator[bytes]) -> Iterator[bytes]:
    return iter(())


_BLOCKS: Final[dict[Compression, Callable[[Iterator[bytes]], Iterator[bytes]]]] = {
    Compression.NONE: _no_blocks,
    Compression.GZIP: _gzip_blocks,
    Compression.ZSTD: _zstd_blocks,
}
