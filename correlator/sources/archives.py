"""Unpack tar and zip safely: no member ever names a place on disk, and nothing expands without bound.

Members are written under running numbers into a private folder; their own names only become shown paths. So there is
no way to write outside, to follow a link, or to overwrite, and names that a file system could not hold do not matter.
"""

from __future__ import annotations

import stat
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final, cast

from correlator.core.errors import UnsafeArchiveError
from correlator.core.files import Skipped
from correlator.sources.found import Found, join, shown
from correlator.sources.limits import KIB, MIB
from correlator.sources.store import COPY_BYTES, Account, DamagedError, Store
from correlator.sources.streams import LogStream, compression_of, open_regular

_HEADER_BYTES: Final = 16 * MIB
"""What one tar header with its extensions may take; tarfile holds it in memory whole."""
_DIRECTORY_BYTES: Final = 64 * MIB
"""What the directory of a zip may take; zipfile holds it in memory, several times over."""
_NAME_LENGTH: Final = 4096
_TAR_MAGIC: Final = slice(257, 262)
_ZIP_MAGIC: Final = b"PK\x03\x04"
_ZIP_END: Final = b"PK\x05\x06"
_ZIP_LIKE: Final = (".pt", ".pth", ".ckpt", ".npz", ".whl", ".jar", ".docx", ".xlsx", ".pptx")


def is_archive(name: str, head: bytes, *, named: bool) -> bool:
    """Whether a file is opened as a folder, from its (decompressed) first bytes; its name matters for zip only.

    A zip must be called so, or be named by a person: checkpoints and wheels are zip files too.
    """
    lower = name.lower()
    if head.startswith(_ZIP_MAGIC):
        return lower.endswith(".zip") or (named and not lower.endswith(_ZIP_LIKE))
    return (head[_TAR_MAGIC] == b"ustar" or ".tar" in lower) and _is_tar(head)


def _is_tar(head: bytes) -> bool:
    """True where the first block has the checksum of a tar header."""
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return False
    return True


def unpack(archive: Found, prefix: str, store: Store) -> Iterator[Found | Skipped]:
    """The members of an archive, as files of the store.

    Raises UnsafeArchiveError at a bound, OSError if the archive cannot be opened.
    """
    with open_regular(archive.location) as raw:
        members = _zip_members if raw.read(4) == _ZIP_MAGIC else _tar_members
    count = 0
    try:
        for item in members(archive, store):
            count += 1
            yield _under(prefix, item)
    except DamagedError as error:
        what = "the rest of the archive is missing" if count else "not readable as an archive"
        yield Skipped(prefix or archive.path, f"{what}: {error}")


def _under(prefix: str, item: Found | Skipped) -> Found | Skipped:
    path = join(prefix, item.path)
    if isinstance(item, Skipped):
        return Skipped(path, item.reason)
    return Found(path, item.location, item.size_bytes, item.modified_ns, nested=True)


def _member_path(name: str) -> str | None:
    """The shown path of a member, or None where its name reaches outside or is no honest path."""
    if len(name) > _NAME_LENGTH:
        return None
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
                raise DamagedError(reason)
        return data


def _tar_members(archive: Found, store: Store) -> Iterator[Found | Skipped]:
    account = Account(archive.size_bytes)
    raw = open_regular(archive.location)
    compression = compression_of(raw.read(8))
    raw.seek(0)
    unbounded = replace(store.limits, ratio_from_bytes=sys.maxsize)  # the account bounds it, and raises
    with LogStream(raw, compression, unbounded) as stream:
        metered = _Metered(stream)
        tar: tarfile.TarFile | None = None
        count = 0
        while True:
            metered.allowance = _HEADER_BYTES
            try:
                if tar is None:
                    tar = tarfile.open(fileobj=cast("BinaryIO", metered), mode="r|", bufsize=COPY_BYTES)  # noqa: SIM115
                member = tar.next()
            except Exception as error:  # tarfile raises almost anything, RecursionError too, for hostile headers
                raise DamagedError(stream.cut_off or str(error)) from error
            metered.allowance = None
            if member is None:
                break
            cast("Any", tar).members.clear()  # the list would grow without bound; next() does not need it
            count += 1
            if count > store.limits.members:
                message = f"more than {store.limits.members} members"
                raise UnsafeArchiveError(message)
            yield from _tar_member(tar, member, store, account)
        if stream.cut_off:
            raise DamagedError(stream.cut_off)


def _tar_member(
    tar: tarfile.TarFile, member: tarfile.TarInfo, store: Store, account: Account
) -> Iterator[Found | Skipped]:
    if member.isdir():
        return
    path = _member_path(member.name)
    if path is None:
        yield Skipped(shown(member.name[:200]), "its name reaches out of the archive")
    elif not member.isreg():
        yield Skipped(path, "a link" if member.issym() or member.islnk() else "a device or FIFO")
    else:
        location, size, problem = store.save(_tar_content(tar, member), account)
        yield from _saved(Found(path, location, size, _stamp_ns(member.mtime)), problem)


def _tar_content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[int], bytes]:
    """Reads a member, also the part of it that is there where the archive ends early; tarfile would keep that back."""
    if member.sparse is not None and (source := tar.extractfile(member)) is not None:
        return source.read
    stream = cast("Any", tar.fileobj)
    left = max(member.size, 0)

    def read(size: int) -> bytes:
        nonlocal left
        piece: bytes = stream.read(min(size, left))
        if left and not piece:
            reason = "the archive ends in it"
            raise DamagedError(reason)
        left -= len(piece)
        return piece

    return read


def _saved(found: Found, problem: str | None) -> Iterator[Found | Skipped]:
    """A member that was unpacked, as far as it could be read."""
    if problem is None or found.size_bytes:
        yield found
    if problem is not None:
        part = f"only its first {found.size_bytes} bytes were read" if found.size_bytes else "nothing of it can be read"
        yield Skipped(found.path, f"{part}: {problem}")


def _stamp_ns(seconds: float) -> int | None:
    """A member's own time; headers may hold any number."""
    return int(seconds * 1_000_000_000) if 0 < seconds < 4e9 else None


# --- zip -------------------------------------------------------------------------------------------------------------


def _zip_members(archive: Found, store: Store) -> Iterator[Found | Skipped]:
    account = Account(archive.size_bytes)
    with open_regular(archive.location) as raw:
        _check_zip_directory(raw, archive.size_bytes)
        try:
            bundle = zipfile.ZipFile(raw)
        except Exception as error:  # zipfile raises almost anything for hostile directories
            raise DamagedError(str(error)) from error
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
    bundle: zipfile.ZipFile, member: zipfile.ZipInfo, store: Store, account: Account
) -> Iterator[Found | Skipped]:
    name = member.filename.replace("\\", "/")
    if name.endswith("/"):
        return
    path = _member_path(name)
    mode = member.external_attr >> 16
    if path is None:
        yield Skipped(shown(name[:200]), "its name reaches out of the archive")
    elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        yield Skipped(path, "a link" if stat.S_ISLNK(mode) else "a device or FIFO")
    elif member.flag_bits & 0x1:
        yield Skipped(path, "encrypted")
    else:
        try:
            source = bundle.open(member)
        except Exception as error:  # noqa: BLE001 - unknown compression, local header that disagrees, offset outside
            yield Skipped(path, f"damaged: {error}")
            return
        with source:
            location, size, problem = store.save(source.read, account)
        yield from _saved(Found(path, location, size, _zip_time_ns(member)), problem)


def _zip_time_ns(member: zipfile.ZipInfo) -> int | None:
    try:
        return int(datetime(*member.date_time, tzinfo=UTC).timestamp()) * 1_000_000_000
    except ValueError:
        return None
