"""The Markdown report: short, whole, and log text cannot break out of its code."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.core.model import Diagnosis
from correlator.reports import ReportFormat, render
from correlator.reports.details import Details
from correlator.reports.markdown import MOST_LINES, code, code_block, plain
from tests.helpers_reports import HOSTILE, SAMPLES, XID, failed_run, sample, with_evidence

FENCE = re.compile(r"(`{3,})(\w*)")


def written(diagnosis: Diagnosis, details: Details | None = None) -> str:
    """The report as text."""
    out = io.StringIO()
    render(diagnosis, out, report=ReportFormat.MARKDOWN, details=details)
    return out.getvalue()


def blocks(text: str) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """The code blocks as CommonMark reads them (language, lines), and all lines outside."""
    inside: list[tuple[str, list[str]]] = []
    outside: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = FENCE.fullmatch(line)
        if fence:
            if match and not match[2] and len(match[1]) >= len(fence):
                fence = ""
            else:
                inside[-1][1].append(line)
        elif match:
            fence = match[1]
            inside.append((match[2], []))
        else:
            outside.append(line)
    assert not fence, "a code block is left open"
    return inside, outside


@pytest.mark.parametrize("name", ["identified", "tied", "undetermined", "healthy"])
def test_every_verdict_fits_a_ticket(name: str, request: pytest.FixtureRequest) -> None:
    """Also without events and graph."""
    diagnosis: Diagnosis = request.getfixturevalue(name)
    text = written(diagnosis)
    assert len(text.splitlines()) < MOST_LINES
    assert text.startswith("### ")


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_runs_fit_a_ticket(name: str) -> None:
    """Under sixty lines, with the first evidence in a block and the same bytes each time."""
    diagnosis, details = sample(name)
    text = written(diagnosis, details)
    assert len(text.splitlines()) < MOST_LINES
    assert text == written(diagnosis, details)
    inside, _ = blocks(text)
    shown = "\n".join(line for language, lines in inside for line in lines if language == "text")
    for initiator in diagnosis.verdict.initiators:
        assert f"{initiator.evidence[0].file}:{initiator.evidence[0].line}" in shown


def test_a_full_report_fits_a_ticket() -> None:
    """Every section filled: verdict, commands, evidence, collateral, graph, rivals, gaps."""
    diagnosis, details = failed_run(64)
    text = written(diagnosis, details)
    inside, outside = blocks(text)
    assert [language for language, _ in inside] == ["sh", "text", "mermaid"]
    assert inside[0][1] == ["ssh node0004 nvidia-smi -L"]
    assert XID in inside[1][1][0]
    assert "flowchart TD" in inside[2][1]
    for words in ("Do first", "Resume", "Dragged in", "Also weighed", "Missing"):
        assert any(words in line for line in outside)


def test_hostile_text_cannot_break_out() -> None:
    """Outside of code nothing of it is markup: no tag, link, image, heading, mention, and no table is cut."""
    text = written(*failed_run(64, HOSTILE))
    assert len(text.splitlines()) < MOST_LINES
    _, outside = blocks(text)
    bare = re.sub(r"(`+)(?:(?!`).|(?!\1(?!`))`)*?(?<!`)\1(?!`)", "", "\n".join(outside).replace("\\`", ""))
    unescaped = re.sub(r"\\.", "", bare).replace("<sub>", "").replace("</sub>", "")
    assert not re.search(r"[<\[\]]|https?://|@team|#12", unescaped)
    assert [line for line in outside if line.startswith("#")] == [outside[0]]
    assert not [c for c in text if not c.isprintable() and c != "\n"]


def test_a_line_of_a_megabyte_is_shown_by_its_head() -> None:
    """A ticket stays a ticket."""
    diagnosis, details = failed_run(8)
    assert len(written(with_evidence(diagnosis, "`" * 1_000_000), details)) < 20_000


@given(lines=st.lists(st.text(max_size=60), max_size=5))
@settings(max_examples=150)
def test_no_line_ends_a_code_block(lines: list[str]) -> None:
    """Whatever the lines are, the block has as many, and ends where it ends."""
    inside, outside = blocks("\n".join(code_block(lines)))
    assert len(inside) == 1
    assert len(inside[0][1]) == len(lines)
    assert outside == []


@given(text=st.text(alphabet=st.sampled_from("`ab \n\\*"), max_size=30))
def test_no_text_ends_a_code_span(text: str) -> None:
    """The fence occurs at both ends and nowhere between, and the span is one line."""
    span = code(text)
    fence = re.match(r"`+", span)
    assert fence is not None
    assert "\n" not in span
    assert [run for run in re.findall(r"`+", span) if len(run) == len(fence[0])] == [fence[0], fence[0]]


def test_plain_words_are_not_disfigured() -> None:
    """What cannot be markup is left alone, so that the text is readable where Markdown is not drawn."""
    words = "rank 61 on nid001035 lost its GPU (fallen off the bus) at 2026-02-10 18:09:53, rank_stalled: 96 %"
    assert plain(words) == words


def test_credentials_are_masked() -> None:
    """Tickets are public."""
    key = "Zx9" * 8
    assert key not in written(*failed_run(8, f" HF_TOKEN={key} "))
