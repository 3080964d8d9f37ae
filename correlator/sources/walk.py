"""Walk a run directory without ever opening, following or waiting for anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Final

from correlator.core.files import Skipped
from correlator.sources.found import Found, join, natural_key, shown
from correlator.sources.limits import Limits

_NO_LOG_FOLDERS: Final = frozenset(
    {".git", ".hg", ".svn", "__pycache__", "node_modules", "site-packages", ".ipynb_checkpoints", ".mypy_cache"}
)
_SPECIAL: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def special_reason(mode: int) -> str | None:
    """What kind of thing this is that cannot be read as a file; None for files, folders and links."""
    return _SPECIAL.get(stat.S_IFMT(mode))


def walk(root: str, limits: Limits, prefix: str = "") -> Iterator[Found | Skipped]:
    """Every file below `root`, and a row with a reason for every thing that is none.

    Raises OSError if `root` itself cannot be listed.
    """
    real_root = os.path.realpath(root)
    visited: set[tuple[int, int]] = set()
    seen = 0
    stack = [(root, prefix, 0)]
    while stack:
        folder, shown_folder, depth = stack.pop()
        try:
            entries = _entries(folder, visited)
        except OSError as error:
            if depth == 0:
                raise
            yield Skipped(shown_folder, _words(error))
            continue
        below = []
        for entry in entries:
            seen += 1
            if seen > limits.files:
                yield Skipped(shown_folder, f"more than {limits.files} files: the rest was not looked at")
                return
            result = _look(entry, join(shown_folder, shown(entry.name)), depth, real_root, limits)
            if isinstance(result, str):
                below.append((entry.path, result, depth + 1))
            else:
                yield result
        stack.extend(reversed(below))


def _entries(folder: str, visited: set[tuple[int, int]]) -> list[os.DirEntry[str]]:
    """The entries of a folder in natural order; none if the folder was visited before (bind mounts)."""
    status = os.stat(folder)
    if (status.st_dev, status.st_ino) in visited:
        return []
    visited.add((status.st_dev, status.st_ino))
    with os.scandir(folder) as scan:
        return sorted(scan, key=lambda entry: natural_key(entry.name))


def _look(entry: os.DirEntry[str], path: str, depth: int, real_root: str, limits: Limits) -> Found | Skipped | str:
    """What an entry is; a plain text is the shown path of a folder to go into."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return Skipped(path, _words(error))
    if stat.S_ISREG(status.st_mode):
        return Found(path, os.path.abspath(entry.path), status.st_size, status.st_mtime_ns)
    if stat.S_ISDIR(status.st_mode):
        if entry.name in _NO_LOG_FOLDERS:
            return Skipped(path, "a folder that holds no logs")
        return path if depth < limits.depth else Skipped(path, f"more than {limits.depth} folders deep")
    if stat.S_ISLNK(status.st_mode):
        return Skipped(path, _link_reason(entry.path, real_root))
    return Skipped(path, special_reason(status.st_mode) or "not a file")


def _link_reason(path: str, real_root: str) -> str:
    try:
        target = os.path.realpath(path, strict=True)
    except OSError as error:
        broken = isinstance(error, FileNotFoundError)
        return "a broken link" if broken else f"a link that cannot be followed: {_words(error)}"
    if target == real_root or target.startswith(real_root + os.sep):
        return "a link to what is read under its own name"
    return "a link out of the folder: pass its target as well if it belongs to the run"


def _words(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()
