"""The HTML report: self-contained, small, deterministic, right for any size of run, and harmless."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.cli.app import main
from correlator.core.model import Diagnosis
from correlator.reports import ReportFormat, render
from correlator.reports.causes import read_causes
from correlator.reports.cleaning import visible
from correlator.reports.details import Details, shareable_details
from correlator.reports.lanes import MOST_LANES, swim
from correlator.reports.svg_lanes import lanes_picture
from correlator.reports.svg_scale import scale_of
from tests.helpers_reports import HOSTILE, ROOT, SAMPLES, START_NS, failed_run, sample, with_evidence

VOID = {"meta", "br", "path", "rect", "circle"}
KNOWN_TAGS = set(
    "html head meta title style body main div span bdi section header footer h1 h2 h3 p b i br small ul li dl dt dd table "
    "thead tbody tr th td details summary pre code samp svg g defs pattern marker rect path circle text".split()
)
MOST_BYTES = 300_000
SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails on tags that do not nest."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.style = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID or (tag == "path" and f"<{tag}" in (self.get_starttag_text() or "") and not self._empty()):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID or (self._open and self._open[-1] == tag):
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.style += data
        else:
            self.text += data

    def _empty(self) -> bool:
        return (self.get_starttag_text() or "").endswith("/>")


def page(diagnosis: Diagnosis, details: Details | None = None) -> str:
    """The report as text."""
    out = io.StringIO()
    render(diagnosis, out, report=ReportFormat.HTML, details=details)
    return out.getvalue()


def check_harmless(source: str) -> Page:
    """Only tags of ours, no handler, no reference out of the file, nothing that moves the cursor or turns the text."""
    parsed = Page(
        re.sub(r"<(rect|path|circle)([^>]*[^/])>(.*?)</\1>", r"<g\2>\3</g>", source.replace("<!doctype html>", ""))
    )
    assert parsed.tags <= KNOWN_TAGS
    names = {name for name, _ in parsed.attributes}
    assert not {
        name for name in names if name.startswith("on") or name in {"src", "href", "srcdoc", "action", "xlink:href"}
    }
    urls = [url for _, value in parsed.attributes for url in re.findall(r"url\((.*?)\)", value)]
    urls += re.findall(r"url\((.*?)\)", parsed.style)
    assert all(url.startswith("#") for url in urls)
    assert "@import" not in parsed.style
    assert not [c for c in source if not c.isprintable() and c != "\n"]
    return parsed


@pytest.mark.parametrize("name", ["identified", "tied", "undetermined", "healthy"])
def test_every_verdict_has_a_page(name: str, request: pytest.FixtureRequest) -> None:
    """Also without events and graph; what the verdict says stands in it."""
    diagnosis: Diagnosis = request.getfixturevalue(name)
    parsed = check_harmless(page(diagnosis))
    assert diagnosis.verdict.status.value.replace("_", " ").upper() in parsed.text
    assert diagnosis.verdict.summary in parsed.text
    for item in diagnosis.missing_evidence:
        assert item in parsed.text


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_runs_have_pages(name: str) -> None:
    """Harmless, small, and with every file that the verdict cites."""
    source = page(*sample(name))
    parsed = check_harmless(source)
    assert len(source.encode()) < MOST_BYTES
    for initiator in sample(name)[0].verdict.initiators:
        for line in initiator.evidence:
            assert f"{line.file}:{line.line}" in parsed.text


@pytest.mark.parametrize("ranks", [1, 8, 64, 1024])
def test_any_number_of_ranks_fits(ranks: int) -> None:
    """One page below 300 kB; the same run gives the same bytes."""
    source = page(*failed_run(ranks))
    assert len(source.encode()) < MOST_BYTES
    assert source == page(*failed_run(ranks))
    check_harmless(source)


def test_the_page_answers_in_the_order_of_need() -> None:
    """Who and what, what to do, then the proof."""
    text = page(*failed_run(64))
    wanted = (
        "<h1>Rank 32 on node0004",
        "Do this first",
        "ssh node0004 nvidia-smi -L",
        "From iter_0001200.",
        "What happened when",
        "What led to what",
        "node0004/kern.log:1021</span>",
        "<h2>Dragged in",
        "Explanations weighed",
        "<h2>Checkpoint",
        "the kernel log of node0000",
        "plot.png",
    )
    places = [text.find(words) for words in wanted]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("ranks", [8, 64, 1024])
def test_pictures_are_well_formed(ranks: int) -> None:
    """Each is XML, and nothing is drawn outside of it."""
    pictures = SVG.findall(page(*failed_run(ranks)))
    assert len(pictures) >= 3
    for source in pictures:
        root = ET.fromstring(source.replace(' aria-hidden="true"', ""))
        left, top, width, height = (float(number) for number in root.attrib["viewBox"].split())
        for element in root.iter():
            if "x" in element.attrib and element.tag != "pattern":
                assert left <= float(element.attrib["x"]) <= left + width
            if "y" in element.attrib:
                assert top <= float(element.attrib["y"]) <= top + height


def test_every_rank_has_a_lane_while_there_is_room() -> None:
    """Sixty-four ranks are sixty-four lanes, of which one is accused; the peers that waited show it."""
    diagnosis, details = failed_run(64)
    lanes = swim(diagnosis, details, read_causes(diagnosis, details)).lanes
    assert [lane.label for lane in lanes] == [str(rank) for rank in range(64)]
    assert [lane.label for lane in lanes if lane.accused] == ["32"]
    assert sum(bool(lane.waits) for lane in lanes) == 56
    assert all(lane.waits[0].low_ns >= START_NS for lane in lanes if lane.waits)


def test_many_ranks_are_folded_and_the_accused_is_not() -> None:
    """A thousand ranks take no more lanes than a screen has; nobody is left out."""
    diagnosis, details = failed_run(1024)
    lanes = swim(diagnosis, details, read_causes(diagnosis, details)).lanes
    assert len(lanes) <= MOST_LANES
    assert sum(lane.ranks for lane in lanes) == 1024
    assert [lane.label for lane in lanes if lane.accused] == ["512"]


def test_quiet_time_is_cut_short() -> None:
    """The ten minutes of waiting take a narrow stretch that says how long they are."""
    diagnosis, details = failed_run(64)
    picture = lanes_picture(diagnosis, swim(diagnosis, details, read_causes(diagnosis, details)))
    assert picture is not None
    assert [piece.words[:5] for piece in picture.breaks] == ["9 min"]
    assert picture.breaks[0].right - picture.breaks[0].left < 80


@given(
    times=st.lists(st.integers(min_value=-(10**18), max_value=4 * 10**18), min_size=1, max_size=40),
    others=st.lists(st.integers(min_value=-(10**18), max_value=4 * 10**18), max_size=10),
)
def test_the_axis_keeps_the_order_of_times(times: list[int], others: list[int]) -> None:
    """Later is never drawn further left; every time that was asked for is on the axis, and labels do not run away."""
    scale = scale_of(times, 100.0, 1000.0)
    ordered = sorted({*times, *others})
    places = [scale.x(ns) for ns in ordered]
    assert places == sorted(places)
    assert all(99.9 <= x <= 1000.1 for x in places)
    assert all(scale.inside(ns) for ns in times)
    assert len(scale.ticks()) <= 12


def test_hostile_text_stays_text() -> None:
    """Wherever files speak, what they say is shown as it is, with control and direction characters spelt out."""
    parsed = check_harmless(page(*failed_run(64, HOSTILE)))
    assert visible(HOSTILE) in parsed.text
    assert "alert(1)" in parsed.text
    assert "{{7*7}}" in parsed.text


def test_a_line_of_a_megabyte_is_shown_by_its_head() -> None:
    """A page stays a page."""
    diagnosis, details = failed_run(8)
    source = page(with_evidence(diagnosis, "x" * 1_000_000), details)
    assert len(source.encode()) < MOST_BYTES
    assert "(1,000,000 characters)" in source


def test_credentials_are_masked_everywhere() -> None:
    """In the diagnosis, in the event table and in the graph."""
    key = "Zx9" * 8
    diagnosis, details = failed_run(8, f" HF_TOKEN={key} ")
    assert key in str(details.graph.nodes(data=True))
    source = page(diagnosis, details)
    assert key not in source
    assert "HF_TOKEN=***" in source
    assert key not in str(shareable_details(details).events["body"].to_list())


def test_the_command_writes_what_the_library_renders(tmp_path: Path) -> None:
    """`diagnose --format html` shows the lanes and the graph too, not only what the diagnosis alone can."""
    file = tmp_path / "report.html"
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", str(ROOT / "sample_runs/real-sigkill-005/run"), "--format", "html", "-o", str(file), "-q"])
    assert not ended.value.code
    written = file.read_text(encoding="utf-8")
    diagnosis, details = sample("real-sigkill-005")
    named = replace(diagnosis, run=replace(diagnosis.run, path=str(ROOT / "sample_runs/real-sigkill-005/run")))
    assert written == page(named, details)
