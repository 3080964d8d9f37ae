"""The programs whose lines we know. One dialect is one file here and one line below."""

from __future__ import annotations

from correlator.parsers.base import Dialect
from correlator.parsers.dialects import (
    c10d_signals,
    c10d_store,
    c10d_watchdog,
    desync,
    gloo,
    torch_elastic,
    torch_elastic_records,
)

DIALECTS: tuple[Dialect, ...] = (
    c10d_watchdog.DIALECT,
    c10d_signals.DIALECT,
    c10d_store.DIALECT,
    desync.DIALECT,
    gloo.DIALECT,
    torch_elastic.DIALECT,
    torch_elastic_records.DIALECT,
)
