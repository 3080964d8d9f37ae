"""Where in its life the run was when it broke: start-up, a step, evaluation, a checkpoint, the end; from the lines of progress.

Such as "the first backward after evaluation at step 100": what had just ended often says what was new.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import assert_never

from correlator.core.vocabulary import Context, FaultCode, FileKind, Phase
from correlator.graphs.build import AttemptGraph
from correlator.graphs.episodes import Episode
from correlator.graphs.facts import Fact


@dataclass(frozen=True, slots=True)
class Moment:
    """Where the run was. `step` is the last one that was printed, `words` what a person would say; either may be unknown."""

    phase: Phase | None
    step: int | None
    words: str | None


_ENDED = {
    Context.EVALUATION: "evaluation",
    Context.CHECKPOINT_SAVED: "a checkpoint was saved",
    Context.CHECKPOINT_LOADED: "a checkpoint was loaded",
}
_OPEN: dict[str, Phase] = {
    Context.CHECKPOINT_SAVE_STARTED: Phase.CHECKPOINT_SAVE,
    Context.CHECKPOINT_LOAD_STARTED: Phase.CHECKPOINT_LOAD,
    Context.EVALUATION: Phase.EVALUATION,
    Context.TRAINING_FINISHED: Phase.TEARDOWN,
}
_SIGNS = frozenset({*_ENDED, *_OPEN})
_OF_START = frozenset({FaultCode.IMPORT_ERROR, FaultCode.RENDEZVOUS_TIMEOUT, FaultCode.NCCL_INIT_FAILURE})
_OF_RANKS = frozenset({FileKind.RANK_LOG, FileKind.NODE_LOG, FileKind.CONSOLE_LOG, FileKind.RAY_LOG, FileKind.TEXT})
FIRST_CALLS = 4
"""Collectives of a group with a number up to this belong to the setting up of the run, where no step was printed yet."""


class Course:
    """The milestones of an attempt in order, to look up what came last before a moment."""

    def __init__(self, graph: AttemptGraph) -> None:
        signs = [fact for fact in (*graph.scene.facts, *graph.evaluations) if fact.name in _SIGNS]
        self._advance = graph.advance
        self._hubs = graph.scene.hubs
        self._logged = any(place.has_log for place in graph.scene.topology.ranks)
        self._highest = list(accumulate((step for _, step in graph.advance.first_seen), max))
        self._timed = sorted((f for f in signs if f.aligned_ns is not None), key=lambda f: (f.aligned_ns or 0, f.line))
        self._of_file: dict[str, list[Fact]] = {}
        for fact in sorted(signs, key=lambda f: (f.file, f.line)):
            self._of_file.setdefault(fact.file, []).append(fact)

    def moment(self, root: Episode) -> Moment:
        """Where the run was when an episode began."""
        last_step = self._advance.last_step
        step = root.step if root.step is not None else last_step
        if root.code == FaultCode.CHECKPOINT_SAVE_FAILURE:
            return Moment(Phase.CHECKPOINT_SAVE, step, _at("while a checkpoint was being saved", step))
        if root.code == FaultCode.CHECKPOINT_LOAD_FAILURE:
            return Moment(Phase.CHECKPOINT_LOAD, step, "while a checkpoint was being loaded")
        sign, stepped = self._last_sign(root)
        if sign is not None and not stepped:
            return _after(sign, root, step)
        if last_step is None:
            starting = root.code in _OF_START or (
                self._printed(root) and all((hub.seq or 0) <= FIRST_CALLS for hub in self._hubs)
            )
            return Moment(Phase.INIT, None, "during start-up") if starting else Moment(None, None, None)
        part = part_of_step(root)
        words = None if part is None else _PART_WORDS[part].replace("first ", "")
        return Moment(Phase.STEP, step, f"{words} after step {step}" if words else None)

    def _printed(self, root: Episode) -> bool:
        """Whether steps would have been seen: some rank's own lines are here, or the failed one's words."""
        return self._logged or any(fact.file_kind in _OF_RANKS for fact in root.facts)

    def _last_sign(self, root: Episode) -> tuple[Fact | None, bool]:
        """The last milestone before the episode, and whether a step was printed between the two.

        By time where the episode has one of its own; else by the lines above it in its own file.
        """
        own = next((fact for fact in root.facts if fact.aligned_ns is not None and not fact.inherited), None)
        onset = root.onset_ns if own is not None or root.began is not None else None
        if onset is not None:
            onset += 0 if own is None else int((own.granularity_ms + own.uncertainty_ms) * 1e6)
            index = bisect_right(self._timed, onset, key=lambda fact: fact.aligned_ns or 0)
            sign = self._timed[index - 1] if index else None
            steps = self._advance.first_seen
            at = bisect_right(steps, onset, key=lambda row: row[0])
            if not at or sign is None:
                return sign, False
            if sign.step is not None:
                return sign, self._highest[at - 1] > sign.step
            return sign, steps[at - 1][0] > (sign.aligned_ns or 0)
        found = self._of_file.get(root.head.file, [])
        index = bisect_left(found, root.head.line, key=lambda fact: fact.line)
        sign = found[index - 1] if index else None
        rows = self._advance.by_file.get(root.head.file, [])
        at = bisect_left(rows, root.head.line, key=lambda row: row[0])
        if sign is None and not rows:
            return None, False
        return sign, bool(at) and sign is not None and rows[at - 1][0] > sign.line


def _after(sign: Fact, root: Episode, step: int | None) -> Moment:
    """The run had come to this milestone and printed no step since."""
    ended = (
        sign.name == Context.EVALUATION and sign.step is not None
    )  # a result was printed; without one it had only begun
    if sign.name in (Context.CHECKPOINT_SAVED, Context.CHECKPOINT_LOADED) or ended:
        at = sign.step if sign.step is not None else step
        words = _PART_WORDS[part_of_step(root) or Part.STEP]
        return Moment(Phase.STEP, step, _at(f"{words} after {_ENDED[Context(sign.name)]}", at))
    phase = _OPEN[sign.name]
    match phase:
        case Phase.CHECKPOINT_SAVE:
            words = "while a checkpoint was being saved"
        case Phase.CHECKPOINT_LOAD:
            words = "while a checkpoint was being loaded"
        case Phase.EVALUATION:
            words = "during evaluation"
        case Phase.TEARDOWN:
            words = "after training had finished"
        case Phase.INIT | Phase.STEP:
            words = ""
        case _:
            assert_never(phase)
    return Moment(phase, step, _at(words, step))


def _at(words: str, step: int | None) -> str:
    return words if step is None else f"{words} at step {step}"


class Part(StrEnum):
    """A part of a training step."""

    STEP = "step"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    LOADING = "loading"
    FORWARD = "forward"


_PART_WORDS = {
    Part.STEP: "in the first step",
    Part.BACKWARD: "in the first backward",
    Part.OPTIMIZER: "in the first optimizer step",
    Part.LOADING: "while loading the first batch",
    Part.FORWARD: "in the first forward",
}
_PARTS = (
    (re.compile(r"\bbackward\b|autograd"), Part.BACKWARD),
    (re.compile(r"optim\w*\.py|\boptimizer\b"), Part.OPTIMIZER),
    (re.compile(r"dataloader|_next_data|collate"), Part.LOADING),
    (re.compile(r"\bin forward\b"), Part.FORWARD),
)


def part_of_step(root: Episode) -> Part | None:
    """The part of a step that the traceback of a raised error stands in, or None."""
    for fact in root.facts:
        if fact.exception_type is not None and fact.stack:
            return next((part for pattern, part in _PARTS if pattern.search(fact.stack)), None)
    return None
