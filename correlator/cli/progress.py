"""A progress bar on stderr: only on a terminal, and gone when the work is done."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from correlator.core.progress import NoProgress, Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


class BarProgress:
    """Draws the steps, and the bytes of the step that reads."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._task: TaskID = bar.add_task("starting", total=None)

    def step(self, name: str) -> None:
        """Show the step, without an end in sight until `start` says more."""
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task(name, total=None)

    def start(self, total_bytes: int) -> None:
        """Show how far the reading is."""
        self._bar.update(self._task, total=total_bytes, completed=0)

    def advance(self, bytes_read: int) -> None:
        """Move on."""
        self._bar.advance(self._task, bytes_read)

    def finish(self) -> None:
        """Take the bar away."""
        self._bar.stop()


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[Progress]:
    """Progress for a person who watches stderr; nothing for everybody else."""
    plain = sys.stderr is None or not sys.stderr.isatty()  # None where the shell closed it, as cron may
    if quiet or plain or os.environ.get("TERM") in {"dumb", "unknown"}:  # which cannot take a bar away again
        yield NoProgress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        yield BarProgress(bar)
