"""The tables of this folder against a second reading of their lines, by regexes written from formats.md alone.

The first lines of each case are read for what R4 and the sections say of their fields: who wrote it (rank, local rank,
task, rank in a group, host, process, device), which collective, when, how a process ended. What this reading finds, the
table must say; what it cannot tell it leaves to the table. Nothing of the product is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

SECTIONS = Path(__file__).parent / "sections"
REFERENCE = datetime(2025, 11, 30, 1, 2, 3, tzinfo=UTC)
MONTHS = {name: number for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}
CLOCK = r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
ZONE = r"(Z|[+-]\d\d:?\d\d)?"


def stamp(year: int, month: int, day: int, clock: tuple[str, str, str, str | None], zone: str | None) -> str:
    """A time as the tables write it; what has a zone is told in UTC."""
    moment = datetime(year, month, day, *map(int, clock[:3]), tzinfo=UTC)
    if zone and zone != "Z":
        digits = zone[1:].replace(":", "")
        shift = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        moment += shift if zone[0] == "-" else -shift
    fraction = (clock[3] or "").rstrip("0")
    return f"{moment:%Y-%m-%dT%H:%M:%S}" + (f".{fraction}" if fraction else "")


def nearest_year(month: int, day: int) -> int:
    """The year that brings a date nearest to the run (R1)."""
    years = (2024, 2025, 2026)
    return min(years, key=lambda year: abs(datetime(year, month, day, tzinfo=UTC) - REFERENCE))


def _iso(match: re.Match[str]) -> str:
    year, month, day, *clock, zone = match.groups()
    return stamp(int(year), int(month), int(day), tuple(clock), zone)


def _iso_without_zone(match: re.Match[str]) -> str:
    year, month, day, *clock = match.groups()
    return stamp(int(year), int(month), int(day), tuple(clock[:4]), None)


def _month_day(match: re.Match[str]) -> str:
    digits, *clock = match.groups()
    month, day = int(digits[:-2]), int(digits[-2:])  # c10d leaves the month unpadded (R2)
    return stamp(nearest_year(month, day), month, day, tuple(clock), None)


def _named(match: re.Match[str]) -> str:
    month, day, *clock = match.groups()
    return stamp(nearest_year(MONTHS[month], int(day)), MONTHS[month], int(day), tuple(clock), None)


# Shapes of times at the head of a line, by the section that shows them; the outermost counts where a collector wrote it.
TIMES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(rf"(\d{{4}})-(\d\d)-(\d\d)[T ]{CLOCK}{ZONE} std(?:out|err) [FP] "), _iso),  # E2
    (re.compile(rf'\{{"log":.*"time":"(\d{{4}})-(\d\d)-(\d\d)T{CLOCK}{ZONE}"'), _iso),  # E2
    (re.compile(rf"(?:kern +:\w+ +: )?(\d{{4}})-(\d\d)-(\d\d)T{CLOCK}{ZONE} "), _iso),  # H4
    (re.compile(rf"([A-Z][a-z]{{2}}) ([ \d]\d) {CLOCK} \S+ \S+: "), _named),  # H4
    (
        re.compile(rf"(?:\S+: )?(?:\[default\d+\]:)?(?:\[rank\d+\]:)?\[?[FEWIVC](\d{{3,4}}) {CLOCK} "),
        _month_day,
    ),  # A1, B1
    (
        re.compile(rf"(?:\S+: )?\[(\d{{4}})-(\d\d)-(\d\d) {CLOCK}(){{0}}\] \[[A-Z]+\]"),
        _iso_without_zone,
    ),  # E4
    (re.compile(rf"\[(\d{{4}})-(\d\d)-(\d\d) {CLOCK}\] \S+:\d+:\d+ \["), _iso_without_zone),  # C1
)


def pci(text: str) -> str:
    """`0000:5d:00` of NVRM's `0000:5d:00` and NCCL's busId `5d000`."""
    if ":" in text:
        return text.lower()
    digits = text.zfill(5)
    return f"{digits[:-5].zfill(4)}:{digits[-5:-3]}:{int(digits[-3:], 16) >> 4:02x}"


FACTS: tuple[tuple[str, re.Pattern[str], Callable[[str], str]], ...] = (
    ("+device", re.compile(r"out of memory\. Tried .* \(?GPU (\d+)"), str),  # A11: the process' own index
    ("rank", re.compile(r"(?:^|[\]\s:\r\"])\[rank(\d+)\]:"), str),  # R4
    ("local_rank", re.compile(r"(?:^|[ :])\[default(\d+)\]:"), str),  # B5
    ("local_rank", re.compile(r"--local_rank=(\d+)'.*exits with return code"), str),  # E4
    ("local_rank", re.compile(r"failed \(exitcode: -?\d+\) local_rank: (\d+)"), str),  # B2
    ("task_id", re.compile(r"^ *(\d+): (?!\[allreduce)"), str),  # E1: a label
    ("task_id", re.compile(r"^\[1,(?:mpirank:)?(\d+)[,\]](?!.*\[1,)"), str),  # E5
    ("group_rank", re.compile(r"\[PG (?:ID )?\S+ (?:PG GUID \S+ )?(?:\(\S+\) )?Rank (\d+)\]"), str),  # A2
    ("group_rank", re.compile(r"\.cpp:\d+\] \[Rank (\d+)\] (?!Running)"), str),  # A2: inside its group
    ("group_rank", re.compile(r"comm 0x\w+ rank (\d+) n[rR]anks"), str),  # C2
    ("group", re.compile(r"\[PG ID \d+ PG GUID ([^\s(\]]+)"), str),  # A2
    ("seq", re.compile(r"SeqNum=(\d+)"), str),  # A3
    ("seq", re.compile(r"work sequence id: (\d+)|detected by watchdog at work: (\d+)|Timeout at NCCL work: (\d+)"), str),
    ("op", re.compile(r"OpType=(\w+)"), str),
    ("host", re.compile(r"(?:^|\] |F )([a-z][\w-]*):\d+:\d+ \[\d+\] (?:\S+ )?(?:\(\w+\) )?NCCL"), str),  # C1
    ("pid", re.compile(r"(?:^|\] |: |F )[a-z][\w-]*:(\d+):\d+ \[\d+\] (?:\S+ )?(?:\(\w+\) )?NCCL"), str),
    ("pid", re.compile(r"NVRM: Xid \([^)]*\): \d+, pid=(\d+)"), str),  # H1
    ("pid", re.compile(r"(?:closing signal|Closing process|Unable to shutdown process|exitcode: -?\d+\) local_rank: \d+ \(pid:) (\d+)"), str),
    ("pid", re.compile(r"^(?:\\x1b\[\d+m)?\(\w+ pid=(\d+)"), str),  # E3
    ("pid", re.compile(r"Killed process (\d+) \("), str),  # H3
    ("gpu", re.compile(r"NVRM: Xid \(PCI:([0-9a-f:]+)"), pci),
    ("gpu", re.compile(r"busId ([0-9a-f]+)"), pci),  # C2
    ("+xid", re.compile(r"NVRM: Xid \([^)]*\): (\d+),"), str),
    ("+caused_by_xid", re.compile(r"caused by previous Xid (\d+)"), str),
    ("exit_code", re.compile(r"\(exitcode: (-?\d+)\)|exits with return code = (-?\d+)"), str),  # B2, E4
    ("exit_code", re.compile(r"^ *exitcode +: (-?\d+)"), str),  # B3
    ("rank", re.compile(r"^ *rank +: (\d+) \(local_rank"), str),
    ("exit_code", re.compile(r"srun: error: .*Exited with exit code (\d+)"), str),  # E1
    ("+ran_ms", re.compile(r"ran for (\d+) milliseconds before timing out"), str),
    ("boot_seconds", re.compile(r"(?:^|kernel: )\[ *(\d{1,9}\.\d+)\]"), lambda text: str(float(text))),  # H4
    ("step", re.compile(r"^ ?(?:\[[^\]]*\] )?iteration +(\d+)/"), str),  # F1
    ("step", re.compile(r"step: +(\d+)  loss:"), str),  # F4
    ("stream", re.compile(r'^\S+ (stdout|stderr) [FP] |"stream":"(stdout|stderr)"'), str),
)  # fmt: skip


def facts_of(line: str) -> Iterator[tuple[str, str]]:
    """What the second reading finds in a line."""
    for name, regex, convert in FACTS:
        if match := regex.search(line):
            yield name, convert(next(group for group in match.groups() if group is not None))
    for regex, read in TIMES:
        if match := regex.match(line):
            yield "time", read(match)
            return


def said_by(row: str) -> dict[str, str]:
    """The facts of an event of a table; `time` is the moment alone."""
    facts: dict[str, str] = {}
    for match in re.finditer(r'(?:^| )(\+?[\w]+)=("(?:[^"\\]|\\.)*"|\S+)', row):
        value = json.loads(match[2]) if match[2].startswith('"') else match[2]
        facts[match[1]] = value
    if "time" in facts:
        facts["time"] = re.sub(r"(?:Z|[+-]\d\d:?\d\d)?/.*", "", facts["time"])
    return facts


def blocks() -> Iterator[tuple[str, list[str], list[dict[str, str]]]]:
    """Place, lines and events of every case that has one."""
    for path in sorted(SECTIONS.glob("*.txt")):
        number = 1
        for block in path.read_text(encoding="utf-8").split("\n\n"):
            rows = block.rstrip("\n").split("\n")
            events = [said_by(row[2:]) for row in rows if row.startswith("= ")]
            if events:
                yield f"{path.name}:{number}", [row[2:] for row in rows if row.startswith("|")], events
            number += len(rows) + 1


CASES = list(blocks())


@pytest.mark.parametrize(("place", "lines", "events"), CASES, ids=[place for place, _, _ in CASES])
def test_the_table_says_what_a_second_reading_finds(place: str, lines: list[str], events: list[dict[str, str]]) -> None:
    """Each fact of the first line is one of an event's, and no event says another value for it."""
    for name, value in facts_of(lines[0]):
        values = {event[name] for event in events if name in event}
        assert value in values, (place, name, value, values)


def test_the_second_reading_reads_much() -> None:
    """It would agree with anything if it found nothing."""
    found = [name for _, lines, _ in CASES for name, _ in facts_of(lines[0])]
    assert len(CASES) > 600
    assert len(found) > 780
    wanted = "rank local_rank task_id group_rank group seq op time pid host gpu exit_code stream boot_seconds".split()
    assert not {name: found.count(name) for name in wanted if found.count(name) < 4}
