"""Every line of every rank on the corrected clock, recognised or not, in bounded memory.

Events are a small part of a log; this reads the files a second time and gives each line its time and its rank by the rules
that events follow. Rows are sorted on disk, so neither the size of a file nor their number matters.
"""

from __future__ import annotations

from correlator.all_lines.source import AllLines, open_lines

__all__ = ["AllLines", "open_lines"]
