"""What exceptions mean: type and message by the catalogue, the stack where a signature asks for it, the chain's origin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.core.catalogue.model import Signature
from correlator.core.vocabulary import CollateralKind, FaultCode, Role
from correlator.parsers.classify import FALLBACK, classify_exception, decide
from correlator.parsers.exceptions import Relation, innermost_user_frame, parse_exceptions, parse_traceback
from correlator.parsers.table import build_table


def signature(code: str, pattern: str, **facts: object) -> Signature:
    """A signature of a test."""
    role = facts.pop("role", Role.INITIATING)
    return Signature(f"{code}.t", code, role, pattern, (), (), **facts)  # type: ignore[arg-type]


TABLE = build_table(
    (),
    (
        signature("cuda_oom", r"OutOfMemoryError: CUDA out of memory"),
        signature("data_error", r"KeyError: ", stack=r"dataset\.py"),
        signature("remote_peer_lost", r"DistBackendError: ", role=Role.COLLATERAL),
        signature("disk_full", r"No space left", anchor="anywhere"),
    ),
)


@pytest.mark.parametrize(
    ("kind", "message", "stack", "code", "role"),
    [
        ("torch.OutOfMemoryError", "CUDA out of memory. Tried", None, FaultCode.CUDA_OOM, Role.INITIATING),
        ("torch.distributed.DistBackendError", "NCCL", None, CollateralKind.REMOTE_PEER_LOST, Role.COLLATERAL),
        ("OSError", "[Errno 28] No space left on device", None, FaultCode.DISK_FULL, Role.INITIATING),
        ("KeyError", "'x'", 'File "/w/dataset.py", line 1', FaultCode.DATA_ERROR, Role.INITIATING),
        ("KeyError", "'x'", 'File "/w/train.py", line 1', FaultCode.PYTHON_EXCEPTION, Role.INITIATING),
        ("KeyboardInterrupt", "", None, CollateralKind.TERMINATED_BY_LAUNCHER, Role.COLLATERAL),
        (
            "a.b.SignalException",
            "Process 1 got signal: 15",
            None,
            CollateralKind.TERMINATED_BY_LAUNCHER,
            Role.COLLATERAL,
        ),
        ("mylib.Odd", "x", None, FaultCode.PYTHON_EXCEPTION, Role.INITIATING),
    ],
)
def test_an_exception_has_its_meaning(kind: str, message: str, stack: str | None, code: str, role: Role) -> None:
    """Dotted or not, with the stack where one is asked for, and a fallback for all others."""
    found = classify_exception(kind, message, stack, TABLE)
    assert (found.event_name, found.role) == (code, role)


def chain(first: str, marker: str, second: str) -> list[str]:
    """A traceback of two blocks."""
    head = ["Traceback (most recent call last):", '  File "/w/train.py", line 3, in f']
    return [*head, first, "", marker, "", *head, second]


DURING = "During handling of the above exception, another exception occurred:"
DIRECT = "The above exception was the direct cause of the following exception:"


@pytest.mark.parametrize(
    ("first", "marker", "second", "code"),
    [
        ("OSError: No space left", DIRECT, "RuntimeError: writer failed", "disk_full"),
        ("OSError: No space left", DURING, "DistBackendError: x", "disk_full"),
        ("ValueError: x", DURING, "DistBackendError: x", "python_exception"),
        ("ValueError: x", DURING, "OSError: No space left", "disk_full"),
        ("DistBackendError: x", DIRECT, "ValueError: x", "remote_peer_lost"),
        ("_queue.Empty", DURING, "DistBackendError: x", "remote_peer_lost"),
    ],
)
def test_the_origin_of_a_chain(first: str, marker: str, second: str, code: str) -> None:
    """The first block, unless it only steers the program or says less than a later fault."""
    decision = decide(parse_exceptions(chain(first, marker, second)), TABLE)
    assert decision is not None
    assert decision.classification.event_name == code


def test_blocks_keep_relation_frames_and_further_lines() -> None:
    """A parsed chain has all that was printed."""
    first, second = parse_exceptions([*chain("ValueError: x", DIRECT, "RuntimeError: y"), "second line"])
    assert (first.relation, second.relation, second.message) == (Relation.CAUSE, Relation.LAST, "y\nsecond line")
    assert [(frame.path, frame.line, frame.function) for frame in first.frames] == [("/w/train.py", 3, "f")]


def test_the_users_frame_is_the_innermost_outside_packages() -> None:
    """Installed packages, torch and frozen modules are not the user's code."""
    frames = parse_traceback(
        "Traceback (most recent call last):\n"
        '  File "/w/train.py", line 3, in f\n'
        '  File "/opt/lib/python3.11/site-packages/torch/x.py", line 4, in g\n'
        '  File "<frozen importlib._bootstrap>", line 5, in h\n'
        "ValueError: x"
    )[0].frames
    frame = innermost_user_frame(frames)
    assert frame is not None
    assert (frame.path, frame.line) == ("/w/train.py", 3)
    assert innermost_user_frame([]) is None


def test_no_final_line_is_no_decision() -> None:
    """A log that was cut off inside a traceback says nothing yet."""
    assert (
        decide(parse_exceptions(["Traceback (most recent call last):", '  File "a.py", line 1, in f']), TABLE) is None
    )


@given(st.text(max_size=80), st.text(max_size=200))
def test_any_exception_is_classified(kind: str, message: str) -> None:
    """Nothing raises, and what is unknown is said to be so."""
    found = classify_exception(kind, message, None, TABLE)
    assert found.signature == FALLBACK or found.event_name


@given(st.lists(st.text(max_size=80), max_size=12))
def test_any_lines_are_read_as_blocks(lines: list[str]) -> None:
    """A traceback parser meets anything."""
    decide(parse_exceptions(["Traceback (most recent call last):", *lines]), TABLE)
