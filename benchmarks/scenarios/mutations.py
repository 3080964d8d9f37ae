"""What becomes of run directories on their way to whoever reads them: files lost, packed, joined, cut, clocks wrong.

A mutation changes a copy of a run in place and says whether there was anything to change. It knows the files as the
product sees them (whose they are, of what kind), from a diagnosis of the whole run. Those of names are in
`mutations_of_names`, those of single lines in `mutations_of_lines`.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import zstandard

from benchmarks.scenarios import mutations_of_lines as lines
from benchmarks.scenarios import mutations_of_names as names
from benchmarks.scenarios.specimen import OWN, SHARED, TEXTS, Mutation, Specimen, content, store
from benchmarks.scenarios.stamps import shifted, shifted_dump
from correlator.core.files import FileReport
from correlator.core.vocabulary import FileKind


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
    every = content(path).split(b"\n")
    kept = [line for line in every if not wanted.match(line)]
    if len(kept) in (len(every), 0):
        return False
    store(path, b"\n".join(kept))
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


def _clock(seconds: int, *, of_the_guilty: bool = False) -> Mutation:
    """The clock of one node, any or that of an initiator, is wrong."""

    def mutation(specimen: Specimen) -> bool:
        homes = {place.rank: place for place in specimen.run.topology.ranks}
        node_of = {r.path: r.node or (homes[r.rank].node if r.rank in homes else None) for r in specimen.reports}
        nodes = sorted({node for node in node_of.values() if node} | {p.node for p in homes.values() if p.node})
        guilty = [node for node in nodes if any(node == one.node for one in specimen.expected.initiators)]
        if len(nodes) < 2 or (of_the_guilty and not guilty):
            return False
        node = guilty[0] if of_the_guilty else specimen.rng.choice(nodes)
        changed = False
        for report in specimen.reports:
            path = specimen.path(report)
            if node_of[report.path] not in {node, None} or not path.is_file():
                continue
            if report.kind is FileKind.FLIGHT_RECORDER:
                new = shifted_dump(content(path), seconds) if node_of[report.path] else content(path)
            elif node_of[report.path]:
                new = shifted(content(path), seconds)
            else:
                new = _shifted_lines(specimen, report, node, seconds)
            changed |= new != content(path)
            store(path, new)
        return changed

    return mutation


def _shifted_lines(specimen: Specimen, report: FileReport, node: str, seconds: int) -> bytes:
    """A file of many nodes: the lines that one of them wrote, as far as their heads or the event table tell."""
    import polars as pl

    own = [place for place in specimen.run.topology.ranks if place.node == node]
    heads = [_lines_of(place.rank, place.local_rank, one_node=False) for place in own]
    told = specimen.run.events.filter(
        pl.col("log_file_path").cast(pl.String) == report.path, pl.col("host_name").cast(pl.String) == node
    )
    numbers = set(told["line_number"].to_list())
    every = content(specimen.path(report)).split(b"\n")
    return b"\n".join(
        shifted(line, seconds) if number in numbers or any(head.match(line) for head in heads) else line
        for number, line in enumerate(every, 1)
    )


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
            for line in content(specimen.path(report)).splitlines():
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
            whole = path.read_bytes().splitlines(keepends=True)
            if len(whole) > 20:
                half = len(whole) // 2
                path.with_name(path.name + ".1").write_bytes(b"".join(whole[:half]))
                path.write_bytes(b"".join(whole[half:]))
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
        every = content(path).split(b"\n")
        kept = [line for n, line in enumerate(every, 1) if n in told or n % 2 or not line]
        changed |= len(kept) < len(every)
        store(path, b"\n".join(kept))
    return changed


def packed_by_zstd(specimen: Specimen) -> bool:
    """Every log is packed by zstd."""
    for path in specimen.texts(TEXTS):
        path.with_name(path.name + ".zst").write_bytes(zstandard.ZstdCompressor(1).compress(content(path)))
        path.unlink()
    return True


def _joined_bare(specimen: Specimen) -> bool:
    """The logs of a node's ranks lie in one file, one after the other, and nothing says where the next one begins."""
    places = {place.rank: place.node for place in specimen.run.topology.ranks}
    groups: dict[str, list[FileReport]] = {}
    for report in specimen.reports:
        node = report.node or places.get(-1 if report.rank is None else report.rank)
        if report.rank is not None and node and report.kind is FileKind.RANK_LOG:
            groups.setdefault(node, []).append(report)
    for node, reports in groups.items():
        data = b"".join(content(specimen.path(r)).rstrip(b"\n") + b"\n" for r in reports)
        for report in reports:
            specimen.path(report).unlink()
        (specimen.folder / f"{node}.log").write_bytes(data)
    return bool(groups)


def some_files_lost(specimen: Specimen) -> bool:
    """Three of ten files are missing, whatever they are."""
    return specimen.remove(specimen.rng.sample(specimen.reports, len(specimen.reports) * 3 // 10))


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
    "a clock +1 h": _clock(3600),
    "a clock +2 h": _clock(7200),
    "a clock -9 h": _clock(-32400),
    "guilty clock +300 s": _clock(300, of_the_guilty=True),
    "guilty clock -300 s": _clock(-300, of_the_guilty=True),
    "guilty clock +1 h": _clock(3600, of_the_guilty=True),
    "guilty clock -9 h": _clock(-32400, of_the_guilty=True),
    "packed": packed,
    "packed by zstd": packed_by_zstd,
    "joined by node": joined_by_node,
    "woven by node": lines.woven_by_node,
    "split in two": split_in_two,
    "plain lines dropped": plain_lines_dropped,
    "healthy lines added": lines.healthy_added,
    "scary lines added": lines.scary_added,
    "lines doubled": lines.doubled,
    "DOS line ends": lines.from_dos,
    "bad bytes added": lines.bad_bytes_added,
    "names prefixed": names.prefixed,
    "names spelt otherwise": names.spelt_otherwise,
    "nodes renamed": names.nodes_renamed,
}
"""All evidence is there in another form: the verdict has to stay the same."""

TEARS: dict[str, Mutation] = {
    "names counted in folders": names.counted_in_folders,
    "names counted": names.counted,
    "joined without labels": _joined_bare,
    "everything twice": names.copied,
    "lines dropped": lines.dropped,
    "lines swapped": lines.swapped,
    "lines torn": lines.torn,
    "files cut": lines.cut,
    "files lost": some_files_lost,
}
"""Some evidence is gone with names, lines or files that held it: nobody innocent may be accused for that."""

MUTATIONS: dict[str, Mutation] = {**LOSSES, **CHANGES, **TEARS}
GROUPS: dict[str, dict[str, Mutation]] = {"losses": LOSSES, "changes": CHANGES, "tears": TEARS}
