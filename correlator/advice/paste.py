"""What a pasted traceback or a few log lines tell: the best entries of the catalogue, what stays open, and what to fetch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from correlator.advice.actions import finest
from correlator.advice.bare import code_of_exit, plain_facts
from correlator.advice.fragments import fragments_of
from correlator.advice.known import Known, known_of
from correlator.advice.lines import Line, lines_of
from correlator.advice.readings import entry_for, read
from correlator.core.catalogue import Catalogue, Entry
from correlator.core.model import Checkpoint, Initiator, Verdict
from correlator.core.vocabulary import FAULT_CLASS, CollateralKind, Context, FaultCode, Role, VerdictStatus

if TYPE_CHECKING:
    import polars as pl

_ENDS = (Context.WORKER_FAILED, Context.CHILD_FAILED_ROW, Context.TASK_EXIT)
_MENTIONED = 0.5
"""Words without their frame may speak of another process, or of none."""
_NO_VERDICT = Verdict(VerdictStatus.UNDETERMINED, 0.0, "")
_XID_OF = {"43": CollateralKind.CONTEXT_POISONED, "45": CollateralKind.SECONDARY_ABORT}
"""Xids that the driver prints in the wake of something else, and what that does to the process."""
_EXACT, _GENERIC, _ECHO, _EXIT, _DRAGGED = 1.0, 0.35, 0.2, 0.25, 0.15
"""How much a line of each kind says about the cause."""
_SURE = 0.9
"""The most that a paste is trusted: it is a part of one log."""
_MOST_LINES = 20
_MOST_STACK = 20_000
_FRAME = re.compile(r'(?m)^[ \t]*File "[^"\n]+", line \d+')
_UNKNOWN = "what failed: none of these lines is known to state a fault or its consequence"
_TRAILING = "whether another rank had failed before: this is a part of one log"
_TIMELESS = "when it happened, and so what came first: no line has a time"
_QUOTED = "whether it happened here: the words stand alone or inside another sentence"
_RANKLESS = "which rank printed it: no line says"


@dataclass(frozen=True, slots=True)
class Match:
    """One entry that the lines point at."""

    entry: Entry
    probability: float
    lines: tuple[int, ...]
    """1-based numbers of the lines that say so; empty where it follows from what is missing."""
    first_action: str
    reading: str = ""
    """What the numbers of its message say."""


@dataclass(frozen=True, slots=True)
class Paste:
    """The answer to pasted lines."""

    matches: tuple[Match, ...]
    """Best first."""
    cannot_tell: tuple[str, ...]
    fetch: tuple[str, ...]


@dataclass(slots=True)
class _Group:
    """Lines that point at the same entry."""

    entry: Entry
    weight: float = 0.0
    lines: list[Line] = field(default_factory=list)


def read_paste(
    events: pl.DataFrame, verdict: Verdict, checkpoint: Checkpoint, catalogue: Catalogue, text: str = ""
) -> Paste:
    """The reading of pasted lines, from their events and the verdict that the graph gave on them.

    `text`, the lines themselves, is searched for what is no event: the counters that nvidia-smi prints, a bare exit code.
    """
    lines = _with_frames(lines_of(events), text)
    groups = _groups(lines, catalogue)
    sentences: dict[str, str] = {}
    for fact in plain_facts(text, catalogue, alone=not groups and not verdict.initiators):
        groups.setdefault(fact.entry.key, _Group(fact.entry, _EXACT if fact.sure else _EXIT))
        sentences[fact.entry.key] = fact.sentence
    for initiator in verdict.initiators:
        if not any(group.entry.code == initiator.fault for group in groups.values()):
            entry, line = finest(initiator, lines, catalogue)
            groups[entry.key] = _Group(entry, _EXACT, [] if line is None else [line])
    matches = tuple(
        replace(match, reading=match.reading or sentences.get(match.entry.key, ""))
        for match in _matches(groups.values(), verdict, lines, checkpoint)
    )
    best = matches[0].entry if matches else None
    return Paste(matches, tuple(dict.fromkeys(_open(best, lines, events))), _fetch(best))


def _with_frames(lines: Sequence[Line], text: str) -> list[Line]:
    """The lines; the only fault of a paste takes frames that were pasted without the head of their traceback."""
    faults = [line for line in lines if line.role is Role.INITIATING]
    bare = len(faults) == 1 and not faults[0].stack and _FRAME.search(text) is not None
    return [replace(line, stack=text[:_MOST_STACK]) if bare and line is faults[0] else line for line in lines]


def read_plain(text: str, catalogue: Catalogue) -> Paste:
    """The reading of lines that no known program wrote: what they say by themselves, or that nothing in them is known.

    Numbers that speak for themselves come first, then words of a known error that stand without their frame.
    """
    facts = plain_facts(text, catalogue, alone=True)
    found = [
        Match(f.entry, _SURE if f.sure else _EXIT, (), Known().prose(f.entry.first_action), f.sentence) for f in facts
    ][:1]
    words: list[Line] = []
    if not found:
        words = list(fragments_of(text, catalogue))
        found = [*_matches(_groups(words, catalogue, _MENTIONED).values(), _NO_VERDICT, words, Checkpoint())]
    best = found[0].entry if found else None
    stays_open = list(best.cannot_tell) if best is not None else [_what_failed(words)]
    if found and words:
        stays_open.append(_QUOTED)
    return Paste(tuple(found), (*stays_open, _TIMELESS, _RANKLESS, _TRAILING), _fetch(best))


def _groups(lines: Sequence[Line], catalogue: Catalogue, trust: float = 1.0) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    broken: set[tuple[str, int | None]] = set()
    for line in lines:
        entry, weight = _judged(line, catalogue)
        if entry is None:
            continue
        weight *= trust
        process = (line.file, line.rank)
        if process in broken and entry.key not in groups:
            weight *= _ECHO
        if entry.sticky and line.role is Role.INITIATING:
            broken.add(process)
        group = groups.setdefault(entry.key, _Group(entry))
        group.weight = max(group.weight, weight)
        group.lines.append(line)
    return groups


def _judged(line: Line, catalogue: Catalogue) -> tuple[Entry | None, float]:
    """The entry of a line and how much it says about the cause; (None, 0) for one that says nothing."""
    if line.name in _ENDS:
        code = code_of_exit(line.exit_code)
        return (None, 0.0) if code is None else (entry_for(catalogue.entry(code), line), _EXIT)
    if line.name == Context.XID and (kind := _XID_OF.get(line.attributes.get("xid", ""))) is not None:
        return entry_for(catalogue.entry(kind, Role.COLLATERAL), line), _DRAGGED
    if line.role is Role.CONTEXT:
        return None, 0.0
    entry = catalogue.find(line.name, line.role)
    if entry is None:
        return None, 0.0
    finer = entry_for(entry, line)
    if line.role is Role.COLLATERAL:
        return finer, _DRAGGED
    return finer, _GENERIC if finer.generic_reason else _EXACT


def _matches(
    groups: Iterable[_Group], verdict: Verdict, lines: Sequence[Line], checkpoint: Checkpoint
) -> tuple[Match, ...]:
    chosen = {str(initiator.fault) for initiator in verdict.initiators}
    ordered = sorted(groups, key=lambda group: (group.entry.code not in chosen, -group.weight, group.entry.key))
    total = sum(group.weight for group in ordered)
    if not ordered or total <= 0:
        return ()
    found = []
    for number, group in enumerate(ordered):
        share = group.weight / max(total, _EXACT)
        if number == 0 and chosen:
            share = max(share, verdict.confidence)
        line = next(iter(group.lines), None)
        known = _known(group, line, verdict, lines, checkpoint)
        found.append(
            Match(
                entry=group.entry,
                probability=round(min(share, _SURE), 3),
                lines=_numbers(group.lines),
                first_action=known.prose(group.entry.first_action),
                reading="" if line is None else read(line).sentence,
            )
        )
    return _below_one(found)


def _numbers(lines: Sequence[Line]) -> tuple[int, ...]:
    """First and last line of each record: a traceback begins far above the line that names the error."""
    ends = {number for line in lines for number in (line.number, line.number + line.count - 1)}
    return tuple(sorted(ends))[:_MOST_LINES]


def _below_one(found: Sequence[Match]) -> tuple[Match, ...]:
    """The first keeps its probability, the others share what it leaves, in their order."""
    first, *others = found
    left, rest = 1.0 - first.probability, sum(match.probability for match in others)
    scale = min(1.0, left / rest) if rest else 1.0
    shared = (
        Match(
            m.entry,
            int(min(m.probability * scale, first.probability) * 1000) / 1000,
            m.lines,
            m.first_action,
            m.reading,
        )
        for m in others
    )
    return (first, *shared)


def _known(group: _Group, line: Line | None, verdict: Verdict, lines: Sequence[Line], checkpoint: Checkpoint) -> Known:
    """What the lines tell about the place of this entry."""
    for initiator in verdict.initiators:
        if initiator.fault == group.entry.code:
            return known_of(initiator, line, lines, checkpoint)
    if line is None or group.entry.role is Role.COLLATERAL or group.entry.code not in frozenset(FaultCode):
        return Known({} if line is None or "peer" not in line.attributes else {"peer": line.attributes["peer"]})
    fault = FaultCode(group.entry.code)
    place = Initiator(
        line.rank,
        line.local_rank,
        line.node,
        line.gpu,
        line.pid,
        fault,
        FAULT_CLASS[fault],
        None,
        None,
        None,
        line.step,
    )
    return known_of(place, line, lines, checkpoint)


def _open(best: Entry | None, lines: Sequence[Line], events: pl.DataFrame) -> Iterable[str]:
    """What the lines leave open: of the message itself, and because they are only a part of a run."""
    if best is None:
        yield _what_failed(lines)
    else:
        yield from best.cannot_tell
    if events["timestamp"].null_count() == len(events):
        yield _TIMELESS
    if all(line.rank is None for line in lines):
        yield _RANKLESS
    yield _TRAILING


def _what_failed(lines: Sequence[Line]) -> str:
    """That nothing says what failed; of an Xid that is no fault by itself, what it says."""
    sentences = (read(line).sentence.rstrip(".") for line in lines if line.name == Context.XID)
    return next((f"what failed before it: {sentence}" for sentence in sentences if sentence), _UNKNOWN)


def _fetch(best: Entry | None) -> tuple[str, ...]:
    if best is None:
        return (
            "the log of that rank from its start, stderr included",
            "the logs of the other ranks and of the launcher",
        )
    return best.fetch
