"""Plain bytes from packed files, whole or damaged."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.core.files import Compression, LogFile
from correlator.core.vocabulary import FileKind
from correlator.sources import Limits, LogStream, open_stream
from correlator.sources import streams as streams_module

TEXT = b"".join(b"2026-03-01 10:00:00,123 [rank %d] step %d\n" % (number % 8, number) for number in range(4_000))


def pack(data: bytes, compression: Compression) -> bytes:
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return gzip.compress(data, mtime=0)
        case Compression.ZSTD:
            return zstandard.ZstdCompressor().compress(data)


def read_all(packed: bytes, compression: Compression, size: int = 100_000, limits: Limits | None = None) -> LogStream:
    stream = LogStream(io.BytesIO(packed), compression, limits)
    parts = []
    while part := stream.read(size):
        parts.append(part)
    stream.text = b"".join(parts)  # type: ignore[attr-defined]
    return stream


@pytest.mark.parametrize("compression", list(Compression))
@given(data=st.binary(max_size=5000), times=st.integers(1, 200), size=st.sampled_from([1, 7, 4096, 1 << 20]))
@settings(max_examples=25)
def test_bytes_come_back_as_they_went_in(compression: Compression, data: bytes, times: int, size: int) -> None:
    """Packing and reading is the identity, whatever the size of the reads."""
    if size < 4096:
        times = 1
    stream = read_all(pack(data * times, compression), compression, size)
    assert stream.text == data * times  # type: ignore[attr-defined]
    assert stream.cut_off is None


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZSTD])
def test_joined_parts_are_read_as_one(compression: Compression) -> None:
    stream = read_all(pack(TEXT, compression) + pack(b"tail\n", compression), compression)
    assert stream.text == TEXT + b"tail\n"  # type: ignore[attr-defined]
    assert stream.cut_off is None


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZSTD])
@given(share=st.floats(0.0, 0.999))
@settings(max_examples=30)
def test_a_truncated_file_gives_its_beginning_and_says_so(compression: Compression, share: float) -> None:
    packed = pack(TEXT, compression)
    stream = read_all(packed[: max(5, int(len(packed) * share))], compression)
    assert TEXT.startswith(stream.text)  # type: ignore[attr-defined]
    assert stream.cut_off is not None
    assert "early" in stream.cut_off


def test_most_of_a_gzip_is_read_up_to_the_damage() -> None:
    noise = os.urandom(2_000_000).hex().encode()
    packed = bytearray(gzip.compress(noise, 1))
    middle = len(packed) // 2
    packed[middle : middle + 64] = bytes(64)
    stream = read_all(bytes(packed), Compression.GZIP)
    assert stream.cut_off is not None
    assert len(stream.text) > 0.3 * len(noise)  # type: ignore[attr-defined]


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZSTD])
@given(junk=st.binary(max_size=300), size=st.integers(1, 400))
@settings(max_examples=25)
def test_junk_never_raises(compression: Compression, junk: bytes, size: int) -> None:
    packed = pack(b"x" * size, compression)
    read_all(packed[: size % len(packed)] + junk, compression)


def test_padding_zeros_behind_a_gzip_are_no_damage() -> None:
    stream = read_all(gzip.compress(b"a\n") + bytes(512), Compression.GZIP)
    assert stream.text == b"a\n"  # type: ignore[attr-defined]
    assert stream.cut_off is None


def test_a_bomb_ends_with_a_reason() -> None:
    packed = gzip.compress(bytes(20_000_000))
    stream = read_all(packed, Compression.GZIP, limits=Limits(ratio=100, ratio_from_bytes=1_000_000))
    assert stream.cut_off == "expands more than 100 times"
    assert len(stream.text) < 4_000_000  # type: ignore[attr-defined]


def test_a_read_error_ends_the_stream() -> None:
    class Failing(io.RawIOBase):
        def readinto(self, _buffer: object) -> int:
            raise OSError(5, "Input/output error")

        def read(self, _size: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    for compression in Compression:
        stream = LogStream(Failing(), compression)  # type: ignore[arg-type]
        assert stream.read(10) == b""
        assert stream.cut_off == "cannot be read on: Input/output error"


def test_zlib_reads_gzip_where_isal_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "_gunzip", lambda: zlib.decompressobj(wbits=31))
    stream = read_all(gzip.compress(TEXT) + gzip.compress(b"more\n"), Compression.GZIP)
    assert stream.text == TEXT + b"more\n"  # type: ignore[attr-defined]


def test_open_stream_reads_the_file_at_its_location(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT))
    file = LogFile("a.gz", str(path), FileKind.TEXT, compression=Compression.GZIP)
    with open_stream(file) as stream:
        buffer = bytearray(1000)
        assert stream.readinto(buffer) == 1000
        assert bytes(buffer) == TEXT[:1000]


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="regular"):
        open_stream(LogFile("pipe", str(tmp_path / "pipe"), FileKind.TEXT))


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("size", [1001, 1 << 20])
def test_utf16_with_a_mark_is_read_as_utf8(compression: Compression, codec: str, size: int) -> None:
    """Whatever packs it and wherever a read ends; characters of four bytes too."""
    text = "2026-03-01 10:00:00 größe ✓ 🙂 step 1\r\n" * 5000
    stream = read_all(pack(f"\ufeff{text}".encode(codec), compression), compression, size)
    assert stream.text.decode() == text  # type: ignore[attr-defined]
    assert stream.cut_off is None


def test_utf16_that_is_damaged_is_read_all_the_same() -> None:
    """Half a character at the end, and half of a pair, become U+FFFD."""
    stream = read_all("ab".encode("utf-16") + b"\x00\xd8c\x00d", Compression.NONE)
    assert stream.text.decode() == "ab\ufffdc\ufffd"  # type: ignore[attr-defined]


def test_other_bytes_behind_a_mark_are_left_alone() -> None:
    data = b"\xff\xfe" + bytes(range(1, 256)) * 3
    assert read_all(data, Compression.NONE).text == data  # type: ignore[attr-defined]
