"""The mould of an unknown message: equal for what differs only in values, and cheap on any text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FaultCode, Role
from correlator.parsers.templates import MOST_CHARACTERS, template_of, with_template


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("KeyError: 'mixed'", "KeyError: 'plain'"),
        ("shard 17 of /data/a.bin: checksum 0xdead != 0xbeef", "shard 4 of /scratch/b/c.bin: checksum 0x1 != 0x22"),
        ("worker on node03 gave up after 12.5s", "worker on node17 gave up after 0.7s"),
        ("size torch.Size([3, 4, 5])", "size torch.Size([3, 4, 5, 6])"),
        ("no route to 10.0.0.5:43210", "no route to 10.0.0.17:1"),
    ],
)
def test_values_do_not_make_another_error(one: str, other: str) -> None:
    """Numbers, names that hold one, places and quoted words vary from rank to rank."""
    assert template_of(one) == template_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("KeyError: 'mixed'", "IndexError: 'mixed'"),
        ("shard 17 is short", "shard 17 is long"),
        ("ValueError: bad frame", "ValueError: bad header"),
    ],
)
def test_words_do(one: str, other: str) -> None:
    """What is left after masking tells errors apart."""
    assert template_of(one) != template_of(other)


@given(st.text(max_size=600))
def test_any_text_has_a_bounded_mould(text: str) -> None:
    """Short, one line, and the same again when it is masked twice."""
    mould = template_of(text)
    assert len(mould) <= MOST_CHARACTERS
    assert "\n" not in mould


@pytest.mark.parametrize("seed", ["1", "1.", "/a", "'", "a1-", "<n> ", "0x", "a:", "://"])
def test_a_hostile_line_is_cheap(seed: str) -> None:
    """Only the beginning of a line is looked at."""
    began = time.process_time()
    template_of(seed * 500_000)
    assert time.process_time() - began < 0.05


def test_only_what_nothing_knows_gets_one() -> None:
    """A message that a signature knows has its code; an exception's mould is its type and message, wherever it was read."""

    def event(name: str, **fields: str) -> Event:
        role = Role.INITIATING if name in set(FaultCode) else Role.CONTEXT
        return Event(event_name=name, role=role, line_number=1, byte_offset=0, **({"signature": "x"} | fields))

    assert with_template(event(FaultCode.CUDA_OOM, body="CUDA out of memory")).template is None
    assert (
        with_template(event(Context.MESSAGE, body="[ERROR] shard 3 is short")).template == "[ERROR] shard <n> is short"
    )
    raised = {"signature": "python.exception", "exception_type": "KeyError", "exception_message": "'x'"}
    told = [
        event(FaultCode.PYTHON_EXCEPTION, body=body, **raised) for body in ("KeyError: 'x'", "rank 3 failed: KeyError")
    ]
    assert {with_template(one).template for one in told} == {"KeyError: <text>"}
