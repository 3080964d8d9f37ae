"""The trace: the fields that Chrome JSON asks for, slices that nest, flows in pairs that hold on to slices."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.cli.app import main
from correlator.core.model import Diagnosis
from correlator.reports.details import Details
from correlator.reports.perfetto import HUBS, write_trace
from correlator.reports.perfetto_tracks import MOST_TRACKS, Slice, place
from tests.helpers_reports import HOSTILE, ROOT, SAMPLES, failed_run, sample

FIELDS = {
    "M": {"args"},
    "X": {"ts", "dur", "cat", "args"},
    "i": {"ts", "s", "cat", "args"},
    "C": {"ts", "args"},
    "s": {"ts", "id", "cat", "args"},
    "f": {"ts", "id", "cat", "args", "bp"},
    "b": {"ts", "id", "cat", "args"},
    "e": {"ts", "id", "cat"},
}
META = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def traced(diagnosis: Diagnosis, details: Details) -> dict[str, Any]:
    """The trace, read back."""
    out = io.StringIO()
    write_trace(diagnosis, details, out)
    trace: dict[str, Any] = json.loads(out.getvalue())
    return trace


@pytest.fixture(params=[*SAMPLES, "64 ranks", "hostile"])
def events(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The events of runs of all sorts."""
    if request.param == "64 ranks":
        run = failed_run(64)
    else:
        run = failed_run(16, HOSTILE) if request.param == "hostile" else sample(request.param)
    found: list[dict[str, Any]] = traced(*run)["traceEvents"]
    return found


def nanoseconds(microseconds: float) -> int:
    """As the importer reads it."""
    return round(microseconds * 1000)


def test_every_event_has_its_fields(events: list[dict[str, Any]]) -> None:
    """Those of its phase and no other; numbers are numbers, from the start of the run on; threads have names."""
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    processes = {e["pid"] for e in events if e["name"] == "process_name"}
    for event in events:
        assert set(event) == {"ph", "name", "pid", "tid"} | FIELDS[event["ph"]]
        assert isinstance(event["name"], str)
        assert event["name"]
        assert event["pid"] in processes
        if event["ph"] == "M":
            assert event["name"] in META
            continue
        assert (event["pid"], event["tid"]) in named
        assert event["ts"] >= 0
        assert event.get("dur", 1) > 0
        assert event.get("s", "t") in {"t", "p", "g"}
        if event["ph"] == "C":
            assert all(isinstance(value, float) for value in event["args"].values())


def test_slices_nest(events: list[dict[str, Any]]) -> None:
    """On one thread each slice lies within another or beside it."""
    threads = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = nanoseconds(event["ts"])
            threads[event["pid"], event["tid"]].append((start, -(start + nanoseconds(event["dur"]))))
    for slices in threads.values():
        open_ends: list[int] = []
        for start, negative_end in sorted(slices):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or -negative_end <= open_ends[-1]
            open_ends.append(-negative_end)


def test_flows_come_in_pairs_that_hold_on_to_slices(events: list[dict[str, Any]]) -> None:
    """One start and one end for each id, the start first, each at the time of a slice of its thread."""
    slices = {(e["pid"], e["tid"], e["ts"]) for e in events if e["ph"] == "X"}
    flows = [e for e in events if e["ph"] in {"s", "f"}]
    ids = Counter((e["id"], e["ph"]) for e in flows)
    assert set(ids.values()) <= {1}
    assert {number for number, phase in ids if phase == "s"} == {number for number, phase in ids if phase == "f"}
    for start, end in zip(flows[::2], flows[1::2], strict=True):
        assert (start["ph"], end["ph"], start["id"]) == ("s", "f", end["id"])
        assert start["ts"] <= end["ts"]
    assert {(e["pid"], e["tid"], e["ts"]) for e in flows} <= slices
    last_slice = max((number for number, e in enumerate(events) if e["ph"] == "X"), default=-1)
    assert all(number > last_slice for number, e in enumerate(events) if e["ph"] in {"s", "f"})


def test_asynchronous_slices_come_in_pairs(events: list[dict[str, Any]]) -> None:
    """Each begins once and ends once."""
    ids = Counter((e["id"], e["cat"], e["ph"]) for e in events if e["ph"] in {"b", "e"})
    assert set(ids.values()) <= {1}
    assert {key[:2] for key in ids if key[2] == "b"} == {key[:2] for key in ids if key[2] == "e"}


def test_nodes_are_processes_and_ranks_are_threads() -> None:
    """The thread of a rank has its number, and one process more holds the waits."""
    events = traced(*failed_run(16))["traceEvents"]
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert names == ["node0000", "node0001", HUBS]
    threads = {e["args"]["name"]: (e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert threads["rank 0"] == (1, 0)
    assert threads["rank 9"] == (2, 9)


def test_the_story_is_in_the_trace() -> None:
    """The fault with its line and uncertainty, the wait for it, what followed, and the steps before."""
    events = traced(*failed_run(16))["traceEvents"]
    fault = next(e for e in events if e["ph"] == "X" and e["cat"] == "initiator")
    assert (fault["name"], fault["tid"]) == ("gpu_off_bus", 8)
    assert fault["args"]["at"].startswith("node0001/rank_8.log:")
    assert fault["args"]["uncertainty_ms"] == 20.0
    arrows = Counter(e["name"] for e in events if e["ph"] == "s")
    assert arrows == {"E3": 9, "E8": 7}
    assert any(e["ph"] == "i" and e["name"] == "gpu_off_bus" and e["s"] == "p" for e in events)
    assert [e["name"] for e in events if e["ph"] == "X" and e["cat"] == "step"][:2] == ["step 1201", "step 1202"]
    counters = {e["name"] for e in events if e["ph"] == "C"}
    assert counters == {"loss (rank 0)", "step time, s (rank 0)"}
    assert {e["args"]["step time, s"] for e in events if e["name"] == "step time, s (rank 0)"} == {4.0}


def test_the_same_run_gives_the_same_bytes() -> None:
    """And neither control characters nor credentials are in them."""
    out, again = io.StringIO(), io.StringIO()
    key = "Zx9" * 8
    write_trace(*failed_run(16, f"{HOSTILE} HF_TOKEN={key} "), out)
    write_trace(*failed_run(16, f"{HOSTILE} HF_TOKEN={key} "), again)
    assert out.getvalue() == again.getvalue()
    assert key not in out.getvalue()
    texts = json.dumps(json.loads(out.getvalue()), ensure_ascii=False)
    assert not [c for c in texts if not c.isprintable()]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=40))
def test_any_slices_are_placed_so_that_they_nest(spans: list[tuple[int, int]]) -> None:
    """Every slice is placed once; on each track they nest, and only what fits on none is asynchronous."""
    slices = [Slice(start, start + length, str(n), "test", ()) for n, (start, length) in enumerate(spans)]
    placed = place(slices)
    assert sorted(item.name for item in placed) == sorted(item.name for item in slices)
    for track in range(MOST_TRACKS):
        mine = [item for item in placed if item.track == track]
        for a in mine:
            for b in mine:
                disjoint = a.end_ns <= b.start_ns or b.end_ns <= a.start_ns
                nested = (a.start_ns <= b.start_ns and b.end_ns <= a.end_ns) or (
                    b.start_ns <= a.start_ns and a.end_ns <= b.end_ns
                )
                assert disjoint or nested


def test_the_command_compresses_by_the_suffix(tmp_path: Path) -> None:
    """Both files hold the same trace, and compressing it twice gives the same bytes."""
    run = str(ROOT / "sample_runs/real-sigkill-005/run")
    for name in ("t.json", "t.json.gz", "again.json.gz"):
        with pytest.raises(SystemExit) as ended:
            main(["trace", run, "-o", str(tmp_path / name), "-q"])
        assert not ended.value.code
    packed = (tmp_path / "t.json.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "t.json").read_bytes()
    assert packed == (tmp_path / "again.json.gz").read_bytes()


def test_waits_begin_where_the_failure_began() -> None:
    """A timeout says how long it ran: the wait is drawn from there, and no arrow goes against the clock."""
    diagnosis, details = failed_run(16)
    trace = traced(diagnosis, details)
    events = trace["traceEvents"]
    waits = [event for event in events if event["ph"] == "X" and event["name"] == "waiting in a collective"]
    assert {round(event["dur"] / 1e6) for event in waits} == {600}
    (hub,) = (event for event in events if event["ph"] == "X" and event["name"].startswith("waiting in default_pg"))
    (root,) = (event for event in events if event["ph"] == "X" and event.get("cat") == "initiator")
    assert 0 <= hub["ts"] - root["ts"] < 1e6
    assert trace["otherData"]["flows_against_the_clock"] == 0
