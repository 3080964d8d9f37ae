"""Long output through a pager, as git and journalctl do: on a terminal only, with its colours."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

from correlator.cli.output import standard_output

DEFAULT_PAGER = "less"
LESS_OPTIONS = "FRSX"
"""Quit if it fits one screen, keep colours, do not wrap, leave the text on the screen; only where LESS is not set."""


@contextmanager
def paged_output(*, pager: bool) -> Iterator[TextIO]:
    """Standard output, or a pager in front of it where a person sits at a terminal and `pager` is wanted."""
    command = _command() if pager and sys.stdout is not None and sys.stdout.isatty() else None
    if command is None:
        with standard_output() as out:
            yield out
        return
    environment = {"LESS": LESS_OPTIONS, "LESSSECURE": "1"} | dict(os.environ)
    process = subprocess.Popen(  # noqa: S603 (the command is the user's own PAGER, and no shell reads it)
        command, stdin=subprocess.PIPE, env=environment, encoding="utf-8", errors="backslashreplace"
    )
    stream = process.stdin
    if stream is None:
        raise RuntimeError("a pager without its input")
    try:
        with suppress(BrokenPipeError):  # quit before the end
            yield cast("TextIO", stream)
    finally:
        with suppress(BrokenPipeError):
            stream.close()
        process.wait()


def _command() -> list[str] | None:
    """The pager that the user wants, else `less`; None where there is none, or it is switched off (`cat`, empty)."""
    wanted = os.environ.get("CORRELATOR_PAGER", os.environ.get("PAGER", DEFAULT_PAGER))
    try:
        words = shlex.split(wanted)
    except ValueError:
        return None
    if not words or words == ["cat"] or shutil.which(words[0]) is None:
        return None
    return words
