"""Ray: deaths of actors, workers and nodes as the driver and the raylet tell them (formats.md E3).

These lines name the victim by pid and address; the traceback of the caller is a consequence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Context, FaultCode, Role
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import with_attributes

_SOURCE = "formats.md E3"
_PID = re.compile(r"(?:Worker PID: |\bpid=)(\d{1,9})")
_IP = re.compile(r"(?:Worker IP address: |\bip=|\(IP: |address: )([0-9A-Fa-f][0-9A-Fa-f.:]*[0-9A-Fa-f])")
_NODE_NAME = re.compile(r"node name: ([^ ,\n]+)")
_NODE_ID = re.compile(r"(?:Node I[Dd]|node id): ?([0-9a-f]+)")
_EXIT_TYPE = re.compile(r"Worker exit type: ([A-Z_]+)")


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None


def _death(hit: Hit) -> Iterable[Event]:
    text = hit.line.message
    pid = _first(_PID, text)
    overrides = {"process_pid": int(pid)} if pid else {}
    yield with_attributes(
        hit.make(**overrides),
        ip=_first(_IP, text),
        node_id=_first(_NODE_ID, text),
        exit_type=_first(_EXIT_TYPE, text),
    )


def _node_dead(hit: Hit) -> Iterable[Event]:
    text = hit.line.message
    name, ip = _first(_NODE_NAME, text), _first(_IP, text)
    yield with_attributes(hit.make(), node=name or ip, ip=ip, node_id=_first(_NODE_ID, text))


def _memory(hit: Hit) -> Iterable[Event]:
    text = hit.line.message
    pid = _first(_PID, text)
    yield with_attributes(hit.make(process_pid=int(pid) if pid else None), scope="ray", ip=_first(_IP, text))


PATTERNS = (
    LinePattern(
        id="ray.actor_dead",
        event_name=CollateralKind.ACTOR_DIED,
        role=Role.COLLATERAL,
        regex=r"The actor (?:is dead|died) because (?:its worker process has died|its node has died|its owner has died)",
        priority=60,
        samples=(
            "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
            "Worker unexpectedly exits with a connection error code 2. End of file.",
            "The actor died because its node has died. Node Id: 0b6a77",
        ),
        lookalikes=("The actor is dead because it was killed by `ray.kill`, as asked",),
        source=_SOURCE,
        build=_death,
    ),
    LinePattern(
        id="ray.actor_died_error",
        event_name=CollateralKind.ACTOR_DIED,
        role=Role.COLLATERAL,
        regex=r"(?:ray\.exceptions\.)?(?:ActorDiedError|RayActorError): The actor died",
        anchor=Anchor.ANYWHERE,
        samples=("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",),
        lookalikes=("2025-11-30 01:02:03,123\tINFO actor.py:12 -- retries on ActorDiedError: 3",),
        source=_SOURCE,
        build=_death,
    ),
    LinePattern(
        id="ray.worker_died",
        event_name=CollateralKind.ACTOR_DIED,
        role=Role.COLLATERAL,
        regex=r"A worker died or was killed while executing a task by an unexpected system error",
        anchor=Anchor.ANYWHERE,
        samples=(
            "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot "
            "the problem, check the logs for the dead worker. Worker IP address: 10.0.0.5 Worker port: 45555 "
            "Worker PID: 26103 Worker exit type: SYSTEM_ERROR Worker exit detail: End of file.",
        ),
        lookalikes=("(raylet) A worker was started to execute a task",),
        source=_SOURCE,
        build=_death,
    ),
    LinePattern(
        id="ray.task_error",
        event_name=CollateralKind.ACTOR_DIED,
        role=Role.COLLATERAL,
        regex=r"(?:ray\.exceptions\.)?RayTaskError(?:\([A-Za-z_.]+\))?: ray::",
        anchor=Anchor.ANYWHERE,
        samples=(
            "ray.exceptions.RayTaskError(ValueError): ray::TrainWorker.step() (pid=4245, ip=10.0.0.5, actor_id=7ea5)",
        ),
        lookalikes=("(TrainWorker pid=4245) retry policy for RayTaskError: none",),
        source=_SOURCE,
        record="exception_text",
    ),
    LinePattern(
        id="ray.node_dead",
        event_name=Context.NODE_FAILURE_REPORTED,
        regex=r"The node with node id: [^\n]* has been marked dead",
        anchor=Anchor.ANYWHERE,
        samples=(
            "(raylet) The node with node id: 0b6a77 and address: 10.0.0.5 and node name: 10.0.0.5 has been marked dead "
            "because the detector has missed too many heartbeats from it.",
        ),
        lookalikes=("(autoscaler +12s) The node with node id: 0b6a77 has been added",),
        source=_SOURCE,
        build=_node_dead,
    ),
    LinePattern(
        id="ray.memory_kill",
        event_name=FaultCode.HOST_OOM_KILL,
        role=Role.INITIATING,
        regex=(
            r"(?:Task was killed due to the node running low on memory|"
            r"Memory on the node \(IP: [^\n]* exceeds the memory usage threshold|"
            r"[1-9][0-9]* Workers \(tasks / actors\) killed due to memory pressure \(OOM\))"
        ),
        anchor=Anchor.ANYWHERE,
        samples=(
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            "Memory on the node (IP: 10.0.0.5, ID: 0b6a) where the task (task ID: 12, name=step, pid=4245, memory "
            "used=40.00GB) was running was 62.00GB / 64.00GB (0.96875), which exceeds the memory usage threshold of 0.95.",
            "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other "
            "reasons at node (ID: 0b6a, IP: 10.0.0.5) over the last time period.",
        ),
        lookalikes=(
            "(raylet) 0 Workers (tasks / actors) killed due to memory pressure (OOM), 1 Workers crashed due to other reasons",
            "2025-11-30 01:02:03,123\tINFO node.py:12 -- memory usage threshold is 0.95",
        ),
        source=_SOURCE,
        build=_memory,
    ),
)
DIALECT = Dialect(name="ray", title="Ray", patterns=PATTERNS, source=_SOURCE)
