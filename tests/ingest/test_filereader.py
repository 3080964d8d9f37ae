"""One file: every segment is accounted for, chunk borders change nothing, and nothing that happens to it raises."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.core.event import Event
from correlator.core.files import Compression
from correlator.core.vocabulary import FileKind, Role
from correlator.ingest.reader import Limits
from correlator.sources import LogStream

FRAGMENTS = [
    b"\n", b"\n", b"\r", b"\r\n", b"\0", b"\xff", "é█".encode(), b"plain ", b"step: ", b"12", b"[rank3]", b"KeyError: ",
    b"out of memory", b"\n  RECORD\n", b"\nRECORD\n  two\n  three", b"  ", b"explode", b"z" * 700,
]  # fmt: skip
logs = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(b"".join)


def _event(line: int) -> Event:
    return Event(
        event_name="message",
        role=Role.CONTEXT,
        signature="dump",
        line_number=line,
        byte_offset=0,
        timestamp_ns=1000 * line,
    )


@settings(max_examples=40, deadline=None)
@given(data=logs, chunk_bytes=st.sampled_from([64, 300, 4096]), record_bytes=st.sampled_from([100, 1 << 22]))
def test_every_segment_is_accounted_for(
    read_bytes: Callable[..., Any], data: bytes, chunk_bytes: int, record_bytes: int
) -> None:
    report = read_bytes(data, Limits(chunk_bytes=chunk_bytes, record_bytes=record_bytes)).outcome.report
    lines = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    returns = data.count(b"\r") - data.count(b"\r\n")
    assert (report.lines, report.cr_splits, report.bytes_read) == (lines, returns, len(data))
    parts = (report.events, report.folded, report.thinned, report.plain)
    assert min(parts) >= 0
    assert sum(parts) == lines + returns


@settings(max_examples=40, deadline=None)
@given(data=logs.filter(lambda data: b"explode" not in data), chunk_bytes=st.integers(64, 400))
def test_chunk_borders_change_nothing(read_bytes: Callable[..., Any], data: bytes, chunk_bytes: int) -> None:
    whole, pieces = read_bytes(data), read_bytes(data, Limits(chunk_bytes=chunk_bytes))
    assert pieces.rows == whole.rows
    assert pieces.outcome.report == whole.outcome.report


@settings(max_examples=40, deadline=None)
@given(data=logs)
def test_both_engines_give_the_same_file(read_bytes: Callable[..., Any], data: bytes) -> None:
    fast, slow = read_bytes(data), read_bytes(data, force_re=True)
    assert (fast.rows, fast.outcome) == (slow.rows, slow.outcome)


def test_lines_that_are_not_clean_text_are_counted(read_bytes: Callable[..., Any]) -> None:
    data = b"ok\n\xff\xfe bad\nnul \0 and \xff\n" + "héllo █\n".encode() + b"\0\r\0\n" + b"cut \xe2\x96"
    for limits in (Limits(), Limits(chunk_bytes=64)):
        assert read_bytes(data * 1, limits).outcome.report.repaired == 4


def test_a_record_that_never_ends_is_closed_with_what_there_is(read_bytes: Callable[..., Any]) -> None:
    data = b"RECORD\n" + b"  more\n" * 200 + b"KeyError: x\n"
    read = read_bytes(data, Limits(chunk_bytes=128, record_bytes=500))
    assert [row["line_number"] for row in read.rows] == [1, 202]
    assert read.rows[0]["line_count"] < 201
    assert "closed early" in read.outcome.report.note


def test_a_line_over_the_limit_is_cut_and_noted(read_bytes: Callable[..., Any]) -> None:
    data = b"y" * 1000 + b"\n[rank3] second\n"
    read = read_bytes(data, Limits(chunk_bytes=64, line_bytes=256))
    report = read.outcome.report
    assert [(row["line_number"], row["byte_offset"]) for row in read.rows] == [(2, 1001)]
    assert "was cut" in report.note
    assert report.lines == 2
    assert report.lines + report.cr_splits == report.events + report.plain


def test_a_bug_in_a_parser_costs_one_chunk(read_bytes: Callable[..., Any]) -> None:
    read = read_bytes(b"[rank1] explode\n" + b"." * 60 + b"\n[rank2]\n", Limits(chunk_bytes=64))
    assert [row["line_number"] for row in read.rows] == [3]
    assert "lines 1-1 could not be parsed: ValueError" in read.outcome.skipped[0].reason
    assert read.outcome.report.plain == 2


def test_a_stream_that_breaks_off_gives_what_it_had(read_bytes: Callable[..., Any], broken_stream: Any) -> None:
    data = b"[rank1]\n[rank2]\n"
    read = read_bytes(data, stream=lambda: broken_stream(data, 12))
    assert [row["body"] for row in read.rows] == ["[rank1]"]
    assert read.outcome.report.cut_off
    assert read.outcome.skipped[0].reason.endswith("read up to byte 12")


def test_a_file_that_cannot_be_opened_is_a_row(read_bytes: Callable[..., Any]) -> None:
    def refuse() -> io.BytesIO:
        raise PermissionError(13, "Permission denied")

    read = read_bytes(b"", stream=refuse, size_bytes=77)
    assert read.outcome.report is None
    assert read.outcome.skipped[0].reason == "cannot be read: permission denied"
    assert read.advanced == 77, "the progress bar must still reach its end"


@pytest.mark.parametrize(("size", "word"), [(4, "grew"), (40, "shrank")])
def test_a_file_that_changed_meanwhile_says_so(read_bytes: Callable[..., Any], size: int, word: str) -> None:
    read = read_bytes(b"[rank1]\n[rank2]\n", size_bytes=size)
    assert len(read.rows) == 2
    assert word in read.outcome.report.note
    assert read.advanced == size


def test_a_log_that_grows_for_ever_ends(read_bytes: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.BytesIO):
        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            buffer[:] = (b"[rank1]\n" * (len(buffer) // 8 + 1))[: len(buffer)]
            return len(buffer)

    monkeypatch.setattr("correlator.ingest.filereader.GROWTH_BYTES", 1000)
    read = read_bytes(b"", Limits(chunk_bytes=64), stream=Endless, size_bytes=8)
    assert read.outcome.report.bytes_read == 1008
    assert "longer than expected" in read.outcome.skipped[0].reason


def test_a_dump_is_parsed_as_one_document(read_bytes: Callable[..., Any]) -> None:
    whole = {FileKind.ERROR_FILE: lambda *_: [_event(1), _event(2)]}
    read = read_bytes(b'{\n"a": 1\n}', kind=FileKind.ERROR_FILE, whole_file=whole)
    report = read.outcome.report
    assert (report.lines, report.events, report.folded, report.plain) == (3, 2, 1, 0)
    assert (report.first_time_ns, report.last_time_ns) == (1000, 2000)
    assert len({row["event_id"] for row in read.rows}) == 2


def test_a_binary_dump_has_no_lines(read_bytes: Callable[..., Any]) -> None:
    whole = {FileKind.FLIGHT_RECORDER: lambda *_: [_event(1)]}
    report = read_bytes(b"\x80\x04\n\n", kind=FileKind.FLIGHT_RECORDER, whole_file=whole).outcome.report
    assert (report.lines, report.events, report.plain) == (0, 0, 0)


def test_a_text_that_is_no_dump_after_all_is_read_line_by_line(read_bytes: Callable[..., Any]) -> None:
    def bad(data: bytes, context: object) -> list[Event]:
        raise ValueError("no JSON")

    read = read_bytes(b"[rank1]\nx\n", kind=FileKind.ERROR_FILE, whole_file={FileKind.ERROR_FILE: bad})
    assert len(read.rows) == 1
    assert read.outcome.report.lines == 2
    assert "no JSON" in read.outcome.skipped[0].reason


def test_only_the_beginning_of_a_huge_dump_is_read(read_bytes: Callable[..., Any]) -> None:
    sizes: list[int] = []

    def measure(data: bytes, context: object) -> list[Event]:
        sizes.append(len(data))
        return [_event(1)]

    limits = Limits(chunk_bytes=64, whole_file_bytes=200)
    read = read_bytes(b"{" * 1000, limits, kind=FileKind.ERROR_FILE, whole_file={FileKind.ERROR_FILE: measure})
    assert sizes == [200]
    assert read.outcome.report.cut_off


def test_a_transcoded_file_did_not_shrink(read_bytes: Callable[..., Any]) -> None:
    """Its bytes are fewer than those on disk, which is no sign that it was written meanwhile."""
    data = "out of memory\n".encode("utf-16")
    read = read_bytes(data, size_bytes=len(data), stream=lambda: LogStream(io.BytesIO(data), Compression.NONE))
    assert [row["body"] for row in read.rows] == ["out of memory"]
    assert read.outcome.report.note == "UTF-16; offsets are those of the same text in UTF-8"
