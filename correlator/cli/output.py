"""Where results go: stdout or a file, how wide, and whether in colour."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TextIO

import typer

from correlator.core.errors import OutputError

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
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """Standard output. A reader that has closed it, as `head` does, ends the command quietly, as the signal would."""
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(128 + signal.SIGPIPE) from None


@contextmanager
def text_output(path: Path | None, *, force: bool) -> Iterator[TextIO]:
    """A text stream to stdout (None or `-`) or, atomically, to a file. Raises OutputError."""
    if path is None or path == Path("-"):
        with standard_output() as out:
            yield out
        return
    with atomic_path(path, force=force) as draft, draft.open("w", encoding="utf-8", errors="backslashreplace") as out:
        yield out


def _is_regular(path: Path) -> bool:
    return stat.S_ISREG(path.stat().st_mode)
