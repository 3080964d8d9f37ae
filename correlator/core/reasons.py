"""How a verdict was reached: steps of causal paths, what each rule concluded, lines around the beginning.

Parts of the Diagnosis, so that names and types of their fields are public.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """One step of a causal path: what `Collateral.explained_by` names by its id."""

    id: str
    code: str
    """Fault code or collateral kind; of a wait hub, `collective_timeout`."""
    rank: int | None
    node: str | None
    what: str
    """In words: how it was concluded, or the first line that tells of it."""
    events: tuple[str, ...]
    """Event ids of its lines, as in the event table."""


@dataclass(frozen=True, slots=True)
class RuleUse:
    """All that one edge rule concluded, or refused, between things of the same two kinds."""

    rule: str
    """Its number in the method, `E3`; tests and documentation use the same."""
    accepted: bool
    """True: it links cause to effect. False: it looked for the link and refused it."""
    cause: str
    """Code of the cause; `waiting` for a collective that ranks wait in."""
    effect: str
    number: int
    """How many links, or refusals, of this kind there are."""
    probability: float | None
    """Of the strongest link; None for refusals."""
    reason: str
    """Why, in words; of many links that of one of them."""
    example: str
    """One of them: `rank 17 on node02 -> default_pg #77`."""


@dataclass(frozen=True, slots=True)
class ContextLine:
    """A raw line near the initiating event on the same writer."""

    file: str
    line: int
    text: str
