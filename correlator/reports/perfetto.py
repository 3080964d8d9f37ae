"""The run as a trace for ui.perfetto.dev (Chrome JSON): a process for each node, a thread for each rank.

Steps and collectives are slices, faults are instants on a slice of one microsecond (flows bind to slices), links of the causal
graph are flows, loss and step time are counters. Times are microseconds since the first one shown, since floats of whole
epochs would lose their nanoseconds. ecosystem.md section 5 lists what the format asks for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from correlator.core.model import Diagnosis
from correlator.reports.causes import CauseGraph, moment_of, read_causes
from correlator.reports.cleaning import clipped, shareable, visible
from correlator.reports.details import Details, shareable_details
from correlator.reports.perfetto_slices import Home, Material, gather
from correlator.reports.perfetto_tracks import MOST_TRACKS, Slice, place

NODE_THREAD = 1_000_000
"""Thread of what a node's own logs tell."""
HUB_THREADS = 1_500_000
OVERFLOW_THREADS = 2_000_000
"""Threads of slices that do not nest with those of their rank."""
UNPLACED = "node not known"
HUBS = "collectives that were waited in"

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Anchor:
    """Where a cause is drawn."""

    pid: int
    tid: int
    ns: int


def write_trace(diagnosis: Diagnosis, details: Details, out: TextIO) -> None:
    """Write the trace of a run as one JSON object, with credentials masked. The same run gives the same bytes."""
    diagnosis, details = shareable(diagnosis), shareable_details(details)
    graph = read_causes(diagnosis, details)
    trace = _Trace(gather(details.events, graph), graph)
    events = list(trace.events())
    head = {
        "run": visible(clipped(diagnosis.run.path, 300)),
        "verdict": visible(clipped(diagnosis.verdict.summary, 1000)),
        "begins": f"{moment_of(trace.start_ns):%Y-%m-%dT%H:%M:%S.%f}Z",
        "causes_without_time": trace.material.untimed,
        "instants_left_out": trace.material.thinned,
        "flows_against_the_clock": trace.backward,
    }
    out.write('{"displayTimeUnit":"ms",\n"otherData":' + json.dumps(head) + ',\n"traceEvents":[\n')
    texts = (json.dumps(event, separators=(",", ":"), allow_nan=False) for event in events)
    out.writelines((",\n" if number else "") + text for number, text in enumerate(texts))
    out.write("\n]}\n")


class _Trace:
    """The events of a trace, in the order in which an importer has to see those of one time."""

    def __init__(self, material: Material, graph: CauseGraph) -> None:
        self.material = material
        self.backward = 0
        """Flows left out: by the clocks the effect came first, within what they leave open."""
        self._graph = graph
        homes = {*material.slices, *material.instants, *material.counts}
        nodes = sorted({node for node, _ in homes}, key=lambda node: (node == "", node))
        self._pids = {node: number for number, node in enumerate(nodes, 1)}
        self._homes = sorted(homes, key=lambda home: (self._pids[home[0]], home[1] is None, home[1] or 0))
        self._anchors: dict[str, _Anchor] = {}
        starts = [item.start_ns for found in material.slices.values() for item in found]
        starts += [instant.at_ns for found in material.instants.values() for instant in found]
        starts += [count.at_ns for found in material.counts.values() for count in found]
        starts += [item.start_ns for _, item in material.hubs]
        self.start_ns = min(starts, default=0)

    def events(self) -> Iterator[Event]:
        """Names first, then slices, instants and counters, then the flows between slices."""
        for node, pid in self._pids.items():
            yield from _named(pid, visible(node) or UNPLACED)
        for home in self._homes:
            yield from self._of_home(home)
        yield from self._of_hubs()
        yield from self._flows()

    def _of_home(self, home: Home) -> Iterator[Event]:
        pid, rank = self._pids[home[0]], home[1]
        tid = NODE_THREAD + pid if rank is None else rank
        yield from _thread(pid, tid, "the node itself" if rank is None else f"rank {rank}", tid)
        placed = place(self.material.slices.get(home, ()))
        for track in sorted({item.track for item in placed} - {0, MOST_TRACKS}):
            yield from _thread(
                pid, _overflow(tid, track), f"rank {rank}, overlapping {track}" if rank is not None else "more", tid
            )
        for number, item in enumerate(placed):
            if item.track == MOST_TRACKS:
                yield from self._asynchronous(item, pid, tid, f"{pid}.{tid}.{number}")
                continue
            track = tid if item.track == 0 else _overflow(tid, item.track)
            if item.anchor:
                self._anchors[item.anchor] = _Anchor(pid, track, item.start_ns)
            yield self._slice(item, pid, track)
        for instant in self.material.instants.get(home, ()):
            scope = "p" if instant.initiating else "t"
            yield self._at(instant.at_ns, "i", pid, tid, instant.name) | {
                "s": scope,
                "cat": "fault",
                "args": dict(instant.args),
            }
        suffix = "" if rank is None else f" (rank {rank})"
        for count in self.material.counts.get(home, ()):
            yield self._at(count.at_ns, "C", pid, tid, count.name + suffix) | {"args": {count.name: count.value}}

    def _of_hubs(self) -> Iterator[Event]:
        if not self.material.hubs:
            return
        pid = len(self._pids) + 1
        yield from _named(pid, HUBS)
        for tid, (name, item) in enumerate(self.material.hubs, HUB_THREADS):
            yield from _thread(pid, tid, visible(clipped(name, 100)), tid)
            self._anchors[item.anchor] = _Anchor(pid, tid, item.start_ns)
            yield self._slice(item, pid, tid)

    def _flows(self) -> Iterator[Event]:
        """An arrow for each link whose ends are drawn, and stand in the right order."""
        for number, link in enumerate(self._graph.links, 1):
            a, b = self._anchors.get(link.cause), self._anchors.get(link.effect)
            if a is None or b is None:
                continue
            if b.ns < a.ns:
                self.backward += 1
                continue
            args = {"q": round(link.q, 4), "reason": visible(clipped(link.reason, 300))}
            common = {"id": number, "cat": "cause", "args": args}
            yield self._at(a.ns, "s", a.pid, a.tid, link.rule) | common
            yield self._at(b.ns, "f", b.pid, b.tid, link.rule) | common | {"bp": "e"}

    def _slice(self, item: Slice, pid: int, tid: int) -> Event:
        length = (item.end_ns - item.start_ns) / 1000
        return self._at(item.start_ns, "X", pid, tid, item.name) | {
            "dur": length,
            "cat": item.category,
            "args": dict(item.args),
        }

    def _asynchronous(self, item: Slice, pid: int, tid: int, name: str) -> Iterator[Event]:
        common = {"cat": item.category, "id": name}
        yield self._at(item.start_ns, "b", pid, tid, item.name) | common | {"args": dict(item.args)}
        yield self._at(item.end_ns, "e", pid, tid, item.name) | common

    def _at(self, ns: int, phase: str, pid: int, tid: int, name: str) -> Event:
        return {"ph": phase, "name": name, "pid": pid, "tid": tid, "ts": (ns - self.start_ns) / 1000}


def _overflow(tid: int, track: int) -> int:
    return OVERFLOW_THREADS + tid * MOST_TRACKS + track


def _named(pid: int, name: str) -> Iterator[Event]:
    yield _meta("process_name", pid, 0, {"name": name})
    yield _meta("process_sort_index", pid, 0, {"sort_index": pid})


def _thread(pid: int, tid: int, name: str, order: int) -> Iterator[Event]:
    """A name, and a place below the threads with a lower `order`."""
    yield _meta("thread_name", pid, tid, {"name": name})
    yield _meta("thread_sort_index", pid, tid, {"sort_index": order})


def _meta(kind: str, pid: int, tid: int, args: Mapping[str, str | int]) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": dict(args)}
