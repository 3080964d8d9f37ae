"""Targets in, the files of the run out: walk, unpack, look at each file once, say what it is."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from correlator.core.errors import InputError, NoLogsError, UnsafeArchiveError
from correlator.core.files import LogFile, RunHints, Skipped
from correlator.sources.archives import unpack
from correlator.sources.found import Found, natural_key, shown
from correlator.sources.limits import Limits
from correlator.sources.look import ArchiveLook, Look, look_at
from correlator.sources.reference import run_hints
from correlator.sources.settle import settle
from correlator.sources.store import Store
from correlator.sources.walk import special_reason, walk

STDIN = "-"


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of a run, in natural order of their paths, and what was left out."""

    path: str
    """What the person pointed at, as typed."""
    files: tuple[LogFile, ...]
    skipped: tuple[Skipped, ...]
    hints: RunHints


@contextmanager
def discover(targets: Sequence[Path | str], *, limits: Limits | None = None) -> Iterator[RunFiles]:
    """Find the files of a run; what was unpacked for it lives until the context ends.

    A target is a directory, a file, an archive (.tar, .tar.gz, .tar.zst, .zip) or `-` for standard input.
    Raises InputError for a target that cannot be read, UnsafeArchiveError for one that expands without bound,
    NoLogsError where nothing in them is a log.
    """
    limits = limits or Limits()
    with tempfile.TemporaryDirectory(prefix="correlator-", ignore_cleanup_errors=True) as folder:
        yield _Discovery(Store(folder, limits), limits).run([os.fspath(target) for target in targets])


class _Discovery:
    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self._looks: list[Look] = []
        self._skipped: list[Skipped] = []
        self._alone = False
        """One file was named: an archive in its place is the run itself, and its name is no folder."""

    def run(self, targets: Sequence[str]) -> RunFiles:
        if not targets:
            message = "nothing to read"
            raise InputError(message)
        self._alone = len(targets) == 1 and (targets[0] == STDIN or not os.path.isdir(targets[0]))
        found = self._gather(targets)
        for item in _in_order(found):
            self._take(item)
        files, empty = settle(self._looks)
        self._skipped += empty
        self._skipped.sort(key=lambda row: (natural_key(row.path), row.reason))
        path = targets[0] if len(targets) == 1 else " ".join(targets)
        if all(look.empty for look in self._looks):
            raise self._no_logs(shown(path))
        mtimes = [file.modified_ns for file in files if file.modified_ns is not None and file.size_bytes]
        hints = run_hints((look.stamps for look in self._looks), max(mtimes, default=None))
        return RunFiles(shown(path), tuple(files), tuple(self._skipped), hints)

    def _no_logs(self, path: str) -> NoLogsError:
        if not self._skipped and not self._looks:
            return NoLogsError(f"{path}: no files in it")
        reasons = Counter(row.reason for row in self._skipped).most_common(3)
        words = "; ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in reasons)
        return NoLogsError(f"{path}: no logs in it: {words or 'only empty files'}")

    # --- from targets to files ---

    def _gather(self, targets: Sequence[str]) -> Iterable[Found]:
        names = _target_names(targets)
        for target, name in zip(targets, names, strict=True):
            if target == STDIN:
                yield self._standard_input()
                continue
            try:
                status = os.stat(target)
                if stat.S_ISDIR(status.st_mode):
                    yield from self._sift(walk(target, self._limits, name if len(targets) > 1 else ""))
                    continue
                if reason := special_reason(status.st_mode):
                    message = f"{shown(target)} is {reason}"
                    raise InputError(message, hint="pipe its content and pass '-' to read standard input")
                os.close(os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            except (OSError, ValueError) as error:
                words = getattr(error, "strerror", None) or str(error)
                message = f"{shown(target)}: {words.lower()}"
                raise InputError(message) from error
            location = os.path.abspath(target)
            yield Found(name, location, status.st_size, status.st_mtime_ns, named=True)

    def _standard_input(self) -> Found:
        if sys.stdin is None:
            message = "standard input is closed"
            raise InputError(message)
        try:
            location, size, problem = self._store.save(sys.stdin.buffer.read)
        except (OSError, AttributeError) as error:
            message = f"standard input cannot be read: {error}"
            raise InputError(message) from error
        if not size:
            message = f"standard input is empty{f' ({problem})' if problem else ''}"
            raise InputError(message)
        if problem:
            self._skipped.append(Skipped("stdin", f"only its first {size} bytes were read: {problem}"))
        return Found("stdin", location, size, None, named=True)

    def _sift(self, items: Iterable[Found | Skipped]) -> Iterator[Found]:
        for item in items:
            if isinstance(item, Skipped):
                self._skipped.append(item)
            else:
                yield item

    # --- from files to looks ---

    def _take(self, item: Found) -> None:
        result = look_at(item, self._limits)
        if isinstance(result, ArchiveLook):
            self._open_archive(item)
        elif isinstance(result, Skipped):
            self._skipped.append(result)
        else:
            self._looks.append(result)

    def _open_archive(self, item: Found) -> None:
        prefix = "" if self._alone else item.path
        members: list[Found] = []
        try:
            members.extend(self._sift(unpack(item, prefix, self._store)))
        except UnsafeArchiveError as error:
            if item.named:
                message = f"{item.path}: {error}"
                raise UnsafeArchiveError(message, hint=error.hint) from error
            self._skipped.append(Skipped(item.path, f"not unpacked: {error}"))
            return
        except OSError as error:
            self._skipped.append(Skipped(item.path, f"not unpacked: {error.strerror or error}"))
        for member in _in_order(members):
            self._take(member)


def _in_order(items: Iterable[Found]) -> list[Found]:
    """Natural order, with shown paths made unique (names that differ only in bytes that cannot be shown)."""
    ordered = sorted(items, key=lambda item: (natural_key(item.path), item.location))
    seen: Counter[str] = Counter()
    result = []
    for item in ordered:
        seen[item.path] += 1
        count = seen[item.path]
        result.append(replace(item, path=f"{item.path}~{count}") if count > 1 else item)
    return result


def _target_names(targets: Sequence[str]) -> list[str]:
    """How each target is called: its own name, or what is below the folder that all of them share."""
    if len(targets) == 1:
        return [shown(os.path.basename(os.path.abspath(targets[0])))]
    absolute = [os.path.abspath(target) for target in targets if target != STDIN]
    shared = os.path.commonpath([os.path.dirname(path) for path in absolute]) if absolute else ""
    return [
        "stdin" if target == STDIN else shown(os.path.relpath(os.path.abspath(target), shared)) for target in targets
    ]
