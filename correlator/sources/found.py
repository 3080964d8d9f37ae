"""A place where bytes lie, and the words for it; what the walk and the archives hand on."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

_DIGITS: Final = re.compile(r"(\d+)")
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file that may be a log: how it is called, and where it lies."""

    path: str
    location: str
    size_bytes: int
    modified_ns: int | None
    nested: bool = False
    """It came out of an archive; archives in it are not opened."""
    named: bool = False
    """A person named this very file."""


def natural_key(path: str) -> list[tuple[int, int, str]]:
    """Sort key that reads digits as numbers: rank_2 before rank_10. Total and deterministic for any text."""
    key = []
    for index, part in enumerate(_DIGITS.split(path)):
        # Digits of other scripts are `\d` too; beyond 18 digits a number orders nothing that matters.
        number = int(part) if index % 2 and len(part) <= 18 else -1
        key.append((index % 2, number, part))
    return key


def shown(path: str) -> str:
    """A path that can be printed and stored: bytes that are no UTF-8 replaced, control characters escaped."""
    if path.isascii() and path.isprintable():
        return path
    text = os.fsencode(path).decode("utf-8", "replace")
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def join(parent: str, name: str) -> str:
    """`parent/name`, or the name alone at the top."""
    return f"{parent}/{name}" if parent else name
