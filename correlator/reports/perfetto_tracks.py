"""Where slices go in a trace: on one track they must nest, so what overlaps is given a track of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

MOST_TRACKS = 4
"""Tracks of a rank for slices that overlap; what fits on none of them becomes an asynchronous slice."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of time with a name, ns since the start of the run."""

    start_ns: int
    end_ns: int
    name: str
    category: str
    args: tuple[tuple[str, str | int | float], ...]
    anchor: str = ""
    """Id of the cause that it stands for; flows begin and end there."""
    track: int = 0
    """0 = the rank's own; MOST_TRACKS = asynchronous."""


def place(slices: Iterable[Slice]) -> list[Slice]:
    """Every slice with its track, in order of time: on each track each one lies within another or beside it."""
    stacks: list[list[int]] = [[] for _ in range(MOST_TRACKS)]
    placed = []
    for item in sorted(slices, key=lambda s: (s.start_ns, -s.end_ns, not s.anchor, s.name)):
        track = next((number for number, stack in enumerate(stacks) if _fits(stack, item)), MOST_TRACKS)
        if track < MOST_TRACKS:
            stacks[track].append(item.end_ns)
        placed.append(replace(item, track=track))
    return placed


def _fits(open_ends: list[int], item: Slice) -> bool:
    """True where the slice lies within what is open on a track, or after it; what has ended is taken off."""
    while open_ends and open_ends[-1] <= item.start_ns:
        open_ends.pop()
    return not open_ends or item.end_ns <= open_ends[-1]
