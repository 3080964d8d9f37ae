"""Numbers that went wrong, as trainers print them: NaN checks, overflows, spikes, retries (formats.md F1, F3, F4, F9)."""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, FaultCode, Role, Severity
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import with_attributes


def _overflow(hit: Hit) -> Iterable[Event]:
    """The rank that prints it need not be the one whose gradients overflowed."""
    event = hit.make(attributes=())
    yield with_attributes(
        event,
        observer_rank=hit.match["observer"],
        loss_scale=hit.match["scale"],
        reduced_to=hit.match["reduced"],
    )


PATTERNS = (
    LinePattern(
        id="trainer.nan_on_device",
        event_name=FaultCode.NAN_LOSS,
        role=Role.INITIATING,
        regex=(
            r"(?:(?:AssertionError|RuntimeError): )?(?:Rank (?P<rank>\d{1,9}): )?found NaN in (?P<where>[^.\n]+)\. "
            r"Device: (?P<device_index>\d{1,4}), node: (?P<host_name>[A-Za-z0-9][\w.-]*)"
        ),
        samples=(
            "AssertionError: found NaN in local forward loss calculation. Device: 3, node: node03",
            "found NaN in local grad norm in backward pass before data-parallel communication collective. Device: 3, node: node03",
        ),
        lookalikes=("check for NaN in local forward loss calculation. Device: 3, node: node03",),
        priority=65,
        source="formats.md F1",
    ),
    LinePattern(
        id="trainer.bad_result",
        event_name=FaultCode.NAN_LOSS,
        role=Role.INITIATING,
        regex=(
            r"(?:RuntimeError: )?Unexpected result (?P<value>-?(?:nan|inf)) on rank (?P<rank>\d{1,9}) at iteration "
            r"#(?P<step>\d{1,12}) invocation #\d+"
        ),
        samples=("Unexpected result nan on rank 11 at iteration #1201 invocation #0 (message='found NaN in loss')",),
        lookalikes=("Unexpected result 17.2 on rank 11 at iteration #1201 invocation #0 (message='Spiky loss')",),
        priority=65,
        source="formats.md F1",
    ),
    LinePattern(
        id="trainer.spike",
        event_name=Context.MESSAGE,
        regex=(
            r"(?:RuntimeError: )?Unexpected result (?P<value>-?\d[\d.eE+-]*) on rank (?P<rank>\d{1,9}) at iteration "
            r"#(?P<step>\d{1,12}) invocation #\d+"
        ),
        samples=("Unexpected result 17.2 on rank 11 at iteration #1201 invocation #0 (message='Spiky loss')",),
        lookalikes=("Unexpected result nan on rank 11 at iteration #1201 invocation #0 (message='found NaN in loss')",),
        severity=Severity.WARN,
        source="formats.md F1",
    ),
    LinePattern(
        id="trainer.nan_noticed",
        event_name=FaultCode.NAN_LOSS,
        role=Role.INITIATING,
        regex=r"(?:[Tt]he )?(?:[Tt]rain(?:ing)? )?[Ll]oss is (?:nan|NaN|inf)[ \t.!]*$|[Dd]etected NaN or Inf in grad",
        severity=Severity.WARN,
        samples=("loss is nan", "Detected NaN or Inf in gradients"),
        lookalikes=("Loss is 0.3", "Loss is NaN, stopping training"),
        priority=45,
        source="formats.md F9",
    ),
    LinePattern(
        id="deepspeed.overflow",
        event_name=Context.MESSAGE,
        regex=(
            r"(?:\[deepspeed\] )?OVERFLOW! (?:Rank (?P<observer>\d{1,9}) )?Skipping step\. Attempted loss scale: (?P<scale>[\d.e+]+)"
            r"(?:, reducing to (?P<reduced>[\d.e+]+))?"
        ),
        severity=Severity.WARN,
        samples=(
            "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
            "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1",
        ),
        lookalikes=("[deepspeed] OVERFLOW checks are on",),
        source="formats.md F3",
        build=_overflow,
    ),
    LinePattern(
        id="torchtitan.allocation_retries",
        event_name=Context.MESSAGE,
        regex=r"(?P<retries>\d{1,9}) CUDA memory allocation retries\.",
        severity=Severity.WARN,
        samples=("[rank0]:[titan] 2025-11-30 01:02:03,123 - root - WARNING - 3 CUDA memory allocation retries.",),
        lookalikes=("CUDA memory allocation retries: none",),
        source="formats.md F4",
    ),
    LinePattern(
        id="megatron.no_checkpoint",
        event_name=Context.MESSAGE,
        regex=r"(?:WARNING: )?could not find the metadata file (?P<metadata_file>[^ \n]+)",
        severity=Severity.WARN,
        samples=("WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt",),
        lookalikes=("could not find the metadata",),
        source="formats.md F1: training starts from random weights",
    ),
)
DIALECT = Dialect(
    name="trainer_trouble", title="Trainers' numerical checks", patterns=PATTERNS, source="formats.md F1, F3, F4, F9"
)
