"""The terminal report: what it shows, how it fits, and that log text cannot harm it."""

from __future__ import annotations

import dataclasses
import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion

from correlator.core.model import Diagnosis, Evidence, Initiator, RunSummary, SkippedFile, Verdict
from correlator.core.vocabulary import FaultClass, FaultCode, VerdictStatus
from correlator.reports import ReportFormat, render

ANSI = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = (
    "[bold red]not markup[/] \x1b[31mred\x1b[0m \x07bell \x1b]0;title\x07 \u202eflip \r\x00 \x9b1mC1 :smile: [link=x]"
)
RUN = RunSummary("run", 8, 8, ("n",), 8, 800, 1, None, None)


def shown(diagnosis: Diagnosis, *, width: int = 100, color: bool = False, verbose: bool = False) -> str:
    """The report as text."""
    out = io.StringIO()
    render(diagnosis, out, report=ReportFormat.TEXT, width=width, color=color, verbose=verbose)
    return out.getvalue()


def with_text(diagnosis: Diagnosis, text: str) -> Diagnosis:
    """The same diagnosis with one log line, and everything else that comes from files, replaced."""
    first = dataclasses.replace(diagnosis.verdict.initiators[0], node=text)
    line = Evidence(file=text, line=1, byte_offset=0, text=text, time=text, rule=text)
    first = dataclasses.replace(first, evidence=(line,), time=text)
    verdict = Verdict(VerdictStatus.IDENTIFIED, 0.9, text, (first,))
    return dataclasses.replace(diagnosis, verdict=verdict, skipped=(SkippedFile(text, text),), missing_evidence=(text,))


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("name", ["identified", "tied", "undetermined", "healthy"])
def test_the_report_looks_as_agreed(
    name: str, width: int, request: pytest.FixtureRequest, snapshot: SnapshotAssertion
) -> None:
    """Snapshots, to be looked at by a person: pytest --snapshot-update accepts them anew."""
    assert shown(request.getfixturevalue(name), width=width) == snapshot


def test_the_verbose_report_looks_as_agreed(identified: Diagnosis, snapshot: SnapshotAssertion) -> None:
    """All evidence with its rules, the context lines, every clock."""
    assert shown(identified, width=100, verbose=True) == snapshot


def test_the_coloured_report_looks_as_agreed(identified: Diagnosis, snapshot: SnapshotAssertion) -> None:
    """Colours are few, and of the sixteen that every terminal has."""
    assert shown(identified, width=100, color=True) == snapshot


@pytest.mark.parametrize("name", ["identified", "tied", "undetermined", "healthy"])
def test_colour_changes_no_word(name: str, request: pytest.FixtureRequest) -> None:
    """With the colours taken out, both reports are equal, also in their spaces."""
    diagnosis = request.getfixturevalue(name)
    colored = [ANSI.sub("", line).rstrip() for line in shown(diagnosis, color=True).splitlines()]
    assert colored == shown(diagnosis, color=False).splitlines()


def test_the_first_screen_answers_everything(identified: Diagnosis) -> None:
    """Who, what, since when, how sure and what to do stand in the first 24 lines of 80 columns."""
    screen = "\n".join(shown(identified, width=80).splitlines()[:24])
    for answer in (
        "rank 17 on node02",
        "gpu_off_bus",
        "01:02:03.123",
        "94 %",
        "Drain node02",
        "iter_0001200",
        "kern.log:1021",
    ):
        assert answer in screen


def test_collateral_is_folded(identified: Diagnosis) -> None:
    """Sixty-three ranks take a line for each kind, not for each rank."""
    text = shown(identified)
    assert "collective_timeout      ranks 0-16,18-19,22-63 on node[01-08]" in text
    assert text.count("collective_timeout") == 1


def test_hostile_log_text_is_shown_and_not_obeyed(identified: Diagnosis) -> None:
    """No escape sequence, control or bidi character gets through; what looks like markup stays as it is."""
    text = shown(with_text(identified, HOSTILE), width=200, verbose=True)
    assert "[bold red]not markup[/] red \\x07bell" in text
    assert ":smile: [link=x]" in text
    assert not [character for character in text if not character.isprintable() and character != "\n"]


@given(text=st.text(max_size=120), width=st.integers(min_value=1, max_value=220), verbose=st.booleans())
@settings(max_examples=60)
def test_any_log_text_fits_the_page(text: str, width: int, verbose: bool) -> None:
    """No line is wider than the page (of at least 24 columns), whatever the files hold; nothing raises."""
    bare = Initiator(0, 0, "n", None, None, FaultCode.CUDA_OOM, FaultClass.SOFTWARE, None, None, None, None)
    base = Diagnosis(RUN, Verdict(VerdictStatus.IDENTIFIED, 0.9, "", (bare,)))
    lines = shown(with_text(base, text), width=width, verbose=verbose).splitlines()
    assert max(cell_len(line) for line in lines) <= max(width, 24)


@pytest.mark.parametrize("color", [False, True])
def test_secrets_are_masked(identified: Diagnosis, color: bool) -> None:
    """A report may be pasted into a ticket."""
    key = "Zx9" * 8
    text = shown(
        with_text(identified, f"cannot push to https://bot:{key}@host.example with HF_TOKEN={key}"), color=color
    )
    assert key not in text
    assert "HF_TOKEN=***" in text


@pytest.mark.parametrize(
    ("fault_class", "words"),
    [
        (FaultClass.EXTERNAL, "the scheduler, or someone outside the job"),
        (FaultClass.NETWORK, "the network, no single node"),
        (FaultClass.CONFIGURATION, "the job as a whole, no single rank"),
    ],
)
def test_who_is_said_also_where_it_is_no_rank(fault_class: FaultClass, words: str) -> None:
    """A verdict without rank and node still names somebody."""
    nobody = Initiator(None, None, None, None, None, FaultCode.PREEMPTED, fault_class, None, None, None, None)
    assert words in shown(Diagnosis(RUN, Verdict(VerdictStatus.IDENTIFIED, 0.9, "It ended.", (nobody,))))


@pytest.fixture(autouse=True)
def _hostile_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report depends on its arguments, not on the environment."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "37")
