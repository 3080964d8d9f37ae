"""A copy of a run that is about to be changed, and what every change needs to know of it."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from benchmarks.scenarios.expected import Accused, Expected
from correlator.core.files import FileReport
from correlator.core.vocabulary import FileKind
from correlator.pipeline import Run

OWN = frozenset({FileKind.RANK_LOG, FileKind.ERROR_FILE, FileKind.NCCL_DEBUG_LOG, FileKind.STACK_DUMP})
SHARED = frozenset({FileKind.NODE_LOG, FileKind.CONSOLE_LOG})
TEXTS = OWN | SHARED | {FileKind.LAUNCHER_LOG, FileKind.SCHEDULER_LOG, FileKind.KERNEL_LOG, FileKind.TEXT}
LOGS = TEXTS - {FileKind.ERROR_FILE, FileKind.STACK_DUMP}
"""Files of lines: something may stand before, between and after them."""
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Specimen:
    """A copy of a run to be mutated, with what is known of it."""

    folder: Path
    run: Run
    expected: Expected
    rng: random.Random

    @property
    def reports(self) -> tuple[FileReport, ...]:
        """The files of the whole run."""
        return self.run.reports

    def path(self, report: FileReport) -> Path:
        """Where a file lies in the copy."""
        return self.folder / report.path

    def remove(self, reports: Iterable[FileReport]) -> bool:
        """Delete files; False where there was none, or nothing would be left."""
        doomed = [report for report in reports if self.path(report).is_file()]
        if not doomed or len(doomed) == len(self.reports):
            return False
        for report in doomed:
            self.path(report).unlink()
        return True

    def guilty(self) -> tuple[tuple[Accused, int | None], ...]:
        """The initiators with their local ranks."""
        places = {place.rank: place for place in self.run.topology.ranks}
        return tuple(
            (one, places[one.rank].local_rank if one.rank in places else None) for one in self.expected.initiators
        )

    def texts(self, kinds: frozenset[FileKind] = LOGS) -> Iterator[Path]:
        """The files of some kinds that are there, in the order of their paths."""
        for report in self.reports:
            if report.kind in kinds and self.path(report).is_file():
                yield self.path(report)


@dataclass(frozen=True)
class Renamed:
    """Nodes have other names than before: the verdict has to name them so."""

    nodes: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything was changed."""
        return bool(self.nodes)


Mutation = Callable[[Specimen], bool | Renamed]
"""Changes a copy of a run in place, and says whether there was anything to change."""


def content(path: Path) -> bytes:
    """The unpacked bytes of a file."""
    data = path.read_bytes()
    if data.startswith(_ZSTD_MAGIC):
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return gzip.decompress(data) if path.suffix == ".gz" else data


def store(path: Path, data: bytes) -> None:
    """Write them, packed as the name says."""
    path.write_bytes(gzip.compress(data, 1, mtime=0) if path.suffix == ".gz" else data)
