"""Dumps of the PyTorch NCCL flight recorder, pickle or JSON, as events (formats.md D).

A dump has no lines: its events stand on line 1, and their byte offsets count them, so that their ids differ. The rank
is only in the file's name. An empty, torn or foreign dump is an event too, with the reason: that a rank recorded
nothing is evidence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from correlator.core.event import Event
from correlator.core.vocabulary import Context, Role, TimeSource
from correlator.parsers.base import FileContext
from correlator.parsers.dialects.support import json_list, with_attributes
from correlator.parsers.dumps.plain_pickle import PickleError, load
from correlator.parsers.dumps.recording import Entry, Group, Recording, Status, read_recording

DIALECT = "flight_recorder"
MAX_BYTES = 256 << 20
_NEWEST = 64
"""Entries kept of each group, from its end."""
_UNFINISHED = 256
"""Unfinished entries kept of each group, from its beginning: the oldest one is what the group is stuck on."""


def parse_flight_recorder(data: bytes, context: FileContext) -> list[Event]:
    """All events of one dump; never raises."""
    value, reason = load_dump(data)
    recording = read_recording(value)
    if recording is None:
        recording, reason = Recording("unknown"), reason or "not a flight-recorder dump"
    elif not recording.entries and reason is None:
        reason = "no entries"
    events = [_dump(recording, reason, context)]
    events += (_group(group, context) for group in recording.groups)
    events += (_status(status, recording, context) for status in _statuses(recording))
    events += (_entry(entry, context) for entry in _kept(recording))
    return [replace(event, byte_offset=number) for number, event in enumerate(events)]


def load_dump(data: bytes) -> tuple[Any, str | None]:
    """The plain value of a dump (None where there is none) and, where it is not whole, why. Never raises."""
    if not data.strip(b"\0 \r\n\t"):
        return None, "empty file"
    if len(data) > MAX_BYTES:
        return None, f"larger than {MAX_BYTES >> 20} MiB"
    if data.lstrip()[:1] in (b"{", b"["):
        return _load_json(data)
    try:
        loaded = load(data)
    except PickleError as error:
        return None, f"not a dump of plain values: {error}"
    return loaded.value, "truncated" if loaded.truncated else None


def _load_json(data: bytes) -> tuple[Any, str | None]:
    text = data.decode("utf-8", errors="replace")
    try:
        return json.loads(text), None
    except (ValueError, RecursionError):
        entries = list(_torn_entries(text))
    return ({"version": "unknown", "entries": entries} if entries else None), "truncated"


def _torn_entries(text: str) -> Iterator[Any]:
    """The whole entries at the head of a JSON dump that ends early."""
    start = text.find("[", max(text.find('"entries"'), 0))
    decoder = json.JSONDecoder()
    position = start + 1
    while 0 < position < len(text):
        position += len(text[position : position + 64]) - len(text[position : position + 64].lstrip(", \r\n\t"))
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return
        yield value


def _event(name: Context, signature: str, body: str, context: FileContext) -> Event:
    return Event(
        event_name=name,
        role=Role.CONTEXT,
        signature=f"{DIALECT}.{signature}",
        dialect=DIALECT,
        line_number=1,
        byte_offset=0,
        body=body,
        rank=context.hints.rank,
    )


def _dump(recording: Recording, reason: str | None, context: FileContext) -> Event:
    count = recording.total
    body = f"flight recorder: {count} entries" + (f" ({reason})" if reason else "")
    event = _event(Context.FLIGHT_RECORDER_DUMP, "dump", body, context)
    first = recording.entries[0].record_id if recording.entries else None
    return with_attributes(event, entries=count, version=recording.version, reason=reason, first_record_id=first)


def _group(group: Group, context: FileContext) -> Event:
    body = f"group {group.name}: {len(group.members)} members"
    event = replace(_event(Context.PROCESS_GROUP, "group", body, context), process_group=group.name)
    return with_attributes(event, members=json_list(group.members), description=group.description)


def _statuses(recording: Recording) -> Iterator[Status]:
    """The dump's own counters; for groups that it has none for, what their entries show."""
    yield from recording.statuses
    covered = {status.group for status in recording.statuses}
    for (name, pg_id), entries in _by_group(recording).items():
        seqs = [entry for entry in entries if not entry.p2p and entry.seq is not None]
        if name in covered or not seqs:
            continue
        yield Status(
            name,
            pg_id,
            last_enqueued=max(entry.seq or 0 for entry in seqs),
            last_started=max((entry.seq or 0 for entry in seqs if entry.state != "scheduled"), default=None),
            last_completed=max((entry.seq or 0 for entry in seqs if entry.finished), default=None),
        )


def _status(status: Status, recording: Recording, context: FileContext) -> Event:
    """`collective_seq` is the first operation that is enqueued and not completed, if there is one."""
    enqueued, completed = status.last_enqueued, status.last_completed
    open_seq = completed + 1 if enqueued is not None and completed is not None and enqueued > completed else None
    group = next((group for group in recording.groups if group.name == status.group), None)
    event = replace(
        _event(
            Context.WORK_STATUS, "status", f"group {status.group}: enqueued {enqueued}, completed {completed}", context
        ),
        process_group=status.group,
        collective_seq=max(open_seq, 1) if open_seq is not None else None,
    )
    return with_attributes(
        event,
        last_enqueued=enqueued,
        last_completed=completed,
        last_started=status.last_started,
        pg_description=group.description if group else None,
        pg_id=status.pg_id,
    )


def _by_group(recording: Recording) -> dict[tuple[str | None, int | None], list[Entry]]:
    groups: dict[tuple[str | None, int | None], list[Entry]] = {}
    for entry in recording.entries:
        groups.setdefault((entry.group, entry.pg_id), []).append(entry)
    return groups


def _kept(recording: Recording) -> Iterator[Entry]:
    """The newest entries of each group and its oldest unfinished ones, in the order of the dump."""
    for entries in _by_group(recording).values():
        older = entries[:-_NEWEST]
        yield from [entry for entry in older if not entry.finished][:_UNFINISHED]
        yield from entries[-_NEWEST:]


def _entry(entry: Entry, context: FileContext) -> Event:
    where = f"group {entry.group or entry.pg_id}" + (f" ({entry.description})" if entry.description else "")
    event = replace(
        _event(Context.COLLECTIVE_ENTRY, "entry", f"{entry.operation} #{entry.seq} {entry.state} in {where}", context),
        timestamp_ns=entry.created_ns,
        time_source=TimeSource.EXPLICIT if entry.created_ns is not None else TimeSource.NONE,
        time_granularity_ms=1e-6 if entry.created_ns is not None else None,
        time_zone="Z" if entry.created_ns is not None else None,
        process_group=entry.group,
        collective_seq=entry.seq,
        collective_op=entry.operation,
    )
    return with_attributes(
        event,
        pg_description=entry.description,
        state=entry.state,
        p2p=entry.p2p,
        finished=entry.finished,
        retired=entry.retired,
        input_sizes=entry.input_sizes,
        output_sizes=entry.output_sizes,
        dtypes=entry.dtypes,
        started_ns=entry.started_ns,
        completed_ns=entry.completed_ns,
        timeout_ms=entry.timeout_ms,
        frame=entry.frame,
        record_id=entry.record_id,
        pg_id=entry.pg_id,
    )
