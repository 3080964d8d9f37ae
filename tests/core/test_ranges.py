"""Folded rank and host lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.core.ranges import fold_hosts, fold_numbers, unfold_hosts, unfold_numbers

HOST_NAMES = st.from_regex(r"[a-z.-]{0,4}[0-9]{0,3}[a-z.-]{0,3}[0-9]{0,4}[a-z]{0,2}", fullmatch=True).filter(bool)


@pytest.mark.parametrize(
    ("numbers", "folded"),
    [
        ((), ""),
        ((5,), "5"),
        ((0, 1), "0-1"),
        ((9, 15, 14, 0, 1, 2, 3, 9), "0-3,9,14-15"),
        ((-1, 0, 1), "-1,0-1"),
    ],
)
def test_ranks_fold_to_ranges(numbers: tuple[int, ...], folded: str) -> None:
    """Sorted, each number once, ranges closed."""
    assert fold_numbers(numbers) == folded


@given(st.sets(st.integers(min_value=-3, max_value=70)))
def test_folded_numbers_unfold_to_the_same_set(numbers: set[int]) -> None:
    """Folding loses nothing."""
    assert unfold_numbers(fold_numbers(numbers)) == tuple(sorted(numbers))


@pytest.mark.parametrize(
    ("hosts", "folded"),
    [
        ((), ""),
        (("node03",), "node03"),
        (("node02", "node01", "node03"), "node[01-03]"),
        (("node1", "node9", "node10", "node11"), "node[1,9-11]"),
        (("node09", "node10"), "node[09-10]"),
        (("gpu-1.rack2", "gpu-1.rack3", "login"), "gpu-1.rack[2-3],login"),
        (("10.0.0.5", "10.0.0.6"), "10.0.0.[5-6]"),
        (("a1b", "a2b", "a1c"), "a[1-2]b,a1c"),
    ],
)
def test_hosts_fold_to_a_hostlist(hosts: tuple[str, ...], folded: str) -> None:
    """Slurm's notation: padding kept, one bracket for each group of names."""
    assert fold_hosts(hosts) == folded


@given(st.sets(HOST_NAMES, max_size=30))
def test_folded_hosts_unfold_to_the_same_set(hosts: set[str]) -> None:
    """Folding loses nothing, whatever the padding."""
    assert set(unfold_hosts(fold_hosts(hosts))) == hosts


@given(st.sets(st.text(max_size=8), max_size=8))
def test_no_host_name_breaks_folding(hosts: set[str]) -> None:
    """Names come from untrusted logs: whatever has no number to fold is kept as it is."""
    folded = fold_hosts(hosts)
    assert all(host in folded for host in hosts if not any(character in "0123456789" for character in host))


@pytest.mark.parametrize("text", ["a", "3-", "5-2", "0-99999999999", "1,,x"])
def test_a_bad_rank_list_is_a_value_error(text: str) -> None:
    """Neither nonsense nor a list without end is accepted."""
    with pytest.raises(ValueError, match="not a"):
        unfold_numbers(text)


@pytest.mark.parametrize("text", ["node[1-", "node[a]", "node[3-1]", "node[0-99999999999]", "a[1]b[2]", ",x"])
def test_a_bad_host_list_is_a_value_error(text: str) -> None:
    """Neither nonsense nor a list without end is accepted."""
    with pytest.raises(ValueError, match="not a"):
        unfold_hosts(text)
