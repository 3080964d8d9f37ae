"""The bounds that keep hostile or huge input from filling disk or memory. SECURITY.md lists them for users."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of an input is taken. The defaults hold any honest run of some thousand ranks."""

    files: int = 500_000
    """Directory entries looked at, all folders together."""
    depth: int = 64
    """Folders below the target."""
    members: int = 500_000
    """Entries of one archive."""
    expanded_bytes: int = 64 * GIB
    """Written to the temporary folder, all archives and standard input together."""
    ratio: int = 400
    """Expansion of one archive or compressed file, once `ratio_from_bytes` are out. Logs reach about 50."""
    ratio_from_bytes: int = GIB
    document_bytes: int = 64 * MIB
    """Read of a file that has to be parsed as one document: a flight-recorder dump, an error.json."""
    line_bytes: int = 8 * MIB
    """A longer line is cut into several. Memory of each reading process grows with it."""
    head_bytes: int = 64 * KIB
    """First look at a file, decompressed."""
    tail_bytes: int = 16 * KIB
    tail_reach_bytes: int = 2 * MIB
    """A compressed file is read to its end for a tail sample only if it ends within this many decompressed bytes."""
