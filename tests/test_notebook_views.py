"""A run in Python: tidy frames, charts, cards, and Arrow for other libraries."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import correlator
from correlator.core.model import Diagnosis
from correlator.core.schema import COLUMN_NAMES
from correlator.notebook.cards import diagnosis_card
from correlator.pipeline import Run
from correlator.reports.cleaning import map_texts

SAMPLES = Path(__file__).resolve().parent.parent / "sample_runs"
NAMES = ("sim-dataloader-stall-merged-5s-319", "real-healthy-noisy-002", "pub-uneven-iterable")


@cache
def opened(name: str) -> Run:
    """A sample run, read once."""
    return correlator.open_run(SAMPLES / name / "run", workers=1)


@pytest.mark.parametrize("name", NAMES)
def test_frames_are_tidy(name: str) -> None:
    """A row a thing, times as times; as many as the diagnosis has, also where it has none."""
    run = opened(name)
    assert run.collateral.height == len(run.diagnosis.collateral)
    assert run.clock_table.height == len(run.clocks.estimates)
    assert run.episodes.filter("initiator").height >= len(run.diagnosis.verdict.initiators)
    for frame in (run.episodes, run.collateral, run.progress):
        assert frame.schema["time"] == pl.Datetime("ns", "UTC")
    assert run.episodes["time"].equals(run.episodes["time"].sort(nulls_last=True))


def test_step_times_are_those_of_one_writer() -> None:
    """Seconds between the lines of the same rank, a step; never across ranks."""
    steps = opened(NAMES[0]).progress.drop_nulls("step_time_s")
    assert steps.height > 200
    assert 3 < (steps["step_time_s"].median() or 0) < 6
    assert steps["step_time_s"].min() > 1  # type: ignore[operator]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chart", ["timeline_chart", "event_density_chart", "step_time_chart", "clock_chart"])
def test_every_chart_of_every_run_is_valid(name: str, chart: str) -> None:
    """Also where there is nothing to draw; rows stay below what altair takes; no HTML is in the data."""
    alt = pytest.importorskip("altair")
    spec = getattr(opened(name), chart)().to_dict()  # validates against the schema
    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
    assert sum(len(rows) for rows in spec.get("datasets", {}).values()) < alt.data_transformers.options.get(
        "max_rows", 5000
    )
    assert "<" not in str(spec.get("datasets"))


def test_the_lanes_show_who_started_it() -> None:
    """Its mark has a colour of its own, and one lane for each rank that something befell."""
    pytest.importorskip("altair")
    spec = opened(NAMES[0]).timeline_chart().to_dict()
    rows = [row for data in spec["datasets"].values() for row in data]
    started = {row["lane"] for row in rows if row.get("kind") == "started it"}
    assert started == {"41, node077"}
    assert len({row["lane"] for row in rows}) >= 64


def test_many_ranks_share_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than fit are drawn as nodes, and the accused is still among them."""
    pytest.importorskip("altair")
    from correlator.notebook import charts

    monkeypatch.setattr(charts, "MOST_LANES", 10)
    monkeypatch.setattr(charts, "DENSITY_LANES", 10)
    spec = opened(NAMES[0]).timeline_chart().to_dict()
    rows = [row for data in spec["datasets"].values() for row in data]
    assert {row["lane"] for row in rows if row["kind"] == "started it"} == {"node077"}
    assert len({row["lane"] for row in rows}) == 8
    density = opened(NAMES[0]).event_density_chart().to_dict()
    assert len({row["lane"] for data in density["datasets"].values() for row in data}) <= 10


def test_other_libraries_take_the_run_as_it_is() -> None:
    """pyarrow, polars, pandas and DuckDB, through the Arrow PyCapsule interface; column docs come along."""
    run = opened(NAMES[0])
    table = pa.table(run)
    assert table.column_names == list(COLUMN_NAMES)
    assert table.schema.field("rank").metadata[b"doc"]
    assert pl.DataFrame(run).height == run.events.height
    pandas = pytest.importorskip("pandas")
    assert len(pandas.DataFrame.from_arrow(run)) == run.events.height
    duckdb = pytest.importorskip("duckdb")
    (counted,) = duckdb.sql("SELECT count(*) FROM run").fetchall()[0]
    assert counted == run.events.height


class Tags(HTMLParser):
    """Which elements a page has, and whether they are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags_of(html: str) -> set[str]:
    """The elements of a page, each closed in order."""
    parser = Tags()
    parser.feed(html)
    assert parser.open == []
    return parser.seen


@pytest.mark.parametrize("name", NAMES)
def test_cards_are_small_and_need_no_script(name: str) -> None:
    """A table, the verdict and a strip, all inline: no script, no reference to anything outside."""
    run = opened(name)
    for html in (run._repr_html_(), run.diagnosis._repr_html_()):
        assert len(html) < 30_000
        assert tags_of(html) <= {"div", "b", "table", "tr", "td", "svg", "line", "rect", "title", "text", "tbody"}
        assert not re.search(r"(?:src|href|url)\s*[=(]", html)
    assert run.diagnosis.verdict.summary.split(" ")[0] in run._repr_html_()
    assert f"{run.events.height:,}" in run._repr_html_()


@pytest.mark.parametrize("case", ["identified", "tied", "undetermined", "healthy"])
def test_every_verdict_has_a_card(case: str, request: pytest.FixtureRequest) -> None:
    """With its status in words."""
    diagnosis: Diagnosis = request.getfixturevalue(case)
    html = diagnosis_card(diagnosis)
    assert diagnosis.verdict.status.value.replace("_", " ").upper() in html
    tags_of(html)


def test_hostile_text_in_a_card_stays_text(identified: Diagnosis) -> None:
    """Markup, control sequences and credentials, in whatever field."""
    evil = '"><script>alert(1)</script>\x1b[31m\u202e api_key=abcdef123456 & '
    html = diagnosis_card(map_texts(identified, lambda text: evil + text))
    assert tags_of(html) <= {"div", "b", "table", "tr", "td", "svg", "line", "rect", "title", "text"}
    assert "abcdef123456" not in html
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_a_run_is_one_line_in_a_shell() -> None:
    """Not a table of a million events."""
    text = repr(opened(NAMES[0]))
    assert text.startswith("<Run ")
    assert "\n" not in text
    assert f"{opened(NAMES[0]).events.height:,} events" in text


def test_views_change_nothing(identified: Diagnosis) -> None:
    """A diagnosis with a card is still equal to itself, and the same JSON."""
    assert dataclasses.replace(identified) == identified
    assert "_repr_html_" not in {field.name for field in dataclasses.fields(identified)}
