"""Errors that no signature knows: grouped by their mould, and ranked by who printed it, first and alone (peers.md step 5).

What a healthy rank, or a healthy run, prints as well is noise; what one rank alone printed before it ended is its word.
"""

from __future__ import annotations

from collections.abc import Sequence

from correlator.core.vocabulary import CollateralKind, Context, FaultCode, FileKind, Order, Role, Severity
from correlator.graphs.episodes import Episode
from correlator.graphs.exits import ProcessEnd
from correlator.graphs.facts import Fact, Printers, printers_of
from correlator.graphs.scene import Scene

UNKNOWN_CODES = (FaultCode.PYTHON_EXCEPTION, FaultCode.NATIVE_ABORT)
MANY = 3
"""So many ranks that print one thing were dragged into it together, where another rank alone printed something else."""
_CRASHES = frozenset({-6, -8})
_SPECIFICITY = 0.6
"""Above a bare exit code, below any line whose meaning is known."""
_QUIET = frozenset({Severity.TRACE, Severity.DEBUG, Severity.INFO, Severity.WARN})
_OTHERS_WORDS = frozenset({FileKind.KERNEL_LOG, FileKind.LAUNCHER_LOG, FileKind.SCHEDULER_LOG, FileKind.POD_LISTING})
_OF_AN_END = frozenset(
    {CollateralKind.LAUNCHER_REPORT, CollateralKind.SECONDARY_ABORT, CollateralKind.TERMINATED_BY_LAUNCHER}
)


def last_words(
    facts: Sequence[Fact],
    ends: Sequence[ProcessEnd],
    stated: Sequence[Episode],
    *,
    world_size: int | None,
    healthy: frozenset[str],
) -> list[Episode]:
    """For ranks that ended badly on their own and state no fault: the first unknown error that it alone, or all, printed.

    `stated` are the episodes of known lines, `healthy` the moulds of a run that did not fail.
    """
    own = {end.rank: end for end in ends if not end.told and (end.exit_code > 0 or end.exit_code in _CRASHES)}
    spoken = {e.rank for e in stated if e.rank is not None and (e.role is Role.INITIATING or e.code not in _OF_AN_END)}
    printers = printers_of(facts)
    words: dict[int, list[Fact]] = {}
    for fact in facts:
        rank = fact.rank
        if rank is None or rank not in own or rank in spoken or not _says_why(fact) or fact.template in healthy:
            continue
        ranks = printers[fact.template or ""]
        if len(ranks) == 1 or (len(ranks) == world_size and ranks <= own.keys()):
            words.setdefault(rank, []).append(fact)
    return [_episode(own[rank], min(found, key=_place), printers) for rank, found in sorted(words.items())]


def _says_why(fact: Fact) -> bool:
    """An error-like line of the process itself, not told at a level that reports no failure."""
    if fact.name != Context.MESSAGE or fact.template is None or fact.file_kind in _OTHERS_WORDS:
        return False
    return fact.severity not in _QUIET


def _place(fact: Fact) -> tuple[bool, str, int]:
    """Lines that call themselves an error go before others; then the order of writing."""
    return (fact.severity not in (Severity.ERROR, Severity.FATAL), fact.file, fact.line)


def _episode(end: ProcessEnd, word: Fact, printers: Printers) -> Episode:
    alone = "no other rank printed" if len(printers[word.template or ""]) == 1 else "all ranks printed"
    crashed = end.exit_code in _CRASHES
    return Episode(
        id="",
        code=FaultCode.NATIVE_ABORT if crashed else FaultCode.PYTHON_EXCEPTION,
        role=Role.INITIATING,
        attempt=end.attempt,
        rank=end.rank,
        node=word.node or end.node,
        gpu=word.gpu,
        pid=word.pid if word.pid is not None else end.facts[0].pid,
        facts=(word,),
        inferred=f"before it ended with code {end.exit_code} it printed an error that {alone}",
        specificity=_SPECIFICITY,
    )


def shared_by_many(scene: Scene, candidates: Sequence[Episode]) -> dict[str, str]:
    """Candidates (by id) of an unknown error that others are likelier to have caused, each with the reason.

    A healthy run prints it too; or several ranks print it while one rank alone printed another that did not come later.
    """
    unknown = [e for e in candidates if e.code in UNKNOWN_CODES and e.head.template is not None]
    reasons = {e.id: "a healthy run prints it too" for e in unknown if e.head.template in scene.healthy}
    left = [e for e in unknown if e.id not in reasons]
    printers = scene.printers
    alone = [e for e in left if e.rank is not None and printers.get(e.head.template or "") == frozenset({e.rank})]
    for episode in left:
        ranks = printers.get(episode.head.template or "", frozenset())
        first = next((a for a in alone if a is not episode and scene.order(episode, a) is not Order.BEFORE), None)
        if len(ranks) >= MANY and first is not None:
            reasons[episode.id] = f"{len(ranks)} ranks printed it, and {first.where} alone another error"
    return reasons
