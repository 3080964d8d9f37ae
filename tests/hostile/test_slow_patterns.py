"""No line takes long, whatever it repeats; a pattern of a user that would is refused."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import correlator
from correlator.cli.app import main
from correlator.core.catalogue.lint import slowest_search_s

pytestmark = pytest.mark.timeout(300)  # processes of their own, on machines that may be busy
LINE_BYTES = 16_384
LIMIT_S = 0.1
"""For a line of 16 KiB, where a linear pattern takes a few milliseconds, and one whose time grows with the square seconds."""
SEEDS = (
    "a", "0", " ", "\t", "_", ".", "-", ":", "/", "[", "{", '"', "=", ",", "|", "\x1b[", "\r", "a ", "a.", "0x", "00:", "a-", "1.", "a=",
    "[0]", "rank0 ", "node0-", 'File "', "Error: ", "2026-01-01 ", "//", "://a@", "eyJ", "token=", "**", "``", "\n", "0-9,", " at ",
)  # fmt: skip


HEADS = (
    b"",
    b"[rank3]: ",
    b"2026-03-02 17:05:01,000 ERROR ",
    b"Mar  2 17:05:01 node01 kernel: ",
    b"[rank3]: Traceback (most recent call last):\n[rank3]:   File ",
    b"RuntimeError: ",
)


def _search_s(pattern: re.Pattern[str], text: str) -> float:
    began = time.process_time()
    pattern.search(text)
    return time.process_time() - began


def slow(pattern: re.Pattern[str]) -> bool:
    """Small sizes first: an exponential pattern would never come back."""
    return any(
        _search_s(pattern, seed * (size // len(seed)) + "!") > LIMIT_S
        for seed in SEEDS[:12]
        for size in (16, 20, 24, LINE_BYTES)
    )


@pytest.mark.parametrize("head", HEADS, ids=range(len(HEADS)))
def test_hostile_lines_take_time_in_proportion(head: bytes, tmp_path: Path) -> None:
    """A line of 64 KiB costs milliseconds in every pattern on its way to the event table: prefixes, records, file looks."""
    lines = [head + (seed.encode() * (LINE_BYTES * 4 // len(seed.encode()))) for seed in SEEDS]
    (tmp_path / "rank_3.log").write_bytes(b"[rank3]: RuntimeError: CUDA out of memory\n" + b"\n".join(lines) + b"\n")
    began = time.process_time()
    run = correlator.open_run(tmp_path, workers=1)
    assert run.events.height
    assert time.process_time() - began < 15


@pytest.mark.parametrize("bad", [r"(a+)+$", r"(a|a)*b", r" *, *$"])
def test_the_clock_would_see_it(bad: str) -> None:
    assert slow(re.compile(bad))


MINE = """
[faults.python_exception]
[[faults.python_exception.signatures]]
name = "mine"
pattern = '{pattern}'
samples = ['{sample}']
lookalikes = ['nothing']
"""


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"MINE (a+)+$", "nests an open-ended quantifier"),
        (r"MINE (a|aa|aaa){1,60}(b|bb){1,60}$", ""),
        (r"MINE .*=.*=.*=.*=.*=.*= aaa", ""),
        (r"MINE (?<=x)aaa", "look-around"),
        ("MINE (aaa", "not a regular expression"),
    ],
)
def test_a_bad_pattern_of_a_user_is_refused_in_words_and_soon(
    pattern: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or taken, where it is harmless; but never a traceback, and never a hang."""
    (tmp_path / "mine.toml").write_text(MINE.format(pattern=pattern, sample="MINE aaa"))
    (tmp_path / "rank_0.log").write_text(
        "MINE " + "a" * 5000 + "=" * 5000 + "\n[rank0]: RuntimeError: CUDA out of memory\n"
    )
    began = time.process_time()
    with pytest.raises(SystemExit) as end:
        main(
            ["diagnose", str(tmp_path / "rank_0.log"), "--catalogue", str(tmp_path / "mine.toml"), "--quiet", "--json"]
        )
    assert time.process_time() - began < 20
    said = capsys.readouterr().err
    if words:
        assert end.value.code == 2
    if end.value.code:
        assert end.value.code == 2, said
        assert said.startswith("correlator: error: "), said
        assert "mine.toml" in said or "mine" in said
        assert words in said


def test_every_signature_and_dialect_is_timed_by_the_linter() -> None:
    """The linter's own clock is in use for the catalogue (tests/core) and sees a slow pattern."""
    from correlator.core.catalogue.loader import load_catalogue

    signature = load_catalogue().signatures[0]
    assert slowest_search_s(signature) < LIMIT_S
