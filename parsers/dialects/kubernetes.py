"""Kubernetes: pod listings, events and conditions as kubectl and the kubelet print them (formats.md E2)."""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FaultCode, Role
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import with_attributes

_SOURCE = "formats.md E2"
_NONE = "<none>"
_LOST = frozenset({"NodeLost", "NodeNotReady", "NodeUnreachable", "NodeShutdown", "DeletingNode"})
_REASONS = (
    "OOMKilled|Evicted|Preempted|Preempting|NodeLost|NodeNotReady|NodeShutdown|Terminated|"
    "DeadlineExceeded|BackOff|CrashLoopBackOff|ContainerCannotRun|StartError|UnexpectedAdmissionError|Error|Killing|"
    "TaintManagerEviction"
)


def _known(text: str | None) -> str | None:
    return None if text in (None, _NONE) else text


def _listed_pod(hit: Hit) -> Iterable[Event]:
    namespace, pod, status, restarts, age, ip, node = hit.match.groups()
    node, ip = _known(node), _known(ip)
    yield with_attributes(
        hit.make(),
        pod=pod,
        node=node,
        status=status,
        ip=ip,
        restarts=restarts,
        namespace=namespace,
        age=age,
    )
    if status in _LOST and node:
        failed = hit.make(event_name=Context.NODE_FAILURE_REPORTED)
        yield with_attributes(failed, node=node, reason=status, pod=pod)


def _narrow_pod(hit: Hit) -> Iterable[Event]:
    pod, status, restarts, age = hit.match.groups()
    yield with_attributes(hit.make(), pod=pod, status=status, restarts=restarts, age=age)


def _event_row(hit: Hit) -> Iterable[Event]:
    """`kubectl get events` prints ages, not times: the row is no evidence of when."""
    age, reason, kind, name, message = hit.match.groups()
    lost = reason in _LOST
    pod, node = (name, None) if kind == "pod" else (None, name)
    event = hit.make(event_name=Context.NODE_FAILURE_REPORTED if lost and node else Context.POD_STATUS, body=message)
    yield with_attributes(event, pod=pod, node=node, status=reason, age=age)


def _node_not_ready(hit: Hit) -> Iterable[Event]:
    node = hit.match[1]
    yield with_attributes(hit.make(), node=node, reason=hit.match[2])


def _terminated(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), status=hit.match[1])


PATTERNS = (
    LinePattern(
        id="kubernetes.pod_wide",
        event_name=Context.POD_STATUS,
        regex=(
            r"(?:([a-z0-9][a-z0-9-]*)[ \t]+)?([a-z0-9][a-z0-9.-]*)[ \t]+[0-9]+/[0-9]+[ \t]+([A-Z][A-Za-z0-9:/]+)[ \t]+"
            r"([0-9]+)(?: \([^)\n]* ago\))?[ \t]+([0-9][0-9a-z]*)[ \t]+([0-9a-f.:]+|<none>)[ \t]+([a-z0-9][a-z0-9.-]*|<none>)"
        ),
        samples=(
            "job-worker-0   0/1     Error    0          19m   10.43.3.11   node050   <none>           <none>",
            "job-worker-1   0/1     NodeLost   2 (5m ago)   55m   10.41.3.14   node05    <none>           <none>",
            "ml   job-worker-3   1/1   Running   0   3d2h   10.41.3.14   node-7.pool.local   <none>   <none>",
            "job-worker-2   0/1     Pending    0   55m   <none>   <none>    <none>           <none>",
        ),
        lookalikes=(
            "NAME           READY   STATUS   RESTARTS   AGE   IP           NODE      NOMINATED NODE   READINESS GATES",
            "shard 3/8 Done 12 5s 10.0.0.5:29500",
        ),
        source=_SOURCE,
        build=_listed_pod,
    ),
    LinePattern(
        id="kubernetes.pod",
        event_name=Context.POD_STATUS,
        regex=(
            r"([a-z0-9][a-z0-9.-]*)[ \t]+[0-9]+/[0-9]+[ \t]+"
            r"(Running|Pending|Completed|Succeeded|Failed|Unknown|Terminating|Error|OOMKilled|Evicted|NodeLost|NodeShutdown|"
            r"CrashLoopBackOff|ImagePullBackOff|ErrImagePull|Init:[A-Za-z0-9/]+|ContainerCreating|Preempted|Terminated|"
            r"ContainerStatusUnknown|UnexpectedAdmissionError|CreateContainerError|StartError|DeadlineExceeded)"
            r"[ \t]+([0-9]+)(?: \([^)\n]* ago\))?[ \t]+([0-9][0-9a-z]*)"
        ),
        priority=45,
        samples=("job-worker-0   0/1     OOMKilled    1 (2m3s ago)    19m", "job-master-0   0/1   Evicted   0   3h"),
        lookalikes=("eval 3/8 Failed 2 samples", "NAME           READY   STATUS   RESTARTS   AGE"),
        source=_SOURCE,
        build=_narrow_pod,
    ),
    LinePattern(
        id="kubernetes.event",
        event_name=Context.POD_STATUS,
        regex=(
            r"([0-9][0-9a-z]*|<unknown>)(?: \(x[0-9]+ over [0-9a-z]+\))?[ \t]+(?:Warning|Normal)[ \t]+("
            + _REASONS
            + r")[ \t]+"
            r"(pod|node)/([a-z0-9][a-z0-9.-]*)[ \t]+([^\n]+)"
        ),
        samples=(
            "5m12s       Warning   NodeNotReady   pod/job-worker-3   Node is not ready",
            "61s         Warning   Evicted        pod/job-worker-1   The node was low on resource: memory.",
            "2m (x4 over 9m)   Warning   BackOff   pod/job-worker-1   Back-off restarting failed container",
        ),
        lookalikes=(
            "5m12s       Normal    Scheduled      pod/job-worker-3   Successfully assigned ml/job-worker-3 to node05",
        ),
        source=_SOURCE,
        build=_event_row,
    ),
    LinePattern(
        id="kubernetes.system_oom",
        event_name=FaultCode.HOST_OOM_KILL,
        role=Role.INITIATING,
        regex=(
            r"([0-9][0-9a-z]*|<unknown>)[ \t]+Warning[ \t]+SystemOOM[ \t]+node/(?P<host_name>[a-z0-9][a-z0-9.-]*)[ \t]+"
            r"System OOM encountered, victim process: (?P<victim_name>[^,\n]+), pid: (?P<process_pid>[0-9]+)"
        ),
        priority=65,
        samples=(
            "3m          Warning   SystemOOM      node/node05        System OOM encountered, victim process: python3, pid: 4245",
        ),
        lookalikes=("3m          Warning   Evicted      pod/job-worker-1   The node was low on resource: memory.",),
        source=_SOURCE,
        build=lambda hit: [with_attributes(hit.make(), scope="global", age=hit.match[1])],
    ),
    LinePattern(
        id="kubernetes.node_not_ready",
        event_name=Context.NODE_FAILURE_REPORTED,
        regex=r"Node ([a-z0-9][a-z0-9.-]*) (?:status is now: |event: )?(NodeNotReady|has become unreachable|NotReady)",
        anchor=Anchor.ANYWHERE,
        samples=("Node node05 status is now: NodeNotReady",),
        lookalikes=("Node node05 status is now: NodeReady", "Node node05 status is now: NodeHasSufficientMemory"),
        source=_SOURCE,
        build=_node_not_ready,
    ),
    LinePattern(
        id="kubernetes.container_reason",
        event_name=Context.POD_STATUS,
        regex=r"[ \t]*(?:Reason|reason):[ \t]+\"?(OOMKilled|Evicted|NodeLost|Preempted|Preempting|DeadlineExceeded|NodeShutdown)",
        samples=("      Reason:       OOMKilled", "    reason: Evicted"),
        lookalikes=("      Reason:       Completed", "2025-11-30 01:02:03,123 INFO stop reason: max_steps"),
        source=_SOURCE,
        build=_terminated,
    ),
)
DIALECT = Dialect(name="kubernetes", title="Kubernetes listings and events", patterns=PATTERNS, source=_SOURCE)
