"""The files of a run as values: what each is, what its name says, and what was read from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from correlator.core.vocabulary import FileKind


class Compression(StrEnum):
    """How the bytes on disk are packed."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True)
class FileHints:
    """What a path says about the writer. None = the path does not say; nothing here is proof (formats.md R4)."""

    rank: int | None = None
    rank_guessed: bool | None = None  # the name says a number, not the word rank
    local_rank: int | None = None
    node: str | None = None  # short host name
    node_rank: int | None = None
    pid: int | None = None
    task_id: int | None = None  # SLURM_PROCID: global rank only where there is one task for each rank
    attempt: int | None = None
    job_id: str | None = None
    run_id: str | None = None  # torchelastic run folder `<run>_<random>`: one for each agent
    stream: str | None = None  # stdout | stderr
    pod: str | None = None


@dataclass(frozen=True, slots=True)
class LogFile:
    """One readable file of the run."""

    path: str
    """As shown to people: relative to the run, '/' separated (`logs.tar/rank_3.log` for an archive member)."""
    location: str
    """Absolute path on this machine to open; never shown, never part of an event."""
    kind: FileKind
    hints: FileHints = field(default_factory=FileHints)
    compression: Compression = Compression.NONE
    size_bytes: int = 0
    modified_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file, or a part of one, that was not read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunHints:
    """What a first look at heads and tails of all files says about the date of the run."""

    reference_ns: int | None = None
    """When the run ended by stamps with a year, as UTC ns; years and days that a layout leaves out are nearest to it."""
    from_mtime: bool = False
    """True when no line of any file has a year and the date is only that of the newest file."""


@dataclass(frozen=True, slots=True)
class FileReport:
    r"""The account of one file: every physical line is an event, folded into one, thinned, or plain.

    A physical line is a run of bytes up to ``\n``; a carriage return inside it starts a further segment (progress bars).
    ``segments == events + folded + thinned + plain`` and ``segments == lines + cr_splits`` always hold for line-based files.
    """

    path: str
    kind: FileKind
    node: str | None = None
    rank: int | None = None
    bytes_read: int = 0
    lines: int = 0
    cr_splits: int = 0
    events: int = 0  # segments that are (the head of) an event
    folded: int = 0  # segments that continue a multi-line record
    thinned: int = 0  # progress segments left out of the table, evenly by step number
    plain: int = 0
    repaired: int = 0  # lines with bytes that are not UTF-8, or NUL bytes
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    cut_off: bool = False  # the last line has no newline, or the compressed stream ends early
    note: str | None = None
