"""The start-up prints of training scripts that say which rank a process is (formats.md A7, F5)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.scalars import int32
from correlator.parsers.dialects.support import with_attributes
from correlator.parsers.pci import normalise_pci

_VARIABLE = re.compile(
    r"(?<![A-Za-z_])['\"]?(RANK|LOCAL_RANK|WORLD_SIZE|GROUP_RANK|NODE_RANK|MASTER_ADDR|LOCAL_WORLD_SIZE)['\"]?[=:][ \t]*"
    r"['\"]?([\w.:-]+)"
)
_NAME = r"[A-Za-z0-9][\w.-]*"


def _environment(hit: Hit) -> Iterable[Event]:
    """LOCAL_RANK is asked for: without it RANK may be that of a node (PyTorchJob sets RANK for each pod)."""
    found = {name: value.rstrip(".:") for name, value in reversed(_VARIABLE.findall(hit.line.message))}
    event = hit.make(
        rank=int32(found.get("RANK")),
        local_rank=int32(found.get("LOCAL_RANK")),
        world_size=int32(found.get("WORLD_SIZE")),
        node_rank=int32(found.get("GROUP_RANK") or found.get("NODE_RANK")),
        attributes=(),
    )
    if event.rank is not None and event.local_rank is not None:
        yield with_attributes(event, master_addr=found.get("MASTER_ADDR"))


def _with_gpu(hit: Hit) -> Iterable[Event]:
    """The GPU address may lack its function, `0000:43:00`."""
    printed = hit.match["printed_gpu"]
    yield hit.make(gpu=normalise_pci(printed) if printed else None, attributes=())


DIALECT = Dialect(
    name="rank_identity",
    title="Start-up prints that name rank, host and process",
    source="formats.md A7, F5",
    patterns=(
        LinePattern(
            id="identity.init_process_group",
            event_name=Context.RANK_IDENTITY,
            regex=r"init process group: rank (?P<rank>\d+)/(?P<world_size>\d+) local_rank (?P<local_rank>\d+) "
            rf"host (?P<host_name>{_NAME})",
            samples=(
                "2025-11-30 01:02:03,123 [INFO] trainer: [rank 3] init process group: rank 3/64 local_rank 3 host node03",
            ),
            lookalikes=("init process group: rank unknown",),
            anchor=Anchor.ANYWHERE,
            source="training scripts",
        ),
        LinePattern(
            id="identity.initializing",
            event_name=Context.RANK_IDENTITY,
            regex=r"initializing process group: rank (?P<rank>\d+) of (?P<world_size>\d+)"
            rf"(?:, master (?P<master_addr>{_NAME}):(?P<master_port>\d+))?",
            samples=(
                "2025-11-30 01:02:03,123 INFO [rank 0] initializing process group: rank 0 of 8, master node00:25841",
            ),
            lookalikes=("initializing process group: dp of 8",),
            anchor=Anchor.ANYWHERE,
            source="training scripts",
        ),
        LinePattern(
            id="identity.ready",
            event_name=Context.RANK_IDENTITY,
            regex=rf"process group ready, host (?P<host_name>{_NAME}), pid (?P<process_pid>\d+)",
            samples=("2025-11-30 01:02:03,123 INFO [rank 3] process group ready, host node00, pid 25472",),
            lookalikes=("process group ready",),
            anchor=Anchor.ANYWHERE,
            source="training scripts",
        ),
        LinePattern(
            id="identity.env_line",
            event_name=Context.RANK_IDENTITY,
            regex=r"(?:env: )?rank=(?P<rank>\d+) local_rank=(?P<local_rank>\d+) world=(?P<world_size>\d+) "
            rf"host=(?P<host_name>{_NAME}) pid=(?P<process_pid>\d+)(?: gpu=(?P<printed_gpu>[0-9a-fA-F:.]+))?",
            samples=(
                "[default1]:2025-11-30 01:02:03,123 [INFO] env: rank=9 local_rank=1 world=64 host=node03 pid=68 gpu=0000:43:00",
            ),
            lookalikes=("env: rank=9",),
            anchor=Anchor.ANYWHERE,
            source="training scripts",
            build=_with_gpu,
        ),
        LinePattern(
            id="identity.environment",
            event_name=Context.RANK_IDENTITY,
            regex=r"\bRANK['\"]?[=:][ \t]*['\"]?\d+[^\n]*LOCAL_RANK['\"]?[=:][ \t]*['\"]?\d+"
            r"|LOCAL_RANK['\"]?[=:][ \t]*['\"]?\d+[^\n]*\bRANK['\"]?[=:][ \t]*['\"]?\d+",
            samples=(
                "RANK=3 LOCAL_RANK=3 WORLD_SIZE=64",
                "[rank 3] LOCAL_RANK: 3, WORLD_SIZE: 64, RANK: 3, MASTER_ADDR: node00",
                "{'RANK': '3', 'LOCAL_RANK': '3', 'WORLD_SIZE': '64'}",
            ),
            lookalikes=("RANK=0 WORLD_SIZE=8", "export NODE_RANK=3 LOCAL_RANK=3"),
            anchor=Anchor.ANYWHERE,
            priority=40,
            source="training scripts",
            build=_environment,
        ),
        LinePattern(
            id="identity.lightning",
            event_name=Context.RANK_IDENTITY,
            regex=r"Initializing distributed: GLOBAL_RANK: (?P<rank>\d+), MEMBER: (?P<member>\d+)/(?P<world_size>\d+)",
            samples=("Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/16",),
            lookalikes=("Initializing distributed: GLOBAL_RANK unset",),
            anchor=Anchor.ANYWHERE,
            source="Lightning",
        ),
        LinePattern(
            id="identity.hugging_face",
            event_name=Context.RANK_IDENTITY,
            # The number is the local rank in some versions and scripts and the global one in others.
            regex=r"Process rank: (?P<printed_rank>\d+), device: (?P<device>[a-z]{2,8}(?::\d+)?), n_gpu: \d+",
            samples=(
                "[WARNING|run_clm.py:267] 2025-11-30 01:02:03,123 >> Process rank: 3, device: cuda:3, n_gpu: 1, "
                "distributed training: True, 16-bits training: False",
            ),
            lookalikes=("Process rank: unknown",),
            source="transformers' example scripts",
        ),
        LinePattern(
            id="identity.accelerate",
            event_name=Context.RANK_IDENTITY,
            regex=r"(?:Process index: (?P<rank>\d+)|Local process index: (?P<local_rank>\d+)|Num processes: (?P<world_size>\d+))",
            samples=("Process index: 3", "Local process index: 3", "Num processes: 8"),
            lookalikes=("The process index: 3",),
            priority=40,
            source="accelerate's state, printed over several lines",
        ),
        LinePattern(
            id="identity.glog_header",
            event_name=Context.RUN_CONFIG,
            regex=rf"Running on machine: (?P<host_name>{_NAME})",
            samples=("Running on machine: node03",),
            lookalikes=("Running on machine: <unknown>",),
            source="formats.md I1: the head of a glog file",
        ),
    ),
)
