"""Many that say the same, said once: initiators with one fault, names of ranks, lines that differ by numbers alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from correlator.core.model import Evidence, Initiator
from correlator.reports import phrases

MOST_NAMES = 3
"""So many names (or nodes with their ranks) stand side by side; more are folded into one."""
_RANK_NAME = re.compile(r"rank (\d{1,9})(?: on (\S.*))?")
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_NOBODY = "someone whom no file names"


@dataclass(frozen=True, slots=True)
class Alike:
    """Initiators with one fault whose lines differ by numbers alone; the first stands for all."""

    who: str
    example: Initiator
    count: int


def alike(initiators: Sequence[Initiator]) -> list[Alike]:
    """The initiators in their order, those that say the same put together where they are many."""
    groups: dict[tuple[object, ...], list[Initiator]] = {}
    for number, initiator in enumerate(initiators):
        first = next(iter(initiator.evidence), None)
        # One without a line of its own resembles nobody.
        key = (initiator.fault, first.rule, shape_of(first.text)) if first is not None else (number,)
        groups.setdefault(key, []).append(initiator)
    folded = []
    for found in groups.values():
        parts = [found] if len(found) > MOST_NAMES else [[one] for one in found]
        folded += [Alike(_who(part), part[0], len(part)) for part in parts]
    return folded


def _who(found: Sequence[Initiator]) -> str:
    if len(found) == 1:
        return phrases.culprit(found[0])
    return phrases.fold_places((one.rank, one.node) for one in found) or phrases.culprit(found[0])


def shape_of(text: str) -> str:
    """A line without what differs between ranks: two with one shape say the same.

    >>> shape_of("rank 7: failed at 0x7ffe12") == shape_of("rank 12: failed at 0x1")
    True
    """
    return _NUMBERS.sub("#", text)


def named(names: Iterable[str]) -> str:
    """Who is meant by names of a hypothesis, ranks of one node in one name.

    >>> named(["rank 32 on n1", "rank 33 on n1", "rank 4 on n0"])
    'ranks 32-33 on n1 and rank 4 on n0'
    """
    ranks: dict[str | None, list[int]] = {}
    others: list[str] = []
    for name in names:
        match = _RANK_NAME.fullmatch(name)
        if match is None:
            others.append(name)
        else:
            ranks.setdefault(match[2], []).append(int(match[1]))
    folded = [phrases.fold_places((rank, node) for rank in found) for node, found in ranks.items()]
    if len(folded) > MOST_NAMES:
        folded = [phrases.fold_places((rank, node) for node, found in ranks.items() for rank in found)]
    shown = [*folded, *others[:MOST_NAMES]]
    if len(others) > MOST_NAMES:
        shown.append(f"{len(others) - MOST_NAMES:,} more")
    return " and ".join(shown) or _NOBODY


def in_order(lines: Sequence[Evidence]) -> list[Evidence]:
    """The lines by time; one without a time stays behind the line that it was cited after."""
    keys: list[str] = []
    for line in lines:
        keys.append(line.time or (keys[-1] if keys else ""))
    return [lines[index] for index in sorted(range(len(lines)), key=lambda index: (keys[index], index))]
