"""Inputs that broke something once, and some seeds: every target takes them."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from correlator.core.files import FileReport, LogFile
from tests.fuzz.__main__ import NAMES, kept
from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS

pytestmark = pytest.mark.timeout(300)  # compiling the patterns takes long on a machine that is busy
FOUND = sorted(Path(__file__).parent.glob("found/*/*"))


def test_the_program_knows_all_targets() -> None:
    assert list(NAMES) == list(TARGETS)
    assert {path.parent.name for path in FOUND} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_found_is_mended(name: str) -> None:
    for data in kept(name):
        TARGETS[name](data)


@pytest.mark.parametrize("name", NAMES)
def test_each_target_takes_its_seeds(name: str) -> None:
    """As they are, cut in the middle and with a byte changed, so that the targets do not rot between two searches."""
    some = list(
        islice(
            seeds(name),
            0,
            None,
            {"lines": 60, "engines": 90, "peeler": 15, "catalogue": 9, "whole_run": 40}.get(name, 2),
        )
    )
    assert some
    for seed in some:
        TARGETS[name](seed)
        TARGETS[name](seed[: len(seed) // 2])
    damaged = bytearray(some[0])
    damaged[len(damaged) // 3] ^= 0x55
    TARGETS[name](bytes(damaged))


def test_an_oracle_can_say_no(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target whose subject loses a line must not be content."""
    from correlator.ingest import account

    true_report = account.Account.report

    def forgetful(self: account.Account, file: LogFile, *, cut_off: bool) -> FileReport:
        report = true_report(self, file, cut_off=cut_off)
        return replace(report, plain=report.plain - 1)

    monkeypatch.setattr(account.Account, "report", forgetful)
    with pytest.raises(AssertionError):
        TARGETS["lines"](b"one line\nanother\n")
