"""What the named groups of a match are: fields of an event, with their types, and attributes."""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.base import FLOAT_FIELDS, INTEGER_FIELDS, TEXT_FIELDS
from correlator.parsers.pci import normalise_pci

Attributes = tuple[tuple[str, str], ...]

_INT32_LIMIT = 1 << 31
_INT64_LIMIT = 1 << 63
_INT64_FIELDS = frozenset({"process_pid", "collective_seq", "step"})
_UNKNOWN = frozenset({"<unknown>", "'<unknown>'"})
"""What the NVIDIA driver prints where it knows no process (formats.md H1)."""
_PEER = re.compile(
    r"(?:Connection closed by remote peer|completion from peer|recv from|send to|Connect to) (?P<peer>[^<\s]{1,253})"
    r"<(?P<port>\d{1,5})>"
    r"|(?:Connection closed by peer|Read error|Connect timeout) \[(?P<gloo_peer>[^\]\s]{1,253})\]:(?P<gloo_port>\d{1,5})"
)


def read_groups(match: re.Match[str]) -> tuple[dict[str, Any], Attributes]:
    """Named groups as fields and attributes; a number that fits no column is left out."""
    fields: dict[str, Any] = {}
    attributes: list[tuple[str, str]] = []
    for name, text in match.groupdict().items():
        if text is None or text in _UNKNOWN:
            continue
        if name in INTEGER_FIELDS:
            if (value := _integer(name, text)) is not None:
                fields[name] = value
        elif name in FLOAT_FIELDS:
            if (loss := _decimal(text)) is not None:
                fields[name] = loss
        elif name == "gpu":
            fields[name] = normalise_pci(text) or text
        elif name in TEXT_FIELDS:
            fields[name] = text
        else:
            attributes.append((name, text))
    return fields, tuple(attributes)


def named_peer(text: str) -> Attributes:
    """`peer` and `peer_port` of the first address that NCCL or Gloo blames in a text (formats.md A5, A8, C3)."""
    match = _PEER.search(text)
    if match is None:
        return ()
    return (("peer", match["peer"] or match["gloo_peer"]), ("peer_port", match["port"] or match["gloo_port"]))


def _integer(name: str, text: str) -> int | None:
    digits = text.strip().replace(",", "")
    if not digits.lstrip("+-").isdecimal() or len(digits) > 20:
        return None
    try:
        value = int(digits)
    except ValueError:
        return None
    limit = _INT64_LIMIT if name in _INT64_FIELDS else _INT32_LIMIT
    return value if -limit <= value < limit else None


def _decimal(text: str) -> float | None:
    try:
        return float(text.strip().replace(",", ""))
    except ValueError:
        return None
