"""`correlator timeline`: the aligned event table as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from correlator.cli.options import CatalogueFiles, Force, Quiet, Targets, Workers
from correlator.cli.output import atomic_path, check_output
from correlator.cli.progress import shown_progress

Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE.parquet", help="The file to write.")]


def timeline(
    run: Targets,
    *,
    output: Output,
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = None,
    catalogue: CatalogueFiles = None,
) -> None:
    """Write the events of all ranks, on one clock, as Parquet.

    For polars, pandas and DuckDB; `correlator diagnose FILE.parquet` gives the same verdict without reading the logs.
    Unlike the reports it holds the lines as they were printed: credentials in them are not masked.
    """
    check_output(output, force=force)

    from correlator.pipeline import open_run

    with shown_progress(quiet=quiet) as progress:
        opened = open_run(run, workers=workers, catalogue=catalogue or (), progress=progress)
        with atomic_path(output, force=force) as draft:
            opened.write_timeline(draft)
    if not quiet:
        from correlator.reports.cleaning import visible

        for warning in opened.diagnosis.warnings:
            typer.echo(f"correlator: warning: {visible(warning)}", err=True)
        typer.echo(f"correlator: wrote {opened.events.height:,} events to {visible(str(output))}", err=True)
