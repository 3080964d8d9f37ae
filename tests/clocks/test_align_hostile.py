"""Whatever the table holds, alignment ends without an error and keeps the schema."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.clocks import align
from correlator.core.model import Topology
from correlator.core.schema import validate
from correlator.core.vocabulary import FileKind
from tests.helpers_events import event, log, table

NAMES = (
    "progress collective_timeout work_status dump_signal collective_entry nccl_comm_init rendezvous_complete store_lost "
    "clock_step task_exit worker_failed child_failed_row xid gpu_off_bus cuda_oom agent_signalled worker_signalled terminated_by_launcher checkpoint_saved"
).split()
ATTRIBUTES = st.dictionaries(
    st.sampled_from(
        ["ran_ms", "from_rank", "comm_id", "phase", "step_s", "direction", "p2p", "checkpoint", "nodes", "error_file"]
    ),
    st.sampled_from(
        ["nan", "inf", "-1", "1e9", "600000", "complete", "start", "", "|", "\x1f", "true", "é", '["a1", "a2"]']
    ),
    max_size=4,
)
KINDS = st.sampled_from([FileKind.RANK_LOG, FileKind.KERNEL_LOG, FileKind.LAUNCHER_LOG, FileKind.FLIGHT_RECORDER])


@st.composite
def events(draw: st.DrawFn, line: int) -> object:
    seconds = draw(st.none() | st.sampled_from([0.0, 0.5, 1e9, -1.7e9, 7e9]) | st.floats(-1e5, 1e5))
    optional = {
        "rank": st.none() | st.integers(0, 3),
        "step": st.none() | st.integers(-1, 3),
        "collective_seq": st.none() | st.integers(0, 3),
        "process_group": st.none() | st.sampled_from(["0", "|"]),
        "boot_seconds": st.none() | st.floats(0, 1e9),
        "time_granularity_ms": st.none() | st.sampled_from([1e-6, 1.0, 1000.0, 6e4]),
        "time_zone": st.none() | st.sampled_from(["Z", "+01:00", "nonsense"]),
        "exception_type": st.none() | st.just("KeyError"),
        "process_pid": st.none() | st.integers(1, 3),
        "gpu": st.none() | st.just("0000:3b:00"),
    }
    fields = {name: draw(strategy) for name, strategy in optional.items()}
    return event(draw(st.sampled_from(NAMES)), line, seconds=seconds, attributes=draw(ATTRIBUTES), **fields)


@st.composite
def files(draw: st.DrawFn) -> list:
    parts = []
    for number in range(draw(st.integers(1, 5))):
        node = draw(st.sampled_from(["a1", "a2", "a3"]))
        lines = [draw(events(line)) for line in range(draw(st.integers(0, 12)))]
        parts.append((log(f"{number}.log", draw(KINDS), node=node), lines))
    return parts


@settings(max_examples=12, deadline=None)
@given(files())
def test_no_table_breaks_the_alignment(parts: list) -> None:
    """Times of any year, numbers that are none, keys with separators in them."""
    aligned = align(table(parts), Topology(world_size=None, ranks=(), nodes=("a1", "a2", "a3")))
    assert validate(aligned.events) == []
    assert len({one.node for one in aligned.clocks.estimates}) == len(aligned.clocks.estimates)
    for one in aligned.clocks.estimates:
        assert one.interval_ms is None or one.interval_ms[0] <= one.offset_ms <= one.interval_ms[1]
