"""Every sample run gets its verdict, accuses no innocent, and has each of its physical lines accounted for."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import correlator
from correlator.core.vocabulary import VerdictStatus
from correlator.graphs.reasoning import MOST_USES
from correlator.pipeline import Run
from correlator.reports.text_reasons import MOST_TREE_LINES, tree_lines

ROOT = Path(__file__).parent.parent
SAMPLES = sorted(path.parent for path in (ROOT / "sample_runs").glob("*/expected.json"))
LINE_BASED_SKIP = re.compile(r"trace_rank_\d+(\.gz)?$")


@cache
def opened(name: str) -> Run:
    return correlator.open_run(ROOT / "sample_runs" / name / "run", workers=1)


def place(initiator: dict[str, object]) -> tuple[str, object]:
    if initiator.get("rank") is not None:
        return ("rank", initiator["rank"])
    if initiator.get("node"):
        return ("node", initiator["node"])
    return ("fault", initiator.get("fault"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_the_verdict_is_one_that_an_expert_accepts(sample: Path) -> None:
    """Initiators (or the status without any) are exactly those of the truth or of an accepted alternative."""
    truth = json.loads((sample / "expected.json").read_text())
    verdict = opened(sample.name).diagnosis.verdict
    said = {place({"rank": i.rank, "node": i.node, "fault": str(i.fault)}): str(i.fault) for i in verdict.initiators}
    accepted = [truth["initiators"], *truth.get("also_accept", [])]
    if verdict.status in (VerdictStatus.IDENTIFIED, VerdictStatus.TIED):
        wanted = [{place(i): i["fault"] for i in initiators} for initiators in accepted]
        assert set(said) in [set(w) for w in wanted]
        assert any(said == w for w in wanted), "right place, wrong fault"
    else:
        assert verdict.status in {truth["status"], *truth.get("also_accept_status", [])}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_every_physical_line_is_accounted_for(sample: Path) -> None:
    """Counts of the reports equal `wc -l` (plus an unterminated last line) and the carriage returns inside lines."""
    run = opened(sample.name)
    by_path = {report.path: report for report in run.reports}
    files = [path for path in (sample / "run").rglob("*") if path.is_file()]
    skipped = {skip.path for skip in run.skipped}
    for file in files:
        path = file.relative_to(sample / "run").as_posix()
        if path in skipped or LINE_BASED_SKIP.search(path):
            continue
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        report = by_path[path]
        lines = data.count(b"\n") + (0 if data.endswith(b"\n") or not data else 1)
        splits = sum(len(re.findall(rb"\r(?!$)", line)) for line in data.split(b"\n"))
        assert (path, report.lines, report.cr_splits) == (path, lines, splits)
        accounted = report.events + report.folded + report.thinned + report.plain
        assert (path, accounted) == (path, lines + splits)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_evidence_lines_exist_where_they_are_cited(sample: Path) -> None:
    """Each cited line is in its file at that number, and holds the text that is cited."""
    for initiator in opened(sample.name).diagnosis.verdict.initiators:
        assert initiator.evidence
        for cited in initiator.evidence:
            file = sample / "run" / cited.file
            if LINE_BASED_SKIP.search(cited.file) or file.suffix in (".gz", ".json"):
                continue
            line = file.read_bytes().split(b"\n")[cited.line - 1].decode("utf-8", "replace")
            first = cited.text.split("\n")[0].strip()
            # A text put together from two lines (`terminate called ...` and its `what()`) is cited at the second.
            assert first[:60] in line or first[-60:] in line, (cited.file, cited.line, first)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_each_rank_dragged_in_has_a_path_to_an_initiator_or_is_said_to_have_none(sample: Path) -> None:
    """The paths are paths of the graph, from an initiator; the tree of the report names whoever has none."""
    run = opened(sample.name)
    roots = {root.id for root in run.findings.roots}
    lines = tree_lines(run.diagnosis)
    assert len(lines) <= MOST_TREE_LINES
    for member in run.diagnosis.collateral:
        path = member.explained_by
        if path:
            assert path[0] in roots
            assert all(run.graph.has_edge(*pair) for pair in pairwise(path))
        elif roots:
            assert any(line.startswith("not explained:") and f"({member.kind})" in line for line in lines)
    assert all(len(values["events"]) > 0 for _, values in run.graph.nodes(data=True))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_rules_that_fired_and_were_refused_are_told(sample: Path) -> None:
    run = opened(sample.name)
    uses = run.diagnosis.rules
    assert sum(use.number for use in uses if use.accepted) == run.graph.number_of_edges()
    assert len(uses) <= 2 * MOST_USES
    assert all(use.reason and use.example and (use.probability is not None) is use.accepted for use in uses)
