"""The catalogue's knowledge applied to the very run: what to do first, what else it could be, and how to tell."""

from __future__ import annotations

from correlator.advice.actions import advise
from correlator.advice.paste import Match, Paste, read_paste, read_plain
from correlator.advice.rivals import Given, weigh
from correlator.advice.tidy import tidy

__all__ = ["Given", "Match", "Paste", "advise", "read_paste", "read_plain", "tidy", "weigh"]
