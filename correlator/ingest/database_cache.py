"""Compiled databases kept between runs: compiling takes a second or more, reading them back a few milliseconds.

Kept in `$CORRELATOR_CACHE`, else `$XDG_CACHE_HOME/correlator` or `~/.cache/correlator`; `CORRELATOR_CACHE=off` keeps nothing.
The name of a file is the digest of everything that the compiled form depends on, its head is the digest of its content, and it
is read only where it belongs to this user and nobody else may write it. Whatever is wrong with it, it is compiled anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import stat
import struct
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_MAGIC = b"correlator patterns 1\n"
_DIGEST_BYTES = 32
_MOST_BYTES = 256 << 20
_KEPT = 8
"""Files kept; the oldest go first (each version of the patterns makes a new one)."""


def cache_folder() -> Path | None:
    """The folder for kept databases, or None where nothing may be kept."""
    chosen = os.environ.get("CORRELATOR_CACHE")
    if chosen is not None:
        return None if chosen.lower() in ("", "0", "no", "off", "false") else Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "correlator"
    try:
        return Path.home() / ".cache" / "correlator"
    except RuntimeError:
        return None


def key_of(patterns: Sequence[tuple[str, bool, tuple[bytes, ...]]], rules: bytes) -> str:
    """Name of the compiled form of these patterns, made by these rules, on this machine with this library.

    Args:
        patterns: regex, whether it is dense, and samples of each.
        rules: whatever else the compiled form depends on.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        library = version("hyperscan")
    except PackageNotFoundError:
        library = "unknown"
    for part in (library, platform.machine(), platform.system(), _processor()):
        digest.update(part.encode() + b"\0")
    for regex, dense, samples in patterns:
        parts = (regex.encode("utf-8", errors="surrogatepass"), *samples)
        digest.update(b"".join(struct.pack("<I", len(part)) + part for part in parts) + b"\n" + bytes([dense]))
    digest.update(rules)
    return digest.hexdigest()


def _processor() -> str:
    """What the processor can do, as Linux lists it: databases are built for that. `platform.processor` starts a program."""
    with contextlib.suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
        return next((line for line in file if line.startswith(("flags", "Features"))), "")
    return ""


def read(key: str) -> tuple[bytes, ...] | None:
    """The kept databases, or None where there are none that can be trusted."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        with (folder / f"{key}.hs").open("rb") as file:
            status = os.fstat(file.fileno())
            foreign = hasattr(os, "getuid") and status.st_uid != os.getuid()
            if foreign or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or status.st_size > _MOST_BYTES:
                return None
            data = file.read()
    except OSError:
        return None
    return _unpacked(data)


def write(key: str, databases: Sequence[bytes]) -> None:
    """Keep databases for the next run; a folder that cannot be written is no error."""
    folder = cache_folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".new.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_packed(databases))
            Path(temporary).replace(folder / f"{key}.hs")
        finally:
            Path(temporary).unlink(missing_ok=True)
        kept = sorted(folder.glob("*.hs"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in kept[_KEPT:]:
            old.unlink(missing_ok=True)


def _packed(databases: Sequence[bytes]) -> bytes:
    body = b"".join(struct.pack("<Q", len(database)) + database for database in databases)
    return _MAGIC + hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() + body


def _unpacked(data: bytes) -> tuple[bytes, ...] | None:
    head = len(_MAGIC) + _DIGEST_BYTES
    body = data[head:]
    digest = hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
    if not data.startswith(_MAGIC) or data[len(_MAGIC) : head] != digest:
        return None
    found: list[bytes] = []
    position = 0
    while position + 8 <= len(body):
        (size,) = struct.unpack_from("<Q", body, position)
        found.append(body[position + 8 : position + 8 + size])
        position += 8 + size
    return tuple(found) if position == len(body) else None
