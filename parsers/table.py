"""All patterns in one table, dialects' and the catalogue's. A pattern's scan id is its index."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import overload

from correlator.core.catalogue.loader import load_catalogue
from correlator.core.catalogue.model import Catalogue, Signature
from correlator.core.vocabulary import FileKind, Role, Severity
from correlator.parsers.base import Anchor, Dialect, Layer, LinePattern

CATALOGUE = "catalogue"
"""Name that stands for the dialect where a signature of the catalogue recognised the line."""
LOWEST_PRIORITY = 1
"""Of patterns that only begin a record and leave the meaning to others."""
UNCLASSIFIED_PRIORITY = 0
"""Of patterns that keep a line for its words alone: to a record they are as good as no pattern."""


@dataclass(frozen=True, slots=True)
class PatternTable:
    """The patterns by scan id, ready to match."""

    patterns: tuple[LinePattern, ...]
    dialect_of: tuple[str, ...]
    digest: str
    """Of all ids and regexes: two tables of one digest scan alike."""
    stack_of: tuple[str | None, ...] = ()
    """By scan id: a regex to be found in the stack trace of an exception; such a pattern matches no bare line."""
    compiled: Sequence[re.Pattern[str]] = field(init=False, repr=False, compare=False)
    stacks: tuple[re.Pattern[str] | None, ...] = field(init=False, repr=False, compare=False)
    ids: dict[str, int] = field(init=False, repr=False, compare=False)
    """Scan id of each pattern, by the pattern's own id."""
    exception_ids: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Scan ids of the patterns that a Python exception is classified by, in order of priority."""

    def __post_init__(self) -> None:
        stacks = self.stack_of or (None,) * len(self.patterns)
        object.__setattr__(self, "compiled", _OnFirstUse([pattern.regex for pattern in self.patterns]))
        object.__setattr__(self, "stacks", tuple(re.compile(stack) if stack else None for stack in stacks))
        object.__setattr__(self, "ids", {pattern.id: index for index, pattern in enumerate(self.patterns)})
        usable = (
            index
            for index, (pattern, name) in enumerate(zip(self.patterns, self.dialect_of, strict=True))
            if _fits_exceptions(pattern, name)
        )
        ordered = sorted(usable, key=lambda index: (-self.patterns[index].priority, index))
        object.__setattr__(self, "exception_ids", tuple(ordered))


class _OnFirstUse(Sequence[re.Pattern[str]]):
    """Regexes compiled when first asked for: a run meets a few dozen of hundreds, and compiling all takes half a second."""

    def __init__(self, regexes: Sequence[str]) -> None:
        self._regexes = regexes
        self._compiled: dict[int, re.Pattern[str]] = {}

    def __len__(self) -> int:
        return len(self._regexes)

    @overload
    def __getitem__(self, index: int) -> re.Pattern[str]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[re.Pattern[str]]: ...
    def __getitem__(self, index: int | slice) -> re.Pattern[str] | Sequence[re.Pattern[str]]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        found = self._compiled.get(index)
        if found is None:
            found = self._compiled[index] = re.compile(self._regexes[index])
        return found


def _fits_exceptions(pattern: LinePattern, dialect: str) -> bool:
    """Whether a pattern may describe what a training process raises: not a kernel's, launcher's or scheduler's line."""
    if pattern.requires or (pattern.kinds and FileKind.RANK_LOG not in pattern.kinds):
        return False
    return dialect == CATALOGUE or (pattern.role is not Role.CONTEXT and pattern.priority > LOWEST_PRIORITY)


def pattern_table(catalogue: Catalogue | None = None) -> PatternTable:
    """The table of all registered dialects and of a catalogue (None = the built-in one; that table is made once)."""
    return _default_table() if catalogue is None else build_table(_dialects(), catalogue.signatures)


@cache
def _default_table() -> PatternTable:
    return build_table(_dialects(), load_catalogue().signatures)


def _dialects() -> tuple[Dialect, ...]:
    # Imported here because dialects may use the record helpers, which know this module.
    from correlator.parsers.dialects import DIALECTS

    return DIALECTS


def build_table(dialects: Iterable[Dialect], signatures: Iterable[Signature]) -> PatternTable:
    """A table of these dialects and signatures, in this order."""
    rows: list[tuple[LinePattern, str, str | None]] = [
        (pattern, dialect.name, None) for dialect in dialects for pattern in dialect.patterns
    ]
    rows += [(_from_signature(signature), CATALOGUE, signature.stack) for signature in signatures]
    text = "\n".join(f"{pattern.id}\t{pattern.regex}" for pattern, _, _ in rows)
    return PatternTable(
        patterns=tuple(pattern for pattern, _, _ in rows),
        dialect_of=tuple(name for _, name, _ in rows),
        digest=hashlib.sha256(text.encode()).hexdigest(),
        stack_of=tuple(stack for _, _, stack in rows),
    )


def _from_signature(signature: Signature) -> LinePattern:
    return LinePattern(
        id=signature.id,
        event_name=signature.code,
        regex=signature.pattern,
        samples=signature.samples,
        lookalikes=signature.lookalikes,
        role=signature.role,
        anchor=Anchor(signature.anchor),
        requires=frozenset(map(Layer, signature.requires)),
        kinds=frozenset(map(FileKind, signature.kinds)),
        severity=Severity(signature.severity) if signature.severity else None,
        priority=signature.priority,
        source=signature.source,
    )
