"""Which checkpoint may be resumed from: the last that every rank finished writing before anything could have spoilt it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from correlator.core.catalogue import CheckpointTrust, load_catalogue
from correlator.core.model import Checkpoint, ClockModel
from correlator.core.ranges import fold_numbers
from correlator.core.vocabulary import Order, Role
from correlator.graphs.episodes import Episode
from correlator.graphs.facts import Fact, order_of
from correlator.graphs.recovery import Advance
from correlator.graphs.saves import Save, saves_of


def checkpoint_of(
    facts: Sequence[Fact], advance: Advance, fatal: Sequence[Episode], survived: Sequence[Episode], clocks: ClockModel
) -> Checkpoint:
    """The verdict on checkpoints over all attempts (a checkpoint of an earlier attempt is as good).

    `fatal` and `survived` are the faults that the lines state: after a survived one, values may have been wrong in silence.
    """
    saves = saves_of(facts, advance)
    last_step = advance.last_step
    if not any(save.begun or save.saved or save.loaded for save in saves.values()):
        return _resumed(advance) or Checkpoint(
            last_good_step=last_step, why="no line tells of a checkpoint being saved"
        )
    torn = {name: _torn(save, saves, advance) for name, save in saves.items()}
    complete = [save for name, save in saves.items() if torn[name] is None]
    if not complete:
        nothing = Checkpoint(last_good_step=last_step, why="a save was begun, but no line says that one completed")
        return _one_interval_before(saves, facts, advance) or _resumed(advance) or nothing
    complete.sort(key=lambda save: (save.step, _last_time(save)))
    last = complete[-1]
    signs = [
        (fault, lived) for faults, lived in ((fatal, False), (survived, True)) for fault in faults if _corrupts(fault)
    ]
    spoilt = {save.name: _spoilt(save, signs, clocks) for save in complete}
    sound = [save for save in complete if spoilt[save.name] is None]
    newer_torn = [s for s in saves.values() if torn[s.name] is not None and s.step > last.step]
    reasons = [f"{last.name}: {spoilt[last.name]}"] if spoilt[last.name] is not None else []
    if newer_torn:
        newest = max(newer_torn, key=lambda save: save.step)
        reasons.append(f"the save of {newest.name} did not complete" + _because(torn[newest.name]))
    if not sound:
        why = "; ".join([*reasons, "no checkpoint completed before that"])
        return Checkpoint(last_good_step=last_step, last_complete=last.name, why=why)
    why = "; ".join([_done(sound[-1]), *reasons])
    return Checkpoint(last_step, last.name, sound[-1].name, why)


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _done(save: Save) -> str:
    if save.saved:
        return f"its save completed ({save.saved[-1].place})"
    if save.loaded:
        return f"training resumed from it ({save.loaded[-1].place})"
    return f"training went on after its save ({save.begun[-1].place})"


def _torn(save: Save, saves: Mapping[str, Save], advance: Advance) -> str | None:
    """Why a checkpoint is not known to be whole (empty = nothing says it is); None where it is."""
    if save.failed:
        return f"{save.failed[0].place}"
    if save.loaded:
        return None  # what could be read back was whole
    if save.saved:
        return _unconfirmed(save, saves)
    if any(other.saved for other in saves.values()):
        return ""
    return None if _went_on(save, advance) else ""


def _unconfirmed(save: Save, saves: Mapping[str, Save]) -> str | None:
    """Ranks that began a save, or confirmed others of the same attempt, and never confirmed this one.

    Where one rank alone confirms every save it speaks for all.
    """
    confirming = {f.rank for other in saves.values() for f in other.saved}
    if len(confirming) == 1 and len(saves) > 1:
        return None
    attempts = {f.attempt for f in save.saved}
    others = chain.from_iterable(other.saved for other in saves.values())
    wanted = {f.rank for f in save.begun} | {f.rank for f in others if f.attempt in attempts}
    saved = {f.rank for f in save.saved}
    never = {rank for rank in wanted - saved if rank is not None}
    if not never or None in saved:
        return None
    return f"rank{'s' if len(never) > 1 else ''} {fold_numbers(never)} never confirmed it"


def _went_on(save: Save, advance: Advance) -> bool:
    """Where the trainer prints no completion at all: training went on after the save."""
    last = save.begun[-1]
    rows = advance.by_file.get(last.file, [])
    went_on = any(line > last.line and later > save.step for line, _, later in rows)
    if last.aligned_ns is not None:
        went_on = went_on or any(ns > last.aligned_ns and later > save.step for ns, later in advance.first_seen)
    return went_on or bool(advance.finished)


def _corrupts(fault: Episode) -> bool:
    """Values may have been wrong without a word since its first sign."""
    entry = load_catalogue().find(fault.code, Role.INITIATING)
    return entry is not None and entry.checkpoint_trust is CheckpointTrust.BEFORE_FIRST_SIGN and not fault.inferred


def _spoilt(save: Save, signs: Sequence[tuple[Episode, bool]], clocks: ClockModel) -> str | None:
    """Why its values may be wrong though it is whole: a fault that corrupts in silence had shown itself before; or None.

    A fault that ended its attempt spoils only what was certainly written after it; the next attempt loaded older values.
    """
    done = (save.saved or save.loaded or save.begun)[-1]
    for fault, lived in signs:
        if fault.attempt != done.attempt:
            continue
        by_step = fault.step is not None and 0 <= fault.step <= save.step
        order = order_of(fault.head, done, clocks)
        if (
            by_step
            or order is Order.BEFORE
            or (lived and order is Order.INDISTINGUISHABLE and _timed(fault.head, done))
        ):
            return f"it was saved after the first {fault.code} ({fault.head.place}) and may hold wrong values"
    return None


def _timed(*facts: Fact) -> bool:
    return all(fact.printed_ns is not None and not fact.inherited for fact in facts)


def _last_time(save: Save) -> int:
    return max((f.aligned_ns if f.aligned_ns is not None else f.printed_ns or 0) for f in save.facts)


def _one_interval_before(saves: Mapping[str, Save], facts: Sequence[Fact], advance: Advance) -> Checkpoint | None:
    """Where only the torn save is in the files, the one before it: its step follows from the launch command's interval."""
    intervals = {fact.number("save_steps") for fact in facts} - {None, 0}
    if len(intervals) != 1 or not saves:
        return None
    every = intervals.pop() or 0
    torn = max(saves.values(), key=lambda save: save.step)
    step = torn.step - every
    if step <= 0 or str(torn.step) not in torn.name:
        return None
    name = torn.name.replace(str(torn.step), str(step))
    why = (
        f"saves run every {every} steps and training went on past step {step}; the save of {torn.name} did not complete"
    )
    return Checkpoint(advance.last_step, name, name, why)


_HEAD_LINES = 200
"""A run's first progress line stands this near the head of its log; further down, or on line 1, the head may be missing."""


def _resumed(advance: Advance) -> Checkpoint | None:
    """The checkpoint that a Megatron run was resumed from: it never prints the steps before its first one.

    Its folder is `iter_` and seven digits (formats.md F1); having been loaded, it was complete.
    """
    for path, rows in advance.by_file.items():
        steps = [step for _, _, step in rows[:3]]
        if len(steps) < 3 or not advance.printer_of.get(path, "").startswith("megatron"):
            continue
        stride = steps[1] - steps[0]
        first = steps[0] - stride
        if stride > 0 and first > stride and 1 < rows[0][0] <= _HEAD_LINES and steps[2] - steps[1] == stride:
            name = f"iter_{first:07d}"
            why = f"training resumed after it ({path}:{rows[0][0]} is the first step); no save of this run is complete"
            return Checkpoint(advance.last_step, name, name, why)
    return None
