"""The pattern table on its way to another process.

A dialect's `build` functions are code and cannot be pickled, so a pattern of the built-in table travels as its place
there, and only what a user's catalogue adds travels as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from correlator.parsers.base import LinePattern
from correlator.parsers.table import PatternTable, pattern_table


@dataclass(frozen=True, slots=True)
class PackedTable:
    """A table that can be pickled."""

    patterns: tuple[int | LinePattern, ...]
    dialect_of: tuple[str, ...]
    digest: str
    stack_of: tuple[str | None, ...]


def pack_table(table: PatternTable) -> PackedTable:
    """The table with references to the built-in one."""
    places = {pattern: place for place, pattern in enumerate(pattern_table().patterns)}
    patterns = tuple(places.get(pattern, pattern) for pattern in table.patterns)
    return PackedTable(patterns, table.dialect_of, table.digest, table.stack_of)


def unpack_table(packed: PackedTable) -> PatternTable:
    """The table as it was."""
    builtin = pattern_table().patterns
    patterns = tuple(builtin[item] if isinstance(item, int) else item for item in packed.patterns)
    return PatternTable(patterns, packed.dialect_of, packed.digest, packed.stack_of)
