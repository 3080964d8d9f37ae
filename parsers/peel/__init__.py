"""The prefix peeler: takes stacked prefixes off a line, outermost first, and keeps every fact (formats.md R5, K)."""

from __future__ import annotations

from correlator.parsers.peel.peeler import peel
from correlator.parsers.peel.segments import clean, embedded_start, segments

__all__ = ["clean", "embedded_start", "peel", "segments"]
