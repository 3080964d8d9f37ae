"""Fold long lists for people: ranks to `0-7,9-15`, hosts to Slurm's hostlist `node[01-16]`; and read them back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MAX_MEMBERS = 1_000_000
"""A list that unfolds to more than this is an error, not a request for memory."""

_NUMBER_RANGE = re.compile(r"(-?[0-9]{1,18})(?:-([0-9]{1,18}))?")
_LAST_NUMBER = re.compile(r"(?s)(.*?)([0-9]{1,18})([^0-9]*)\Z")
_HOST_ITEM = re.compile(r"([^\[\],]*)\[([0-9,-]+)\]([^\[\],]*)|([^\[\],]+)")


def fold_numbers(numbers: Iterable[int]) -> str:
    """`{0, 1, 2, 5}` as `0-2,5`: sorted, each number once, empty for none."""
    parts = []
    for low, high in _runs(sorted(set(numbers))):
        parts.append(str(low) if low == high else f"{low}-{high}")
    return ",".join(parts)


def unfold_numbers(text: str) -> tuple[int, ...]:
    """The numbers of `0-2,5`, sorted. Raises ValueError on anything else."""
    numbers: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _NUMBER_RANGE.fullmatch(part)
        if match is None:
            msg = f"not a list of numbers and ranges: {part!r}"
            raise ValueError(msg)
        low = int(match[1])
        high = int(match[2]) if match[2] else low
        numbers.update(_bounded_range(low, high, part, len(numbers)))
    return tuple(sorted(numbers))


def fold_hosts(hosts: Iterable[str]) -> str:
    """`{node01, node02, login}` as `login,node[01-02]`: sorted, each host once, zero padding kept."""
    numbered: dict[tuple[str, str], list[str]] = {}
    plain = set()
    for host in set(hosts):
        match = _LAST_NUMBER.match(host)
        if match is None or any(mark in host for mark in "[],"):
            plain.add(host)
        else:
            numbered.setdefault((match[1], match[3]), []).append(match[2])
    folded = [(prefix, suffix, _fold_group(prefix, digits, suffix)) for (prefix, suffix), digits in numbered.items()]
    return ",".join(text for _, _, text in sorted(folded + [(host, "", host) for host in plain]))


def unfold_hosts(text: str) -> tuple[str, ...]:
    """The hosts of `login,node[01-03,7]`, in the order given. Raises ValueError on anything else."""
    hosts: dict[str, None] = {}
    position = 0
    while position < len(text):
        match = _HOST_ITEM.match(text, position)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            msg = f"not a host list: {text!r}"
            raise ValueError(msg)
        position = match.end() + 1
        names = [match[4]] if match[4] else (match[1] + n + match[3] for n in _padded_numbers(match[2], len(hosts)))
        hosts.update(dict.fromkeys(names))
    return tuple(hosts)


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Maximal runs of consecutive numbers; a negative number (a rank nobody meant) stays alone."""
    start = 0
    for index, number in enumerate(numbers):
        last = index + 1 == len(numbers)
        if last or number < 0 or numbers[index + 1] != number + 1:
            yield numbers[start], number
            start = index + 1


def _fold_group(prefix: str, digits: list[str], suffix: str) -> str:
    """All hosts that differ in one number only."""
    parts: list[str] = []
    digits.sort(key=lambda text: (int(text), text))
    low = high = digits[0]
    for text in digits[1:]:
        if text == _format_like(low, int(high) + 1):
            high = text
            continue
        parts.append(low if low == high else f"{low}-{high}")
        low = high = text
    parts.append(low if low == high else f"{low}-{high}")
    inside = ",".join(parts)
    return f"{prefix}{inside}{suffix}" if inside.isdigit() else f"{prefix}[{inside}]{suffix}"


def _format_like(model: str, number: int) -> str:
    """A number padded as its range's lower end is: only a leading zero means padding."""
    return str(number).zfill(len(model)) if model.startswith("0") else str(number)


def _padded_numbers(inside: str, already: int) -> Iterator[str]:
    """The numbers between the brackets of a host list, as text."""
    for part in inside.split(","):
        low, dash, high = part.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()):
            msg = f"not a range of host numbers: {part!r}"
            raise ValueError(msg)
        for number in _bounded_range(int(low), int(high or low), part, already):
            yield _format_like(low, number)


def _bounded_range(low: int, high: int, text: str, already: int) -> range:
    """`low..high` both included. Raises ValueError if it is empty or larger than anyone means."""
    if high < low or already + high - low >= MAX_MEMBERS:
        msg = f"not a usable range: {text!r}"
        raise ValueError(msg)
    return range(low, high + 1)
