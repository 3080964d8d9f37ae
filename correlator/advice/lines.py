"""Rows of the event table that advice looks at one by one, as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from correlator.core.vocabulary import Context, Role, TimeSource

if TYPE_CHECKING:
    import polars as pl

_CONTEXT = (
    Context.XID,
    Context.GPU_IDENTITY,
    Context.CHECKPOINT_SAVE_STARTED,
    Context.CHECKPOINT_SAVED,
    Context.CHECKPOINT_LOADED,
    Context.WORK_STATUS,
    Context.DUMP_SIGNAL,
    Context.FLIGHT_RECORDER_DUMP,
    Context.WORKER_FAILED,
    Context.AGENT_SIGNALLED,
    Context.WORKER_SIGNALLED,
    Context.CHILD_FAILED_ROW,
    Context.TASK_EXIT,
    Context.SCHEDULER_CANCELLED,
    Context.MESSAGE,
    Context.RUN_CONFIG,
)
"""Besides faults and collateral."""
_MOST_OF_A_KIND = 5_000
"""Rows of one event name that are looked at: enough for every rank of a large job, and bounded for a hostile log."""
_TEXT = (
    "event_name role signature log_file_path file_kind host_name gpu code_file_path process_group time_source "
    "clock_domain template"
)
_PLAIN = (
    "line_number line_count rank local_rank process_pid attempt step exit_code code_line_number collective_seq body"
)
_LONG = "exception_message exception_stacktrace"


@dataclass(frozen=True, slots=True)
class Line:
    """One event, as printed. Names are those of the event table."""

    name: str
    role: Role
    signature: str
    file: str
    number: int
    count: int = 1
    """Lines of the record, this one included."""
    file_kind: str = ""
    body: str = ""
    stack: str = ""
    message: str = ""
    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    gpu: str | None = None
    pid: int | None = None
    attempt: int = 0
    step: int | None = None
    exit_code: int | None = None
    frame: str | None = None
    """`file:line` of the innermost frame of the user's code."""
    group: str | None = None
    seq: int | None = None
    printed_ns: int | None = None
    aligned_ns: int | None = None
    inherited: bool = False
    """The time is that of an earlier line: a lower bound."""
    domain: str | None = None
    """Whose clock `printed_ns` is of."""
    template: str | None = None
    """Of an error that nothing knows: equal for all lines like it."""
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.number}"

    @property
    def text(self) -> str:
        """All that the record says: its decisive line, and the rest of the message."""
        return self.body if self.message in self.body else f"{self.body}\n{self.message}"


def lines_of(events: pl.DataFrame) -> list[Line]:
    """Faults, collateral and the context that advice needs, in file and line order."""
    import polars as pl

    name = pl.col("event_name").cast(pl.String)
    wanted = (pl.col("role").cast(pl.String) != Role.CONTEXT) | name.is_in([str(kind) for kind in _CONTEXT])
    columns = [pl.col(column).cast(pl.String) for column in _TEXT.split()]
    rows = events.lazy().filter(wanted).filter(pl.int_range(pl.len()).over("event_name") < _MOST_OF_A_KIND)
    chosen = rows.select(
        *columns,
        *_PLAIN.split(),
        *_LONG.split(),
        pl.col("timestamp").dt.epoch("ns").alias("printed_ns"),
        pl.col("time_aligned").dt.epoch("ns").alias("aligned_ns"),
        "attributes",
    )
    return list(_lines(chosen.collect()))


def _lines(rows: pl.DataFrame) -> Iterator[Line]:
    for row in rows.iter_rows(named=True):
        file, number = row["code_file_path"], row["code_line_number"]
        yield Line(
            name=row["event_name"],
            role=Role(row["role"]),
            signature=row["signature"],
            file=row["log_file_path"],
            number=row["line_number"],
            count=row["line_count"],
            file_kind=row["file_kind"],
            body=row["body"] or "",
            stack=row["exception_stacktrace"] or "",
            message=row["exception_message"] or "",
            node=row["host_name"],
            rank=row["rank"],
            local_rank=row["local_rank"],
            gpu=row["gpu"],
            pid=row["process_pid"],
            attempt=row["attempt"] or 0,
            step=row["step"],
            exit_code=row["exit_code"],
            frame=f"{file}:{number}" if file and number is not None else file,
            group=row["process_group"],
            seq=row["collective_seq"],
            printed_ns=row["printed_ns"],
            aligned_ns=row["aligned_ns"],
            inherited=row["time_source"] != TimeSource.EXPLICIT,
            domain=row["clock_domain"],
            template=row["template"],
            attributes={item["key"]: item["value"] for item in row["attributes"] or ()},
        )
