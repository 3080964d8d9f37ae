"""The pickle reader equals the standard one on plain values, and builds nothing else whatever it is given."""

from __future__ import annotations

import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.parsers.dumps.plain_pickle import Loaded, PickleError, load

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=20)
keys = st.text(max_size=10) | st.integers(0, 2**40)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4) | st.lists(inner, max_size=4).map(tuple)
    ),
    max_leaves=30,
)


@given(values, st.integers(0, 5))
def test_plain_values_of_every_protocol_come_back_equal(value: object, protocol: int) -> None:
    assert load(pickle.dumps(value, protocol)) == Loaded(value, truncated=False)


@given(st.binary(max_size=300))
def test_any_bytes_give_a_value_or_the_one_error(data: bytes) -> None:
    try:
        loaded = load(data)
    except PickleError:
        return
    assert isinstance(loaded.truncated, bool)


@given(values, st.integers(0, 2), st.data())
def test_a_cut_pickle_never_raises(value: object, protocol: int, data: st.DataObject) -> None:
    whole = pickle.dumps({"entries": value, "version": "2.4"}, 2 + protocol)
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert load(whole[:cut]).truncated


def test_what_was_whole_before_the_cut_is_kept() -> None:
    entries = [{"record_id": number, "state": "scheduled"} for number in range(50)]
    whole = pickle.dumps({"version": "2.4", "entries": entries}, 2)
    kept = load(whole[: len(whole) * 2 // 3])
    assert kept.truncated
    assert kept.value["version"] == "2.4"
    assert 20 < len(kept.value["entries"]) < 50
    assert kept.value["entries"][:20] == entries[:20]


class _Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.system, ("exit 3",))


@pytest.mark.parametrize("protocol", range(6))
def test_no_class_or_function_is_ever_looked_up(protocol: int) -> None:
    with pytest.raises(PickleError, match="not for plain values"):
        load(pickle.dumps({"entries": [_Harmful()]}, protocol))


def outcome(data: bytes) -> str:
    try:
        return "truncated" if load(data).truncated else "whole"
    except PickleError:
        return "refused"


@pytest.mark.parametrize(
    ("hostile", "expected"),
    [
        (b"}r\xff\xff\xff\xff.", "whole"),  # a memo index that would make the standard reader take 64 GiB
        (b"](" * 20_000 + b"e" * 20_000 + b".", "whole"),
        (b"X\xff\xff\xff\xffabc", "truncated"),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc", "truncated"),
        (b"\x8b\xff\xff\xff\x7f1", "refused"),
        (b"I" + b"9" * 4000 + b"\n.", "refused"),
        (b"(((((", "truncated"),
        (b"e.", "refused"),
    ],
)
def test_sizes_and_depths_that_a_file_states_are_not_believed(hostile: bytes, expected: str) -> None:
    assert outcome(hostile) == expected


def test_a_nested_key_is_refused_before_it_is_hashed() -> None:
    deep = b"}" + b")" + b"\x85" * 100_000 + b"Ns."
    with pytest.raises(PickleError, match="key"):
        load(deep)
