"""Stack dumps of live processes: py-spy's text and faulthandler's `dump_traceback_later` (formats.md G2).

They show what a hung rank waits for. They carry no time; the rank is in the file's name, the pid in the text.
"""

from __future__ import annotations

from correlator.core.event import Event
from correlator.core.vocabulary import Context, Role
from correlator.parsers.base import FileContext
from correlator.parsers.dialects.support import with_attributes
from correlator.parsers.thread_stacks import Thread, WaitsOn, parse_threads, user_frame, waits_on

DIALECT = "stack_dump"
MAX_BYTES = 32 << 20
_TELLING = frozenset({WaitsOn.COLLECTIVE, WaitsOn.FILE_LOCK, WaitsOn.COMPILE, WaitsOn.CHECKPOINT_WRITE})
"""What another thread than the main one must do to be worth an event; loaders and queues always wait."""


def parse_stack_dump(data: bytes, context: FileContext) -> list[Event]:
    """A `thread_stack` for the main thread of each process, and for others that do something telling. Never raises."""
    text = data[:MAX_BYTES].decode("utf-8", errors="replace")
    threads = [thread for thread in parse_threads(text) if thread.frames]
    return [
        _event(thread, context)
        for thread in threads
        if thread.main or len(threads) == 1 or waits_on(thread.frames) in _TELLING
    ]


def _event(thread: Thread, context: FileContext) -> Event:
    frame, waiting = user_frame(thread.frames), waits_on(thread.frames)
    shown = frame or thread.frames[0]
    place = f"{frame.path}:{frame.line} {frame.function}" if frame else None
    event = Event(
        event_name=Context.THREAD_STACK,
        role=Role.CONTEXT,
        signature=f"{DIALECT}.thread",
        dialect=DIALECT,
        line_number=thread.line_number,
        byte_offset=thread.byte_offset,
        body_line_number=shown.printed_line,
        line_count=thread.line_count,
        body=f"{shown.function} ({shown.path}:{shown.line})",
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
