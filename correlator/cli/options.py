"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
Force = Annotated[bool, typer.Option("--force", help="Overwrite FILE.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no remarks on stderr.")]
