"""Progress as an injected observer: the steps say how far they are, and whoever watches decides whether to draw it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """What the pipeline tells a watcher, from one thread: step, start and advance while it reads, finish."""

    def step(self, name: str) -> None:
        """A new step begins; `name` is a few words for a person (`reading`, `ordering events`)."""

    def start(self, total_bytes: int) -> None:
        """Reading begins; `total_bytes` as they lie on disk, compressed files included."""

    def advance(self, bytes_read: int) -> None:
        """So many more bytes of the total were read."""

    def finish(self) -> None:
        """Nothing more will come, after success and after an error alike."""


class NoProgress:
    """The watcher that looks away: the default everywhere in the library."""

    def step(self, name: str) -> None:
        """Ignore the step."""

    def start(self, total_bytes: int) -> None:
        """Ignore the total."""

    def advance(self, bytes_read: int) -> None:
        """Ignore the bytes."""

    def finish(self) -> None:
        """Ignore the end."""
