"""Compiled hyperscan databases that are known to find what they must.

Multi-pattern databases of current releases lose matches now and then: two patterns that begin alike can hide one
another, though each is found alone (VectorCamp/vectorscan issue 358 and others; seen here with two bracketed rank
lists). A lost line would be a silent gap, so a new database has to find every sample of every pattern, at the start of
a line and behind prefixes. What it loses is compiled a second time, apart; what is lost even then is left to the slow
engine, with a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from correlator import __version__
from correlator.ingest import database_cache, scanform
from correlator.ingest.scanform import scan_form
from correlator.parsers.base import LinePattern

_PREFIXES = (
    b"",
    b"2025-11-30T01:02:03.123456789Z stderr F ",
    b"[default3]:[rank11]:[E1130 01:12:03.123456789 ProcessGroupNCCL.cpp:632] [PG ID 2 PG GUID 5(mesh_dp) Rank 3] 3: ",
)

Source = tuple[str, bool, tuple[bytes, ...]]
"""The regex of a pattern, whether it is dense, and lines in which it must be found."""
Form = tuple[bytes, tuple[bytes, ...]]
"""The scan form of a pattern, and lines in which it must be found."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Compiled databases as bytes, to be sent to other processes of this machine; compiling takes a second."""

    databases: tuple[bytes, ...]
    thin: tuple[bytes, ...]
    """The same with the thin forms of dense patterns."""
    refused: tuple[tuple[int, str], ...]
    """Patterns that hyperscan cannot compile or does not find, and why."""


def compile_patterns(patterns: Sequence[LinePattern]) -> Compiled:
    """Compile patterns, once in a process. Raises ImportError where hyperscan is not installed."""
    return _compile(tuple((pattern.regex, pattern.bulk, _lines(pattern)) for pattern in patterns))


def load(databases: Sequence[bytes]) -> list[Any]:
    """Databases ready to scan."""
    import hyperscan

    ready = []
    for serialised in databases:
        database = hyperscan.loadb(serialised, hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
        ready.append(database)
    return ready


def _lines(pattern: LinePattern) -> tuple[bytes, ...]:
    """Samples that are one line, as bytes; in one of several lines the pattern may be anywhere."""
    return tuple(sample.encode() for sample in pattern.samples if not {"\n", "\r"} & set(sample))


@lru_cache(maxsize=4)
def _compile(sources: tuple[Source, ...]) -> Compiled:
    import hyperscan

    key = database_cache.key_of(sources, _rules())
    kept = database_cache.read(key)
    if kept and _readable(hyperscan, kept):
        full = int.from_bytes(kept[0])
        return Compiled(kept[1 : 1 + full], kept[1 + full :], ())
    forms = [(scan_form(regex, dense=dense), lines) for regex, dense, lines in sources]
    thin = [(scan_form(regex, dense=dense, thin=dense), () if dense else lines) for regex, dense, lines in sources]
    databases, refused = _compiled(hyperscan, forms)
    thin_databases, also_refused = _compiled(hyperscan, thin)
    refused |= also_refused
    if not refused:
        database_cache.write(key, (bytes([len(databases)]), *databases, *thin_databases))
    return Compiled(tuple(databases), tuple(thin_databases), tuple(sorted(refused.items())))


def _rules() -> bytes:
    """What a scan form depends on beside its pattern: to make all forms would take longer than to read the database."""
    try:
        return Path(scanform.__file__).read_bytes()
    except OSError:
        return __version__.encode()


def _readable(hyperscan: Any, databases: Sequence[bytes]) -> bool:
    """Whether this machine takes the databases: they are built for the instruction set of their processor."""
    try:
        for database in databases[1:]:
            hyperscan.loadb(database, hyperscan.HS_MODE_BLOCK)
    except (hyperscan.error, ValueError):
        return False
    return True


def _compiled(hyperscan: Any, forms: Sequence[Form]) -> tuple[list[bytes], dict[int, str]]:
    """Databases that together find all forms, and the forms that none of them is sure to find, with the reason."""
    refused: dict[int, str] = {}
    found: list[bytes] = []
    numbers = tuple(range(len(forms)))
    try:
        whole = _database(hyperscan, forms, numbers) if forms else None
    except hyperscan.error:
        refused = _refused(hyperscan, forms)
        numbers = tuple(number for number in numbers if number not in refused)
        whole = _database(hyperscan, forms, numbers) if numbers else None
    if whole is not None:
        found.append(hyperscan.dumpb(whole))
        for number in _lost(whole, forms, numbers):
            apart = _database(hyperscan, forms, (number,))
            found.append(hyperscan.dumpb(apart))
            if _lost(apart, forms, (number,)):
                refused[number] = "hyperscan does not find its samples"
    return found, refused


def _database(hyperscan: Any, forms: Sequence[Form], numbers: Sequence[int]) -> Any:
    """A compiled database. MULTILINE only: UTF8 would cost speed, SINGLEMATCH would report one line of a chunk."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    expressions = [forms[number][0] for number in numbers]
    flags = [hyperscan.HS_FLAG_MULTILINE] * len(numbers)
    database.compile(expressions=expressions, ids=list(numbers), elements=len(numbers), flags=flags)
    return database


def _refused(hyperscan: Any, forms: Sequence[Form]) -> dict[int, str]:
    """The patterns that hyperscan cannot compile one by one, with its reason."""
    refused: dict[int, str] = {}
    for number in range(len(forms)):
        try:
            _database(hyperscan, forms, (number,))
        except hyperscan.error as error:
            refused[number] = str(error)
    return refused


def _lost(database: Any, forms: Sequence[Form], numbers: Sequence[int]) -> list[int]:
    """Patterns that the database does not find in some line in which they are."""
    text = bytearray()
    owners: list[tuple[int, int]] = []
    for number in numbers:
        for sample in forms[number][1]:
            for prefix in _PREFIXES:
                text += prefix + sample + b"\n"
                owners.append((number, len(text)))
    reached: dict[int, list[int]] = {}

    def collect(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
        reached.setdefault(number, []).append(end)

    database.scan(text, match_event_handler=collect)
    lost = set()
    begin = 0
    for number, end in owners:
        if not any(begin < reach <= end for reach in reached.get(number, ())):
            lost.add(number)
        begin = end
    return sorted(lost)
