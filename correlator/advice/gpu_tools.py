"""Reads what `nvidia-smi -q -d ECC,ROW_REMAPPER` prints: whether a GPU's memory needs a reset, a replacement, or nothing.

Field names as printed by drivers 450 to 580; a section that is missing stays None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Advice = Literal["fine", "reset", "replace", "watch"]

_COUNTER = re.compile(r"^[ \t]*((?:SRAM|DRAM) Uncorrectable(?: Parity| SEC-DED)?) *: *(\d{1,12})$")
_SECTION = re.compile(r"^[ \t]*(Volatile|Aggregate|Remapped Rows|Retired Pages|ECC Errors)\b")
_YES_NO = re.compile(r"^[ \t]*(Pending(?: Page Blacklist)?|Remapping Failure Occurred) *: *(Yes|No)$")
_REMAPPED = re.compile(r"^[ \t]*(Correctable|Uncorrectable) Error *: *(\d{1,9})$")


@dataclass(frozen=True, slots=True)
class MemoryHealth:
    """State of one GPU's memory. Counts since the driver was loaded (volatile) and over its life (aggregate)."""

    uncorrectable_volatile: int | None = None
    uncorrectable_aggregate: int | None = None
    remapped_uncorrectable: int | None = None
    pending: bool | None = None
    failed: bool | None = None

    @property
    def advice(self) -> Advice | None:
        """What to do about it; None where the text says nothing of memory."""
        if self.failed:
            return "replace"
        if self.pending:
            return "reset"
        if self.uncorrectable_volatile:
            return "reset"
        if self.remapped_uncorrectable or self.uncorrectable_aggregate:
            return "watch"
        known = (self.failed, self.pending, self.uncorrectable_volatile, self.uncorrectable_aggregate)
        return None if all(value is None for value in known) else "fine"


def read_memory_health(text: str) -> MemoryHealth:
    """The reading of one GPU's section of `nvidia-smi -q`."""
    section = ""
    counts: dict[str, int] = {}
    flags: dict[str, bool] = {}
    remapped: int | None = None
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section = match[1]
        if match := _COUNTER.match(line):
            counts[section] = counts.get(section, 0) + int(match[2])
        elif match := _YES_NO.match(line):
            flags[match[1]] = match[2] == "Yes"
        elif (match := _REMAPPED.match(line)) and match[1] == "Uncorrectable":
            remapped = int(match[2])
    return MemoryHealth(
        uncorrectable_volatile=counts.get("Volatile"),
        uncorrectable_aggregate=counts.get("Aggregate"),
        remapped_uncorrectable=remapped,
        pending=flags.get("Pending", flags.get("Pending Page Blacklist")),
        failed=flags.get("Remapping Failure Occurred"),
    )
