"""vLLM and SGLang engines inside RL jobs: which worker died, and who only heard of it (formats.md I4)."""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Context, Role
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import with_attributes

_SOURCE = "formats.md I4"


def _worker(hit: Hit) -> Iterable[Event]:
    index = hit.match[1]
    code = hit.match[2]
    event = hit.make(local_rank=int(index), exit_code=int(code) if code else None)
    yield with_attributes(event, engine="vllm")


PATTERNS = (
    LinePattern(
        id="vllm.worker_died",
        event_name=Context.WORKER_FAILED,
        regex=r"Worker proc [A-Za-z_]+-?([0-9]{1,6}) died unexpectedly(?: \(exit code: (?:(-?[0-9]{1,4})|None)\))?",
        anchor=Anchor.ANYWHERE,
        samples=(
            "(EngineCore_DP0 pid=4242) ERROR 11-30 01:02:03 [multiproc_executor.py:154] Worker proc VllmWorker-3 died "
            "unexpectedly, shutting down executor.",
            "Worker proc VllmWorker-3 died unexpectedly (exit code: -9)",
        ),
        lookalikes=(
            "(EngineCore_DP0 pid=4242) INFO 11-30 01:02:03 [multiproc_executor.py:100] Worker proc VllmWorker-3 ready",
        ),
        source=_SOURCE,
        build=_worker,
    ),
    LinePattern(
        id="vllm.engine_dead",
        event_name=CollateralKind.LAUNCHER_REPORT,
        role=Role.COLLATERAL,
        regex=(
            r"(?:EngineDeadError: EngineCore encountered an issue|Engine core initialization failed\. See root cause above|"
            r"EngineCore encountered a fatal error)"
        ),
        anchor=Anchor.ANYWHERE,
        priority=45,
        samples=(
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
            "RuntimeError: Engine core initialization failed. See root cause above.",
        ),
        lookalikes=("(EngineCore_DP0 pid=4242) INFO 11-30 01:02:03 [core.py:77] EngineCore waiting for work.",),
        source=_SOURCE,
    ),
    LinePattern(
        id="vllm.broadcast_wait",
        event_name=Context.MESSAGE,
        regex=r"No available shared memory broadcast block found in ([0-9]+) second",
        anchor=Anchor.ANYWHERE,
        samples=(
            "(Worker_TP3 pid=4245) INFO 11-30 01:02:03 [shm_broadcast.py:501] No available shared memory broadcast block "
            "found in 60 seconds.",
        ),
        lookalikes=(
            "(Worker_TP3 pid=4245) INFO 11-30 01:02:03 [shm_broadcast.py:289] vLLM message queue handle ready",
        ),
        source=_SOURCE,
        build=lambda hit: [with_attributes(hit.make(), waited_s=hit.match[1])],
    ),
    LinePattern(
        id="sglang.child_failed",
        event_name=CollateralKind.LAUNCHER_REPORT,
        role=Role.COLLATERAL,
        regex=r"Received sigquit from a child process",
        anchor=Anchor.ANYWHERE,
        samples=(
            "[2025-11-30 01:02:03 TP3] Received sigquit from a child process. It usually means the child failed.",
        ),
        lookalikes=("[2025-11-30 01:02:03 TP3] Received 12 requests from a child process",),
        source=_SOURCE,
    ),
)
DIALECT = Dialect(name="inference_engines", title="vLLM, SGLang", patterns=PATTERNS, source=_SOURCE)
