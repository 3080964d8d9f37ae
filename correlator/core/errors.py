"""Every error that we raise on purpose, each with its exit code and a hint.

CorrelatorError                 1   our own failure
├── UsageError                  2   a wrong argument
├── InputError                  3   input that cannot be read or holds no logs
│   ├── NoLogsError             3   readable, but nothing in it is a log
│   └── UnsafeArchiveError      3   an archive that expands without bound or writes outside
├── OutputError                 2   a file that we may not write or overwrite
└── CatalogueError              2   a catalogue entry or pattern that breaks the rules
"""

from __future__ import annotations

from typing import ClassVar


class CorrelatorError(Exception):
    """Base of all deliberate errors; `str(error)` is one line a person can act on."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(CorrelatorError):
    """A wrong argument or combination of arguments."""

    exit_code = 2


class InputError(CorrelatorError):
    """The input cannot be read."""

    exit_code = 3


class NoLogsError(InputError):
    """The input is readable but holds no logs."""


class UnsafeArchiveError(InputError):
    """An archive that would expand without bound or write outside its folder."""


class OutputError(CorrelatorError):
    """An output that may not be written (exists already, or not writable)."""

    exit_code = 2


class CatalogueError(CorrelatorError):
    """A catalogue entry, signature or pattern that breaks the rules of the house."""

    exit_code = 2
