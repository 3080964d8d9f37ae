"""What becomes of run directories on their way to whoever reads them: files lost, packed, joined, cut, clocks wrong.

A mutation changes a copy of a run in place and says whether there was anything to change. It knows the files as the
product sees them (whose they are, of what kind), from a diagnosis of the whole run.
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scenarios.expected import Accused, Expected
from benchmarks.scenarios.stamps import shifted, shifted_dump
from correlator.core.files import FileReport
from correlator.core.vocabulary import FileKind
from correlator.pipeline import Run

OWN = frozenset({FileKind.RANK_LOG, FileKind.ERROR_FILE, FileKind.NCCL_DEBUG_LOG, FileKind.STACK_DUMP})
SHARED = frozenset({FileKind.NODE_LOG, FileKind.CONSOLE_LOG})
TEXTS = OWN | SHARED | {FileKind.LAUNCHER_LOG, FileKind.SCHEDULER_LOG, FileKind.KERNEL_LOG, FileKind.TEXT}


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


Mutation = Callable[[Specimen], bool]


def initiator_removed(specimen: Specimen) -> bool:
    """The initiator's own files are missing: its logs, or its lines in shared logs; a lost node loses all it wrote."""
    changed = False
    for one, local in specimen.guilty():
        if one.rank is None:
            changed |= one.node is not None and specimen.remove(r for r in specimen.reports if r.node == one.node)
            continue
        changed |= specimen.remove(r for r in specimen.reports if r.rank == one.rank and r.kind in OWN)
        for report in specimen.reports:
            if report.kind in SHARED and specimen.path(report).is_file() and report.node in (None, one.node):
                changed |= _drop_lines(
                    specimen.path(report), _lines_of(one.rank, local, one_node=report.node is not None)
                )
    return changed


def _lines_of(rank: int, local: int | None, *, one_node: bool) -> re.Pattern[bytes]:
    """The prefixes of a rank in files of many; `one_node`: local ranks tell its ranks apart."""
    ways = [rf"\[rank{rank}\]:", rf"\[1,{rank}\]<"]
    if local is not None and one_node:
        ways.append(rf"\[\w*default{local}\]:")
    return re.compile(rf"^(?:\S+Z std(?:out|err) [FP] )?(?: *\d+: )?(?:\[default\d+\]:)?(?:{'|'.join(ways)})".encode())


def _drop_lines(path: Path, wanted: re.Pattern[bytes]) -> bool:
    lines = _content(path).split(b"\n")
    kept = [line for line in lines if not wanted.match(line)]
    if len(kept) in (len(lines), 0):
        return False
    _store(path, b"\n".join(kept))
    return True


def dump_of_initiator_removed(specimen: Specimen) -> bool:
    """Its flight-recorder dump was never written."""
    ranks = {one.rank for one, _ in specimen.guilty()}
    return specimen.remove(r for r in specimen.reports if r.kind is FileKind.FLIGHT_RECORDER and r.rank in ranks)


def kernel_logs_removed(specimen: Specimen) -> bool:
    """Nobody saved dmesg."""
    return specimen.remove(r for r in specimen.reports if r.kind is FileKind.KERNEL_LOG)


def launcher_logs_removed(specimen: Specimen) -> bool:
    """Nobody kept what the agents and the scheduler said."""
    return specimen.remove(r for r in specimen.reports if r.kind in (FileKind.LAUNCHER_LOG, FileKind.SCHEDULER_LOG))


def half_of_the_ranks(specimen: Specimen) -> bool:
    """Half of the rank logs are missing, whoever wrote them."""
    ranks = sorted({r.rank for r in specimen.reports if r.rank is not None and r.kind in OWN})
    lost = set(specimen.rng.sample(ranks, len(ranks) // 2))
    return specimen.remove(r for r in specimen.reports if r.rank in lost and r.kind in OWN)


def _clock(seconds: int) -> Mutation:
    def mutation(specimen: Specimen) -> bool:
        nodes = sorted({r.node for r in specimen.reports if r.node})
        if len(nodes) < 2:
            return False
        node = specimen.rng.choice(nodes)
        own = [r for r in specimen.reports if r.node == node and specimen.path(r).is_file()]
        for report in own:
            path = specimen.path(report)
            change = shifted_dump if report.kind is FileKind.FLIGHT_RECORDER else shifted
            _store(path, change(_content(path), seconds))
        return bool(own)

    return mutation


def packed(specimen: Specimen) -> bool:
    """Every log is gzipped."""
    for report in specimen.reports:
        path = specimen.path(report)
        if path.is_file() and path.suffix != ".gz" and report.kind in TEXTS:
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 1))
            path.unlink()
    return True


def joined_by_node(specimen: Specimen) -> bool:
    """The files of a node's ranks lie in one file, with labels as srun writes them; streams of a rank one after the other."""
    places = {place.rank: place.node for place in specimen.run.topology.ranks}
    groups: dict[str, list[FileReport]] = {}
    for report in specimen.reports:
        if report.rank is not None and report.kind is FileKind.RANK_LOG and specimen.path(report).is_file():
            groups.setdefault(places.get(report.rank) or "", []).append(report)
    if not groups or "" in groups:
        return False
    width = len(str(max(places, default=0)))
    for node, reports in groups.items():
        out = bytearray()
        for report in sorted(reports, key=lambda r: (r.rank or 0, r.path)):
            for line in _content(specimen.path(report)).splitlines():
                out += f"{report.rank:>{width}}: ".encode() + line + b"\n"
            specimen.path(report).unlink()
        (specimen.folder / f"ranks-of-{node}.log").write_bytes(bytes(out))
    return True


def split_in_two(specimen: Specimen) -> bool:
    """Long logs were rotated once: the older half is in NAME.1."""
    changed = False
    for report in specimen.reports:
        path = specimen.path(report)
        if (
            report.kind in (FileKind.RANK_LOG, FileKind.NODE_LOG)
            and path.is_file()
            and path.suffix in (".log", ".out", ".err", ".txt")
        ):
            lines = path.read_bytes().splitlines(keepends=True)
            if len(lines) > 20:
                half = len(lines) // 2
                path.with_name(path.name + ".1").write_bytes(b"".join(lines[:half]))
                path.write_bytes(b"".join(lines[half:]))
                changed = True
    return changed


def plain_lines_dropped(specimen: Specimen) -> bool:
    """Every second line that means nothing to the product is gone."""
    import polars as pl

    events = specimen.run.events.select(pl.col("log_file_path").cast(pl.String), "line_number")
    changed = False
    for report in specimen.reports:
        path = specimen.path(report)
        if report.kind not in (OWN | SHARED) or report.folded or not path.is_file():
            continue  # which lines are folded into a record is not in the table
        told = set(events.filter(pl.col("log_file_path") == report.path)["line_number"].to_list())
        lines = _content(path).split(b"\n")
        kept = [line for n, line in enumerate(lines, 1) if n in told or n % 2 or not line]
        changed |= len(kept) < len(lines)
        _store(path, b"\n".join(kept))
    return changed


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def _store(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)


LOSSES: dict[str, Mutation] = {
    "initiator's files removed": initiator_removed,
    "initiator's dump removed": dump_of_initiator_removed,
    "kernel logs removed": kernel_logs_removed,
    "launcher logs removed": launcher_logs_removed,
    "half of the ranks removed": half_of_the_ranks,
}
"""Evidence is gone: right, or undetermined with the missing file named, are good answers."""

CHANGES: dict[str, Mutation] = {
    "a clock +300 s": _clock(300),
    "a clock -300 s": _clock(-300),
    "a clock +2 h": _clock(7200),
    "a clock -9 h": _clock(-32400),
    "packed": packed,
    "joined by node": joined_by_node,
    "split in two": split_in_two,
    "plain lines dropped": plain_lines_dropped,
}
"""All evidence is there in another form: the verdict has to stay the same."""

MUTATIONS: dict[str, Mutation] = {**LOSSES, **CHANGES}
