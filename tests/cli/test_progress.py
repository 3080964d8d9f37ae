"""The progress bar."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console
from rich.progress import Progress as Bar

from correlator.cli.progress import BarProgress, shown_progress
from correlator.core.progress import NoProgress


@pytest.mark.parametrize(("quiet", "terminal"), [(True, True), (True, False), (False, False)])
def test_nothing_is_drawn_for_nobody(quiet: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a person at a terminal who did not ask for quiet sees a bar."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    with shown_progress(quiet=quiet) as progress:
        assert isinstance(progress, NoProgress)


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is taken away, after an error too."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    def work() -> None:
        with shown_progress(quiet=False) as progress:
            assert isinstance(progress, BarProgress)
            progress.start(100)
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        work()
    assert sys.stderr.isatty()


def test_the_bar_follows_the_steps() -> None:
    """Bytes while it reads, the name of the step otherwise; markup in a name is only text."""
    out = io.StringIO()
    with Bar("{task.description}", console=Console(file=out, width=60), auto_refresh=False) as bar:
        progress = BarProgress(bar)
        progress.step("reading [bold]")
        progress.start(1000)
        progress.advance(250)
        (task,) = bar.tasks
        assert (task.total, task.completed, task.description) == (1000, 250, "reading [bold]")
        progress.step("why")
        (task,) = bar.tasks
        assert (task.total, task.completed, task.description) == (None, 0, "why")
        progress.finish()
