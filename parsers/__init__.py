"""What a line means: dialects, prefixes, timestamps, multi-line records, dumps. Never what caused what."""

from __future__ import annotations

if not __name__.startswith("correlator."):
    raise ImportError("import correlator.parsers: the bare name would load every class a second time")

from importlib import import_module

_HOMES = {
    "DIALECTS": "correlator.parsers.dialects",
    "FileParser": "correlator.parsers.interpret",
    "STITCHERS": "correlator.parsers.records",
    "classify_exception": "correlator.parsers.classify",
    "pattern_table": "correlator.parsers.table",
}
__all__ = ["DIALECTS", "STITCHERS", "FileParser", "classify_exception", "pattern_table"]


def __getattr__(name: str) -> object:
    """Import the public names on first use (PEP 562): a dialect that needs only `base` must not load all dialects."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
