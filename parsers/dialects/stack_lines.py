"""Stacks printed into a log: that of a failed collective (c10d), and faulthandler's timeout dump (formats.md A12, G2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.c10d_watchdog import grouped
from correlator.parsers.dialects.support import with_attributes
from correlator.parsers.thread_stacks import StackFrame, WaitsOn, parse_threads, user_frame, waits_on

_PYTHON_FRAME = re.compile(r"#\d{1,4} (.{1,500}?) from (.{1,1000}):(\d{1,9})$")


def _failed_collective(hit: Hit) -> Iterable[Event]:
    """Where in the user's code the collective that failed was called; the process waits in it."""
    lines = hit.record.messages[1:] if hit.record else ()
    found = (match for match in map(_PYTHON_FRAME.match, lines) if match)
    frames = [StackFrame(match[1], match[2], int(match[3])) for match in found]
    if frames:
        yield grouped(_placed(hit, frames, WaitsOn.COLLECTIVE, main=None), hit)


def _timeout_dump(hit: Hit) -> Iterable[Event]:
    """The main thread of the process; it is alive, the dump is a timer's."""
    lines = hit.record.messages[1:] if hit.record else ()
    threads = [thread for thread in parse_threads("\n".join(lines)) if thread.frames]
    for thread in threads:
        if thread.main or len(threads) == 1:
            yield _placed(hit, thread.frames, waits_on(thread.frames), main=thread.main)
            return


def _placed(hit: Hit, frames: Sequence[StackFrame], waiting: WaitsOn, *, main: bool | None) -> Event:
    frame = user_frame(frames)
    event = hit.make(
        code_file_path=frame.path if frame else None,
        code_line_number=frame.line if frame else None,
        body=f"{frames[0].function} ({frames[0].path}:{frames[0].line})",
        attributes=(),
    )
    place = f"{frame.path}:{frame.line} {frame.function}" if frame else None
    return with_attributes(event, waits_on=waiting.value, user_frame=place, main=main)


DIALECT = Dialect(
    name="stack_lines",
    title="Stacks of waiting threads inside logs",
    source="formats.md A12, G2",
    patterns=(
        LinePattern(
            id="c10d.failed_collective_stack",
            event_name=Context.THREAD_STACK,
            regex=r"Stack trace of the failed collective:",
            samples=(
                "[rank3]:[E1130 01:12:03.123456789 ProcessGroupNCCL.cpp:726] Stack trace of the failed collective: ",
            ),
            lookalikes=(
                "[rank3]:[E1130 01:12:03.223556789 ProcessGroupNCCL.cpp:670] Stack trace of the failed collective not found, "
                "potentially because FlightRecorder is disabled.",
            ),
            record="c10d_block",
            source="formats.md A12",
            build=_failed_collective,
        ),
        LinePattern(
            id="faulthandler.timeout",
            event_name=Context.THREAD_STACK,
            regex=r"Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!",
            samples=("Timeout (0:05:00)!", "[default3]:Timeout (0:00:10.500000)!"),
            lookalikes=("Timeout (600 s)!",),
            record="faulthandler",
            source="formats.md G2",
            build=_timeout_dump,
        ),
    ),
)
