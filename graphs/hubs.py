"""Wait hubs: who waits in which collective, who never came, who brought something else (method.md 4.3).

A hub is one (process group, sequence number). A rank has entered it when its own timeout names it or when its last enqueued
sequence number is not below it. Compare entries, never the times of the timeout lines: the first watchdog to fire belongs to
the rank that entered first, an innocent.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from correlator.core.model import Topology
from correlator.core.vocabulary import CollateralKind, Context, FileKind
from correlator.graphs.facts import Fact, RunFacts, Window, facts_of
from correlator.graphs.witnesses import named_absent, places_in_group, reports_of_absence

UNNAMED = "(group not named)"
DEFAULT_GROUPS = frozenset({"0", "default_pg", UNNAMED})


@dataclass(frozen=True, slots=True)
class Call:
    """What one rank brought to a collective: the operation and its sizes."""

    rank: int
    op: str | None
    sizes: str | None
    fact: Fact
    dtypes: str | None = None
    """Element types, as only dumps tell them."""


@dataclass(frozen=True, slots=True)
class WaitHub:
    """One collective that somebody waited in."""

    attempt: int
    group: str
    description: str | None
    seq: int | None
    members: tuple[int, ...]
    """Global ranks of the group; empty = not known."""
    waiters: dict[int, Fact] = field(hash=False)
    """Rank -> the line that shows it waiting."""
    missing: frozenset[int] = frozenset()
    """Members that left evidence and did not enter."""
    unknown: frozenset[int] = frozenset()
    """Members that left no evidence either way."""
    named: frozenset[int] = frozenset()
    """Those of the missing whom the group's own report names."""
    stuck: frozenset[int] = frozenset()
    """Waiters of a collective that most members finished: their GPU stopped, though they had enqueued it like all others."""
    calls: tuple[Call, ...] = ()
    deviating: frozenset[int] = frozenset()
    """Members whose operation or sizes differ from the majority's."""

    @property
    def held_by(self) -> frozenset[int]:
        """Ranks that may have held it up: absent, without evidence, or stopped in the middle of it."""
        return self.missing | self.unknown | self.stuck

    @property
    def began(self) -> Window | None:
        """When its members began to wait: timeouts are back-dated by how long they ran (formats.md A3)."""
        starts = [(start, fact) for fact in self.waiters.values() if (start := _wait_start(fact)) is not None]
        if not starts:
            return None
        first, fact = min(starts, key=lambda item: (item[1].aligned_ns or 0) - (item[1].printed_ns or 0) + item[0])
        return Window(fact.domain, first, first + int(fact.granularity_ms * 1e6))

    @property
    def name(self) -> str:
        """`mesh_dp #4711`, for people."""
        label = self.description or (f"group {self.group}" if self.group.isdigit() else self.group)
        return f"{label} #{self.seq}" if self.seq is not None else label


def _wait_start(fact: Fact) -> int | None:
    """When a rank entered the collective, as printed on its own clock; None where the line does not tell."""
    if fact.printed_ns is None or fact.inherited:
        return None
    if fact.name == Context.COLLECTIVE_ENTRY:
        return fact.printed_ns
    ran_ms = fact.number("ran_ms")
    return None if ran_ms is None else fact.printed_ns - ran_ms * 1_000_000


@dataclass(slots=True)
class _Progress:
    """What is known of one rank in one group."""

    enqueued: int | None = None
    completed: int | None = None


def wait_hubs(
    run: RunFacts,
    facts: Sequence[Fact],
    attempt: int,
    *,
    set_aside: frozenset[str] = frozenset(),
    cut_short: frozenset[int] = frozenset(),
) -> list[WaitHub]:
    """All hubs of an attempt in which at least one rank was left waiting, smallest group first.

    Some files are set aside, and the silence of ranks whose logs were `cut_short` means nothing.
    """
    facts = [fact for fact in facts if fact.attempt == attempt]
    recorded = facts_of(run.events, (Context.COLLECTIVE_ENTRY,))
    entries = [e for e in recorded if e.attempt == attempt and e.file not in set_aside]
    status = _status(facts, entries)
    group_of = _group_by_rank_and_seq(facts)
    waits: dict[tuple[str, int | None], dict[int, Fact]] = {}
    for fact in facts:
        if fact.name == CollateralKind.COLLECTIVE_TIMEOUT and fact.rank is not None:
            group = fact.group or group_of.get((fact.rank, fact.seq)) or UNNAMED
            waits.setdefault((group, fact.seq), {}).setdefault(fact.rank, fact)
    for (group, rank), entry in _open_entries(entries).items():
        waits.setdefault((group, entry.seq), {}).setdefault(rank, entry)
    waits = _join_unnamed(waits)
    heard = _ranks_heard(run.topology, facts, entries, cut_short)
    made = _entries_by_hub(entries)
    reports = reports_of_absence(facts)
    spoken = [f for f in facts if f.group_rank is not None]
    hubs = [
        _hub(run, _Told(made.get(key, ()), spoken, reports, status, heard), attempt, key, waiting)
        for key, waiting in waits.items()
    ]
    return sorted(hubs, key=lambda hub: (len(hub.members) or 1 << 30, hub.group, hub.seq or 0))


def _group_by_rank_and_seq(facts: Sequence[Fact]) -> dict[tuple[int, int | None], str]:
    """Timeout lines name no group; the status line of the same rank and sequence number does."""
    return {
        (f.rank, f.seq): f.group
        for f in facts
        if f.name == Context.WORK_STATUS and f.rank is not None and f.seq is not None and f.group
    }


def _entries_by_hub(entries: Sequence[Fact]) -> dict[tuple[str, int | None], list[Fact]]:
    """(group, sequence number) -> the calls of its members in dumps."""
    made: dict[tuple[str, int | None], list[Fact]] = {}
    for entry in entries:
        if entry.rank is not None and entry.group is not None and entry.attribute("p2p") != "true":
            made.setdefault((entry.group, entry.seq), []).append(entry)
    return made


def _status(facts: Sequence[Fact], entries: Sequence[Fact]) -> dict[tuple[str, int], _Progress]:
    """(group, rank) -> how far it got, from status lines, dump signals and flight-recorder dumps."""
    status: dict[tuple[str, int], _Progress] = {}
    for fact in facts:
        if fact.rank is None or fact.name not in (Context.WORK_STATUS, Context.DUMP_SIGNAL):
            continue
        known = status.setdefault((fact.group or UNNAMED, fact.rank), _Progress())
        known.enqueued = _max(known.enqueued, fact.number("last_enqueued"))
        known.completed = _max(known.completed, fact.number("last_completed"))
    for entry in entries:
        if entry.rank is None or entry.seq is None or entry.attribute("p2p") == "true":
            continue
        known = status.setdefault((entry.group or UNNAMED, entry.rank), _Progress())
        known.enqueued = _max(known.enqueued, entry.seq)
        if entry.attribute("state") == "completed":
            known.completed = _max(known.completed, entry.seq)
    return status


def _max(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _open_entries(entries: Sequence[Fact]) -> dict[tuple[str, int], Fact]:
    """The first collective of each (group, rank) that a dump shows enqueued and not finished."""
    first: dict[tuple[str, int], Fact] = {}
    for entry in entries:
        open_ = entry.attribute("state") in ("scheduled", "started") and entry.attribute("p2p") != "true"
        finished = (entry.op or "").startswith("GLOO") or entry.attribute("retired") == "true"
        if not open_ or finished or entry.rank is None or entry.seq is None:
            continue
        key = (entry.group or UNNAMED, entry.rank)
        if key not in first or (entry.seq < (first[key].seq or 0)):
            first[key] = entry
    return first


def _join_unnamed(
    waits: dict[tuple[str, int | None], dict[int, Fact]],
) -> dict[tuple[str, int | None], dict[int, Fact]]:
    """A timeout without a group, or without a number too, belongs to the named hub where there is just one it can be."""
    for key in [key for key in waits if key[0] == UNNAMED]:
        named = [other for other in waits if other[0] != UNNAMED and key[1] in (other[1], None)]
        if len(named) == 1:
            for rank, fact in waits.pop(key).items():
                waits[named[0]].setdefault(rank, fact)
    return waits


def _ranks_heard(
    topology: Topology, facts: Sequence[Fact], entries: Sequence[Fact], cut_short: frozenset[int]
) -> frozenset[int]:
    """Ranks that left lines or a dump, so that their silence in a hub means something."""
    written = {place.rank for place in topology.ranks if place.has_log} - cut_short
    dumped = {f.rank for f in (*facts, *entries) if f.rank is not None and f.file_kind is FileKind.FLIGHT_RECORDER}
    return frozenset(written | dumped)


@dataclass(frozen=True, slots=True)
class _Told:
    """All that may be said of the members of one hub."""

    entries: Sequence[Fact]
    spoken: Sequence[Fact]
    """Lines that print the writer's place in a group."""
    reports: Sequence[Fact]
    status: dict[tuple[str, int], _Progress]
    heard: frozenset[int]


def _hub(run: RunFacts, told: _Told, attempt: int, key: tuple[str, int | None], waiting: dict[int, Fact]) -> WaitHub:
    group, seq = key
    description = next((f.attribute("pg_description") for f in waiting.values() if f.attribute("pg_description")), None)
    places = places_in_group(told.spoken, waiting, None if group == UNNAMED else group)
    members = _members(run.topology, group, description, waiting)
    if group == UNNAMED and any(place != rank for place, rank in places.items()):
        members = ()  # a smaller group: in that of all ranks everyone's place is the rank
    named = named_absent(told.reports, waiting, seq, places, members)
    missing, unknown, passed = _absentees(members, told, key, waiting)
    if named:
        members = members or tuple(sorted({*waiting, *named}))
        counted = {rank for rank in missing if (group, rank) in told.status}
        missing, unknown = counted | named, unknown - named
    calls = _calls(waiting, told.entries)
    return WaitHub(
        attempt=attempt,
        group=group,
        description=description,
        seq=seq,
        members=members,
        waiters=waiting,
        missing=frozenset(missing),
        unknown=frozenset(unknown),
        named=named,
        stuck=frozenset(waiting) if not missing and not unknown and len(passed) > len(waiting) else frozenset(),
        calls=calls,
        deviating=_deviating(calls),
    )


def _absentees(
    members: Sequence[int], told: _Told, key: tuple[str, int | None], waiting: dict[int, Fact]
) -> tuple[set[int], set[int], set[int]]:
    """Members that did not come, that left no evidence, and that finished it."""
    group, seq = key
    missing, unknown, passed = set(), set(), set()
    for rank in members:
        if rank in waiting:
            continue
        known = told.status.get((group, rank))
        if known is not None and known.enqueued is not None and seq is not None:
            if known.enqueued < seq or (known.completed is not None and known.completed < seq - 1):
                missing.add(rank)  # not called yet, or still busy with an earlier one
            elif known.completed is not None and known.completed >= seq:
                passed.add(rank)
        elif rank in told.heard:
            missing.add(rank)
        else:
            unknown.add(rank)
    return missing, unknown, passed


def _members(topology: Topology, group: str, description: str | None, waiting: dict[int, Fact]) -> tuple[int, ...]:
    known = next((g.members for g in topology.groups if g.name == group), None)
    if known:
        return known
    if group in DEFAULT_GROUPS or description == "default_pg":
        return tuple(range(topology.world_size)) if topology.world_size else tuple(p.rank for p in topology.ranks)
    sizes = {f.number("numel_out") // f.number("numel_in") for f in waiting.values() if _gathers(f)}  # type: ignore[operator]
    if len(sizes) == 1 and topology.world_size in sizes:
        return tuple(range(topology.world_size or 0))
    return ()


def _gathers(fact: Fact) -> bool:
    """An all-gather's output is group-size times its input: the only size of a group that a text log tells."""
    numel_in, numel_out = fact.number("numel_in"), fact.number("numel_out")
    return bool(numel_in and numel_out and fact.op and "GATHER" in fact.op and numel_out % numel_in == 0)


def _calls(waiting: dict[int, Fact], entries: Sequence[Fact]) -> tuple[Call, ...]:
    calls = {r: Call(r, f.op, _sizes(f), f) for r, f in waiting.items() if f.op is not None}
    for entry in entries:
        if entry.rank is not None:
            calls[entry.rank] = Call(entry.rank, entry.op, _sizes(entry), entry, entry.attribute("dtypes"))
    return tuple(calls[rank] for rank in sorted(calls))


def _sizes(fact: Fact) -> str | None:
    """Elements in and out: text logs print counts, dumps print dimensions, and only the counts compare."""
    sent = fact.attribute("numel_in") or _elements(fact.attribute("input_sizes"))
    got = fact.attribute("numel_out") or _elements(fact.attribute("output_sizes"))
    return f"{sent} -> {got}" if sent and got else None


def _elements(sizes: str | None) -> str | None:
    """Number of elements of all tensors of `[[8, 1024], [8]]`, or None."""
    try:
        tensors = json.loads(sizes or "")
        return str(sum(math.prod(int(size) for size in tensor) for tensor in tensors))
    except (ValueError, TypeError):
        return None


_UNEQUAL_SIZES = ("ALLTOALL", "SEND", "RECV", "GATHER_V", "COALESCED", "SCATTER", "BROADCAST")
"""Operations whose members may rightly bring different sizes."""


def _deviating(calls: tuple[Call, ...]) -> frozenset[int]:
    """Ranks that brought another operation, or else other sizes, than most; both sides where two stand against two."""
    comparable = [c for c in calls if c.op is not None]
    if len(comparable) < 2:
        return frozenset()
    by_op = _minority({c.rank: c.op for c in comparable})
    if by_op:
        return by_op
    op = comparable[0].op or ""
    if any(word in op and not op.startswith(("_ALLGATHER", "_REDUCE_SCATTER")) for word in _UNEQUAL_SIZES):
        return frozenset()
    by_size = _minority({c.rank: c.sizes for c in comparable if c.sizes is not None})
    return by_size or _minority({c.rank: c.dtypes for c in comparable if c.dtypes is not None})


def _minority(value_of: dict[int, str | None]) -> frozenset[int]:
    counts = Counter(value_of.values())
    if len(counts) < 2:
        return frozenset()
    top = counts.most_common(2)
    if top[0][1] == top[1][1]:
        return frozenset(value_of)
    return frozenset(rank for rank, value in value_of.items() if value != top[0][0])
