"""Numbers in file names that may be ranks (3.log, log3.txt, r3.out): believed as a series, and never against the lines."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from correlator.core.files import FileHints
from correlator.sources.look import Look

_DIGITS: Final = re.compile(r"\d+")


def believed_numbers(hints: Sequence[FileHints], looks: Sequence[Look]) -> list[FileHints]:
    """The hints without those guessed ranks that cannot be ranks, for all files whose names differ in digits only.

    A series is believed where no file's lines contradict it, and either lines confirm a number or it counts from zero.
    """
    series: dict[str, list[int]] = defaultdict(list)
    for index, (hint, look) in enumerate(zip(hints, looks, strict=True)):
        if hint.rank_guessed:
            series[_DIGITS.sub("#", look.found.path)].append(index)
    wrong = {
        index
        for members in series.values()
        if not _believed([(hints[index].rank or 0, looks[index]) for index in members])
        for index in members
    }
    return [replace(hint, rank=None, rank_guessed=None) if index in wrong else hint for index, hint in enumerate(hints)]


def _believed(members: Sequence[tuple[int, Look]]) -> bool:
    told = [(number, look) for number, look in members if not look.empty]
    if len({look.whole_kind for _, look in told}) > 1 or any(_contradicts(number, look) for number, look in told):
        return False
    if any(look.traits.one_rank in (number, look.traits.places.get(number, -1)) for number, look in told):
        return True
    return len(members) > 1 and min(number for number, _ in members) == 0


def _contradicts(number: int, look: Look) -> bool:
    """Whether the lines are another rank's, several ranks', a launcher's or a kernel's."""
    traits = look.traits
    if traits.many_ranks or traits.heads["agent"] or traits.kernel > traits.lines // 2:
        return True
    rank = traits.one_rank
    return rank is not None and rank not in (number, traits.places.get(number))
