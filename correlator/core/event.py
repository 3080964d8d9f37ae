"""One event as a value: what a line, or a record of several lines, says. Parsers make them, the event table holds them."""

from __future__ import annotations

from dataclasses import dataclass

from correlator.core.vocabulary import Role, Severity, TimeSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact that one place of one file states. Every field but the first three may be unknown (None).

    `event_name` is a FaultCode, a CollateralKind or a Context value; `role` says which of the three.
    Times are int nanoseconds since the epoch on the writer's own clock, read as UTC where no zone is printed.
    """

    event_name: str
    role: Role
    signature: str
    """Id of the pattern that recognised it, e.g. `c10d.watchdog_timeout` or `cuda_oom.torch`."""

    line_number: int
    """1-based, counted by newlines."""
    byte_offset: int
    """Of the line (or of the segment after a carriage return) in the decompressed file."""
    body_line_number: int | None = None
    """Line that `body` quotes, where that is not the first one of the record (the last line of a traceback)."""
    body_byte_offset: int | None = None
    line_count: int = 1
    """Segments folded into this event, itself included."""
    dialect: str = ""

    timestamp_ns: int | None = None
    time_source: TimeSource = TimeSource.NONE
    time_granularity_ms: float | None = None
    """How coarse the stamp is: 1000 for whole seconds and for c10d's fake sub-seconds (formats.md R3)."""
    time_zone: str | None = None
    """Printed offset such as `+01:00` or `Z`; None = local time, zone unknown."""
    observed_timestamp_ns: int | None = None
    """Stamp of a collector or launcher around the line's own, if both are there."""
    boot_seconds: float | None = None
    """Kernel time since boot, where printed."""

    severity: Severity | None = None
    body: str = ""
    """The message without prefixes; for a record, the decisive line."""
    template: str | None = None
    """The message with everything that varies masked; only of messages that nothing knows better than by their words."""

    host_name: str | None = None
    process_pid: int | None = None
    rank: int | None = None
    """Global rank, only where the line itself says so in a global sense (formats.md R4)."""
    local_rank: int | None = None
    node_rank: int | None = None
    task_id: int | None = None
    world_size: int | None = None
    attempt: int | None = None
    gpu: str | None = None
    """PCI address as `0000:3b:00`."""

    process_group: str | None = None
    """The group's name that is equal on all members (PG GUID, or `default_pg`)."""
    collective_seq: int | None = None
    collective_op: str | None = None
    group_rank: int | None = None
    step: int | None = None
    loss: float | None = None

    exit_code: int | None = None
    """Negative = signal number, as torchelastic prints it."""
    exception_type: str | None = None
    exception_message: str | None = None
    exception_stacktrace: str | None = None
    code_file_path: str | None = None
    code_line_number: int | None = None

    log_iostream: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    """Further facts, by name; the vocabulary documents which event has which."""

    def attribute(self, name: str) -> str | None:
        """The value of a further fact, or None."""
        return next((value for key, value in self.attributes if key == name), None)
