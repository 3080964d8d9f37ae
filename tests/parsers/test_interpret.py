"""From lines to events: groups, prefixes, inherited times, torn lines, broken builders."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FileKind, Severity, TimeSource
from correlator.parsers.base import Anchor, Dialect, FileContext, Hit, Layer, LinePattern
from correlator.parsers.interpret import NOTE, FileParser, stamp_of
from correlator.parsers.pci import normalise_pci
from correlator.parsers.table import PatternTable, build_table

SECOND = 1_764_464_523_000_000_000
Reader = Callable[..., object]


def pattern(regex: str, **facts: object) -> LinePattern:
    """A pattern of which a test cares for little."""
    fields: dict[str, object] = {"id": "t.one", "event_name": Context.MESSAGE, "samples": (), "lookalikes": ()}
    return LinePattern(regex=regex, **(fields | facts))  # type: ignore[arg-type]


def table_of(*patterns: LinePattern) -> PatternTable:
    """A table of these alone."""
    return build_table((Dialect("test", "Test", patterns),), ())


def events_of(parsed: object) -> list[Event]:
    """The events of a parsed file."""
    found: list[Event] = parsed.events  # type: ignore[attr-defined]
    return found


def test_groups_become_typed_fields_and_attributes(read_file: Reader) -> None:
    """Integers, floats, PCI addresses; other names are attributes; the prefix fills the rest."""
    table = table_of(
        pattern(r"hit step=(?P<step>[\d,]+) loss=(?P<loss>\S+) gpu=(?P<gpu>\S+) peer=(?P<peer>\S+)(?P<unset>x)?")
    )
    data = (
        b"[default1]:[rank9]:W1130 01:02:03.123000 4245 torch/x.py:1] hit step=1,200 loss=nan gpu=4b000 peer=node05\n"
    )
    [event] = events_of(read_file(data, table=table))
    assert (event.step, event.gpu, event.attributes) == (1200, "0000:4b:00", (("peer", "node05"),))
    assert event.loss != event.loss
    assert (event.rank, event.local_rank, event.process_pid, event.severity) == (9, 1, 4245, Severity.WARN)
    assert (event.timestamp_ns, event.time_source) == (SECOND + 123_000_000, TimeSource.EXPLICIT)
    assert event.body.startswith("hit step")


def test_a_group_wins_over_the_prefix(read_file: Reader) -> None:
    """The pattern knows the line better than its prefix does."""
    table = table_of(pattern(r"rank (?P<rank>\d+) said", severity=Severity.FATAL))
    [event] = events_of(read_file(b"[rank9]: rank 3 said\n", table=table))
    assert (event.rank, event.severity) == (3, Severity.FATAL)


def test_numbers_that_fit_no_column_are_left_out(read_file: Reader) -> None:
    """An int32 column cannot hold everything that a log can print."""
    table = table_of(pattern(r"n (?P<rank>\d+) (?P<step>\d+)"))
    [event] = events_of(read_file(b"n 4294967296 99999999999999999999999\n", table=table))
    assert (event.rank, event.step) == (None, None)


def test_anchor_layers_and_kinds_are_demanded(read_file: Reader) -> None:
    """Start of the message, one of the layers, one of the kinds."""
    start = table_of(pattern("boom"))
    anywhere = table_of(pattern("boom", anchor=Anchor.ANYWHERE))
    layered = table_of(pattern("boom", requires=frozenset({Layer.C10D, Layer.SLURM})))
    kernel = table_of(pattern("boom", kinds=frozenset({FileKind.KERNEL_LOG})))
    assert not events_of(read_file(b"a boom\n", table=start))
    assert events_of(read_file(b"a boom\n", table=anywhere))
    assert not events_of(read_file(b"boom\n", table=layered))
    assert events_of(read_file(b"srun: error: boom\n", table=layered))
    assert not events_of(read_file(b"boom\n", table=kernel))


def test_the_highest_priority_takes_the_line_and_the_first_on_a_tie(read_file: Reader) -> None:
    """One event a segment."""
    table = table_of(
        pattern("bo", id="low"), pattern("boo", id="high", priority=60), pattern("boom", id="late", priority=60)
    )
    assert [event.signature for event in events_of(read_file(b"boom\n", table=table))] == ["high"]


def test_a_broken_builder_keeps_the_line_and_says_so(read_file: Reader) -> None:
    """A bug in one pattern must not end the run."""

    def broken(hit: Hit) -> Iterable[Event]:
        raise ZeroDivisionError(hit.dialect)

    [event] = events_of(read_file(b"boom\n", table=table_of(pattern("boom", build=broken))))
    assert event.attribute(NOTE) == "ZeroDivisionError in the builder of t.one"


def test_each_segment_makes_its_own_event_with_its_offset(read_file: Reader) -> None:
    """Progress bars end in carriage returns."""
    parsed = read_file(b"x\nboom 1\rbar\rboom 2\r\n", table=table_of(pattern("boom")))
    assert [(event.line_number, event.byte_offset) for event in events_of(parsed)] == [(2, 2), (2, 13)]
    assert (parsed.event_segments, parsed.segments) == (2, 4)  # type: ignore[attr-defined]


def test_a_torn_line_is_recognised_but_counts_as_one_segment(read_file: Reader) -> None:
    """The second writer's message begins in mid-line (formats.md R6)."""
    data = b"loss 2.5[rank3]:[E1130 01:02:03.000000042 ProcessGroupNCCL.cpp:629] boom\n"
    parsed = read_file(data, table=table_of(pattern("boom")))
    [event] = events_of(parsed)
    assert (event.rank, event.byte_offset) == (3, 8)
    assert parsed.event_segments == 1  # type: ignore[attr-defined]


BOOM = pattern("boom")


def times(parsed: object) -> list[tuple[int | None, TimeSource]]:
    """Seconds after the reference, and where they come from."""
    return [
        (None if event.timestamp_ns is None else (event.timestamp_ns - SECOND) // 10**9, event.time_source)
        for event in events_of(parsed)
    ]


def test_a_line_without_time_takes_the_one_before(read_file: Reader) -> None:
    """Of any line, where the file has one writer."""
    data = b"2025-11-30 01:02:03 a\n2025-11-30 01:02:05 b\nboom\n2025-11-30 01:02:09 c\n"
    assert times(read_file(data, kind=FileKind.RANK_LOG, table=table_of(BOOM))) == [(2, TimeSource.INHERITED)]


def test_in_a_merged_file_only_the_same_writers_time_counts(read_file: Reader) -> None:
    """Rank 3's line does not take rank 5's time."""
    data = b"[default3]:2025-11-30 01:02:04 a\n[default5]:2025-11-30 01:02:08 b\n[default3]:boom\n"
    assert times(read_file(data, kind=FileKind.NODE_LOG, table=table_of(BOOM))) == [(1, TimeSource.INHERITED)]


@pytest.mark.parametrize("second", ["[default3]:[rank3]: ", "[default3]:"])
@pytest.mark.parametrize("first", ["[default3]:[rank3]:", "[default3]:"])
def test_the_outer_label_tells_writers_apart(first: str, second: str, read_file: Reader) -> None:
    """A process prints its rank on some lines only; in a node's log its label is enough (formats.md B5)."""
    data = (
        b"[default3]:2025-11-30 01:02:04 a\n[default3]:[rank3]:2025-11-30 01:02:04 a\n"
        b"%s2025-11-30 01:02:05 ERROR x\n[default5]:2025-11-30 01:02:08 b\n%sboom\n" % (first.encode(), second.encode())
    )
    assert times(read_file(data, kind=FileKind.NODE_LOG, table=table_of(BOOM))) == [(2, TimeSource.INHERITED)]


@pytest.mark.parametrize(
    ("label", "expected"), [("3: ", 2), ("3: [rank6]: ", 2), ("3: [rank7]: ", 3), ("4: ", 6), ("[rank6]: ", 6)]
)
def test_ranks_under_one_task_are_told_apart_where_they_say_it(label: str, expected: int, read_file: Reader) -> None:
    """A task may be a node's launcher: its bare lines may be anyone's, another rank's lines are not."""
    lines = ["3: [rank7]:2025-11-30 01:02:06 a", "3: [rank6]:2025-11-30 01:02:05 b", "4: 2025-11-30 01:02:09 c"]
    data = "\n".join([*lines, f"{label}boom", ""]).encode()
    parsed = read_file(data, kind=FileKind.CONSOLE_LOG, table=table_of(BOOM))
    assert times(parsed) == [(expected, TimeSource.INHERITED)]


def test_actors_of_one_ray_log_keep_their_own_times(read_file: Reader) -> None:
    """`(Worker pid=1)` is another process than `(Worker pid=2)`."""
    data = b"(W pid=11) 2025-11-30 01:02:04 a\n(W pid=12) 2025-11-30 01:02:08 b\n(W pid=11) boom\n"
    assert times(read_file(data, kind=FileKind.CONSOLE_LOG, table=table_of(BOOM))) == [(1, TimeSource.INHERITED)]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_times_are_remembered_over_chunk_borders(size: int, read_file: Reader) -> None:
    """The last known time of an earlier chunk serves."""
    data = b"2025-11-30 01:02:04 a\nplain\nplain\nboom\n"
    parsed = read_file(data, kind=FileKind.RANK_LOG, table=table_of(BOOM, pattern("plain", id="p")), chunk_lines=size)
    assert times(parsed)[-1] == (1, TimeSource.INHERITED)


def test_before_all_times_the_next_one_serves_and_else_none(read_file: Reader) -> None:
    """Nothing is invented."""
    table = table_of(BOOM)
    assert times(read_file(b"boom\n2025-11-30 01:02:04 a\n", table=table)) == [(1, TimeSource.INHERITED)]
    assert times(read_file(b"boom\nplain\n", table=table)) == [(None, TimeSource.NONE)]


def test_the_boot_anchor_is_found_before_the_first_event(read_file: Reader) -> None:
    """Raw dmesg has wall time as soon as the RTC line is in the file, hit or not."""
    data = b"[    2.000000] rtc_cmos 00:01: setting system clock to 2025-11-30T01:02:03 UTC (1764464523)\n[    7.000000] boom\n"
    [event] = events_of(read_file(data, kind=FileKind.KERNEL_LOG, table=table_of(BOOM)))
    assert (event.timestamp_ns, event.boot_seconds) == (SECOND + 5 * 10**9, 7.0)


def test_stamp_of_reads_the_last_segment(context: FileContext) -> None:
    """For the first and last time of a file."""
    assert stamp_of(b"2025-11-30 01:02:03 a\r2025-11-30 01:02:04 b\r", context) == SECOND + 10**9
    assert stamp_of(b"no time", context) is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00"),
        ("0000:3b:00", "0000:3b:00"),
        ("PCI:0019:01:00", "0019:01:00"),
        ("3b:00.0", "0000:3b:00"),
        ("4b000", "0000:4b:00"),
        ("0x101c000", "0010:1c:00"),
        ("3", None),
        ("gpu", None),
    ],
)
def test_pci_addresses_have_one_spelling(text: str, address: str | None) -> None:
    """NVML, kernel, NCCL and torch print the same GPU differently."""
    assert normalise_pci(text) == address


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400), size=st.integers(1, 5), kind=st.sampled_from(list(FileKind)))
def test_any_bytes_are_parsed_without_error(data: bytes, size: int, kind: FileKind, read_file: Reader) -> None:
    """With the real table; nothing raises, and no more segments are accounted for than there are."""
    parsed = read_file(data, kind=kind, chunk_lines=size)
    assert parsed.event_segments + parsed.folded_segments <= parsed.segments  # type: ignore[attr-defined]


def test_a_line_of_very_many_segments_is_read_in_bounds(read_file: Reader) -> None:
    """A whole history of bars in one physical line: the recognised ones count, the rest is not even peeled."""
    data = b"bar\r" * 50_000 + b"boom\r" + b"bar\r" * 50_000 + b"\n"
    parsed = read_file(data, table=table_of(BOOM))
    [event] = events_of(parsed)
    assert event.byte_offset == 200_000


def test_a_parser_is_made_for_one_file(context: FileContext) -> None:
    """An empty chunk is no error."""

    class Empty:
        final = True

        def __len__(self) -> int:
            return 0

        def raw(self, index: int) -> bytes:
            raise IndexError(index)

        number = offset = raw  # type: ignore[assignment]

    result = FileParser(context, table_of(BOOM)).parse(Empty(), [])  # type: ignore[arg-type]
    assert (result.events, result.event_segments, result.folded_segments, result.resume_index) == ([], 0, 0, None)
