"""What a dialect is made of: line patterns with their samples, the peeled line they match, and the events they build.

A pattern is used twice. The scan engine searches its regex, unanchored, in the raw bytes of every line; a line that hits is
decoded, split at carriage returns and peeled of its prefixes, and the pattern is then matched again, with its anchor and its
required prefix layers, on the message that is left. Named groups become fields of the event by their name; a name that is no
field becomes an attribute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from correlator.core.event import Event
from correlator.core.files import FileHints, RunHints
from correlator.core.vocabulary import FileKind, Role, Severity, TimeSource

if TYPE_CHECKING:
    from correlator.parsers.timestamps_discovery import Layout


class Anchor(StrEnum):
    """Where in the peeled message a pattern must match."""

    START = "start"
    ANYWHERE = "anywhere"
    LINE = "line"  # anywhere in the printed line, its prefixes included


class Layer(StrEnum):
    """Prefix layers that the peeler knows (formats.md R5); a pattern may require one."""

    CRI = "cri"  # 2025-11-30T01:02:03.123456789Z stderr F
    KUBECTL = "kubectl"  # bare RFC 3339 UTC stamp, [pod/..] of --prefix, stern
    DOCKER_JSON = "docker_json"
    SRUN_LABEL = "srun_label"  # ` 3: `
    PDSH = "pdsh"  # `node02: `
    MPI_TAG = "mpi_tag"  # [1,3]<stderr>:
    RAY = "ray"  # (TrainWorker pid=4245, ip=10.0.0.5)
    TEE = "tee"  # [default3]:
    RANK = "rank"  # [rank3]:
    C10D = "c10d"  # [E1130 01:02:03.123456789 ProcessGroupNCCL.cpp:632]
    PROCESS_GROUP = "process_group"  # [PG ID 2 PG GUID 5(mesh_dp) Rank 3]
    WORK_RANK = "work_rank"  # [Rank 3] of c10d: a rank in some group
    TORCH_PYTHON = "torch_python"  # E1130 01:02:03.123000 12345 torch/...:897]
    GLOG = "glog"
    NCCL = "nccl"  # node03:4245:4311 [2] NCCL WARN
    SLURM = "slurm"  # srun: / slurmstepd: error:
    SLURM_DAEMON = "slurm_daemon"  # [2025-11-30T01:02:03.123] error:
    KERNEL = "kernel"  # syslog ... kernel: / dmesg bracket
    SYSLOG = "syslog"  # syslog or journal head of another program
    JSON_LOG = "json_log"
    LOGGING = "logging"  # any Python logging / loguru / trainer stamp
    DEEPSPEED = "deepspeed"  # [2025-11-30 01:02:03,123] [INFO] [launch.py:315:sigkill_handler]
    HOROVOD = "horovod"
    VLLM = "vllm"


@dataclass(frozen=True, slots=True)
class Stamp:
    """One printed time. `ns` is None while a part that the layout leaves out (year, day, boot time) is unknown."""

    ns: int | None
    granularity_ms: float
    zone: str | None = None
    boot_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Prefix:
    """Everything peeled from the head of a line, outermost first."""

    layers: tuple[Layer, ...] = ()
    stamp: Stamp | None = None
    """The line's time: the collector's where every line of the file has one, else the line's own."""
    outer_stamp: Stamp | None = None
    """The other stamp, where a line carries two."""
    severity: Severity | None = None
    rank: int | None = None
    local_rank: int | None = None
    task_id: int | None = None
    group_rank: int | None = None
    process_group: str | None = None
    process_group_id: str | None = None
    process_group_description: str | None = None
    host: str | None = None
    pid: int | None = None
    pod: str | None = None
    ip: str | None = None
    stream: str | None = None
    logger: str | None = None
    source_file: str | None = None
    """File name and line of the printing code, `ProcessGroupNCCL.cpp:632`."""
    partial: bool = False
    """CRI tag P: the line goes on in the next one of the same stream."""
    device_index: int | None = None
    """NCCL's `[2]`: the CUDA device in the process' own view, never a rank."""
    repeated: int = 1
    """Ray's `[repeated 7x across cluster]`."""


@dataclass(frozen=True, slots=True)
class Line:
    """One segment of a physical line, decoded, cleaned (ANSI, NUL) and peeled."""

    message: str
    prefix: Prefix
    line_number: int
    byte_offset: int
    text: str
    """The decoded segment with its prefixes, control sequences removed."""


@dataclass(frozen=True, slots=True)
class Record:
    """A multi-line record: the lines that belong together, head first, of one writer."""

    kind: str
    lines: tuple[Line, ...]
    complete: bool = True

    @property
    def messages(self) -> tuple[str, ...]:
        """The lines without their prefixes."""
        return tuple(line.message for line in self.lines)


@dataclass(slots=True)
class FileContext:
    """What is known of a file while its lines are parsed; the one mutable value here, owned by the file's parser."""

    path: str
    kind: FileKind
    hints: FileHints
    run: RunHints
    boot_epoch_ns: int | None = None
    """Wall clock at kernel time 0, where some line of the file carries both."""
    host: str | None = None
    modified_ns: int | None = None
    last_ns: int | None = None
    """The last full time that was read; a layout without a day takes the day nearest to it."""
    layout: Layout | None = None
    """A layout discovered for this file alone, where none of the known ones fits."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A pattern that matched: all that a `build` function may look at."""

    pattern: LinePattern
    dialect: str
    line: Line
    match: re.Match[str]
    record: Record | None
    context: FileContext
    timestamp_ns: int | None
    time_source: TimeSource
    time_granularity_ms: float | None
    make: Callable[..., Event] = field(repr=False)
    """`hit.make(**overrides)`: the default event from groups, prefix and file, with fields replaced."""


Build = Callable[[Hit], Iterable[Event]]


@dataclass(frozen=True, slots=True)
class LinePattern:
    r"""One kind of line. `samples` must match, `lookalikes` must not: they are its test, so both are mandatory.

    A sample is a whole printed line with its prefixes. The regex keeps to the subset that Python `re`, hyperscan and Rust
    share: no look-around, no back-reference, and nothing that can cross a newline (`[ \t]` for `\s`, `[^x\n]` for `[^x]`).
    """

    id: str
    event_name: str
    regex: str
    samples: tuple[str, ...]
    lookalikes: tuple[str, ...]
    role: Role = Role.CONTEXT
    anchor: Anchor = Anchor.START
    requires: frozenset[Layer] = frozenset()
    """Any one of these layers must have been peeled from the line; empty = none needed."""
    kinds: frozenset[FileKind] = frozenset()
    """Kinds of file it is looked for in; empty = all."""
    severity: Severity | None = None
    """Overrides the line's own."""
    record: str | None = None
    """Name of the stitcher (parsers.records.STITCHERS) that collects the record which this line begins."""
    priority: int = 50
    """Where several patterns match one segment, the highest wins; equal: the first registered."""
    bulk: bool = False
    """Dense line (progress): may be thinned evenly by step. Its regex must end at the last digit of the step."""
    source: str = ""
    """Where the shape is documented: a section of formats.md or the public file that prints it."""
    build: Build | None = None
    """Makes the events of a match; None = one event from groups and prefix."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The lines that one program prints."""

    name: str
    title: str
    patterns: tuple[LinePattern, ...]
    source: str = ""


INTEGER_FIELDS: frozenset[str] = frozenset(
    "rank local_rank node_rank task_id world_size attempt process_pid collective_seq group_rank step exit_code "
    "code_line_number".split()
)
FLOAT_FIELDS: frozenset[str] = frozenset({"loss"})
TEXT_FIELDS: frozenset[str] = frozenset(
    "host_name gpu process_group collective_op exception_type exception_message code_file_path body".split()
)
"""Group names that are fields of Event; every other group name becomes an attribute."""
