"""The many-line reports of torchrun: ChildFailedError, the rendezvous result, event JSON (formats.md B2, B3, B7).

ChildFailedError lists only what the agent of one node saw; its "root cause" is the first failure *observed* there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.child_failed import child_rows
from correlator.parsers.dialects.scalars import int32, numbers
from correlator.parsers.dialects.support import json_list, with_attributes

_I = "I1130 01:02:03.123000 12345 "
_FIELD = re.compile(r"[ \t]*(\w+)=([^\n]*)$")
_JSON_LIMIT = 1 << 20


def _rendezvous(hit: Hit) -> Iterable[Event]:
    """`  restart_count=1`, `  global_ranks=[8, 9]`, ... : the map from local to global ranks of one agent."""
    lines = hit.record.messages if hit.record else ()
    found = {match[1]: match[2].strip() for match in map(_FIELD.match, lines) if match}
    sizes = numbers(found.get("global_world_sizes", ""))
    event = hit.make(
        node_rank=int32(found.get("group_rank")),
        attempt=int32(found.get("restart_count")),
        world_size=int32(str(sizes[0])) if sizes else None,
        attributes=(),
    )
    yield with_attributes(
        event,
        global_ranks=json_list(numbers(found["global_ranks"])) if "global_ranks" in found else None,
        local_ranks=json_list(numbers(found["local_ranks"])) if "local_ranks" in found else None,
        master_addr=found.get("master_addr"),
        master_port=found.get("master_port"),
        group_world_size=found.get("group_world_size"),
    )


def _mapping(text: object) -> Mapping[str, Any]:
    """A JSON object in a string, or nothing."""
    if isinstance(text, dict):
        return text
    if not isinstance(text, str) or len(text) > _JSON_LIMIT:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _number(value: object) -> int | None:
    """A JSON number, digits, or the only number of a list."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return int32(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None


def _worker_event(hit: Hit) -> Iterable[Event]:
    """Event JSON of the agent about one worker: it places the rank, and says if it failed. Its timestamp is always 0."""
    whole = _mapping(hit.line.message[hit.match.start() :].strip())
    facts = _mapping(whole.get("metadata"))
    inner = _mapping(facts.get("metadata"))
    state = hit.match["state"]
    place: dict[str, Any] = {
        "rank": _number(facts.get("global_rank")),
        "local_rank": _number(inner.get("local_rank")),
        "node_rank": _number(facts.get("group_rank")),
        "process_pid": _number(facts.get("worker_id")),
        "attempt": _number(facts.get("agent_restarts")),
        "attributes": (),
    }
    host = facts.get("hostname")
    if isinstance(host, str) and host:
        place["host_name"] = host
    yield with_attributes(hit.make(**place), state=state)
    if state == "FAILED":
        failed = hit.make(event_name=Context.WORKER_FAILED, signature="elastic.event_worker_failed", **place)
        yield with_attributes(failed, state=state)


_CHILD_FAILED = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
_EVENT = (
    '{"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": 0, "metadata": {"run_id": "77", '
    '"global_rank": 11, "group_rank": 1, "worker_id": "4246", "role": "default", "hostname": "node03.cluster.local", '
    '"state": "FAILED", "total_run_time": 812, "rdzv_backend": "c10d", "raw_error": "{}", '
    '"metadata": "{\\"group_world_size\\": 2, \\"local_rank\\": [3]}", "agent_restarts": 0, "duration_ms": null}}'
)

_AGENT_EVENT = (
    '{"name": "torchelastic.worker.status.FAILED", "source": "AGENT", "timestamp": 0, "metadata": {"run_id": "77", '
    '"global_rank": null, "group_rank": 1, "worker_id": null, "hostname": "node03", "state": "FAILED"}}'
)
_RENDEZVOUS_EVENT = (
    '{"name": "dynamic_rendezvous", "run_id": "77", "message": "The node has failed", "hostname": "node03", "pid": 12345, '
    '"node_state": "FAILED", "master_endpoint": "node01:29500", "rank": 1, "local_id": 0, "error_trace": ""}'
)


def _agent_event(hit: Hit) -> Iterable[Event]:
    """What an agent reports of itself: `group_rank` and a rendezvous event's `rank` number the nodes."""
    outer = _mapping(hit.line.text[hit.line.text.find("{") :])
    facts = _mapping(outer.get("metadata")) or outer
    host = facts.get("hostname")
    event = hit.make(
        host_name=host if isinstance(host, str) and host else None,
        node_rank=_number(facts.get("group_rank", facts.get("rank"))),
        process_pid=_number(facts.get("pid")),
        rank=None,
        attributes=(),
    )
    yield with_attributes(event, state=facts.get("state") or facts.get("node_state"))


DIALECT = Dialect(
    name="torch_elastic_records",
    title="torchrun reports of many lines and its event JSON",
    source="formats.md B2, B3, B7",
    patterns=(
        LinePattern(
            id="elastic.child_failed",
            event_name=Context.CHILD_FAILED_ROW,
            regex=r"torch\.distributed\.elastic\.multiprocessing\.errors\.ChildFailedError:",
            samples=(_CHILD_FAILED, f"[rank0]: {_CHILD_FAILED}"),
            lookalikes=("    raise ChildFailedError(",),
            record="child_failed",
            priority=70,
            source="formats.md B3",
            build=child_rows,
        ),
        LinePattern(
            id="elastic.rendezvous_complete",
            event_name=Context.RENDEZVOUS_COMPLETE,
            regex=r"\[[^\]\n]+\] Rendezvous complete for workers\. Result:",
            samples=(
                f"{_I}torch/distributed/elastic/agent/server/api.py:525] [default] Rendezvous complete for workers. Result:",
            ),
            lookalikes=(
                f"{_I}torch/distributed/elastic/agent/server/api.py:525] [default] Rendezvous'ing worker group",
            ),
            record="rendezvous_result",
            source="formats.md B2",
            build=_rendezvous,
        ),
        LinePattern(
            id="elastic.event_worker",
            event_name=Context.RANK_IDENTITY,
            regex=r'\{"name": "torchelastic\.worker\.status\.(?P<state>\w+)", "source": "WORKER"',
            samples=(_EVENT, f"I1130 01:02:03.123000 12345 torch/distributed/elastic/events/__init__.py:77] {_EVENT}"),
            lookalikes=(_EVENT.replace("WORKER", "AGENT"),),
            anchor=Anchor.ANYWHERE,
            source="formats.md B7",
            build=_worker_event,
        ),
        LinePattern(
            id="elastic.event_agent",
            event_name=Context.MESSAGE,
            regex=r'\{"name": "torchelastic\.worker\.status\.\w+", "source": "AGENT"|\{"name": "[\w.]*rendezvous[\w.]*", "run_id": ',
            samples=(_AGENT_EVENT, _RENDEZVOUS_EVENT),
            lookalikes=(_EVENT,),
            anchor=Anchor.LINE,
            source="formats.md B7",
            build=_agent_event,
        ),
    ),
)
