"""PyTorch flight-recorder dumps as typed values, without torch and without unpickling any class (formats.md D).

    import correlator
    dump = correlator.read_flight_recorder("logs/nccl_trace_rank_3")
    print(dump.rank, dump.entries[-1].profiling_name, dump.entries[-1].state)

Entries hold what the dump holds, under the names that torch gives them; the event table has the same facts in brief.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from correlator.core.errors import InputError
from correlator.parsers.dumps.flight_recorder import MAX_BYTES, load_dump
from correlator.parsers.dumps.recording import Group, Status, operation_name, read_recording

__all__ = [
    "FlightRecorderDump",
    "FlightRecorderEntry",
    "FlightRecorderFrame",
    "Group",
    "Status",
    "read_flight_recorder",
]

_GZIP = b"\x1f\x8b"
_RANK = re.compile(r"(?:rank[_-]?|_)?(\d{1,7})(?:\.(?:pkl|pickle|json|bin|gz|txt))*$")
_TEXT_LIMIT = 4_096
_CELLS = 20_000_000
"""Numbers, texts and frames of one dump: a hostile one can refer to one long list from many places."""


@dataclass(frozen=True, slots=True)
class FlightRecorderFrame:
    """One frame of the stack in which an operation was enqueued, as printed."""

    name: str
    filename: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightRecorderEntry:
    """One recorded operation. Times are ns since the epoch on the rank's own clock; None = not seen, or not recorded."""

    record_id: int | None
    pg_id: int | None
    """Index of the group in this process; not to be compared over ranks."""
    process_group: str | None
    """Name of the group, equal on all members."""
    description: str | None
    collective_seq_id: int | None
    p2p_seq_id: int | None
    op_id: int | None
    profiling_name: str
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]
    time_created_ns: int | None
    time_discovered_started_ns: int | None
    """When the watchdog noticed the start: never before it happened."""
    time_discovered_completed_ns: int | None
    state: str
    duration_ms: float | None
    timeout_ms: int | None
    retired: bool | None
    is_p2p: bool
    frames: tuple[FlightRecorderFrame, ...]
    """Innermost first."""
    thread_id: str | None
    thread_name: str | None

    @property
    def operation(self) -> str:
        """The operation as the watchdog prints it: ALLREDUCE for `nccl:all_reduce`."""
        return operation_name(self.profiling_name.rpartition(":")[2])


@dataclass(frozen=True, slots=True)
class FlightRecorderDump:
    """One dump. An empty one is evidence too: the rank recorded nothing, or the recorder was off."""

    rank: int | None
    """From the file's name; a dump does not say whose it is."""
    version: str
    entries: tuple[FlightRecorderEntry, ...]
    groups: tuple[Group, ...]
    statuses: tuple[Status, ...]
    comm_lib_version: str | None
    problem: str | None
    """Why the dump is not whole (`truncated`), or None."""


def read_flight_recorder(path: str | Path) -> FlightRecorderDump:
    """Read a dump, pickle or JSON, gzip or not, of any schema version.

    Raises:
        InputError: the file cannot be read, is too large, or is no flight-recorder dump.
    """
    file = Path(path)
    value, problem = load_dump(_bytes(file))
    recording = read_recording(value)
    if recording is None:
        raise InputError(
            f"{file.name}: {problem or 'not a flight-recorder dump'}",
            hint="A dump is the file that TORCH_FR_DUMP_TEMP_FILE (or TORCH_NCCL_DEBUG_INFO_TEMP_FILE) names.",
        )
    document = value if isinstance(value, dict) else {"entries": value}
    listed = document.get("entries")
    reader = _Reader(file.name)
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    match = _RANK.search(file.name)
    return FlightRecorderDump(
        rank=int(match[1]) if match else None,
        version=recording.version,
        entries=tuple(map(reader.entry, rows)),
        groups=recording.groups,
        statuses=recording.statuses,
        comm_lib_version=reader.text(document.get("comm_lib_version", document.get("nccl_version"))),
        problem=problem,
    )


def _bytes(file: Path) -> bytes:
    """The unpacked content, bounded."""
    try:
        with file.open("rb") as stream:
            packed = stream.read(2) == _GZIP
            stream.seek(0)
            with gzip.open(stream) if packed else stream as source:
                data = source.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"{file.name} cannot be read: {reason}") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"{file.name} is larger than {MAX_BYTES >> 20} MiB")
    return bytes(data)


class _Reader:
    """Reads plain values into entries, with one budget for the whole dump."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = _CELLS

    def entry(self, row: Mapping[Any, Any]) -> FlightRecorderEntry:
        """One entry; what is missing or of another type is None or empty."""
        group = row.get("process_group")
        pair = group if isinstance(group, list | tuple) else (group,)
        profiled = self.text(row.get("profiling_name")) or ""
        return FlightRecorderEntry(
            record_id=_integer(row.get("record_id", row.get("id"))),
            pg_id=_integer(row.get("pg_id")),
            process_group=self.text(pair[0]) if pair else None,
            description=self.text(pair[1]) if len(pair) > 1 else None,
            collective_seq_id=_integer(row.get("collective_seq_id", row.get("seq_id"))),
            p2p_seq_id=_integer(row.get("p2p_seq_id")),
            op_id=_integer(row.get("op_id")),
            profiling_name=profiled,
            input_sizes=self.sizes(row.get("input_sizes")),
            output_sizes=self.sizes(row.get("output_sizes")),
            input_dtypes=self.texts(row.get("input_dtypes")),
            output_dtypes=self.texts(row.get("output_dtypes")),
            time_created_ns=_time(row.get("time_created_ns")),
            time_discovered_started_ns=_time(row.get("time_discovered_started_ns")),
            time_discovered_completed_ns=_time(row.get("time_discovered_completed_ns")),
            state=self.text(row.get("state")) or "unknown",
            duration_ms=_decimal(row.get("duration_ms")),
            timeout_ms=_integer(row.get("timeout_ms")),
            retired=row["retired"] if isinstance(row.get("retired"), bool) else None,
            is_p2p=row.get("is_p2p") is True,
            frames=self.frames(row.get("frames")),
            thread_id=self.text(row.get("thread_id")),
            thread_name=self.text(row.get("thread_name")),
        )

    def text(self, value: object) -> str | None:
        """A text, or a number as text."""
        if isinstance(value, bool) or not isinstance(value, str | int):
            return None
        return str(value)[:_TEXT_LIMIT]

    def texts(self, value: object) -> tuple[str, ...]:
        """A list of texts."""
        if not isinstance(value, list | tuple):
            return ()
        self._spend(len(value))
        return tuple(text for text in map(self.text, value) if text is not None)

    def sizes(self, value: object) -> tuple[tuple[int, ...], ...]:
        """Dimensions of each tensor; early versions print those of a single tensor without the outer list."""
        if not isinstance(value, list | tuple):
            return ()
        shapes = [shape if isinstance(shape, list | tuple) else (shape,) for shape in value]
        self._spend(len(shapes) + sum(map(len, shapes)))
        return tuple(tuple(size for size in map(_integer, shape) if size is not None) for shape in shapes)

    def frames(self, value: object) -> tuple[FlightRecorderFrame, ...]:
        """The stack, where the dump has one."""
        if not isinstance(value, list | tuple):
            return ()
        self._spend(len(value))
        return tuple(
            FlightRecorderFrame(
                self.text(frame.get("name")) or "",
                self.text(frame.get("filename")) or "",
                _integer(frame.get("line")) or 0,
            )
            for frame in value
            if isinstance(frame, dict)
        )

    def _spend(self, cells: int) -> None:
        self._left -= cells
        if self._left < 0:
            raise InputError(f"{self._name} holds more than {_CELLS} values")


def _integer(value: object) -> int | None:
    """A number, or its digits (JSON)."""
    if isinstance(value, str) and len(value) <= 20 and value.lstrip("-").isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _time(value: object) -> int | None:
    """0 is JSON's None."""
    return _integer(value) or None


def _decimal(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
