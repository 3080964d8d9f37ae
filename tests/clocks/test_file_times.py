"""File times: the weakest evidence, believed only where they have followed the stamps, and never an order."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from correlator.clocks import Aligned, align
from correlator.core.files import FileReport, LogFile
from correlator.core.model import Topology
from correlator.core.vocabulary import FileKind, Order
from tests.helpers_events import at, event, log, report, table

HOUR = 3600.0
AHEAD = {"a1": 0.0, "a2": 2 * HOUR + 3.0, "a3": -11.0}
"""What each node's clock is ahead of the file server's, s. No two nodes share a moment."""
Written = list[tuple[LogFile, FileReport, list]]


def written(ahead: dict[str, float] = AHEAD) -> Written:
    """Two files a node, with last lines five minutes apart; written to disk a second after them."""
    parts = []
    for number, (node, offset) in enumerate(ahead.items()):
        for name, end in (("agent", 300.0 + number), ("rank", 600.0 + 7 * number)):
            file = log(f"{node}/{name}.log", FileKind.RANK_LOG, node=node)
            lines = [event("message", 1, seconds=end - 100 + offset), event("message", 2, seconds=end + offset)]
            seen = replace(report(file), last_time_ns=at(end + offset))
            parts.append((replace(file, modified_ns=at(end + 1.0)), seen, lines))
    return parts


def run(parts: Written, ahead: dict[str, float] = AHEAD) -> Aligned:
    events = table([(file, lines) for file, _, lines in parts])
    topology = Topology(world_size=None, ranks=(), nodes=tuple(ahead))
    return align(events, topology, [file for file, _, _ in parts], [seen for _, seen, _ in parts])


def test_file_times_place_clocks_that_share_nothing() -> None:
    """Offsets to a second, the zone named, and no interval: nothing is ordered by them."""
    aligned = run(written())
    found = {one.node: one for one in aligned.clocks.estimates}
    assert found["a2"].offset_ms == pytest.approx(7_203_000.0, abs=1.0)
    assert found["a2"].timezone == "UTC+02:00 against the others"
    assert found["a3"].offset_ms == pytest.approx(-11_000.0, abs=1.0)
    assert [one.interval_ms for one in found.values()] == [None, None, None]
    assert [kind.kind for kind in found["a2"].kinds] == ["file time"]
    assert aligned.clocks.order("a1", at(0), 1.0, "a2", at(9 * HOUR), 1.0) is Order.INDISTINGUISHABLE
    assert aligned.events["time_uncertainty_ms"].null_count() == aligned.events.height
    last = aligned.events.group_by("clock_domain").agg(pl.col("time_aligned").max())["time_aligned"]
    assert (last.max() - last.min()).total_seconds() < 20


@pytest.mark.parametrize(
    "copied",
    [
        pytest.param(lambda _: at(9000.0), id="all at once"),
        pytest.param(lambda number: at(9000.0 + 0.1 * number), id="one after the other"),
        pytest.param(lambda number: at(3 * 86_400.0 + number), id="days later"),
        pytest.param(lambda _: None, id="none known"),
    ],
)
def test_times_of_a_copy_place_nothing(copied: object) -> None:
    """A copy, a checkout or an unpacked archive has files of one time, whatever their lines say."""
    parts = [(replace(file, modified_ns=copied(i)), seen, lines) for i, (file, seen, lines) in enumerate(written())]
    assert all(one.offset_ms is None for one in run(parts).clocks.estimates)


def test_files_that_end_together_prove_nothing() -> None:
    """Without two last lines that lie apart, the times of a copy and true ones look alike."""
    parts = [part for part in written() if "rank" in part[0].path]
    assert all(one.offset_ms is None for one in run(parts).clocks.estimates)


def test_a_node_whose_files_were_copied_is_not_placed_by_those_of_others() -> None:
    """a2's files were touched; c1 and c2 have one file each, with nothing to prove it by: only c2 would be in order."""
    parts = [
        (replace(file, modified_ns=at(5000.0)), seen, lines) if file.path == "a2/rank.log" else (file, seen, lines)
        for file, seen, lines in [*written(), *written({f"b{i}": float(i) for i in range(8)})]
    ]
    one = [part for part in written({"c1": 400.0, "c2": 3600.0 + 20.0}) if "rank" in part[0].path]
    clocks = run([*parts, *one]).clocks
    assert clocks.estimate("a2").offset_ms is None
    assert clocks.estimate("c1").offset_ms is None
    assert clocks.estimate("c2").offset_ms == pytest.approx(3_620_000.0, abs=1.0)
    assert clocks.estimate("b3").offset_ms == pytest.approx(3_000.0, abs=1.0)


def test_what_nodes_share_outweighs_file_times() -> None:
    """A clock that shared moments tell of keeps its estimate; file times place only the node without any."""
    parts = written()
    shared = [(file, seen, lines) for file, seen, lines in parts if not file.path.startswith("a3")]
    steps = [
        (
            file,
            seen,
            [
                *lines,
                *(event("progress", 9 + i, seconds=10 * i + AHEAD[file.hints.node], step=i, rank=0) for i in range(30)),
            ],
        )
        if "rank" in file.path
        else (file, seen, lines)
        for file, seen, lines in shared
    ]
    late = [
        (replace(file, modified_ns=file.modified_ns + 40 * 10**9), seen, lines)
        for file, seen, lines in steps
        if "a2" in file.path
    ]
    kept = [part for part in steps if "a2" not in part[0].path]
    aligned = run([*kept, *late, *(part for part in parts if part[0].path.startswith("a3"))])
    assert aligned.clocks.estimate("a2").offset_ms == pytest.approx(7_203_000.0, abs=2.0)
    assert aligned.clocks.estimate("a3").offset_ms == pytest.approx(-11_000.0, abs=2.0)
    assert aligned.clocks.estimate("a3").interval_ms is None
