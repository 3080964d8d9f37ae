"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from correlator.core.errors import UsageError

if TYPE_CHECKING:
    from correlator.sources import Limits

LIMITS = {
    "files": "files",
    "depth": "depth",
    "members": "members",
    "expanded": "expanded_bytes",
    "ratio": "ratio",
    "document": "document_bytes",
    "line": "line_bytes",
}
"""What --limit can change: names for people, and the fields of sources.Limits."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...",
        help="What the run left behind: a directory, log files, a .tar(.gz|.zst) or .zip, a timeline.parquet, or - "
        "for a log on stdin.",
        show_default=False,
    ),
]
CatalogueFiles = Annotated[
    list[Path] | None,
    typer.Option("--catalogue", metavar="FILE.toml", help="Know the faults of this file too; may be given again."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Processes that read files (default: one a core)."),
]
Mask = Annotated[
    bool,
    typer.Option(
        "--mask",
        help="For strangers: mask also home directories, host names and addresses, alike everywhere (user1, host3). "
        "Credentials and e-mail addresses are masked without it.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite FILE.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no remarks on stderr.")]
LimitOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=N",
        help=f"Change a bound on hostile or huge input: {', '.join(LIMITS)}; as in expanded=200G. May be given again.",
    ),
]


def limits_of(options: Sequence[str] | None) -> Limits | None:
    """The limits that --limit asks for; None for the defaults. Raises UsageError."""
    if not options:
        return None
    from correlator.sources import Limits

    wanted: dict[str, int] = {}
    for option in options:
        name, _, text = option.partition("=")
        unit = _UNITS.get(text[-1:].upper() if text[-1:].isalpha() else "")
        digits = text[:-1] if text[-1:].isalpha() else text
        if name not in LIMITS or unit is None or not (digits.isascii() and digits.isdigit()) or not int(digits):
            known = ", ".join(LIMITS)
            raise UsageError(f"--limit {option}: not a limit", hint=f"NAME=N with K, M, G or T; names: {known}")
        wanted[LIMITS[name]] = int(digits) * unit
    return Limits(**wanted)
