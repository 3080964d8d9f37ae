"""What a user would run instead, on the same files: each peer as a command, or the reason why it cannot run here."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

_DUCKDB = """
import sys, duckdb
folder, out, threads = sys.argv[1:4]
connection = duckdb.connect(config={"threads": int(threads)})
connection.execute(f'''
    COPY (SELECT filename, line, regexp_extract(line, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}} [0-9:]{{8}}[.,][0-9]+') AS stamp
          FROM read_csv('{folder}/*.log', columns={{'line': 'VARCHAR'}}, delim=E'\\\\x01', quote='', escape='', header=false,
                        filename=true, auto_detect=false, ignore_errors=true, max_line_size=1000000))
    TO '{out}' (FORMAT parquet, COMPRESSION zstd)
''')
"""
_NAIVE = """
import re, sys
from pathlib import Path
patterns = re.compile("|".join(f"(?:{line})" for line in Path(sys.argv[2]).read_text().splitlines() if "(?i)" not in line))
hits = 0
with Path(sys.argv[1]).open(errors="replace") as lines:
    for line in lines:
        hits += patterns.search(line) is not None
print(hits)
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """A program to compare with."""

    name: str
    command: tuple[str, ...] | None
    """None where it is missing."""
    slice_bytes: int | None = None
    """So slow that it is run on this much of one file; its CPU time is scaled to all."""


def peers(folder: Path, patterns: Path, scratch: Path, workers: int) -> list[Peer]:
    """The peers for a folder of plain logs; `patterns`: what `correlator catalogue --patterns` prints."""
    files = sorted(map(str, folder.rglob("*.log")))
    rg, lnav = shutil.which("rg"), shutil.which("lnav")
    duckdb = importlib.util.find_spec("duckdb") is not None
    threads = f"-j{workers}"
    return [
        Peer(
            "rg -a --no-unicode -c -f",
            (rg, "-a", "--no-unicode", threads, "-c", "-f", str(patterns), str(folder)) if rg else None,
        ),
        Peer("rg -a -c -f (default)", (rg, "-a", threads, "-c", "-f", str(patterns), str(folder)) if rg else None),
        Peer("lnav, CSV export", _lnav(lnav, files, scratch) if lnav else None),
        Peer(
            "DuckDB, lines and times to Parquet",
            (sys.executable, "-c", _DUCKDB, str(folder), str(scratch / "duckdb.parquet"), str(workers))
            if duckdb
            else None,
        ),
        Peer(
            "Python re, line by line",
            (sys.executable, "-c", _NAIVE, str(scratch / "slice.log"), str(patterns)),
            300_000,
        ),
    ]


def _lnav(lnav: str, files: list[str], scratch: Path) -> tuple[str, ...]:
    return (
        lnav,
        "-n",
        "-c",
        ";SELECT log_path, log_line, log_time, log_level, log_body FROM all_logs",
        "-c",
        f":write-csv-to {scratch / 'lnav.csv'}",
        *files,
    )
