"""A flight-recorder dump as typed values, read out of the plain dicts and lists of any version (formats.md D)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_NUMBERS = re.compile(r"\d{1,9}")
_TENSORS, _DIMENSIONS, _TEXT_LIMIT = 16, 16, 256
_MAX_MEMBERS = 1 << 20
_LIBRARY = re.compile(r"(?:^|/)(?:site-packages|dist-packages)/|(?:^|/)torch/|/lib/python\d|^<")
_EPOCH_NS = range(10**17, 4 * 10**18)  # 1973 to 2096
_SAME_OPERATION = {"ALL_REDUCE_BARRIER": "BARRIER", "ALLREDUCE_BARRIER": "BARRIER"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded operation. Times are ns since the epoch; None = not seen."""

    record_id: int | None
    pg_id: int | None
    group: str | None
    description: str | None
    backend: str | None
    operation: str
    seq: int | None
    p2p: bool
    state: str
    retired: bool | None
    created_ns: int | None
    started_ns: int | None
    completed_ns: int | None
    timeout_ms: int | None
    input_sizes: str | None
    output_sizes: str | None
    dtypes: str | None
    frame: str | None

    @property
    def finished(self) -> bool:
        """Gloo never leaves `scheduled`: a retired entry of it has ended (formats.md D)."""
        return self.state == "completed" or (self.backend == "gloo" and self.retired is True)


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as the dump's pg_config states it."""

    name: str
    description: str | None
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """Counters of one group; -1 = none yet."""

    group: str | None
    pg_id: int | None
    last_enqueued: int | None
    last_started: int | None
    last_completed: int | None


@dataclass(frozen=True, slots=True)
class Recording:
    """All that a dump says. `total` counts its entries, also those that could not be read."""

    version: str
    entries: tuple[Entry, ...] = ()
    groups: tuple[Group, ...] = ()
    statuses: tuple[Status, ...] = ()
    total: int = 0


def read_recording(value: Any) -> Recording | None:
    """The recording in a loaded dump; None where the value is no dump at all."""
    if isinstance(value, list):
        value = {"version": "1", "entries": value}
    if not isinstance(value, dict) or not {"version", "entries", "pg_config", "pg_status"} & value.keys():
        return None
    listed = value.get("entries")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    entries = sorted(map(_entry, rows), key=lambda entry: entry.record_id if entry.record_id is not None else -1)
    groups = tuple(_groups(value.get("pg_config"), entries))
    return Recording(
        version=_text(value.get("version")) or "1",
        entries=tuple(entries),
        groups=groups,
        statuses=tuple(_statuses(value.get("pg_status"), entries, groups)),
        total=len(listed) if isinstance(listed, list) else 0,
    )


def _entry(row: Mapping[Any, Any]) -> Entry:
    name, description = _pair(row.get("process_group"))
    pg_id = _integer(row.get("pg_id"))
    backend, _, profiled = (_text(row.get("profiling_name")) or "").rpartition(":")
    p2p = row.get("is_p2p") is True or profiled.split(" ")[0].lower() in ("send", "recv")
    seq = _integer(row.get("collective_seq_id", row.get("seq_id")))
    return Entry(
        record_id=_integer(row.get("record_id", row.get("id"))),
        pg_id=pg_id,
        group=name,
        description=description,
        backend=backend or None,
        operation=operation_name(profiled),
        seq=_integer(row.get("p2p_seq_id")) if p2p and "p2p_seq_id" in row else seq,
        p2p=p2p,
        state=_text(row.get("state")) or "unknown",
        retired=row.get("retired") if isinstance(row.get("retired"), bool) else None,
        created_ns=_time(row.get("time_created_ns")),
        started_ns=_time(row.get("time_discovered_started_ns")),
        completed_ns=_time(row.get("time_discovered_completed_ns")),
        timeout_ms=_integer(row.get("timeout_ms")),
        input_sizes=_sizes(row.get("input_sizes")),
        output_sizes=_sizes(row.get("output_sizes")),
        dtypes=_names(row.get("input_dtypes")),
        frame=_frame(row.get("frames")),
    )


def operation_name(profiled: str) -> str:
    """`all_reduce` as the watchdog prints it, ALLREDUCE; `_all_gather_base` as _ALLGATHER_BASE; `send 0->1` as SEND."""
    name = profiled.strip().split(" ")[0].upper()
    for long, short in (("ALL_REDUCE", "ALLREDUCE"), ("ALL_GATHER", "ALLGATHER"), ("ALL_TO_ALL", "ALLTOALL")):
        name = name.replace(long, short)
    return _SAME_OPERATION.get(name, name) or "UNKNOWN"


def _groups(config: Any, entries: Iterable[Entry]) -> Iterable[Group]:
    """pg_config is keyed by name or by id. The default group of a Gloo run may have no name: it is that of pg_id 0."""
    if not isinstance(config, dict):
        return
    for key, item in config.items():
        if not isinstance(item, dict):
            continue
        name, description = _text(item.get("name")) or _text(key), _text(item.get("desc"))
        if name is None:
            first = next((entry for entry in entries if entry.pg_id == 0 and entry.group), None)
            name, description = (first.group or "0", first.description) if first else ("0", "default_pg")
        yield Group(name, description, _members(item.get("ranks")))


def _members(ranks: Any) -> tuple[int, ...]:
    """A list, or the text of one."""
    if isinstance(ranks, str):
        return tuple(map(int, _NUMBERS.findall(ranks[: _MAX_MEMBERS * 10])))
    if isinstance(ranks, list | tuple):
        numbers = map(_integer, ranks[:_MAX_MEMBERS])
        return tuple(number for number in numbers if number is not None and 0 <= number < 10**9)
    return ()


def _statuses(status: Any, entries: Iterable[Entry], groups: tuple[Group, ...]) -> Iterable[Status]:
    if not isinstance(status, dict):
        return
    names = _names_of_ids(status, entries, groups)
    for key, item in status.items():
        if isinstance(item, dict):
            pg_id = _integer(key)
            yield Status(
                names.get(pg_id) if pg_id is not None else None,
                pg_id,
                _integer(item.get("last_enqueued_collective")),
                _integer(item.get("last_started_collective")),
                _integer(item.get("last_completed_collective")),
            )


def _names_of_ids(status: Mapping[Any, Any], entries: Iterable[Entry], groups: tuple[Group, ...]) -> dict[int, str]:
    """Group names by the process-local pg_id: from the entries; else by order, as both numbers grow with creation."""
    known = {entry.pg_id: entry.group for entry in entries if entry.pg_id is not None and entry.group}
    if all(group.name.isdecimal() for group in groups) and len(groups) == len(status):
        ids = sorted(number for number in map(_integer, status) if number is not None)
        names = sorted((group.name for group in groups), key=lambda name: (len(name), name))
        by_order = dict(zip(ids, names, strict=False))
        if all(by_order.get(number) == name for number, name in known.items()):
            return by_order
    default = next((group.name for group in groups if group.description == "default_pg"), None)
    return ({0: default} if default is not None else {}) | known


def _pair(value: Any) -> tuple[str | None, str | None]:
    if isinstance(value, list | tuple):
        return (_text(value[0]) if value else None, _text(value[1]) if len(value) > 1 else None)
    return (_text(value), None)


def _text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value)[:_TEXT_LIMIT].replace("\n", " ") or None


def _integer(value: Any) -> int | None:
    """A number, or its digits (JSON); None for what does not fit 64 bits."""
    if isinstance(value, str) and len(value) <= 20:
        try:
            value = int(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(2**63) <= value < 2**63 else None


def _time(value: Any) -> int | None:
    number = _integer(value)
    return number if number is not None and number in _EPOCH_NS else None


def _sizes(value: Any) -> str | None:
    """`[[1024, 8]]`; bounded, because a hostile dump can nest and share its lists."""
    if not isinstance(value, list | tuple):
        return None
    shapes = []
    for shape in value[:_TENSORS]:
        sizes = shape[:_DIMENSIONS] if isinstance(shape, list | tuple) else [shape]
        shapes.append("[" + ", ".join(str(size) for size in map(_integer, sizes) if size is not None) + "]")
    return "[" + ", ".join(shapes) + "]"


def _names(value: Any) -> str | None:
    if not isinstance(value, list | tuple):
        return None
    return ", ".join(name for name in map(_text, value[:_TENSORS]) if name) or None


def _frame(frames: Any) -> str | None:
    """`path:line function` of the innermost frame outside libraries, else of the innermost."""
    if not isinstance(frames, list | tuple):
        return None
    rows = [frame for frame in frames[:256] if isinstance(frame, dict)]
    own = (frame for frame in rows if not _LIBRARY.search(_text(frame.get("filename")) or "<"))
    frame = next(own, rows[0] if rows else None)
    if frame is None:
        return None
    place = f"{_text(frame.get('filename')) or '?'}:{_integer(frame.get('line')) or 0}"
    return f"{place} {_text(frame.get('name')) or ''}".rstrip()
