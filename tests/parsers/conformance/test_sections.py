r"""Every example line of formats.md gives exactly the expected events: one table for each of its sections.

A table is a file `sections/<letter>.txt` of cases between empty lines:

    kind: kernel_log            the kind of file, where it is not a console log
    escaped                     \r, \0, \x1b and \xe9 in the lines are those bytes
    | a printed line            (a trailing blank is part of it)
    = name role fact=value ...  an event, every fact of it (see `reading.describe`); none = the line is no event

Section D is the flight recorder: tests/parsers/dumps and tests/test_flight_recorder.py.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
SECTIONS = tuple("abcefghik")


def _load_reading() -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance_reading", HERE / "reading.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reading = _load_reading()


@dataclass(frozen=True, slots=True)
class Case:
    """Lines, and the events that they are."""

    place: str
    lines: tuple[str, ...]
    expected: tuple[str, ...]
    kind: str = "console_log"
    escaped: bool = False


def cases_of(section: str) -> list[Case]:
    """The table of a section."""
    found: list[Case] = []
    number = 1
    for block in (HERE / "sections" / f"{section}.txt").read_text(encoding="utf-8").split("\n\n"):
        rows = block.rstrip("\n").split("\n")
        lines = tuple(row[2:] for row in rows if row.startswith("|"))
        kind = next((row[6:] for row in rows if row.startswith("kind: ")), "console_log")
        expected = tuple(row[2:] for row in rows if row.startswith("= "))
        found.append(Case(f"{section}.txt:{number}", lines, expected, kind, "escaped" in rows))
        number += len(rows) + 1
    return found


CASES = [case for section in SECTIONS for case in cases_of(section)]


@pytest.mark.parametrize("case", CASES, ids=[case.place for case in CASES])
def test_the_lines_are_exactly_these_events(case: Case) -> None:
    """Name, role, times and their source, ranks of every meaning, host, pid, device, group, seq, op and attributes."""
    data = reading.to_bytes("\n".join(case.lines), escaped=case.escaped)
    assert tuple(map(reading.describe, reading.read(data, case.kind))) == case.expected


def test_every_section_has_its_table() -> None:
    """A table that is emptied or lost would pass silently."""
    counts = {section: len(cases_of(section)) for section in SECTIONS}
    assert all(count >= 10 for count in counts.values()), counts
    assert all(case.lines for case in CASES)
