"""Unpack tar and zip safely: no member ever names a place on disk, and nothing expands without bound.

Members are written under running numbers into a private folder; their own names only become shown paths. So there is no way to
write outside, to follow a link, or to overwrite, and names that a file system could not hold do not matter.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import BinaryIO, Final, cast

from correlator.core.errors import UnsafeArchiveError
from correlator.core.files import Skipped
from correlator.sources.found import Found, join, shown
from correlator.sources.limits import KIB, MIB, Limits
from correlator.sources.streams import LogStream, compression_of, open_regular

_COPY: Final = 64 * KIB
_HEADER_BYTES: Final = 16 * MIB
"""What one tar header with its extensions may take; tarfile holds it in memory whole."""
_DIRECTORY_BYTES: Final = 64 * MIB
"""What the directory of a zip may take; zipfile holds it in memory, several times over."""
_DISK_RESERVE: Final = 256 * MIB
_ZIP_MAGIC: Final = b"PK\x03\x04"
_ZIP_END: Final = b"PK\x05\x06"
_ZIP_LIKE: Final = (".pt", ".pth", ".ckpt", ".npz", ".whl", ".jar", ".docx", ".xlsx", ".pptx")


class _DamagedError(Exception):
    """The archive or a member cannot be read on; the message is the reason. Never leaves this module."""


class _Account:
    """What came out of one archive so far, against what went in."""

    def __init__(self, packed_bytes: int) -> None:
        self.packed_bytes = max(packed_bytes, 1)
        self.out_bytes = 0


class Store:
    """The private folder that archives and standard input are unpacked to, with one budget for all of them."""

    def __init__(self, folder: str, limits: Limits) -> None:
        self.limits = limits
        self._folder = folder
        self._written = 0
        self._count = 0
        self._unchecked = 0

    def save(self, read: Callable[[int], bytes], account: _Account | None = None) -> tuple[str, int, str | None]:
        """Copy a source to the folder: its location, its size, and why it is not whole. Raises UnsafeArchiveError at a bound."""
        location, size, problem = self._place(), 0, None
        with open(location, "xb") as target:
            while True:
                try:
                    piece = read(_COPY)
                except Exception as error:  # tarfile and zipfile raise almost anything for damaged members
                    problem = f"damaged: {error}"
                    break
                if not piece:
                    break
                size += len(piece)
                self._check(len(piece), account)
                target.write(piece)
        return location, size, problem

    def _place(self) -> str:
        self._count += 1
        return os.path.join(self._folder, f"{self._count:07d}")

    def _check(self, added: int, account: _Account | None) -> None:
        limits = self.limits
        self._written += added
        if self._written > limits.expanded_bytes:
            message = f"expands to more than {limits.expanded_bytes} bytes"
            raise UnsafeArchiveError(message)
        self._unchecked += added
        if self._unchecked > 16 * MIB:
            self._unchecked = 0
            if shutil.disk_usage(self._folder).free < _DISK_RESERVE:
                message = "no room left in the temporary folder"
                raise UnsafeArchiveError(message, hint="set TMPDIR to a larger disk, or unpack it by hand")
        if account is not None:
            account.out_bytes += added
            if account.out_bytes > max(limits.ratio_from_bytes, limits.ratio * account.packed_bytes):
                message = f"expands more than {limits.ratio} times"
                raise UnsafeArchiveError(message)


def is_archive(name: str, head: bytes, *, named: bool) -> bool:
    """Whether a file is opened as a folder, from its (decompressed) first bytes; its name matters for zip only.

    A zip must be called so, or be named by a person: checkpoints and wheels are zip files too.
    """
    lower = name.lower()
    if head.startswith(_ZIP_MAGIC):
        return lower.endswith(".zip") or (named and not lower.endswith(_ZIP_LIKE))
    return _is_tar(head)


def _is_tar(head: bytes) -> bool:
    """True where the first block has the checksum of a tar header."""
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return False
    return True


def unpack(archive: Found, prefix: str, store: Store) -> Iterator[Found | Skipped]:
    """The members of an archive, as files of the store. Raises UnsafeArchiveError at a bound, OSError if it cannot be opened."""
    with open_regular(archive.location) as raw:
        members = _zip_members if raw.read(4) == _ZIP_MAGIC else _tar_members
    count = 0
    try:
        for item in members(archive, store):
            count += 1
            yield _under(prefix, item)
    except _DamagedError as error:
        what = "the rest of the archive is missing" if count else "not readable as an archive"
        yield Skipped(prefix or archive.path, f"{what}: {error}")


def _under(prefix: str, item: Found | Skipped) -> Found | Skipped:
    path = join(prefix, item.path)
    if isinstance(item, Skipped):
        return Skipped(path, item.reason)
    return Found(path, item.location, item.size_bytes, item.modified_ns, nested=True)


def _member_path(name: str) -> str | None:
    """The shown path of a member, or None where its name reaches outside."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or (name[1:2] == ":" and name[:1].isalpha()):
        return None
    return shown(str(path))


# --- tar -------------------------------------------------------------------------------------------------------------


class _Metered:
    """A tar's bytes, with a bound on what may be read for one header: hostile headers claim gigabytes."""

    def __init__(self, stream: LogStream) -> None:
        self._stream = stream
        self.allowance: int | None = None

    def read(self, size: int) -> bytes:
        data = self._stream.read(size) or b""
        if self.allowance is not None:
            self.allowance -= len(data)
            if self.allowance < 0:
                reason = "a header without end"
                raise _DamagedError(reason)
        return data


def _tar_members(archive: Found, store: Store) -> Iterator[Found | Skipped]:
    account = _Account(archive.size_bytes)
    raw = open_regular(archive.location)
    compression = compression_of(raw.read(8))
    raw.seek(0)
    with LogStream(raw, compression, store.limits) as stream:
        metered = _Metered(stream)
        tar: tarfile.TarFile | None = None
        count = 0
        while True:
            metered.allowance = _HEADER_BYTES
            try:
                if tar is None:
                    tar = tarfile.open(fileobj=cast("BinaryIO", metered), mode="r|", bufsize=_COPY)  # noqa: SIM115
                member = tar.next()
            except Exception as error:  # tarfile raises almost anything, RecursionError too, for hostile headers
                raise _DamagedError(stream.cut_off or str(error)) from error
            metered.allowance = None
            if member is None:
                break
            tar.members.clear()  # the list would grow without bound; next() does not need it
            count += 1
            if count > store.limits.members:
                message = f"more than {store.limits.members} members"
                raise UnsafeArchiveError(message)
            yield from _tar_member(tar, member, store, account)
        if stream.cut_off:
            raise _DamagedError(stream.cut_off)


def _tar_member(
    tar: tarfile.TarFile, member: tarfile.TarInfo, store: Store, account: _Account
) -> Iterator[Found | Skipped]:
    if member.isdir():
        return
    path = _member_path(member.name)
    if path is None:
        yield Skipped(shown(member.name), "its name reaches out of the archive")
    elif not member.isreg():
        yield Skipped(path, "a link" if member.issym() or member.islnk() else "a device or FIFO")
    else:
        source = tar.extractfile(member)
        if source is not None:
            location, size, problem = store.save(source.read, account)
            yield Found(path, location, size, _stamp_ns(member.mtime))
            if problem:
                yield Skipped(path, f"only its first {size} bytes were read: {problem}")


def _stamp_ns(seconds: float) -> int | None:
    """A member's own time; headers may hold any number."""
    return int(seconds * 1_000_000_000) if 0 < seconds < 4e9 else None


# --- zip -------------------------------------------------------------------------------------------------------------


def _zip_members(archive: Found, store: Store) -> Iterator[Found | Skipped]:
    account = _Account(archive.size_bytes)
    with open_regular(archive.location) as raw:
        _check_zip_directory(raw, archive.size_bytes)
        try:
            bundle = zipfile.ZipFile(raw)
        except Exception as error:  # zipfile raises almost anything for hostile directories
            raise _DamagedError(str(error)) from error
        with bundle:
            members = bundle.infolist()
            if len(members) > store.limits.members:
                message = f"more than {store.limits.members} members"
                raise UnsafeArchiveError(message)
            for member in members:
                yield from _zip_member(bundle, member, store, account)


def _check_zip_directory(raw: BinaryIO, size: int) -> None:
    """Refuse a directory that would not fit in memory, before zipfile loads it."""
    start = max(0, size - 66 * KIB)
    raw.seek(start)
    tail = raw.read(66 * KIB)
    end = tail.rfind(_ZIP_END)
    declared = int.from_bytes(tail[end + 12 : end + 16], "little") if end >= 0 else 0
    if declared > _DIRECTORY_BYTES:
        message = "a zip directory too large to load"
        raise UnsafeArchiveError(message)


def _zip_member(
    bundle: zipfile.ZipFile, member: zipfile.ZipInfo, store: Store, account: _Account
) -> Iterator[Found | Skipped]:
    name = member.filename.replace("\\", "/")
    if name.endswith("/"):
        return
    path = _member_path(name)
    mode = member.external_attr >> 16
    if path is None:
        yield Skipped(shown(name), "its name reaches out of the archive")
    elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        yield Skipped(path, "a link" if stat.S_ISLNK(mode) else "a device or FIFO")
    elif member.flag_bits & 0x1:
        yield Skipped(path, "encrypted")
    else:
        try:
            source = bundle.open(member)
        except Exception as error:  # unknown compression, local header that disagrees, offset outside
            yield Skipped(path, f"damaged: {error}")
            return
        with source:
            location, size, problem = store.save(source.read, account)
        yield Found(path, location, size, _zip_time_ns(member))
        if problem:
            yield Skipped(path, f"only its first {size} bytes were read: {problem}")


def _zip_time_ns(member: zipfile.ZipInfo) -> int | None:
    try:
        return int(datetime(*member.date_time, tzinfo=UTC).timestamp()) * 1_000_000_000
    except ValueError:
        return None
