"""Readers that are killed in the middle of their work, as the out-of-memory killer does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from correlator.executors import Advance
from correlator.ingest.task import BatchResult, Job, ReadTask

DEADLY = "rank_3.log"
ONCE = "died.once"
"""A file of this name beside the log: only the first reader of it dies."""


class DeadlyTask(ReadTask):
    """Dies where a batch holds the deadly file."""

    def __call__(self, batch: tuple[Job, ...], advance: Advance, /) -> BatchResult:
        """Read the batch, or not."""
        for job in batch:
            if job.file.path.endswith(DEADLY) and _may_die(Path(job.file.location).with_name(ONCE)):
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch, advance)


def _may_die(flag: Path) -> bool:
    if not flag.exists():
        return True
    if flag.read_text():
        return False
    flag.write_text("a reader has died")
    return True
