"""error.json, which torchelastic's `@record` writes in the moment a worker dies of an exception (formats.md B4).

Its stamp is an epoch second without zone: one of the best clocks of a run. The file names no rank; its path does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from correlator.core.event import Event
from correlator.core.vocabulary import Context, Role, Severity, TimeSource
from correlator.parsers.base import FileContext
from correlator.parsers.classify import Classification, classify_exception, decide
from correlator.parsers.dialects.support import with_attributes
from correlator.parsers.exceptions import innermost_user_frame, parse_traceback
from correlator.parsers.templates import with_template

DIALECT = "error_file"
MAX_BYTES = 16 << 20
_MAX_BODY = 4_096
_EPOCH_SECONDS = range(10**8, 4 * 10**9)  # 1973 to 2096


@dataclass(frozen=True, slots=True)
class _Report:
    """What the file says, whichever of its shapes it has."""

    message: str
    callstack: str
    seconds: int | None
    error_code: int | None


def parse_error_file(data: bytes, context: FileContext) -> list[Event]:
    """One event: the classified exception, or `error_file` with the reason why there is none. Never raises."""
    report, reason = _read(data)
    if report is None:
        event = _base(context, Classification(Context.ERROR_FILE, Role.CONTEXT, f"{DIALECT}.unreadable"), None, reason)
        return [with_attributes(event, reason=reason)]
    return [_classified(report, context)]


def _read(data: bytes) -> tuple[_Report | None, str]:
    if not data.strip(b"\0 \r\n\t"):
        return None, "empty file"
    if len(data) > MAX_BYTES:
        return None, f"larger than {MAX_BYTES >> 20} MiB"
    try:
        value = json.loads(data.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return None, "not JSON, or cut off"
    report = _report(value) if isinstance(value, dict) else None
    return report, "" if report else "no message in it"


def _report(value: Mapping[Any, Any]) -> _Report | None:
    """Nested: `message.message` and `message.extraInfo`; flat: `message` is the text itself."""
    inner = value.get("message")
    if isinstance(inner, dict):
        extra = inner.get("extraInfo")
        extra = extra if isinstance(extra, dict) else {}
        text, code = inner.get("message"), inner.get("errorCode")
    else:
        extra, text, code = value, inner, value.get("errorCode")
    callstack = extra.get("py_callstack")
    callstack = callstack if isinstance(callstack, str) else ""
    text = text if isinstance(text, str) else ""
    if not text.strip() and not callstack.strip():
        return None
    return _Report(_whole(text), _whole(callstack), _seconds(extra.get("timestamp")), _small(code))


def _whole(text: str) -> str:
    """Without lone surrogates, which no column can hold."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _seconds(value: Any) -> int | None:
    number = _small(value, limit=1 << 40)
    return number if number is not None and number in _EPOCH_SECONDS else None


def _small(value: Any, limit: int = 1 << 31) -> int | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = int(float(value)) if len(str(value)) <= 32 else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and -limit <= number < limit else None


def _classified(report: _Report, context: FileContext) -> Event:
    blocks = parse_traceback(report.callstack)
    decision = decide(blocks)
    if decision is not None:
        kind, message, meaning = decision.block.type, decision.block.message, decision.classification
        # The origin may have been raised and caught inside a library; the user's code is then in the last block.
        frame = innermost_user_frame([*blocks[-1].frames, *decision.block.frames])
    else:
        kind, message = _split(report.message)
        meaning, frame = classify_exception(kind, message, report.callstack or None), None
    event = replace(
        _base(context, meaning, report.seconds, report.message or f"{kind}: {message}"),
        exception_type=kind,
        exception_message=message or None,
        exception_stacktrace=report.callstack or None,
        code_file_path=frame.path if frame else None,
        code_line_number=frame.line if frame else None,
    )
    return with_template(with_attributes(event, error_code=report.error_code))


def _split(message: str) -> tuple[str, str]:
    """`RuntimeError: boom` -> its class and the rest; text without a class is an Exception's."""
    kind, colon, rest = message.partition(":")
    if colon and kind.replace(".", "").replace("_", "").isalnum() and kind[:1].isalpha():
        return kind, rest.strip()
    return "Exception", message.strip()


def _base(context: FileContext, meaning: Classification, seconds: int | None, body: str) -> Event:
    hints = context.hints
    return Event(
        event_name=meaning.event_name,
        role=meaning.role,
        signature=meaning.signature,
        dialect=DIALECT,
        line_number=1,
        byte_offset=0,
        timestamp_ns=seconds * 10**9 if seconds is not None else None,
        time_source=TimeSource.EXPLICIT if seconds is not None else TimeSource.NONE,
        time_granularity_ms=1000.0 if seconds is not None else None,
        time_zone="Z" if seconds is not None else None,
        severity=Severity.ERROR,
        body=body.split("\n", 1)[0][:_MAX_BODY],
        rank=hints.rank,
        local_rank=hints.local_rank,
        attempt=hints.attempt,
    )
