"""The causal graph for other programs: each format is read back, and names cannot break out of their quotes."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.cli.app import main
from correlator.core.model import Diagnosis
from correlator.reports.cleaning import visible
from correlator.reports.details import Details
from correlator.reports.graph_export import LONGEST_LABEL, export_graph
from correlator.reports.graph_formats import GraphFormat
from tests.helpers_reports import HOSTILE, ROOT, SAMPLES, failed_run, sample

DOT_ID = r'"((?:[^"\\]|\\.)*)"'
DOT_LINE = re.compile(
    rf"  (?:(?:graph|node|edge) \[(?:\w+={DOT_ID}(?:, )?)+\]|{DOT_ID}(?: -> {DOT_ID})? \[(?:\w+={DOT_ID}(?:, )?)+\]);"
)
MERMAID_LINE = re.compile(
    r'  (?:g\d+\["(?:[\w .,:/+\'?\xd7…-]|#\d+;|<br/>)*"\](?::::started)?|g\d+ -->(?:\|"\xd7\d+"\|)? g\d+|classDef started [\w#,:]+)'
)


def exported(diagnosis: Diagnosis, details: Details, graph_format: GraphFormat) -> str:
    """The graph as text."""
    out = io.StringIO()
    export_graph(diagnosis, details, out, graph_format=graph_format)
    return out.getvalue()


@pytest.fixture(params=[*SAMPLES, "8 ranks", "hostile"])
def run(request: pytest.FixtureRequest) -> tuple[Diagnosis, Details]:
    """Runs of all sorts, also one without a failure."""
    if request.param == "8 ranks":
        return failed_run(8)
    return failed_run(16, HOSTILE) if request.param == "hostile" else sample(request.param)


def test_graphml_is_read_back(run: tuple[Diagnosis, Details]) -> None:
    """The same nodes and edges, with numbers as numbers."""
    graph = nx.parse_graphml(exported(*run, GraphFormat.GRAPHML))
    assert set(graph.nodes) == set(run[1].graph.nodes)
    assert set(graph.edges()) == set(run[1].graph.edges)
    assert all(isinstance(values["q"], float) and values["rule"] for _, _, values in graph.edges(data=True))
    named = [values for _, values in graph.nodes(data=True) if values["initiator"]]
    assert bool(named) == bool(run[0].verdict.initiators)


def test_node_link_json_is_read_back(run: tuple[Diagnosis, Details]) -> None:
    """networkx takes it as it is, and it says of which run it is."""
    data = json.loads(exported(*run, GraphFormat.JSON))
    graph = nx.node_link_graph(data, edges="links")
    assert set(graph.nodes) == set(run[1].graph.nodes)
    assert set(graph.edges()) == set(run[1].graph.edges)
    assert data["graph"]["schema"] == "correlator.graph/1"


def test_dot_is_nothing_but_quoted_statements(run: tuple[Diagnosis, Details]) -> None:
    """Each line is one statement whose texts are within quotes; there are as many as nodes and edges."""
    first, *lines, last = exported(*run, GraphFormat.DOT).splitlines()
    assert (first, last) == ("digraph causes {", "}")
    assert not [line for line in lines if DOT_LINE.fullmatch(line) is None]
    assert sum(" -> " in re.sub(DOT_ID, '""', line) for line in lines) == run[1].graph.number_of_edges()
    assert len(lines) == 3 + run[1].graph.number_of_nodes() + run[1].graph.number_of_edges()


def test_mermaid_is_nothing_but_quoted_statements(run: tuple[Diagnosis, Details]) -> None:
    """Each line is one statement, and its labels hold no character that means anything."""
    first, *lines = exported(*run, GraphFormat.MERMAID).splitlines()
    assert first == "flowchart TD"
    assert not [line for line in lines if MERMAID_LINE.fullmatch(line) is None]
    assert len(lines) <= 60 + 120 + 1


def test_mermaid_folds_a_thousand_ranks() -> None:
    """Renderers stop at a few hundred edges; a story has few boxes."""
    assert len(exported(*failed_run(1024), GraphFormat.MERMAID).splitlines()) < 12


@pytest.mark.parametrize("graph_format", GraphFormat)
def test_the_same_run_gives_the_same_bytes(graph_format: GraphFormat) -> None:
    """And no control character in any of them."""
    text = exported(*failed_run(16, HOSTILE), graph_format)
    assert text == exported(*failed_run(16, HOSTILE), graph_format)
    assert not [c for c in text if not c.isprintable() and c != "\n"]


@pytest.mark.parametrize("graph_format", GraphFormat)
def test_credentials_are_masked(graph_format: GraphFormat) -> None:
    """Graphs are shared too."""
    key = "Zx9" * 8
    assert key not in exported(*failed_run(8, f" HF_TOKEN={key} "), graph_format)


@given(text=st.text(max_size=80))
@settings(max_examples=60)
def test_any_name_survives_the_quotes_of_dot(text: str) -> None:
    """Undoing the escapes gives the name back, as far as it can be seen."""
    diagnosis, details = failed_run(1)
    graph = nx.DiGraph()
    graph.add_node("e0", kind="episode", code="x", role="collateral", rank=None, node=f"n{text}", events=[])
    line = exported(diagnosis, Details(details.events, graph), GraphFormat.DOT).splitlines()[4]
    assert DOT_LINE.fullmatch(line)
    label = re.search(rf"label={DOT_ID}", line)
    assert label is not None
    names = label[1].split("\\n", 1)[1] if "\\n" in label[1] else ""
    shown = visible(f"n{text}")
    assert re.sub(r"\\(.)", r"\1", names)[:LONGEST_LABEL].startswith(shown[:10].rstrip()) or len(shown) > LONGEST_LABEL


@pytest.mark.parametrize(
    ("name", "begins"), [("g.graphml", "<?xml"), ("g.dot", "digraph"), ("g.mmd", "flowchart"), ("g.json", "{")]
)
def test_the_command_goes_by_the_suffix(name: str, begins: str, tmp_path: Path) -> None:
    """A file for another program, which is not overwritten unless asked for."""
    arguments = ["graph", str(ROOT / "sample_runs/real-sigkill-005/run"), "-o", str(tmp_path / name), "-q"]
    assert exit_code(arguments) == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)
    assert exit_code(arguments) == 2


def test_the_command_knows_no_other_suffix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says which it knows, before any work is done."""
    assert exit_code(["graph", "nothing-there", "-o", str(tmp_path / "g.png")]) == 2
    assert ".graphml" in capsys.readouterr().err


def exit_code(arguments: list[str]) -> int:
    """How the command line ended."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)
