"""Nothing that a file can hold makes a parser raise: torn, mixed and mutilated lines of every dialect, and any bytes."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from correlator.core.vocabulary import FileKind, TimeSource
from correlator.parsers.base import FileContext
from correlator.parsers.dumps import WHOLE_FILE
from correlator.parsers.interpret import NOTE
from correlator.parsers.table import pattern_table

TABLE = pattern_table()
SAMPLES = sorted({sample for pattern in TABLE.patterns for sample in (*pattern.samples, *pattern.lookalikes)})
GLUE = (
    b"\n", b"\n\n", b"\r", b"\r\n", b"\0\0\0", b"\x1b[31m", b"\xff", b"\xe2\x96", b"\t", b" ", b"  File ", b"| ", b'"', b"'", b"\\n", b"{", b"}]",
    b"2025-11-30T01:02:03.123456789Z stderr P ", b"2025-11-30T01:02:03.123456789Z stderr F ", b"[rank3]: ", b"[default3]:", b"12: ", b"node03: ",
    b"Traceback (most recent call last):\n", b"99999999999999999999", b"-1", b"[E1399 99:99:99.1 a.cpp:1] ", b"(A pid=1) ", b"[1,3]<stderr>:",
)  # fmt: skip

lines = st.sampled_from(SAMPLES).map(str.encode)
cut = st.tuples(lines, st.integers(0, 200), st.integers(0, 200)).map(lambda t: t[0][t[1] : t[1] + t[2]])
mangled = st.lists(st.one_of(lines, cut, st.sampled_from(GLUE), st.binary(max_size=12)), max_size=14).map(b"".join)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    data=mangled, kind=st.sampled_from([kind for kind in FileKind if kind not in WHOLE_FILE]), size=st.integers(1, 9)
)
def test_mangled_lines_are_parsed_without_error(
    data: bytes, kind: FileKind, size: int, read_file: Callable[..., object]
) -> None:
    """No builder fails, each segment counts once, and what has no time says so."""
    parsed = read_file(data, kind=kind, chunk_lines=size)
    assert parsed.event_segments + parsed.folded_segments <= parsed.segments  # type: ignore[attr-defined]
    for event in parsed.events:  # type: ignore[attr-defined]
        assert event.attribute(NOTE) is None, event
        assert (event.timestamp_ns is None) == (event.time_source is TimeSource.NONE)
        assert all(isinstance(text, str) for pair in event.attributes for text in pair)
        event.body.encode()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.one_of(mangled, st.binary(max_size=300), mangled.map(lambda data: b"\x80\x02" + data)),
    kind=st.sampled_from(sorted(WHOLE_FILE)),
)
def test_whole_files_are_parsed_without_error(
    data: bytes, kind: FileKind, context_of: Callable[..., FileContext]
) -> None:
    """Dumps, error files and stacks of any content."""
    events = WHOLE_FILE[kind](data, context_of(kind))
    assert len(events) <= 1_000
