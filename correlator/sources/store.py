"""The private folder for what has to lie on disk before it can be read, with one budget for all of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import BinaryIO, Final

from correlator.core.errors import UnsafeArchiveError
from correlator.sources.limits import KIB, MIB, Limits

COPY_BYTES: Final = 64 * KIB
_DISK_RESERVE: Final = 256 * MIB


class DamagedError(Exception):
    """The archive or a member cannot be read on; the message is the reason. Never leaves `archives`."""


class Account:
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

    def save(self, read: Callable[[int], bytes], account: Account | None = None) -> tuple[str, int, str | None]:
        """Copy a source to the folder: its location, its size, and why it is not whole.

        Raises UnsafeArchiveError at a bound.
        """
        location = self._place()
        try:
            with open(location, "xb") as target:
                size, problem = self._copy(read, target, account)
        except BaseException:
            os.unlink(location)
            raise
        return location, size, problem

    def _copy(self, read: Callable[[int], bytes], target: BinaryIO, account: Account | None) -> tuple[int, str | None]:
        size = 0
        while True:
            try:
                piece = read(COPY_BYTES)
            except Exception as error:  # noqa: BLE001 - tarfile and zipfile raise almost anything for damaged members
                return size, f"damaged: {error}"
            if not piece:
                return size, None
            size += len(piece)
            self._check(len(piece), account)
            target.write(piece)

    def _place(self) -> str:
        self._count += 1
        return os.path.join(self._folder, f"{self._count:07d}")

    def _check(self, added: int, account: Account | None) -> None:
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
