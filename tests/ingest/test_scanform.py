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
    r"[[\]x]z",
    r"(?i)killed|oom",
    r"[^]]end",
    r"\bword\b\.",
]


@pytest.mark.parametrize("regex", REGEXES)
@given(data=st.data())
def test_a_line_that_the_pattern_takes_is_hit_behind_any_prefix(regex: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(regex, re.ASCII)).filter(lambda text: text.isascii()))
    line = next((part for part in re.split(r"[\r\n]", text) if re.search(regex, part)), None)
    if line is not None:
        assert re.search(scan_form(regex), b"[rank3]: 12:00 " + line.encode() + b"\r")


@pytest.mark.parametrize("regex", REGEXES)
def test_no_form_matches_across_a_line_end(regex: str) -> None:
    """Between any two halves of a match, a newline or a carriage return breaks it."""
    form = re.compile(scan_form(regex))
    texts = [b"RuntimeError: x", b"step  12/34", b"cx:y", b"foo - bar", b"a-b", b"[rank31]:", b"]z", b"killed", b"xend", b"word."]
    text = next(text for text in texts if (match := form.search(text)) and match.group() == text)
    for cut in range(1, len(text)):
        for separator in (b"\n", b"\r"):
            found = form.search(text[:cut] + separator + text[cut:])
            assert found is None or separator not in found.group()


def test_a_quantifier_applies_to_a_whole_character() -> None:
    assert re.fullmatch(scan_form("a█?b"), b"ab")
    assert re.fullmatch(scan_form("a█+b"), "a██b".encode())
