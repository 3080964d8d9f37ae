"""Changes of names: files called otherwise, moved, copied; nodes called otherwise in every file."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from benchmarks.scenarios.specimen import TEXTS, Renamed, Specimen, content, store
from correlator.core.vocabulary import FileKind


def _files(specimen: Specimen) -> list[Path]:
    """Every file of the copy in natural order of its path, dumps and unknown ones too."""
    paths = (path for path in specimen.folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(paths, key=lambda path: _natural(str(path.relative_to(specimen.folder))))


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", text)]


def _suffix(path: Path) -> str:
    """What programs go by: `.log.gz`, `.json`; a dump has none."""
    tail = re.search(r"(?:\.[a-z]{2,6})?(?:\.gz|\.zst)?$", path.name)
    return tail[0] if tail else ""


def prefixed(specimen: Specimen) -> bool:
    """Each name says the job as well: all that it said before is still in it."""
    for path in _files(specimen):
        path.rename(path.with_name("job-7731-" + path.name))
    return True


def spelt_otherwise(specimen: Specimen) -> bool:
    """Rank logs are called worker-RANK below a folder of their node: the same facts in another spelling."""
    places = {place.rank: place.node for place in specimen.run.topology.ranks}
    moved = False
    for report in specimen.reports:
        path = specimen.path(report)
        if report.kind is not FileKind.RANK_LOG or report.rank is None or not path.is_file():
            continue
        node = report.node or places.get(report.rank)
        if node is None:
            continue
        folder = specimen.folder / node
        folder.mkdir(exist_ok=True)
        stream = next((word for word in ("stderr", "stdout") if word in path.name.lower()), "")
        name = f"worker-{report.rank}{'.' + stream if stream else ''}{_suffix(path) or '.log'}"
        if not (folder / name).exists():
            path.rename(folder / name)
            moved = True
    return moved


def counted_in_folders(specimen: Specimen) -> bool:
    """Files keep their folders and their order, and lose their names: part-000.log, part-001.log, ..."""
    counts: dict[Path, int] = {}
    for path in _files(specimen):
        number = counts.get(path.parent, 0)
        counts[path.parent] = number + 1
        path.rename(path.with_name(f"part-{number:03d}{_suffix(path)}"))
    return True


def counted(specimen: Specimen) -> bool:
    """All files lie in one folder under running numbers, in their order."""
    flat = specimen.folder / "logs"
    paths = _files(specimen)
    flat.mkdir(exist_ok=True)
    for number, path in enumerate(paths):
        path.rename(flat / f"f{number:05d}{_suffix(path)}")
    return True


def copied(specimen: Specimen) -> bool:
    """Somebody kept a second copy of everything in a folder of its own."""
    backup = specimen.folder.with_name("copy of run")
    shutil.copytree(specimen.folder, backup)
    backup.rename(specimen.folder / "backup")
    return True


def nodes_renamed(specimen: Specimen) -> Renamed:
    """Each node is called as its neighbour was, in names and lines; dumps do not name nodes."""
    nodes = [node for node in specimen.run.topology.nodes if len(node) > 2]
    if len(nodes) < 2:
        return Renamed()
    new = dict(zip(nodes, [*nodes[1:], nodes[0]], strict=True))
    word = "|".join(re.escape(node) for node in sorted(nodes, key=len, reverse=True))
    inside = re.compile(rf"(?<![\w.-])({word})(?![\w-])".encode())
    for path in specimen.texts(TEXTS | {FileKind.POD_LISTING, FileKind.RAY_LOG}):
        store(path, inside.sub(lambda match: new[match[1].decode()].encode(), content(path)))
    in_name = re.compile(rf"(?<![A-Za-z0-9])({word})(?![A-Za-z0-9])")
    apart = specimen.folder.with_name("renamed")  # where no file meets the old name of another
    for path in _files(specimen):
        target = apart / in_name.sub(lambda match: new[match[1]], str(path.relative_to(specimen.folder)))
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    shutil.rmtree(specimen.folder)
    apart.rename(specimen.folder)
    return Renamed(new)
