"""Votes of evidence on one question each; who disagrees is kept as a conflict, never silently resolved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from correlator.core.model import Conflict

K = TypeVar("K")
V = TypeVar("V", int, str)

CONTENT = 3
"""Weight of what a line says."""
HINT = 1
"""Weight of what a file's name says: content beats it, and the conflict is recorded."""
SHARE = 2 / 3
"""A value may be used against contradiction only where this share of the weight agrees."""


@dataclass(slots=True)
class Ballot(Generic[K, V]):
    """Votes for the value of each key; a file counts once for each value, and the first place of each value is kept."""

    weights: dict[K, dict[V, int]] = field(default_factory=dict)
    places: dict[tuple[K, V], str] = field(default_factory=dict)
    _seen: set[tuple[K, V, str]] = field(default_factory=set)

    def add(self, key: K, value: V, where: str, weight: int = CONTENT) -> None:
        """One vote; `where` is `file:line`. The same file voting twice for the same value counts once."""
        source = where.rsplit(":", 1)[0]
        if (key, value, source) in self._seen:
            return
        self._seen.add((key, value, source))
        counts = self.weights.setdefault(key, {})
        counts[value] = counts.get(value, 0) + weight
        self.places.setdefault((key, value), where)

    def winner(self, key: K) -> V | None:
        """The value on which at least two thirds of the weight agree, or None."""
        counts = self.weights.get(key)
        if not counts:
            return None
        value = max(counts, key=lambda candidate: counts[candidate])
        return value if counts[value] >= SHARE * sum(counts.values()) else None

    def winners(self) -> dict[K, V]:
        """All keys with a decided value."""
        decided = ((key, self.winner(key)) for key in self.weights)
        return {key: value for key, value in decided if value is not None}

    def conflicts(self, subject: Callable[[K], str]) -> Iterator[Conflict]:
        """Keys with more than one value."""
        for key, counts in self.weights.items():
            if len(counts) > 1:
                values = sorted(counts, key=lambda value: (-counts[value], str(value)))
                yield Conflict(
                    subject=subject(key),
                    values=tuple(str(value) for value in values),
                    places=tuple(self.places[key, value] for value in values),
                )
