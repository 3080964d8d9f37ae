"""The linter: what it must refuse, and that it lets ordinary patterns be."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.core.catalogue import Rival, Signature, load_catalogue
from correlator.core.catalogue.lint import lint_entry, lint_signature, pattern_problems
from correlator.core.vocabulary import Role

SOUND = Signature(
    id="cuda_oom.x",
    code="cuda_oom",
    role=Role.INITIATING,
    pattern="OURS: out",
    samples=("[rank3]: OURS: out",),
    lookalikes=("said OURS: out",),
)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (r"a\sb", "line end"),
        (r"a\Wb", "line end"),
        (r"[^x]b", "line end"),
        (r"[^\d]b", "line end"),
        (r"a[\t-\r]b", "line end"),
        (r"a\nb", "line end"),
        (r"(?=a)b", "look-around"),
        (r"(?<!a)b", "look-around"),
        (r"(?P<x>a)(?P=x)", "back-reference"),
        (r"(a)\1", "back-reference"),
        (r"a++b", "possessive"),
        (r"(?>a)b", "atomic"),
        (r"(a+)+b", "nests"),
        (r"(?:a*b?)*c", "nests"),
        (r"a{1,500}b", "repeats up to 500"),
        (r"a{200}b", "repeats"),
        (r"(?s)a.b", "inline flag"),
        (r"a\Z", "escape"),
        (r"\Aa", "escape"),
        (r"\p{L}a", "escape"),
        ("caf\u00e9", "printable ASCII"),
        (r"a*", "empty text"),
        (r"(a", "not a regular expression"),
        (r"a[b[c]d", "class"),
        (r"[[a]", "class"),
    ],
)
def test_what_engines_disagree_on_is_refused(pattern: str, says: str) -> None:
    """Each rule has a pattern that breaks it."""
    assert any(says in problem for problem in pattern_problems(pattern)), pattern_problems(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"a[ \t]+b",
        r"[^x\n]+y",
        r"(?i)warn",
        r"(?P<pid>\d+): (?:x|y)?z",
        r"a\(?s\)? b",
        r"\\S",
        r"(?:[\r\\\x22]|$)b?a",
        r"[\[\]]a",
        r"[^\]\[\n]a",
    ],
)
def test_ordinary_patterns_pass(pattern: str) -> None:
    """Escaped brackets and letters are not mistaken for what they look like."""
    assert pattern_problems(pattern) == []


@pytest.mark.parametrize("pattern", [r"[a-z]+OURS: out", r"[a-z]+[a-z ]*OURS: out", r"(?:a|a|x)*OURS: out"])
def test_a_slow_pattern_is_refused(pattern: str) -> None:
    """Quadratic, cubic and exponential ones alike, and the linter itself does not hang on them."""
    slow = dataclasses.replace(SOUND, pattern=pattern, samples=("xOURS: out",), lookalikes=("1",))
    assert any("hostile line" in problem for problem in lint_signature(slow))


def test_samples_and_lookalikes_are_checked() -> None:
    """They are the pattern's test."""
    assert lint_signature(SOUND) == []
    assert "sample does not match" in lint_signature(dataclasses.replace(SOUND, samples=("OURS: in",)))[0]
    assert "lookalike matches" in lint_signature(dataclasses.replace(SOUND, lookalikes=("OURS: out",)))[0]
    assert "lookalike matches" in lint_signature(dataclasses.replace(SOUND, anchor="anywhere"))[0]
    assert (
        "says `start` already"
        in lint_signature(dataclasses.replace(SOUND, pattern="^OURS: out", samples=("OURS: out",)))[0]
    )
    assert lint_signature(dataclasses.replace(SOUND, stack=r"a\sb"))[0].startswith("stack: ")


def test_prose_is_checked() -> None:
    """A placeholder that no one fills would be shown to people as it stands."""
    entry = load_catalogue().entry("cuda_oom")
    assert lint_entry(entry) == []
    assert "unknown placeholder {host}" in lint_entry(dataclasses.replace(entry, commands=("ssh {host}",)))[0]
    assert "unbalanced braces" in lint_entry(dataclasses.replace(entry, commands=("awk '{print'",)))[0]
    assert "its own rival" in lint_entry(dataclasses.replace(entry, rivals=(Rival("cuda_oom", "x"),)))[0]


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab()[]{}*+?|\\^$.-dswnP<>:=!0129 ", max_size=24))
def test_any_text_is_judged_and_never_raises(pattern: str) -> None:
    """A user's pattern can be anything."""
    assert all(isinstance(problem, str) for problem in pattern_problems(pattern))
