"""How many error-looking lines of a folder of runs are in the event table, and which kinds of line are not.

    python -m benchmarks.coverage_of_errors sample_runs

A line looks like an error if it has one of the words error, exception, fatal, failed, killed, abort, Xid, timeout. It
is in the table as an event of its own or as part of a record; thinned progress lines count as there.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from correlator.core.files import LogFile, RunHints
from correlator.ingest.engines import Engine, HyperscanEngine
from correlator.ingest.matches import find_matches
from correlator.ingest.segments import ChunkSegments, SegmentIndex
from correlator.ingest.selection import Selector
from correlator.parsers.base import FileContext
from correlator.parsers.dumps import WHOLE_FILE
from correlator.parsers.interpret import FileParser
from correlator.parsers.table import UNCLASSIFIED_PRIORITY, PatternTable, pattern_table
from correlator.sources import discover, open_stream

LOOKS_WRONG = re.compile(rb"\b(?:error|exception|fatal|failed|killed|abort|xid|timeout)\b", re.IGNORECASE)
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
_SHOWN = 40


@dataclass(slots=True)
class Coverage:
    """Counts of error-looking lines."""

    looking: int = 0
    missed: int = 0
    unclassified: int = 0
    """In the table for their words alone."""
    kinds: Counter[str] = field(default_factory=Counter)
    """The missed lines with their numbers blotted out."""

    @property
    def share(self) -> float:
        """Of the error-looking lines, those in the table."""
        return 1.0 - self.missed / max(self.looking, 1)


class Measure:
    """Parses whole files with one engine and looks at what was left."""

    def __init__(self) -> None:
        self._table: PatternTable = pattern_table()
        self._engine: Engine = HyperscanEngine(self._table.patterns)
        self._unknown = {p.id for p in self._table.patterns if p.priority == UNCLASSIFIED_PRIORITY}

    def run(self, folder: Path) -> Coverage:
        """All files of a run that are read by lines."""
        total = Coverage()
        with discover([folder]) as found:
            for file in found.files:
                if file.kind not in WHOLE_FILE:
                    self._file(file, found.hints, total)
        return total

    def _file(self, file: LogFile, hints: RunHints, total: Coverage) -> None:
        with open_stream(file) as stream:
            buffer = bytearray(_content(stream))
        if not LOOKS_WRONG.search(buffer):
            return
        index = SegmentIndex(buffer, len(buffer), open_end=True)
        selector = Selector(self._table.patterns)
        selector.reset(file.kind)
        matches = find_matches(self._engine, buffer, len(buffer), index, selector.dense)
        selection = selector.select(matches, final=True)
        lines = ChunkSegments(buffer, index, offset=0, line_number=1, final=True)
        parser = FileParser(
            FileContext(file.path, file.kind, file.hints, hints, modified_ns=file.modified_ns), self._table
        )
        events = parser.parse(lines, selection.hits).events
        taken = parser.taken
        thinned = set(selection.thinned.tolist())
        total.unclassified += sum(event.signature in self._unknown for event in events)
        for number in range(len(lines)):
            raw = lines.raw(number)
            if not LOOKS_WRONG.search(raw):
                continue
            total.looking += 1
            if lines.offset(number) not in taken and number not in thinned:
                total.missed += 1
                total.kinds[_NUMBERS.sub("#", raw.decode("utf-8", "replace").strip())[:160]] += 1


def _content(stream: object) -> bytes:
    """All bytes of an opened file."""
    pieces: list[bytes] = []
    block = bytearray(1 << 20)
    read = stream.readinto  # type: ignore[attr-defined]
    while count := read(memoryview(block)):
        pieces.append(bytes(block[:count]))
    return b"".join(pieces)


def runs_below(folder: Path) -> Iterator[Path]:
    """`*/run` of a folder of cases, else the folder itself."""
    found = sorted(path for path in folder.glob("*/run") if path.is_dir())
    yield from found or [folder]


def main() -> int:
    """Print the counts of each run and the kinds of line that are missing; 1 where more than one in a hundred is."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("folder", type=Path)
    folder: Path = arguments.parse_args().folder
    measure = Measure()
    total = Coverage()
    for run in runs_below(folder):
        one = measure.run(run)
        total.looking += one.looking
        total.missed += one.missed
        total.unclassified += one.unclassified
        total.kinds += one.kinds
        if one.looking:
            print(
                f"{run.parent.name:48} {one.looking:7} lines, {one.missed:5} missing, {one.unclassified:5} unclassified"
            )
    print(f"{total.share:.2%} of {total.looking} error-looking lines are in the table")
    for kind, count in total.kinds.most_common(_SHOWN):
        print(f"{count:6}  {kind}")
    return 0 if total.share >= 0.99 else 1


if __name__ == "__main__":
    sys.exit(main())
