"""Where results go: stdout or a file, how wide, and whether in colour."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TextIO

import typer

from correlator.core.errors import OutputError

_WRITE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
_OWN_STREAMS = frozenset(map(Path, ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")))
_DEVICE_FOLDERS = frozenset(map(Path, ("/dev", "/dev/fd", "/proc/self/fd")))
READER_GONE = 128 + signal.SIGPIPE
"""The exit code that a shell knows for a command whose reader has left."""
PLAIN_WIDTH = 100
"""Columns of a report that goes to a pipe or a file, unless COLUMNS says otherwise."""


class ColorChoice(StrEnum):
    """When a report is coloured."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def use_color(choice: ColorChoice, stream: TextIO) -> bool:
    """Whether to colour: what was asked for, else on a terminal without NO_COLOR."""
    match choice:
        case ColorChoice.ALWAYS:
            return True
        case ColorChoice.NEVER:
            return False
        case ColorChoice.AUTO:
            return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def page_width(stream: TextIO) -> int:
    """Columns to fill: those of the terminal, or of COLUMNS, else a width that suits tickets and mails."""
    fallback = (80 if stream.isatty() else PLAIN_WIDTH, 24)
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size(fallback).columns
    return PLAIN_WIDTH


def check_output(path: Path, *, force: bool) -> None:
    """Refuse an output before any work is done for it. Raises OutputError."""
    if path.is_dir():
        raise OutputError(f"{path} is a folder", hint="name a file: -o FILE")
    if not path.parent.is_dir():
        raise OutputError(f"{path.parent} is not a folder")
    if not force and path.exists() and _is_regular(path):
        raise OutputError(f"{path} exists already", hint="--force overwrites it")


@contextmanager
def atomic_path(path: Path, *, force: bool) -> Iterator[Path]:
    """A path to write to; it becomes `path` when the block ends well, and vanishes when it does not.

    A reader never sees half a file. Devices and pipes are written to directly. Raises OutputError.
    """
    check_output(path, force=force)
    if path.exists() and not _is_regular(path):
        yield path
        return
    final = path.resolve()  # so that a symbolic link is kept and its target replaced
    draft = final.with_name(f".{final.name}.{os.getpid()}.part")
    try:
        try:
            yield draft
            check_output(path, force=force)
            draft.replace(final)
        except OutputError as error:
            raise OutputError(str(error).replace(str(draft), str(path)), hint=error.hint) from error
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """Standard output. A reader that has closed it, as `head` does, ends the command quietly, as the signal would.

    Raises OutputError where it is closed or takes no more.
    """
    out: TextIO | None = sys.stdout  # None where the shell closed it: `>&-`
    if out is None:
        raise OutputError("cannot write to standard output: it is closed", hint="name a file, or send it to /dev/null")
    try:
        yield out
        out.flush()
    except BrokenPipeError:
        drop_output()
        raise typer.Exit(READER_GONE) from None
    except OSError as error:
        if error.errno not in _WRITE_ERRORS:
            raise
        drop_output()
        raise OutputError(f"cannot write to standard output: {error.strerror}") from error


def drop_output() -> None:
    """Send what standard output still holds nowhere, so that Python does not fail with it once more at the end."""
    with suppress(OSError, ValueError, AttributeError):  # closed, or no file at all
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


@contextmanager
def text_output(path: Path | None, *, force: bool) -> Iterator[TextIO]:
    """A text stream to stdout (None, `-` or its device) or, atomically, to a file. Raises OutputError."""
    if path is None or path in _OWN_STREAMS:
        with standard_output() as out:
            yield out
        return
    with atomic_path(path, force=force) as draft, draft.open("w", encoding="utf-8", errors="backslashreplace") as out:
        yield out


def _is_regular(path: Path) -> bool:
    """False for devices and pipes, also for a device that leads to a file, as /dev/stdout may."""
    return path.parent not in _DEVICE_FOLDERS and stat.S_ISREG(path.stat().st_mode)
