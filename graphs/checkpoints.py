"""Which checkpoint may be resumed from: the last whose save completed before the failure and whose completion is printed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from correlator.core.model import Checkpoint
from correlator.core.vocabulary import Context
from correlator.graphs.facts import Fact
from correlator.graphs.recovery import Advance

_STARTED = (Context.CHECKPOINT_SAVE_STARTED,)
_SAVED = (Context.CHECKPOINT_SAVED,)


def checkpoint_of(facts: Sequence[Fact], advance: Advance) -> Checkpoint:
    """The verdict on checkpoints over all attempts (a checkpoint of an earlier attempt is as good)."""
    saves = [f for f in facts if f.name in (*_STARTED, *_SAVED)]
    last_step = advance.last_step
    if not saves:
        return _resumed(advance) or Checkpoint(
            last_good_step=last_step, why="no line tells of a checkpoint being saved"
        )
    named: dict[str, list[Fact]] = {}
    begun: dict[str, list[Fact]] = {}
    for fact in saves:
        if fact.name in _STARTED:
            begun.setdefault(fact.file, []).append(fact)
    for fact in sorted(saves, key=_when):
        name = _name(fact, begun, advance)
        if name is not None:
            named.setdefault(name, []).append(fact)
    complete = [name for name, found in named.items() if _complete(name, found, named, advance)]
    if not complete:
        nothing = Checkpoint(last_good_step=last_step, why="a save was begun, but no line says that one completed")
        return _one_interval_before(named, facts, advance) or _resumed(advance) or nothing
    last = max(complete, key=lambda name: (_step(name, named[name]), _when(named[name][-1])))
    torn = [n for n in named if n not in complete and _step(n, named[n]) > _step(last, named[last])]
    done = next((f for f in reversed(named[last]) if f.name in _SAVED), named[last][-1])
    why = f"its save completed ({done.place})"
    if torn:
        why += f"; the save of {torn[-1]} did not complete"
    return Checkpoint(last_good_step=last_step, last_complete=last, safe_to_resume_from=last, why=why)


def _one_interval_before(named: dict[str, list[Fact]], facts: Sequence[Fact], advance: Advance) -> Checkpoint | None:
    """Where only the torn save is in the files, the one before it: its step follows from the launch command's interval."""
    intervals = {fact.number("save_steps") for fact in facts} - {None, 0}
    if len(intervals) != 1 or not named:
        return None
    every = intervals.pop() or 0
    torn = max(named, key=lambda name: _step(name, named[name]))
    step = _step(torn, named[torn]) - every
    if step <= 0 or str(step + every) not in torn:
        return None
    name = torn.replace(str(step + every), str(step))
    why = f"saves run every {every} steps and training went on past step {step}; the save of {torn} did not complete"
    return Checkpoint(advance.last_step, name, name, why)


_HEAD_LINES = 200
"""A run's first progress line stands this near the head of its log; further down, or on line 1, the head may be missing."""


def _resumed(advance: Advance) -> Checkpoint | None:
    """The checkpoint that a Megatron run was resumed from: it never prints the steps before its first one.

    Its folder is `iter_` and seven digits (formats.md F1); having been loaded, it was complete.
    """
    for path, rows in advance.by_file.items():
        steps = [step for _, _, step in rows]
        if len(steps) < 3 or not advance.printer_of.get(path, "").startswith("megatron"):
            continue
        stride = steps[1] - steps[0]
        first = steps[0] - stride
        if stride > 0 and first > stride and 1 < rows[0][0] <= _HEAD_LINES and steps[2] - steps[1] == stride:
            name = f"iter_{first:07d}"
            why = f"training resumed after it ({path}:{rows[0][0]} is the first step); no save of this run is complete"
            return Checkpoint(advance.last_step, name, name, why)
    return None


def _when(fact: Fact) -> tuple[int, str, int]:
    return (fact.aligned_ns if fact.aligned_ns is not None else fact.printed_ns or 0, fact.file, fact.line)


def _name(fact: Fact, saves: Mapping[str, Sequence[Fact]], advance: Advance) -> str | None:
    """The printed name; a completion that names nothing ends the last save begun before it in the same file."""
    name = fact.attribute("checkpoint") or _named_by_step(fact, advance)
    if name is not None or fact.name in _STARTED:
        return name
    begun = [f for f in saves.get(fact.file, ()) if f.line < fact.line]
    begun = [f for f in begun if fact.rank is None or f.rank is None or f.rank == fact.rank]
    return (begun[-1].attribute("checkpoint") or _named_by_step(begun[-1], advance)) if begun else None


def _named_by_step(fact: Fact, advance: Advance) -> str | None:
    """Some trainers print neither name nor step of a save; its folder is named after the step printed before it."""
    naming = fact.attribute("naming")
    if naming is None or "{step}" not in naming:
        return None
    rows = advance.by_file.get(fact.file, [])
    before = [step for line, rank, step in rows if line < fact.line and (rank is None or rank == fact.rank)]
    return naming.replace("{step}", str(before[-1])) if before else None


def _step(name: str, facts: Sequence[Fact]) -> int:
    steps = [fact.step for fact in facts if fact.step is not None]
    digits = re.findall(r"\d+", name)
    return steps[0] if steps else int(digits[-1]) if digits else -1


def _complete(name: str, facts: Sequence[Fact], named: dict[str, list[Fact]], advance: Advance) -> bool:
    """Completed in print; or, where the trainer prints no completion at all, training went on after the save."""
    if any(f.name in _SAVED for f in facts):
        started = {f.rank for f in facts if f.name in _STARTED and f.rank is not None}
        saved = {f.rank for f in facts if f.name in _SAVED and f.rank is not None}
        return not started or not saved or started <= saved
    if any(f.name in _SAVED for found in named.values() for f in found):
        return False
    last, step = facts[-1], _step(name, facts)
    rows = advance.by_file.get(last.file, [])
    went_on = any(line > last.line and later > step for line, _, later in rows)
    if last.aligned_ns is not None:
        went_on = went_on or any(ns > last.aligned_ns and later > step for ns, later in advance.first_seen)
    return went_on or bool(advance.finished)
