"""Checkpoint saves as the lines tell of them: who began one, who confirmed it, who failed in it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from correlator.core.vocabulary import Context, FaultCode
from correlator.graphs.facts import Fact
from correlator.graphs.recovery import Advance

_TEARS = frozenset({FaultCode.CHECKPOINT_SAVE_FAILURE, FaultCode.DISK_FULL, FaultCode.STORAGE_IO})
"""Faults that leave half a checkpoint behind where they fall between the beginning of a save and its end."""


@dataclass(slots=True)
class Save:
    """One checkpoint by its printed name."""

    name: str
    begun: list[Fact] = field(default_factory=list)
    saved: list[Fact] = field(default_factory=list)
    loaded: list[Fact] = field(default_factory=list)
    failed: list[Fact] = field(default_factory=list)
    """Errors of a rank while it was being written, or while it was being read back."""

    @property
    def facts(self) -> list[Fact]:
        """All lines about it."""
        return [*self.begun, *self.saved, *self.loaded]

    @property
    def step(self) -> int:
        """The step that it holds, by its lines or its name; -1 where neither says."""
        steps = [fact.step for fact in self.facts if fact.step is not None]
        digits = re.findall(r"\d+", self.name)
        return steps[0] if steps else int(digits[-1]) if digits else -1


def saves_of(facts: Sequence[Fact], advance: Advance) -> dict[str, Save]:
    """All checkpoints that the lines name, by name, in order of time."""
    told = [f for f in facts if f.name in _ABOUT]
    other_name = {
        tag: name
        for fact in told
        if (name := fact.attribute("checkpoint")) and (tag := fact.attribute("tag")) and name != tag
    }
    begun = _Begun(told)
    saves: dict[str, Save] = {}
    for fact in sorted(told, key=_when):
        name = fact.attribute("checkpoint") or _named_by_step(fact, advance)
        if name is None and fact.name != Context.CHECKPOINT_SAVE_STARTED:
            opening = begun.before(fact, loading=fact.name == Context.CHECKPOINT_LOADED)
            name = None if opening is None else opening.attribute("checkpoint") or _named_by_step(opening, advance)
        if name is None:
            continue
        save = saves.setdefault(other_name.get(name, name), Save(other_name.get(name, name)))
        match fact.name:
            case Context.CHECKPOINT_SAVE_STARTED:
                save.begun.append(fact)
            case Context.CHECKPOINT_SAVED:
                save.saved.append(fact)
            case Context.CHECKPOINT_LOADED:
                save.loaded.append(fact)
    _mark_failed(saves, facts, begun, other_name, advance)
    return {name: save for name, save in saves.items() if save.facts or save.failed}


_ABOUT = frozenset(
    {
        Context.CHECKPOINT_SAVE_STARTED,
        Context.CHECKPOINT_SAVED,
        Context.CHECKPOINT_LOAD_STARTED,
        Context.CHECKPOINT_LOADED,
    }
)


class _Begun:
    """Beginnings of saves and loads by file and writer, for "what was being written above this line?"."""

    def __init__(self, told: Iterable[Fact]) -> None:
        self._found: dict[tuple[str, int | None, bool, bool], list[Fact]] = {}
        for fact in told:
            loading = fact.name == Context.CHECKPOINT_LOAD_STARTED
            if loading or fact.name == Context.CHECKPOINT_SAVE_STARTED:
                self._found.setdefault((fact.file, fact.rank, False, loading), []).append(fact)
                self._found.setdefault((fact.file, None, True, loading), []).append(fact)
        for found in self._found.values():
            found.sort(key=lambda fact: fact.line)

    def before(self, fact: Fact, *, loading: bool) -> Fact | None:
        """The last beginning above a line, by the same rank or by nobody in particular."""
        keys: list[tuple[str, int | None, bool, bool]] = [(fact.file, fact.rank, fact.rank is None, loading)]
        if fact.rank is not None:
            keys.append((fact.file, None, False, loading))
        found = [above for key in keys if (above := self._above(key, fact.line)) is not None]
        return max(found, key=lambda one: one.line, default=None)

    def _above(self, key: tuple[str, int | None, bool, bool], line: int) -> Fact | None:
        facts = self._found.get(key, [])
        index = bisect_left(facts, line, key=lambda fact: fact.line)
        return facts[index - 1] if index else None


def _mark_failed(
    saves: dict[str, Save], facts: Sequence[Fact], begun: _Begun, other_name: dict[str, str], advance: Advance
) -> None:
    """Gives each error of writing or reading to the checkpoint that was in hand."""
    for fact in facts:
        loading = fact.name == FaultCode.CHECKPOINT_LOAD_FAILURE
        if not loading and fact.name not in _TEARS:
            continue
        opening = begun.before(fact, loading=loading)
        name = fact.attribute("checkpoint")
        if name is None and opening is not None:
            name = opening.attribute("checkpoint") or _named_by_step(opening, advance)
        name = other_name.get(name, name) if name is not None else None
        if not loading and _closed(saves.get(name or ""), fact):
            name = _open_at(saves.values(), fact)
        if name in saves and (loading or not _confirmed_above(saves[name], fact)):
            saves[name].failed.append(fact)


def _closed(save: Save | None, fact: Fact) -> bool:
    """The save cannot be the one in hand: there is none, or somebody had confirmed it at a time before the error's."""
    if save is None:
        return True
    at = fact.aligned_ns
    return at is not None and any(f.aligned_ns is not None and f.aligned_ns < at for f in save.saved)


def _confirmed_above(save: Save, fact: Fact) -> bool:
    """The same writer had confirmed the save before it met the error."""
    return any(f.file == fact.file and f.rank in (fact.rank, None) and f.line < fact.line for f in save.saved)


def _open_at(saves: Iterable[Save], fact: Fact) -> str | None:
    """The save that other ranks had begun and not confirmed at the time of the error."""
    if fact.aligned_ns is None:
        return None
    at = fact.aligned_ns
    open_ = [
        save
        for save in saves
        if any(f.aligned_ns is not None and f.aligned_ns <= at for f in save.begun)
        and not any(f.aligned_ns is not None and f.aligned_ns < at for f in save.saved)
    ]
    return max(open_, key=lambda save: save.step).name if open_ else None


def _when(fact: Fact) -> tuple[int, str, int]:
    return (fact.aligned_ns if fact.aligned_ns is not None else fact.printed_ns or 0, fact.file, fact.line)


def _named_by_step(fact: Fact, advance: Advance) -> str | None:
    """Some trainers print neither name nor step of a save; its folder is named after the step printed before it."""
    naming = fact.attribute("naming")
    if naming is None or "{step}" not in naming:
        return None
    rows = advance.by_file.get(fact.file, [])
    for line, rank, step in reversed(rows[: bisect_left(rows, fact.line, key=lambda row: row[0])]):
        if line < fact.line and (rank is None or rank == fact.rank):
            return naming.replace("{step}", str(step))
    return None
