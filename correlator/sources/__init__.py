"""From what a person points at to the files of a run: found, unpacked, recognised, and opened as plain bytes.

with discover(["run/"]) as run:
    for file in run.files:
        with open_stream(file) as stream: ...

Nothing here raises for what a run directory may hold; what cannot be read is a `Skipped` row with its reason.
"""

from __future__ import annotations

from correlator.sources.discover import RunFiles, discover
from correlator.sources.limits import Limits
from correlator.sources.streams import LogStream, open_stream

__all__ = ["Limits", "LogStream", "RunFiles", "discover", "open_stream"]
