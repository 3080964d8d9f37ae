"""DeepSpeed's launcher: what it starts, what it kills, what it saw fail (formats.md E4)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Dialect, Hit, Layer, LinePattern
from correlator.parsers.dialects.support import json_list, with_attributes

_LAYERS = frozenset({Layer.DEEPSPEED, Layer.LOGGING})
_SOURCE = "formats.md E4"
_LOCAL_RANK = re.compile(r"'--local[_-]rank(?:=(\d{1,6})'|', '(\d{1,6})')")
_SAVE_STEPS = re.compile(r"'--save[_-](?:steps|interval)(?:=(\d{1,9})'|', '(\d{1,9})')")
_NODE_RANKS = re.compile(r"'([^'\n]{1,255})': \[([0-9, ]*)\]")


def _option(pattern: re.Pattern[str], command: str) -> int | None:
    match = pattern.search(command)
    return int(match[1] or match[2]) if match else None


def _spawned(hit: Hit) -> Iterable[Event]:
    command = hit.match[2]
    event = hit.make(process_pid=int(hit.match[1][:9]), local_rank=_option(_LOCAL_RANK, command))
    yield with_attributes(event, save_steps=_option(_SAVE_STEPS, command))


def _failed(hit: Hit) -> Iterable[Event]:
    """Some versions print the command of the process started last, whichever failed: its local rank is no proof."""
    command = hit.match[1]
    event = hit.make(exit_code=int(hit.match[2][:9]), local_rank=_option(_LOCAL_RANK, command))
    yield with_attributes(event, unreliable=True, save_steps=_option(_SAVE_STEPS, command))


def _killed(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(process_pid=int(hit.match[1][:9])), signal="SIGTERM")


def _clean_exit(hit: Hit) -> Iterable[Event]:
    yield hit.make(process_pid=int(hit.match[1][:9]), exit_code=0)


def _signalled(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), signal=hit.match[1])


def _node(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(node_rank=int(hit.match[3][:9])), nnodes=hit.match[1], num_local_procs=hit.match[2])


def _mapping(hit: Hit) -> Iterable[Event]:
    """One identity per rank of the printed map; the device order of a node is the order of its list."""
    nodes = _NODE_RANKS.findall(hit.match[1])
    world_size = sum(len(ranks.split(",")) for _, ranks in nodes if ranks.strip())
    for node_rank, (host, ranks) in enumerate(nodes):
        for local_rank, rank in enumerate(part for part in ranks.split(",") if part.strip()):
            event = hit.make(
                rank=int(rank), local_rank=local_rank, host_name=host, node_rank=node_rank, world_size=world_size
            )
            yield with_attributes(event, mapped=True)


def _world_info(hit: Hit) -> Iterable[Event]:
    """`WORLD INFO DICT` lists the devices that each host offers."""
    try:
        hosts = json.loads(hit.match[1].replace("'", '"'))
    except (ValueError, RecursionError):
        return
    if isinstance(hosts, dict):
        yield with_attributes(hit.make(), nodes=json_list(str(host) for host in hosts), nnodes=len(hosts))


PATTERNS = (
    LinePattern(
        id="deepspeed.spawned",
        event_name=Context.LAUNCHER_SPAWN,
        regex=r"process ([0-9]+) spawned with command: (\[[^\n]*)",
        requires=_LAYERS,
        samples=(
            "[2025-11-30 01:00:00,223] [INFO] [launch.py:272:main] process 4245 spawned with command: "
            "['/opt/venv/bin/python', '-u', 'train.py', '--local_rank=3', '--save_steps', '400']",
        ),
        lookalikes=("[2025-11-30 01:00:00,223] [INFO] [launch.py:256:main] dist_world_size=16",),
        source=_SOURCE,
        build=_spawned,
    ),
    LinePattern(
        id="deepspeed.failed",
        event_name=Context.WORKER_FAILED,
        regex=r"(\[[^\n]*\]) exits with return code = (-?[0-9]+)",
        requires=_LAYERS,
        samples=(
            "[2025-11-30 01:02:06,345] [ERROR] [launch.py:341:sigkill_handler] ['/opt/venv/bin/python', '-u', 'train.py', "
            "'--local_rank=3', '--deepspeed'] exits with return code = -11",
        ),
        lookalikes=("[2025-11-30 01:02:06,345] [INFO] [launch.py:351:main] Process 4245 exits successfully.",),
        source=_SOURCE,
        build=_failed,
    ),
    LinePattern(
        id="deepspeed.killing",
        event_name=Context.WORKER_SIGNALLED,
        regex=r"Killing subprocess ([0-9]+)",
        requires=_LAYERS,
        samples=("[2025-11-30 01:02:05,345] [INFO] [launch.py:335:sigkill_handler] Killing subprocess 4242",),
        lookalikes=("[2025-11-30 01:02:05,345] [INFO] [launch.py:256:main] Starting subprocess 4242",),
        source=_SOURCE,
        build=_killed,
    ),
    LinePattern(
        id="deepspeed.exited",
        event_name=Context.PROCESS_EXIT_CLEAN,
        regex=r"Process ([0-9]+) exits successfully",
        requires=_LAYERS,
        samples=("[2025-11-30 01:02:06,345] [INFO] [launch.py:351:main] Process 4245 exits successfully.",),
        lookalikes=("[2025-11-30 01:02:06,345] [INFO] [launch.py:351:main] Process group initialised",),
        source=_SOURCE,
        build=_clean_exit,
    ),
    LinePattern(
        id="deepspeed.signalled",
        event_name=Context.AGENT_SIGNALLED,
        regex=r"Main process received (SIG[A-Z0-9]+)",
        requires=_LAYERS,
        samples=(
            "[2025-11-30 01:02:05,345] [INFO] [launch.py:331:sigkill_handler] Main process received SIGTERM, exiting",
        ),
        lookalikes=("[2025-11-30 01:02:05,345] [INFO] [launch.py:331:main] Main process received 8 worlds",),
        source=_SOURCE,
        build=_signalled,
    ),
    LinePattern(
        id="deepspeed.node",
        event_name=Context.LAUNCHER_STARTED,
        regex=r"nnodes=([0-9]+), num_local_procs=([0-9]+), node_rank=([0-9]+)",
        requires=_LAYERS,
        samples=("[2025-11-30 01:00:00,123] [INFO] [launch.py:168:main] nnodes=2, num_local_procs=8, node_rank=1",),
        lookalikes=("[2025-11-30 01:00:00,123] [INFO] [launch.py:181:main] dist_world_size=16",),
        source=_SOURCE,
        build=_node,
    ),
    LinePattern(
        id="deepspeed.rank_mapping",
        event_name=Context.RANK_IDENTITY,
        regex=r"global_rank_mapping=([^\n]+)",
        requires=_LAYERS,
        samples=(
            "[2025-11-30 01:00:00,123] [INFO] [launch.py:179:main] global_rank_mapping=defaultdict(<class 'list'>, "
            "{'node01': [0, 1, 2, 3], 'node02': [4, 5, 6, 7]})",
        ),
        lookalikes=("[2025-11-30 01:00:00,123] [INFO] [launch.py:181:main] Setting CUDA_VISIBLE_DEVICES=0,1,2,3",),
        source=_SOURCE,
        build=_mapping,
    ),
    LinePattern(
        id="deepspeed.world_info",
        event_name=Context.LAUNCHER_STARTED,
        regex=r"WORLD INFO DICT: (\{[^\n]*\})",
        requires=_LAYERS,
        samples=(
            "[2025-11-30 01:00:00,123] [INFO] [launch.py:164:main] WORLD INFO DICT: {'node01': [0, 1], 'node02': [0, 1]}",
        ),
        lookalikes=(
            "[2025-11-30 01:00:00,123] [INFO] [runner.py:568:main] cmd = python -u -m deepspeed.launcher.launch",
        ),
        source=_SOURCE,
        build=_world_info,
    ),
)
DIALECT = Dialect(name="deepspeed", title="DeepSpeed launcher", patterns=PATTERNS, source=_SOURCE)
