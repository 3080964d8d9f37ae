"""The programs whose lines we know. One dialect is one file here and one line below."""

from __future__ import annotations

from correlator.parsers.base import Dialect

DIALECTS: tuple[Dialect, ...] = ()
