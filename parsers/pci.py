"""PCI addresses of GPUs in their three spellings, brought to `0000:3b:00` (formats.md C2, H1)."""

from __future__ import annotations

import re

_COLONS = re.compile(
    r"(?:PCI:)?(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<device>[0-9a-f]{2})(?:\.[0-7])?", re.IGNORECASE
)
_BUS_ID = re.compile(r"(?:0x)?([0-9a-f]{4,12})", re.IGNORECASE)


def normalise_pci(text: str) -> str | None:
    """`00000000:3B:00.0` (NVML), `0000:3b:00` (kernel), `3b:00.0`, `3b000` (NCCL) as `0000:3b:00`; else None."""
    text = text.strip()
    if match := _COLONS.fullmatch(text):
        return f"{int(match['domain'] or '0', 16):04x}:{match['bus'].lower()}:{match['device'].lower()}"
    if match := _BUS_ID.fullmatch(text):
        # All digits of domain:bus:device.function without separators; leading zeros are cut.
        number = int(match[1], 16)
        return f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}"
    return None
