"""From single looks to the files of a run: hosts that lines confirm, ranks that cannot all be global, kinds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from correlator.core.files import FileHints, LogFile, Skipped
from correlator.core.vocabulary import FileKind
from correlator.sources.hosts import can_be_host, host_at_end, is_counter, is_host_shape
from correlator.sources.kinds import empty_file_kind, line_file_kind
from correlator.sources.look import Look
from correlator.sources.names import NameFacts, read_name
from correlator.sources.numbers import believed_numbers

_DIGITS: Final = re.compile(r"\d+")
_EDGE: Final = re.compile(r"[._@+=-]")
_EDGES: Final = 24
"""Words of a name that are joined to look for a host among them."""
_MERGED: Final = frozenset({FileKind.NODE_LOG, FileKind.CONSOLE_LOG, FileKind.SCHEDULER_LOG})


def settle(looks: Sequence[Look]) -> tuple[list[LogFile], list[Skipped]]:
    """The files, in the order given, and the empty ones whose names do not say who should have written them."""
    known = {look.found.path for look in looks}
    hosts = {host for look in looks for host in look.traits.hosts}
    facts = [read_name(look.found.path, known) for look in looks]
    named = [_with_node(fact, look.found.path, hosts) for fact, look in zip(facts, looks, strict=True)]
    hints = _local_where_repeated(believed_numbers(named, looks), looks)
    rows = [_file(look, hint) for look, hint in zip(looks, hints, strict=True)]
    return [row for row in rows if isinstance(row, LogFile)], [row for row in rows if isinstance(row, Skipped)]


def _with_node(facts: NameFacts, path: str, hosts: AbstractSet[str]) -> FileHints:
    """The hints with the node that the path names: a word that lines carry as a host, else one built like a host."""
    node = next((word for word in facts.hosts if word in hosts), None) or _known_host(path, hosts)
    if node is None:
        built = (word for word in facts.hosts if is_host_shape(word) and not (is_counter(word) and word in facts.stem))
        node = next(built, None)
    if node is None:
        node = next((host for word in facts.hosts if (host := host_at_end(word))), None)
    return facts.hints if node is None else replace(facts.hints, node=node)


def _known_host(path: str, hosts: AbstractSet[str]) -> str | None:
    """A host that lines carry and that stands in the path among words of any kind (job-7731-gpu-033.kern.log).

    The file before its folders, and the longest of several, for one may be called as another begins.
    """
    for part in reversed(path.split("/")):
        edges = [0, *(match.start() for match in _EDGE.finditer(part)), len(part)]
        starts = [0, *(edge + 1 for edge in edges[1:-1])][:_EDGES]
        words = (part[start:end] for start in starts for end in edges[-_EDGES:] if end > start)
        if known := [word for word in words if word in hosts and can_be_host(word)]:
            return max(known, key=len)
    return None


def _local_where_repeated(hints: list[FileHints], looks: Sequence[Look]) -> list[FileHints]:
    """Numbers called rank that come again on another node are local ranks (node00/rank_0.log, node01/rank_0.log).

    Flight-recorder dumps keep theirs: the recorder writes the global rank, and old dumps may lie on several nodes.
    """
    writers: dict[tuple[str, int], set[str]] = defaultdict(set)
    shapes = []
    for hint, look in zip(hints, looks, strict=True):
        writer = hint.node or hint.pod
        counts = hint.rank is not None and writer and look.whole_kind is not FileKind.FLIGHT_RECORDER
        shape = _DIGITS.sub("#", look.found.path.replace(writer, "@")) if counts and writer else ""
        shapes.append(shape)
        if shape and writer and hint.rank is not None:
            writers[shape, hint.rank].add(writer)
    repeated = {shape for (shape, _), names in writers.items() if len(names) > 1}
    return [
        replace(hint, rank=None, local_rank=hint.rank) if shape in repeated and hint.local_rank is None else hint
        for hint, shape in zip(hints, shapes, strict=True)
    ]


def _file(look: Look, hints: FileHints) -> LogFile | Skipped:
    found = look.found
    kind = look.whole_kind
    if kind is None and look.empty:
        kind = empty_file_kind(found.path, hints)
        if kind is None:
            return Skipped(found.path, "empty")
    if kind is None:
        kind = line_file_kind(found.path, look.traits, hints, named=found.named)
    if kind in _MERGED:
        hints = replace(hints, rank=None, rank_guessed=None, local_rank=None)
    elif hints.rank is not None and look.traits.one_rank not in (None, hints.rank):
        local = look.traits.places.get(hints.rank) == look.traits.one_rank
        hints = replace(hints, rank=None, rank_guessed=None, local_rank=hints.rank if local else hints.local_rank)
    return LogFile(found.path, found.location, kind, hints, look.compression, found.size_bytes, found.modified_ns)
