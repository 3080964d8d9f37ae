"""Do the fast scan and plain `re` find the same patterns in the same lines?

    python -m benchmarks.engines sample_runs [--step 7]

Every line of every file of the runs below the folder (or every `step`-th) is scanned by both; differences are printed.
`re` takes about a millisecond a line. tests/parsers/test_engines_agree.py looks at one line of each kind.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from correlator.ingest.engines import Engine, HyperscanEngine, ReEngine
from correlator.ingest.matches import find_matches
from correlator.ingest.segments import SegmentIndex
from correlator.parsers.table import pattern_table

_LINES = 5_000
"""Lines scanned at once."""


def blocks(folder: Path, step: int) -> Iterator[tuple[str, bytes]]:
    """(file, some of its lines) for all files of lines."""
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        if not data or data[:1] == b"\x80":
            continue  # a pickle is not read by lines
        lines = data.split(b"\n")[::step]
        for start in range(0, len(lines), _LINES):
            yield str(path.relative_to(folder)), b"\n".join(lines[start : start + _LINES]) + b"\n"


def hits(engine: Engine, data: bytes, dense: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> set[tuple[int, int]]:
    """(segment, pattern) pairs of a scan."""
    buffer = bytearray(data)
    found = find_matches(engine, buffer, len(buffer), SegmentIndex(buffer, len(buffer), open_end=True), dense)
    return set(zip(found.segments.tolist(), found.ids.tolist(), strict=True))


def main() -> None:
    """Compare, and end with 1 where the engines differ."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--step", type=int, default=1)
    options = arguments.parse_args()
    table = pattern_table()
    dense = np.array([pattern.bulk for pattern in table.patterns])
    fast, slow = HyperscanEngine(table.patterns), ReEngine(table.patterns)
    lines = pairs = differences = 0
    for name, data in blocks(options.folder, options.step):
        one, other = hits(fast, data, dense), hits(slow, data, dense)
        lines += data.count(b"\n")
        pairs += len(other)
        differences += len(one ^ other)
        for segment, scan_id in sorted(one ^ other)[:5]:
            finder = "the fast scan" if (segment, scan_id) in one else "re"
            print(f"{name}: segment {segment}: {table.patterns[scan_id].id} by {finder} alone")
    print(f"{lines} lines, {pairs} matches, {differences} differences")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
