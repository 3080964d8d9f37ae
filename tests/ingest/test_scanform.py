"""The scan form must let through whatever its pattern would take, and never cross a line end."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
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


@settings(max_examples=40, deadline=None)
@given(regex=st.sampled_from(REGEXES), text=texts)
def test_a_line_that_the_pattern_takes_is_hit_behind_any_prefix(regex: str, text: str) -> None:
    for line in re.split(r"[\r\n]", text):
        if re.search(regex, line):
            assert re.search(scan_form(regex), b"[rank3]: 12:00 " + line.encode() + b"\r")


@pytest.mark.parametrize("regex", REGEXES)
def test_no_form_matches_across_a_line_end(regex: str) -> None:
    """Between any two halves of a match, a newline or a carriage return breaks it."""
    form = re.compile(scan_form(regex))
    found = next(match.group() for text in MATCHES if (match := form.search(text.encode())))
    for cut in range(1, len(found)):
        for separator in (b"\n", b"\r"):
            match = form.search(found[:cut] + separator + found[cut:])
            assert match is None or separator not in match.group()


@pytest.mark.parametrize(
    ("regex", "form"),
    [
        (r"caught(?:: (?P<work>[^\n]*))?", b"caught"),
        (r"failed: (?P<reason>.*)$", rb"failed: "),
        (r"x+", b"x"),
        (r"a(b\)c)?", b"a"),
        (r"a\x27?", b"a"),
        (r"a|b*", b"a|b*"),
        (r"x\*", rb"x\*"),
        (r"ab{2}?", b"ab{2}?"),
        (r"(?:foo)+", b"(?:foo)+"),
    ],
)
def test_what_is_optional_at_the_end_is_cut_off(regex: str, form: bytes) -> None:
    assert scan_form(regex) == form


@pytest.mark.parametrize(
    ("regex", "form"),
    [
        (r"\[(\d[\d, ]*)\] finished collective #\d", rb"\] finished collective #\d"),
        (r"(?i)[a-z]+ out of memory", b"(?i) out of memory"),
        (r"(?:a|b) long literal", b" long literal"),
        (r"x+ short", b"x+ short"),
        (r"a long literal|b", b"a long literal|b"),
        (r"(?:a long literal)?b", b"b"),
        (r"\d litera*l literal", b"l literal"),
    ],
)
def test_what_stands_before_a_long_literal_is_cut_off(regex: str, form: bytes) -> None:
    assert scan_form(regex) == form


@pytest.mark.parametrize(
    ("regex", "form"),
    [
        (r"([a-z0-9-]+)[ \t]+[0-9]+/[0-9]+ up", rb"/[0-9]+ up"),
        (r"(?:\[rank\d+\]: )?(?:at )?[Ss]tep (\d+)/", rb"tep (\d+)/"),
        (r"(\d+)(?:_\d+)? (FAILED|KILLED) x", rb" (FAILED|KILLED) x"),
        (r"[ \t]*\[(?:a|b)", rb"\[(?:a|b)"),
        (r"(a|\d)b", rb"(a|\d)b"),
        (r"[0-9]+:[0-9]+", rb"[0-9]+:[0-9]"),
        (r"[a-z]+x|y", rb"[a-z]+x|y"),
    ],
)
def test_a_head_without_certain_letters_is_cut_off(regex: str, form: bytes) -> None:
    assert scan_form(regex) == form


@pytest.mark.parametrize("regex", [r"step=(?P<step>\d+)", r"step=(?P<step>[0-9]{1,12})"])
@pytest.mark.parametrize("behind", [b"", b" ", b"/9", b"x", b"\xff"])
def test_a_dense_pattern_matches_once_however_many_digits(regex: str, behind: bytes) -> None:
    found = [match.end() for match in re.finditer(scan_form(regex, dense=True), b"step=1234567890123" + behind)]
    assert len(found) == 1
    assert found[0] - 18 in (0, 1)


def test_a_quantifier_applies_to_a_whole_character() -> None:
    assert re.fullmatch(scan_form("a█?b"), b"ab")
    assert re.fullmatch(scan_form("a█+b"), "a██b".encode())
