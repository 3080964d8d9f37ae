"""A place in a writer's lines where an attempt begins."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """From this byte on, this writer is in this attempt. `task` None = lines without a task's label."""

    path: str
    task: int | None
    offset: int
    attempt: int
