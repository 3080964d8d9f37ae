"""The scan form must let through whatever its pattern would take, and never cross a line end."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.ingest.scanform import scan_form

REGEXES = [
    r"^RuntimeError: (?P<reason>.*)$",
    r"step\s+(?P<step>\d+)/\d+",
    r"[^ab]x[\s:]y",
    r"foo\W+bar",
    r"a\Db",
    r"\[rank(?P<rank>\d+)\]:",
    r"[\[\]x]z",
    r"(?i)killed|oom",
    r"[^]]end",
    r"\bword\b\.",
]


MATCHES = ["RuntimeError: x", "step  12/34", "cx:y", "foo - bar", "a-b", "[rank31]:", "]z", "Killed", "xend", "word."]
texts = st.lists(st.sampled_from([*MATCHES, " ", "\t", "a", "\r", "\n", "7"]), max_size=6).map("".join)


@given(regex=st.sampled_from(REGEXES), text=texts)
def test_a_line_that_the_pattern_takes_is_hit_behind_any_prefix(regex: str, text: str) -> None:
    for line in re.split(r"[\r\n]", text):
        if re.search(regex, line):
            assert re.search(scan_form(regex), b"[rank3]: 12:00 " + line.encode() + b"\r")


@pytest.mark.parametrize("regex", REGEXES)
def test_no_form_matches_across_a_line_end(regex: str) -> None:
    """Between any two halves of a match, a newline or a carriage return breaks it."""
    form = re.compile(scan_form(regex))
    matches = [match.encode() for match in MATCHES]
    text = next(text for text in matches if (match := form.search(text)) and match.group() == text)
    for cut in range(1, len(text)):
        for separator in (b"\n", b"\r"):
            found = form.search(text[:cut] + separator + text[cut:])
            assert found is None or separator not in found.group()


def test_a_quantifier_applies_to_a_whole_character() -> None:
    assert re.fullmatch(scan_form("a█?b"), b"ab")
    assert re.fullmatch(scan_form("a█+b"), "a██b".encode())
