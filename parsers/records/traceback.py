"""Python tracebacks: chains, groups, notes, long messages, rank-prefixed, interleaved (formats.md A5, A9, A10, G1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import TYPE_CHECKING

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Context, Role
from correlator.parsers.base import Hit, Layer, Line, Record
from correlator.parsers.classify import FALLBACK, Decision, decide
from correlator.parsers.exceptions import (
    DIRECT_CAUSE,
    DURING_HANDLING,
    TRACEBACK_HEAD,
    is_final,
    parse_exceptions,
    parse_frame,
)
from correlator.parsers.groups import named_peer, read_groups
from correlator.parsers.records.window import Stitcher, Verdict, Window, collect, voice

if TYPE_CHECKING:
    from correlator.parsers.table import PatternTable

MAX_STACKTRACE = 16_384
UNFINISHED = "python.traceback_without_end"
_PART_OF_MESSAGE = frozenset({"exception_text", "ray_actor", "traceback"})
"""Records that a final line may also begin; inside a traceback they are its message."""
_CONTINUATION = re.compile(
    r"(?:CUDA|HIP) kernel errors might|For debugging consider|Compile with `|Search for `|Device-side assert"
    r"|nccl[A-Z]\w+: |Last error:|Unknown NCCL error|Exception raised from |frame #\d|<omitting python frames>"
    r"|C\+\+ CapturedTraceback:|#\d+ |The actor |Original exception:|\[?/?[\w./-]*gloo/|\(raised from |See inner"
    r" exception"
    r'|"""$|-- Process \d|Original Traceback|Error\(s\) in loading|\* |- '
)
_LOST_PEER = frozenset({CollateralKind.REMOTE_PEER_LOST, CollateralKind.STORE_LOST})
_TORN_BAR = re.compile(r"\s*(?:\w[\w ]{0,30}:?\s*)?\d{1,3}%\|")


class _Phase(Enum):
    PREFACE = auto()  # `Exception in thread ..:` before the head
    FRAMES = auto()
    MESSAGE = auto()
    CHAIN = auto()  # a chain marker was read: the next block must follow


class _Reader:
    """Decides line by line what belongs to the traceback."""

    def __init__(self, head: Line, window: Window, phase: _Phase) -> None:
        self._head = head
        self._window = window
        self._voice = voice(head)
        self._grouped = "Exception Group" in head.message
        self._prefixed = Layer.RANK in head.prefix.layers and not self._voice
        self._phase = phase
        self._gap = False
        self._after_label = False
        self._names_error = False
        self._type = head.message[:200] if phase is _Phase.MESSAGE else ""

    def __call__(self, line: Line) -> Verdict:
        text = line.message
        if not text.strip():
            self._gap = True
            return Verdict.HOLD
        verdict = self._foreign(line) or self._own(text.lstrip(" |+") if self._grouped else text, text)
        if verdict is Verdict.TAKE:
            self._gap = False
        return verdict

    def _foreign(self, line: Line) -> Verdict | None:
        """SKIP or STOP for a line that speaks with a voice of its own or begins another record; None for ours."""
        open_ = self._phase in (_Phase.FRAMES, _Phase.CHAIN)
        if voice(line) - self._voice:
            return Verdict.SKIP if open_ else Verdict.STOP
        kind = self._window.begins(line)
        if kind == "child_failed":
            return Verdict.STOP
        if kind and kind not in _PART_OF_MESSAGE:
            return Verdict.SKIP if open_ else Verdict.STOP
        return None

    def _own(self, text: str, raw: str) -> Verdict:
        if TRACEBACK_HEAD.match(raw) or TRACEBACK_HEAD.match(text):
            return self._new_block(raw)
        match self._phase:
            case _Phase.PREFACE:
                return Verdict.STOP
            case _Phase.CHAIN:
                return Verdict.STOP
            case _Phase.FRAMES:
                return self._frame(text, raw)
            case _Phase.MESSAGE:
                return self._continuation(text, raw)

    def _new_block(self, raw: str) -> Verdict:
        nested = "Original Traceback" in raw or self._after_label or self._grouped or "RayTaskError" in self._type
        if self._phase is _Phase.FRAMES or (self._phase is _Phase.MESSAGE and not nested):
            return Verdict.STOP
        self._phase = _Phase.FRAMES
        return Verdict.TAKE

    def _frame(self, text: str, raw: str) -> Verdict:
        if text[:1] in " \t" or parse_frame(text):
            return Verdict.SKIP if _TORN_BAR.match(text) else Verdict.TAKE
        if is_final(text) or (self._grouped and raw[:1] in " |+"):
            if is_final(text):
                self._phase, self._type = _Phase.MESSAGE, text[:200]
            return Verdict.TAKE
        return Verdict.SKIP

    def _continuation(self, text: str, raw: str) -> Verdict:
        marker = text.strip()
        if marker in (DIRECT_CAUSE, DURING_HANDLING):
            self._phase = _Phase.CHAIN
            return Verdict.TAKE
        named_error, self._names_error = self._names_error, marker == "Last error:"
        self._after_label = marker == '"""' or marker.startswith("-- Process ")
        if self._grouped and raw.lstrip(" ")[:1] in ("|", "+"):
            return Verdict.TAKE
        if parse_frame(text) and "RayTaskError" in self._type:
            self._phase = _Phase.FRAMES
            return Verdict.TAKE
        if _CONTINUATION.match(text) or self._after_label:
            return Verdict.TAKE
        if self._gap:
            return Verdict.STOP
        if self._prefixed or named_error or ((text[:1] == "\t" or text[:2] == "  ") and not _TORN_BAR.match(text)):
            return Verdict.TAKE
        return Verdict.STOP


def _collect(head: Line, window: Window) -> Record:
    phase = _Phase.FRAMES if TRACEBACK_HEAD.search(head.message) else _Phase.PREFACE
    return collect("traceback", head, window, _Reader(head, window, phase))


def _collect_text(head: Line, window: Window) -> Record:
    """The final line of an exception whose frames were lost or never printed, and the lines that its message goes on."""
    return collect("exception_text", head, window, _Reader(head, window, _Phase.MESSAGE))


def stack_text(record: Record) -> str:
    """The record as text, bounded: the head and the end are what people need."""
    text = "\n".join(record.messages)
    if len(text) <= MAX_STACKTRACE:
        return text
    half = MAX_STACKTRACE // 2
    return f"{text[:half]}\n...\n{text[-half:]}"


def _describe(hit: Hit, table: PatternTable) -> Iterable[Event]:
    record = hit.record
    if record is None:
        return [hit.make()]
    blocks = parse_exceptions(record.messages)
    decision = decide(blocks, table)
    if decision is None:
        frame = blocks[-1].user_frame if blocks else None
        return [
            hit.make(
                event_name=Context.MESSAGE,
                role=Role.CONTEXT,
                signature=UNFINISHED,
                exception_stacktrace=stack_text(record),
                code_file_path=frame.path if frame else None,
                code_line_number=frame.line if frame else None,
                line_count=len(record.lines),
            )
        ]
    return [exception_event(hit, decision, record)]


def exception_event(hit: Hit, decision: Decision, record: Record) -> Event:
    """The event of a classified traceback: at its head, with the words of the block that began it."""
    block, meaning = decision.block, decision.classification
    frame = block.user_frame
    ignored = record.lines[0].message.startswith("Exception ignored in")
    first_line = block.message.partition("\n")[0]
    fields, attributes = read_groups(meaning.match) if meaning.match is not None else ({}, ())
    if not any(name == "peer" for name, _ in attributes) and meaning.event_name in _LOST_PEER:
        attributes += named_peer(block.message)
    facts = {
        "event_name": Context.MESSAGE if ignored else meaning.event_name,
        "role": Role.CONTEXT if ignored else meaning.role,
        "signature": meaning.signature,
        "line_count": len(record.lines),
        "body": f"{block.type}: {first_line}" if first_line else block.type,
        "exception_type": block.type,
        "exception_message": block.message,
        "exception_stacktrace": stack_text(record) if len(record.lines) > 1 else None,
        "code_file_path": frame.path if frame else None,
        "code_line_number": frame.line if frame else None,
        "attributes": attributes,
    }
    return hit.make(**(fields | facts))


def _describe_text(hit: Hit, table: PatternTable) -> Iterable[Event]:
    """A final line alone: what its signature says, or what its further lines say better."""
    record = hit.record
    decision = decide(parse_exceptions(record.messages), table) if record is not None else None
    if record is None or decision is None:
        return [hit.make()]
    if decision.classification.signature == FALLBACK and record.lines[0].message.startswith(decision.block.type):
        return [hit.make(line_count=len(record.lines))]
    return [exception_event(hit, decision, record)]


STITCHER = Stitcher("traceback", _collect, _describe)
EXCEPTION_TEXT = Stitcher("exception_text", _collect_text, _describe_text)
