"""Stack dumps of live processes: py-spy's text and faulthandler's `dump_traceback_later` (formats.md G2).

They show what a hung rank waits for. They carry no time; the rank is in the file's name, the pid in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from correlator.core.event import Event
from correlator.core.vocabulary import Context, Role
from correlator.parsers.base import FileContext
from correlator.parsers.dialects.support import with_attributes
from correlator.parsers.dumps.stack_frames import StackFrame, WaitsOn, user_frame, waits_on

DIALECT = "stack_dump"
MAX_BYTES = 32 << 20
_MAX_THREADS = 4_096
_PROCESS = re.compile(r"Process (\d{1,9}): (.*)$")
_PY_SPY_THREAD = re.compile(r'Thread (?:0x)?([0-9A-Fa-f]{1,20}) \(([^)]{1,40})\)(?:: "(.{0,200})")?')
_FAULT_THREAD = re.compile(r"(Current thread|Thread) (0x[0-9a-fA-F]{1,16})(?: \[([^\]]{0,200})\])? \(most recent call first\):")
_PY_SPY_FRAME = re.compile(r"(.{1,500}?) \(([^()]{1,1000}?)(?::(\d{1,9}))?\)$")
_FAULT_FRAME = re.compile(r'File "([^"]{1,1000})", line (\d{1,9}) in (.{0,500})$')
_WORKER_FUNCTIONS = frozenset({"_worker_loop", "_bootstrap", "_bootstrap_inner", "_pin_memory_loop"})
_TELLING = frozenset({WaitsOn.COLLECTIVE, WaitsOn.FILE_LOCK, WaitsOn.COMPILE, WaitsOn.CHECKPOINT_WRITE})
"""What another thread than the main one must do to be worth an event; loaders and queues always wait."""


@dataclass(slots=True)
class _Thread:
    line_number: int
    byte_offset: int
    pid: int | None
    name: str | None
    state: str | None
    current: bool = False
    line_count: int = 1
    frames: list[StackFrame] = field(default_factory=list)

    @property
    def main(self) -> bool:
        """py-spy names it; in faulthandler's dump it is the one that began at module level."""
        inner = {frame.function for frame in self.frames}
        if inner & _WORKER_FUNCTIONS:
            return False
        return self.name == "MainThread" or (bool(self.frames) and self.frames[-1].function == "<module>")


def parse_stack_dump(data: bytes, context: FileContext) -> list[Event]:
    """A `thread_stack` for the main thread of each process, and for other threads that do something telling. Never raises."""
    text = data[:MAX_BYTES].decode("utf-8", errors="replace")
    threads = [thread for thread in _threads(text) if thread.frames]
    return [
        _event(thread, context)
        for thread in threads
        if thread.main or len(threads) == 1 or waits_on(thread.frames) in _TELLING
    ]


def _threads(text: str) -> Iterator[_Thread]:
    pid: int | None = None
    thread: _Thread | None = None
    offset = 0
    count = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip()
        if match := _PROCESS.match(line):
            pid = int(match[1])
        elif begun := _begin(line, number, offset, pid):
            if thread is not None:
                yield thread
            thread, count = begun, count + 1
            if count > _MAX_THREADS:
                return
        elif thread is not None and (frame := _frame(line)) is not None:
            thread.frames.append(frame)
            thread.line_count += 1
        offset += len(raw.encode("utf-8", errors="replace")) + 1
    if thread is not None:
        yield thread


def _begin(line: str, number: int, offset: int, pid: int | None) -> _Thread | None:
    if match := _FAULT_THREAD.match(line):
        return _Thread(number, offset, pid, match[3], None, current=match[1] == "Current thread")
    if match := _PY_SPY_THREAD.match(line):
        return _Thread(number, offset, pid, match[3], match[2])
    return None


def _frame(line: str) -> StackFrame | None:
    text = line.strip()
    if line[:1] not in " \t" or not text:
        return None
    if match := _FAULT_FRAME.match(text):
        return StackFrame(match[3], match[1], int(match[2]))
    if match := _PY_SPY_FRAME.match(text):
        return StackFrame(match[1], match[2], int(match[3]) if match[3] else None)
    return None


def _event(thread: _Thread, context: FileContext) -> Event:
    frame, waiting = user_frame(thread.frames), waits_on(thread.frames)
    innermost = thread.frames[0]
    place = f"{frame.path}:{frame.line} {frame.function}" if frame else None
    event = Event(
        event_name=Context.THREAD_STACK,
        role=Role.CONTEXT,
        signature=f"{DIALECT}.thread",
        dialect=DIALECT,
        line_number=thread.line_number,
        byte_offset=thread.byte_offset,
        line_count=thread.line_count,
        body=f"{thread.name or 'thread'} in {innermost.function} ({innermost.path})",
        rank=context.hints.rank,
        local_rank=context.hints.local_rank,
        process_pid=thread.pid if thread.pid is not None else context.hints.pid,
        code_file_path=frame.path if frame else None,
        code_line_number=frame.line if frame else None,
    )
    return with_attributes(
        event,
        waits_on=waiting.value,
        user_frame=place,
        thread=thread.name,
        main=thread.main,
        state=thread.state,
    )
