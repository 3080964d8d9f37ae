"""error.json in both shapes, broken and hostile."""

from __future__ import annotations

import json

import pytest

from correlator.core.event import Event
from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import Context, FaultCode, FileKind, Role
from correlator.parsers.base import FileContext
from correlator.parsers.dumps.error_file import parse_error_file

STACK = (
    'Traceback (most recent call last):\n  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/elastic/x.py", line 355, in wrapper\n'
    "    return f(*args)\n  File \"/workspace/train.py\", line 41, in step\n    x[key]\nKeyError: 'mixed'\n"
)


def parse(value: object) -> Event:
    hints = FileHints(local_rank=3, attempt=1)
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    events = parse_error_file(data, FileContext("logs/3/error.json", FileKind.ERROR_FILE, hints, RunHints()))
    assert len(events) == 1
    return events[0]


def test_the_nested_shape_is_a_classified_exception_at_an_epoch_second() -> None:
    extra = {"py_callstack": STACK, "timestamp": "1764464523"}
    event = parse({"message": {"message": "KeyError: 'mixed'", "extraInfo": extra, "errorCode": 1}})
    assert event.role is Role.INITIATING
    assert (event.exception_type, event.exception_message) == ("KeyError", "'mixed'")
    assert (event.timestamp_ns, event.time_granularity_ms, event.time_zone) == (1_764_464_523 * 10**9, 1000.0, "Z")
    assert (event.code_file_path, event.code_line_number) == ("/workspace/train.py", 41)
    assert (event.local_rank, event.attempt, event.line_number) == (3, 1, 1)
    assert event.attribute("error_code") == "1"


def test_the_flat_shape() -> None:
    event = parse({"message": "RuntimeError: boom: twice", "timestamp": 1764464523})
    assert (event.event_name, event.exception_type) == (FaultCode.PYTHON_EXCEPTION, "RuntimeError")
    assert (event.exception_message, event.timestamp_ns) == ("boom: twice", 1_764_464_523 * 10**9)


def test_a_message_without_a_class_is_an_exception() -> None:
    event = parse({"message": "the disk said: no"})
    assert (event.exception_type, event.exception_message) == ("Exception", "the disk said: no")
    assert event.timestamp_ns is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0\0",
        b'{"message": {"mess',
        b"[1, 2]",
        {"message": None},
        {"other": 1},
        {"message": {"extraInfo": 3}},
        b"[" * 200_000,
    ],
)
def test_an_unreadable_file_says_so(value: object) -> None:
    event = parse(value)
    assert (event.event_name, event.role) == (Context.ERROR_FILE, Role.CONTEXT)
    assert event.attribute("reason")


@pytest.mark.parametrize("stamp", ["", "soon", "9" * 400, -5, True, [1], 1e300, "nan"])
def test_an_absurd_stamp_is_no_time(stamp: object) -> None:
    assert parse({"message": "RuntimeError: boom", "timestamp": stamp}).timestamp_ns is None


def test_lone_surrogates_are_replaced() -> None:
    event = parse(b'{"message": "RuntimeError: \\ud83c boom"}')
    assert (event.exception_message or "").encode("utf-8").endswith(b" boom")
