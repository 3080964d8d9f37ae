"""Reports of launchers: ChildFailedError tables, rendezvous results, mpirun blocks (formats.md B2, B3, E3, E5)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from correlator.core.event import Event
from correlator.core.vocabulary import Context, Role
from correlator.parsers.base import Line, Record
from correlator.parsers.classify import classify_exception
from correlator.parsers.exceptions import innermost_user_frame, parse_frame
from correlator.parsers.records.window import Stitcher, Verdict, Window, carrier, collect, voice

if TYPE_CHECKING:
    from correlator.parsers.table import PatternTable

_BORDER = re.compile(r"\s*(={10,})\s*$")
_RESULT_KEY = re.compile(r"\s+\w+=")
_DASHES = re.compile(r"-{20,}\s*$")
_ACTOR_FACT = re.compile(r"\s+(pid|ip): ([\w.:]{1,64})\s*$")
_TASK_FACTS = re.compile(r"ray::[^\n]*?\(pid=(\d{1,9})(?:, ip=([\w.:]{2,64}))?")
_RAY_WORDS = ("ray::", "ActorDiedError", "RayActorError", "ActorUnavailableError")
_SIGNAL_LINE = re.compile(
    r"\[[\w.-]+:\d+\] |\*\*\* End of error message \*\*\*|==== backtrace|[ \t]*\d{1,3}[ \t]+/|[ \t]*\d{1,3}[ \t]+0x"
)


class _ChildFailed:
    """The table between two rows of `=`; it ends with the second one."""

    def __init__(self, head: Line) -> None:
        self._voice = voice(head)
        self._borders = 0

    def __call__(self, line: Line) -> Verdict:
        if voice(line) - self._voice:
            return Verdict.SKIP if self._borders else Verdict.STOP
        if _BORDER.match(line.message):
            self._borders += 1
            return Verdict.LAST if self._borders == 2 else Verdict.TAKE
        return Verdict.TAKE if self._borders or not line.message.strip() else Verdict.STOP


def _collect_child_failed(head: Line, window: Window) -> Record:
    return collect("child_failed", head, window, _ChildFailed(head))


def classified_rows(rows: Iterable[Event], table: PatternTable) -> Iterator[Event]:
    """The rows, and behind each one with a traceback the fault or collateral that its exception is."""
    for row in rows:
        yield row
        if row.event_name != Context.CHILD_FAILED_ROW or not row.exception_type:
            continue
        stack = row.exception_stacktrace
        meaning = classify_exception(row.exception_type, row.exception_message or "", stack, table)
        frames = [frame for line in (stack or "").split("\n") if (frame := parse_frame(line))]
        frame = innermost_user_frame(frames)
        yield replace(
            row,
            event_name=meaning.event_name,
            role=meaning.role,
            signature=meaning.signature,
            body=f"{row.exception_type}: {row.exception_message}" if row.exception_message else row.exception_type,
            code_file_path=frame.path if frame else None,
            code_line_number=frame.line if frame else None,
            line_count=1,
        )


def _rendezvous(head: Line, window: Window) -> Record:
    own = voice(head)

    def take(line: Line) -> Verdict:
        return Verdict.TAKE if voice(line) <= own and _RESULT_KEY.match(line.message) else Verdict.STOP

    return collect("rendezvous_result", head, window, take)


def _mpi_block(head: Line, window: Window) -> Record:
    """Up to the row of dashes (or, for MPICH, of `=`) that closes it."""

    def take(line: Line) -> Verdict:
        text = line.message
        if _DASHES.match(text) or _BORDER.match(text):
            return Verdict.LAST
        return Verdict.STOP if voice(line) or window.begins(line) is not None else Verdict.TAKE

    return _short(collect("mpi_block", head, window, take, key=carrier))


def _short(record: Record, limit: int = 40) -> Record:
    """A block that never closed is only its head: its lines may be anybody's."""
    return record if len(record.lines) <= limit else replace(record, lines=record.lines[:1])


def _signal_block(head: Line, window: Window) -> Record:
    """Open MPI's `*** Process received signal ***` to `*** End of error message ***`."""

    def take(line: Line) -> Verdict:
        if "*** End of error message ***" in line.message or _BORDER.match(line.message):
            return Verdict.LAST
        return Verdict.TAKE if _SIGNAL_LINE.match(line.message) else Verdict.STOP

    return collect("signal_block", head, window, take, key=carrier)


def _ray_actor(head: Line, window: Window) -> Record:
    """The tab-indented facts of a dead actor and the sentence after them (formats.md E3)."""

    def take(line: Line) -> Verdict:
        text = line.message
        if voice(line) - voice(head):
            return Verdict.STOP
        return Verdict.TAKE if text[:1] == "\t" or text[:4] == "    " or text.startswith("The actor ") else Verdict.STOP

    return collect("ray_actor", head, window, take)


def speaks_of_ray(record: Record) -> bool:
    """Whether a record names a Ray actor or task, and with it a process on some node."""
    return any(word in line.message for line in record.lines for word in _RAY_WORDS)


def with_ray_facts(events: Iterable[Event], record: Record) -> Iterator[Event]:
    """The events with the pid and address of the actor or task that failed, in whatever form the record has them.

    They name the victim; the pid of the line's prefix is that of the process which was told.
    """
    facts: dict[str, str] = {}
    for line in record.lines:
        if match := _ACTOR_FACT.match(line.message):
            facts.setdefault(match[1], match[2])
        elif match := _TASK_FACTS.search(line.message):
            facts.setdefault("pid", match[1])
            facts.setdefault("ip", match[2] or "")
    pid, ip = facts.get("pid", ""), facts.get("ip")
    for event in events:
        if event.role is Role.CONTEXT:
            yield event
            continue
        placed = replace(event, process_pid=int(pid[:18])) if pid.isascii() and pid.isdigit() else event
        if ip:
            others = tuple(pair for pair in placed.attributes if pair[0] != "ip")
            placed = replace(placed, attributes=(*others, ("ip", ip)))
        yield placed


CHILD_FAILED = Stitcher("child_failed", _collect_child_failed)
RENDEZVOUS_RESULT = Stitcher("rendezvous_result", _rendezvous)
MPI_BLOCK = Stitcher("mpi_block", _mpi_block)
SIGNAL_BLOCK = Stitcher("signal_block", _signal_block)
RAY_ACTOR = Stitcher("ray_actor", _ray_actor)
