"""Seconds since boot become wall time through lines that carry both, else through what ranks say."""

from __future__ import annotations

import polars as pl
import pytest

from correlator.clocks.kernel_time import anchored
from correlator.core.schema import validate
from correlator.core.vocabulary import FileKind
from tests.helpers_events import at, event, log, table

KERNEL = log("dmesg.txt", FileKind.KERNEL_LOG, node="node01")
RANK = log("rank.log", FileKind.RANK_LOG, node="node01")


def start_and_width(events: pl.DataFrame, line: int) -> tuple[float, float, str]:
    row = events.filter((pl.col("log_file_path").cast(pl.String) == "dmesg.txt") & (pl.col("line_number") == line))
    ns = row["timestamp"].dt.epoch("ns").item()
    return (ns - at(0)) / 1e9, row["time_granularity_ms"].item() / 1000, str(row["time_source"].item())


def test_a_line_with_both_clocks_anchors_the_rest() -> None:
    """The nearest such line gives the constant; the interval is as wide as its stamp, and grows with the distance."""
    both = log("kern.log", FileKind.KERNEL_LOG, node="node01")
    events = anchored(
        table(
            [
                (both, [event("kernel_boot", 1, seconds=100.0, boot_seconds=5000.0, time_granularity_ms=1000.0)]),
                (KERNEL, [event("xid", 7, boot_seconds=5010.5)]),
            ]
        )
    )
    start, width, source = start_and_width(events, 7)
    assert start == pytest.approx(110.5, abs=0.01)
    assert width == pytest.approx(1.002, abs=0.001)
    assert source == "interpolated"
    assert validate(events) == []


def test_else_the_rank_of_the_same_gpu_anchors_it() -> None:
    """An Xid comes with the CUDA error of its GPU, up to ten seconds before: the interval says so."""
    gpu = "0000:3b:00"
    events = anchored(
        table(
            [
                (KERNEL, [event("gpu_off_bus", 7, boot_seconds=5000.0, gpu=gpu), event("xid", 8, boot_seconds=5002.0)]),
                (
                    RANK,
                    [
                        event("cuda_oom", 1, seconds=20.0, gpu="0000:5e:00"),
                        event("cuda_launch_failure", 2, seconds=50.0, gpu=gpu),
                    ],
                ),
            ]
        )
    )
    start, width, _ = start_and_width(events, 7)
    assert start <= 49.5 <= start + width
    assert 10 <= width < 10.1
    assert start_and_width(events, 8)[0] == pytest.approx(start + 2.0, abs=0.01)


def test_nothing_to_anchor_with_leaves_the_line_without_time() -> None:
    """Another node's lines say nothing, and a table without such lines is handed back as it is."""
    other = log("b.log", FileKind.RANK_LOG, node="node02")
    events = table([(KERNEL, [event("xid", 7, boot_seconds=5010.5)]), (other, [event("cuda_oom", 1, seconds=3.0)])])
    assert anchored(events)["timestamp"].null_count() == 1
    timed = table([(other, [event("cuda_oom", 1, seconds=3.0)])])
    assert anchored(timed) is timed
