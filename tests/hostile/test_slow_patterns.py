"""No regular expression of the product takes long on a hostile line: those of dialects, catalogue, and everywhere else."""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import correlator
from correlator.cli.app import main
from correlator.core.catalogue.lint import slowest_search_s

pytestmark = pytest.mark.timeout(300)  # processes of their own, on machines that may be busy
LINE_BYTES = 16_384
LIMIT_S = 0.1
"""For a line of 16 KiB, where a linear pattern takes a few milliseconds, and one whose time grows with the square seconds."""
SUSPECT_S = 0.001
"""For 512 bytes; what takes less is not measured on more."""
SEEDS = (
    "a", "0", " ", "\t", "_", ".", "-", ":", "/", "[", "{", '"', "=", ",", "|", "\x1b[", "\r", "a ", "a.", "0x", "00:", "a-", "1.", "a=",
    "[0]", "rank0 ", "node0-", 'File "', "Error: ", "2026-01-01 ", "//", "://a@", "eyJ", "token=", "**", "``", "\n", "0-9,", " at ",
)  # fmt: skip


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Every compiled pattern that a module of the product holds, however deep in its constants."""
    seen: set[int] = set()
    for info in pkgutil.walk_packages(correlator.__path__, "correlator."):
        if info.name == "correlator.__main__" or ".dialects" in info.name:
            continue  # the patterns of dialects and of the catalogue are timed in tests/parsers and tests/core
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            for pattern in _inside(value, 3):
                if id(pattern) not in seen:
                    seen.add(id(pattern))
                    yield f"{info.name}.{name}", pattern


def _inside(value: object, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict):
        for one in (*value.keys(), *value.values()):
            yield from _inside(one, depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _inside(one, depth - 1)
    elif depth and hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for name in value.__dataclass_fields__:
            yield from _inside(getattr(value, name, None), depth - 1)


def _time_s(pattern: re.Pattern[Any], text: str | bytes) -> float:
    """CPU time of a search and of a full match; of several tries where one takes long, for the machine may be busy."""
    best = LIMIT_S * 2
    for _ in range(3):
        began = time.process_time()
        pattern.search(text)
        pattern.fullmatch(text)
        best = min(best, time.process_time() - began)
        if best < LIMIT_S:
            break
    return best


def _hostile(pattern: re.Pattern[Any], seed: str, size: int) -> str | bytes:
    text = (seed * (size // len(seed) + 1))[:size]
    return text if isinstance(pattern.pattern, str) else text.encode("utf-8")[:size]


def slow(pattern: re.Pattern[Any]) -> list[str]:
    """The seeds on which a pattern takes too long. Small sizes first: an exponential one would never come back."""
    found = []
    for seed in SEEDS:
        for size in (16, 20, 24, 512, LINE_BYTES):
            took = _time_s(pattern, _hostile(pattern, seed, size))
            if took > LIMIT_S:
                found.append(f"{took:.2f} s for {size} bytes of {seed!r}")
                break
            if size == 512 and took < SUSPECT_S:
                break
    return found


def test_no_pattern_of_any_module_is_slow() -> None:
    found = list(patterns())
    assert len(found) > 150, "the walk finds them"
    answers = [f"{where} {pattern.pattern[:80]!r}: {reasons}" for where, pattern in found if (reasons := slow(pattern))]
    assert not answers, "\n".join(answers)


@pytest.mark.parametrize("bad", [r"(a+)+$", r"(a|a)*b", r"(\d+)*x", r" *, *$"])
def test_the_clock_would_see_it(bad: str) -> None:
    assert slow(re.compile(bad)) or slow(re.compile(bad + r".*" * 2 + "z"))


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
