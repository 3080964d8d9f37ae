"""Python tracebacks as values: blocks, frames, chains, groups, nested worker tracebacks (formats.md G1, G4, E3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

TRACEBACK_HEAD = re.compile(r"\s*(?:[+|] )?(?:Original |Exception Group )?Traceback \(most recent call last\):\s*$")
HEAD_AFTER_WORDS = re.compile(r"[A-Z][\w .]{0,80}: (Traceback \(most recent call last\):)\s*$")
"""`Scheduler hit an exception: Traceback ...`: a program that prints the traceback into its own sentence."""
DIRECT_CAUSE = "The above exception was the direct cause of the following exception:"
DURING_HANDLING = "During handling of the above exception, another exception occurred:"
FINAL_LINE = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,200}(?:\([\w.]{1,100}\))?)(?:: ?(?P<message>[^\n]*))?$")
_FRAME = re.compile(r'\s*(?:> )?File "(?P<path>[^"\n]{1,1000})", line (?P<line>\d{1,9})(?:, in (?P<function>[^\n]*))?')
_GROUP_RULE = re.compile(r"^ *[|+ ]*\+?-[-+]*(?:-{2,} ?(?:\d+|\.\.\.) ?-{2,}|-{4,})\s*$")
_LIBRARY_PATH = re.compile(
    r"site-packages/|dist-packages/|/lib/python\d|/lib64/python\d|^<|/torch/_|torch/(?:nn|distributed|utils|autograd)/"
)
_BUILTIN_TYPE = re.compile(r"[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Group)$")


class Relation(StrEnum):
    """How a block stands to the one printed after it."""

    CAUSE = "cause"  # direct cause of the next
    CONTEXT = "context"  # the next was raised while handling it
    WRAPPER = "wrapper"  # the next block is the original that this one carries (a worker's traceback)
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: file as printed, line, function."""

    path: str
    line: int
    function: str | None


@dataclass(slots=True)
class ExceptionBlock:
    """One exception of a traceback; `type` is empty where its final line is missing."""

    frames: list[Frame] = field(default_factory=list)
    type: str = ""
    lines: list[str] = field(default_factory=list)
    relation: Relation = Relation.LAST

    @property
    def message(self) -> str:
        """The message with its further lines, without empty lines at the end."""
        return "\n".join(self.lines).rstrip()

    @property
    def user_frame(self) -> Frame | None:
        """The innermost frame of the user's own code, else the innermost of all."""
        return innermost_user_frame(self.frames)

    @property
    def stack(self) -> str:
        """The frames as text, for signatures that ask for one."""
        return "\n".join(f'File "{frame.path}", line {frame.line}, in {frame.function or ""}' for frame in self.frames)


def innermost_user_frame(frames: Sequence[Frame]) -> Frame | None:
    """The last frame outside installed packages, torch and Python itself; else the last one; None for no frames."""
    own = (frame for frame in reversed(frames) if not _LIBRARY_PATH.search(frame.path))
    return next(own, frames[-1] if frames else None)


def parse_frame(text: str) -> Frame | None:
    """A `File "x", line N, in f` line, or None."""
    match = _FRAME.match(text)
    if match is None:
        return None
    function = match["function"]
    return Frame(match["path"], int(match["line"]), function.strip() if function else None)


def is_final(text: str) -> bool:
    """Whether an unindented line can be the `Type: message` line that ends a block."""
    match = FINAL_LINE.match(text)
    if match is None:
        return False
    name = match["type"].split("(")[0].rpartition(".")[2]
    return (
        bool(_BUILTIN_TYPE.match(name))
        or ("." in match["type"] and name[:1].isupper())
        or (name[:1].isupper() and match["message"] is None)
        or name in ("Empty", "Full", "error", "timeout", "gaierror", "herror")
    )


def parse_traceback(text: str) -> tuple[ExceptionBlock, ...]:
    """The blocks of a whole traceback text, as error.json or a ChildFailedError row holds it."""
    return parse_exceptions(text.split("\n"))


def parse_exceptions(messages: Sequence[str]) -> tuple[ExceptionBlock, ...]:
    """The blocks of a traceback's lines in printed order; group bars are taken off. Never raises."""
    blocks: list[ExceptionBlock] = []
    current: ExceptionBlock | None = None
    grouped = any("Exception Group Traceback" in message for message in messages[:3])
    if messages and (head := HEAD_AFTER_WORDS.match(messages[0])):
        messages = [head[1], *messages[1:]]
    for message in messages:
        text = _ungroup(message) if grouped else message
        bare = text.strip()
        if TRACEBACK_HEAD.match(text) or (current and current.type and _nested_frames(current, text)):
            if current is not None and current.relation is Relation.LAST and current.type:
                current.relation = Relation.WRAPPER
            current = ExceptionBlock()
            blocks.append(current)
            if frame := parse_frame(text):
                current.frames.append(frame)
        elif current is None:
            if is_final(bare):  # no head was kept: the final line alone
                current = _finish(ExceptionBlock(), bare)
                blocks.append(current)
        elif bare in (DIRECT_CAUSE, DURING_HANDLING):
            current.relation = Relation.CAUSE if bare == DIRECT_CAUSE else Relation.CONTEXT
        elif not current.type:
            if frame := parse_frame(text):
                current.frames.append(frame)
            elif bare and text[:1] not in " \t" and is_final(bare):
                _finish(current, bare)
        elif current.relation is Relation.LAST:
            current.lines.append(text)
    return tuple(blocks)


def decisive_order(blocks: Sequence[ExceptionBlock]) -> tuple[ExceptionBlock, ...]:
    """The blocks with the origin first: a wrapped original before its wrapper, a cause before what it caused."""
    ordered: list[ExceptionBlock] = []
    wrappers: list[ExceptionBlock] = []
    for block in blocks:
        if not block.type:
            continue
        if block.relation is Relation.WRAPPER:
            wrappers.append(block)
            continue
        ordered += [block, *reversed(wrappers)]
        wrappers.clear()
    return (*ordered, *reversed(wrappers))


def _nested_frames(current: ExceptionBlock, text: str) -> bool:
    """Ray prints a remote traceback's frames straight behind its own final line, without a head."""
    return "RayTaskError" in current.type and current.relation is Relation.LAST and parse_frame(text) is not None


def _finish(block: ExceptionBlock, text: str) -> ExceptionBlock:
    match = FINAL_LINE.match(text)
    if match is not None:
        block.type = match["type"]
        block.lines.append(match["message"] or "")
    return block


def _ungroup(message: str) -> str:
    if _GROUP_RULE.match(message):
        return ""
    return re.sub(r"^(?: *[|+])+ ?", "", message)
