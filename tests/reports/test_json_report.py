"""The JSON contract: names, order, schema."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.core.model import ClockEstimate, Diagnosis, Evidence
from correlator.core.vocabulary import ClockStatus
from correlator.reports import ReportFormat, render
from correlator.reports.json import json_schema, to_jsonable

CONTRACT = {
    "": "schema run verdict hypotheses collateral episodes rules context actions checkpoint clocks missing_evidence skipped warnings",
    "run": "path world_size ranks_seen nodes files lines attempts first_time last_time",
    "verdict": "status confidence summary initiators",
    "verdict.initiators": "rank local_rank node gpu pid fault class time time_uncertainty_ms phase step evidence during",
    "verdict.initiators.evidence": "file line byte_offset text time rule",
    "hypotheses": "initiators fault probability supports contradicts control",
    "collateral": "rank node kind time evidence explained_by",
    "context": "file line text",
    "actions": "first commands verify resume",
    "checkpoint": "last_good_step last_complete safe_to_resume_from why",
    "clocks": "node offset_ms interval_ms drift_ppm timezone evidence status reference as_of_ms kinds steps",
    "skipped": "file reason",
}


def written(diagnosis: Diagnosis) -> str:
    """The report as text."""
    out = io.StringIO()
    render(diagnosis, out, report=ReportFormat.JSON, width=80, color=True, verbose=False)
    return out.getvalue()


def part(value: Any, path: str) -> dict[str, Any]:
    """The object at a dotted path; the first of each list."""
    for name in filter(None, path.split(".")):
        value = value[name]
        value = value[0] if isinstance(value, list) else value
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize(("path", "names"), CONTRACT.items())
def test_the_fields_are_those_of_the_contract(identified: Diagnosis, path: str, names: str) -> None:
    """Exactly these names, in this order."""
    assert list(part(json.loads(written(identified)), path)) == names.split()


@pytest.mark.parametrize("name", ["identified", "tied", "undetermined", "healthy"])
def test_reports_keep_to_the_schema(name: str, request: pytest.FixtureRequest) -> None:
    """The published schema is true, and strict about what must be there."""
    report = json.loads(written(request.getfixturevalue(name)))
    jsonschema.Draft202012Validator(json_schema()).validate(report)
    del report["verdict"]["status"]
    with pytest.raises(jsonschema.ValidationError, match="'status' is a required property"):
        jsonschema.Draft202012Validator(json_schema()).validate(report)


def test_values_are_what_programs_read(identified: Diagnosis) -> None:
    """Enums by their codes, intervals as [low, high], schema first."""
    report = json.loads(written(identified))
    assert report["schema"] == "correlator.diagnosis/1"
    assert report["verdict"]["initiators"][0]["fault"] == "gpu_off_bus"
    assert report["verdict"]["initiators"][0]["class"] == "hardware"
    assert report["clocks"][3]["interval_ms"] == [30119.0, 30131.0]


def test_no_number_that_json_lacks(identified: Diagnosis) -> None:
    """Infinite or undefined values are null, as JSON knows neither."""
    clock = ClockEstimate("n", math.nan, (-math.inf, math.inf), None, None, 0, ClockStatus.NONE)
    report = to_jsonable(dataclasses.replace(identified, clocks=(clock,)))
    assert report["clocks"][0]["offset_ms"] is None
    assert report["clocks"][0]["interval_ms"] is None
    jsonschema.Draft202012Validator(json_schema()).validate(report)


def test_it_is_ascii_and_masked(identified: Diagnosis) -> None:
    """Any consumer can read it, whatever a log or a file name holds; credentials are not in it."""
    line = Evidence("f\udcff.log", 1, 0, "\u202e\x1b[31m é password=hunter22", None, "r")
    text = written(dataclasses.replace(identified, context=(), collateral=(), hypotheses=()))
    assert text.isascii()
    verdict = dataclasses.replace(
        identified.verdict, initiators=(dataclasses.replace(identified.verdict.initiators[0], evidence=(line,)),)
    )
    text = written(dataclasses.replace(identified, verdict=verdict))
    assert text.isascii()
    found = json.loads(text)["verdict"]["initiators"][0]["evidence"][0]
    assert found["file"] == "f\\xff.log"
    assert found["text"] == "\u202e\x1b[31m é password=***"


@given(diagnosis=st.from_type(Diagnosis))
@settings(max_examples=20)
def test_every_report_renders_any_diagnosis(diagnosis: Diagnosis) -> None:
    """A report decides nothing, so it never refuses; the same diagnosis gives the same bytes."""
    for report in ReportFormat:
        first, second = io.StringIO(), io.StringIO()
        for out in (first, second):
            render(diagnosis, out, report=report, width=80, color=False, verbose=True)
        assert first.getvalue() == second.getvalue()
    json.loads(written(diagnosis))
