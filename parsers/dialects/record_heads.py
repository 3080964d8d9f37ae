"""Lines that begin a record of many lines (formats.md A10, G1-G3, H1, H3).

Their priority is the lowest: where a signature of the catalogue recognises the line too, it gives the meaning and this pattern
only the record that is folded into the event.
"""

from __future__ import annotations

from correlator.core.vocabulary import CollateralKind, Context, FaultCode, Role
from correlator.parsers.base import Dialect, Layer, LinePattern
from correlator.parsers.table import LOWEST_PRIORITY

_LOWEST = LOWEST_PRIORITY

DIALECT = Dialect(
    name="record_heads",
    title="Heads of tracebacks, crash dumps and kernel reports",
    source="formats.md A10, G1-G3, H1, H3",
    patterns=(
        LinePattern(
            id="python.traceback",
            event_name=FaultCode.PYTHON_EXCEPTION,
            role=Role.INITIATING,
            regex=r"(?:[ \t]*(?:[+|] )?(?:Exception Group )?|[A-Z][\w .]*: )Traceback \(most recent call last\):",
            samples=(
                "Traceback (most recent call last):",
                "[rank3]: Traceback (most recent call last):",
                "  + Exception Group Traceback (most recent call last):",
                "[2025-11-30 01:02:03 TP3] Scheduler hit an exception: Traceback (most recent call last):",
            ),
            lookalikes=(
                "Original Traceback (most recent call last):",
                "see the Traceback (most recent call last): above",
            ),
            record="traceback",
            priority=_LOWEST,
            source="formats.md A9, G1",
        ),
        LinePattern(
            id="python.traceback_preface",
            event_name=FaultCode.PYTHON_EXCEPTION,
            role=Role.INITIATING,
            regex=r"(?:Exception in thread |Exception ignored in|Process (?:Spawn|Fork|ForkServer)?Process-)[^\n]*:[^\n]*",
            samples=(
                "Exception in thread Thread-3 (_pin_memory_loop):",
                "Exception ignored in: <function Pool.__del__ at 0x7f0000000000>",
                "Process SpawnProcess-3:",
            ),
            lookalikes=("Process 4245 exits successfully.",),
            record="traceback",
            priority=_LOWEST,
            source="formats.md G1",
        ),
        LinePattern(
            id="python.fatal_error",
            event_name=Context.MESSAGE,
            regex=r"Fatal Python error: [A-Za-z_]",
            samples=("Fatal Python error: Cannot recover from stack overflow.",),
            lookalikes=("UserWarning: Fatal Python error: is a text",),
            record="faulthandler",
            priority=_LOWEST,
            source="formats.md G2",
        ),
        LinePattern(
            id="python.thread_dump",
            event_name=Context.MESSAGE,
            regex=r"Timeout \(\d+:\d\d:\d\d\)!",
            samples=("Timeout (0:05:00)!",),
            lookalikes=("Timeout (300 s)!",),
            record="faulthandler",
            priority=_LOWEST,
            source="formats.md G2",
        ),
        LinePattern(
            id="native.terminate",
            event_name=FaultCode.NATIVE_ABORT,
            role=Role.INITIATING,
            regex=r"terminate called after throwing an instance of '[^'\n]",
            samples=("terminate called after throwing an instance of 'myengine::Failure'",),
            lookalikes=("terminate called without an active exception",),
            record="c10d_block",
            priority=_LOWEST,
            source="formats.md A3, G3",
        ),
        LinePattern(
            id="native.failure_handler",
            event_name=Context.MESSAGE,
            regex=r"\[failure_signal_handler\.cc : \d+\] RAW: Signal (?P<signal>\d+) raised",
            samples=(
                "[failure_signal_handler.cc : 332] RAW: Signal 11 raised at PC=0x7f while already in AbslFailureSignalHandler()",
            ),
            lookalikes=("[failure_signal_handler.cc : 332] RAW: installed",),
            source="formats.md G3",
        ),
        LinePattern(
            id="native.device_assert",
            event_name=FaultCode.CUDA_DEVICE_ASSERT,
            role=Role.INITIATING,
            regex=r"[^ \n][^\n]*: block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion `",
            samples=(
                "/pytorch/aten/src/ATen/Indexing.cu:14: indexSelect: block: [1,0,0], thread: [6,0,0] Assertion `src <",
            ),
            lookalikes=(": block: [1,0,0], thread: [6,0,0] Assertion `src < 3` failed.",),
            record="device_assert_burst",
            priority=_LOWEST,
            source="formats.md A10",
        ),
        LinePattern(
            id="ray.actor_report",
            event_name=CollateralKind.ACTOR_DIED,
            role=Role.COLLATERAL,
            regex=r"(?:ray\.exceptions\.)?(?:ActorDiedError|RayActorError|ActorUnavailableError): [A-Z]",
            samples=("ray.exceptions.ActorUnavailableError: Task 7ea5 of the actor was not delivered.",),
            lookalikes=("retries after an ActorDiedError: 3",),
            record="ray_actor",
            priority=_LOWEST,
            source="formats.md E3",
        ),
        LinePattern(
            id="kernel.oom_report",
            event_name=Context.MESSAGE,
            regex=r"[^ \n]+ invoked oom-killer: ",
            samples=(
                "[12345.678901] python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, "
                "oom_score_adj=0",
            ),
            lookalikes=("[12345.678901] the kernel invoked oom-killer: twice",),
            requires=frozenset({Layer.KERNEL}),
            record="kernel_oom",
            priority=_LOWEST,
            source="formats.md H3",
        ),
        LinePattern(
            id="native.signal_block",
            event_name=Context.MESSAGE,
            regex=r"\[[\w.-]+:\d+\] Signal: [A-Z]",
            samples=("[node03:04245] Signal: User defined signal 1 (10)",),
            lookalikes=("[node03:04245] Signal code: Address not mapped (1)",),
            record="signal_block",
            priority=_LOWEST,
            source="formats.md E5",
        ),
    ),
)
