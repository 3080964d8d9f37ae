"""How many progress lines a file keeps, and so how closely they are looked for."""

from __future__ import annotations

from dataclasses import dataclass

from correlator.core.vocabulary import FileKind

THIN_EXPONENT = 3
"""Where a chunk holds many progress lines, most of it is scanned for those alone whose step is a multiple of 2**3.

More than `dense` of them, 16 times the target or more, leave at most twice the target: the others would be left out.
"""


@dataclass(frozen=True, slots=True)
class Quota:
    """How many progress segments are kept."""

    dense: int
    """Segments of a chunk that are hit by dense patterns only, from which on they are thinned."""
    target: int
    """Of a chunk, evenly by step; up to twice as many."""
    tail: int
    """The last of a chunk."""
    last_tail: int
    """The last of a file."""
    budget: int
    """Kept of a file, each time halves what is kept of its next chunks."""

    def halved(self, kept: int) -> Quota:
        """What holds when so many were kept of the file."""
        halvings = kept // self.budget
        least = max(self.target // 8, 1)
        dense, target, tail = (max(number >> halvings, least) for number in (self.dense, self.target, self.tail))
        return Quota(max(dense, 2 * least), target, tail, self.last_tail, self.budget)


MANY_WRITERS = Quota(dense=4096, target=256, tail=128, last_tail=512, budget=20_000)
PROGRESS_OF_RUN = 64 * 1024
_MOST_OF_FILE = 1024
_LEAST_OF_FILE = 128


def quota(kind: FileKind, rank_logs: int) -> Quota:
    """What a file keeps in a run of so many files of one rank each.

    The clocks of two nodes are compared at the steps that both kept, in each of their files; a hundred would not make
    them better than a few dozen.
    """
    if kind is not FileKind.RANK_LOG:
        return MANY_WRITERS
    share = min(max(PROGRESS_OF_RUN // max(rank_logs, 1), _LEAST_OF_FILE), _MOST_OF_FILE)
    return Quota(dense=share, target=share // 32, tail=share // 32, last_tail=share // 16, budget=share // 2)
