"""`correlator notebook`: a post-mortem that executes as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from correlator.cli.options import CatalogueFiles, Force, LimitOptions, Mask, Quiet, Targets, Workers, limits_of
from correlator.cli.output import atomic_path, check_output
from correlator.cli.progress import shown_progress
from correlator.core.errors import UsageError

Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE.ipynb", help="The notebook to write.")]


def notebook(
    run: Targets,
    *,
    output: Output,
    mask: Mask = False,
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = None,
    catalogue: CatalogueFiles = None,
    limit: LimitOptions = None,
) -> None:
    """Write a Jupyter notebook that tells the story of this run.

    It opens the run again, so keep both where they are; its charts need `pip install 'rank-correlator[notebook]'`.
    """
    if "-" in run:
        raise UsageError("a notebook opens the run again, which standard input does not allow", hint="name a file")
    check_output(output, force=force)

    from correlator.notebook.document import write_notebook
    from correlator.pipeline import open_run

    with shown_progress(quiet=quiet) as progress:
        opened = open_run(run, workers=workers, catalogue=catalogue or (), progress=progress, limits=limits_of(limit))
        with atomic_path(output, force=force) as draft:
            write_notebook(opened, run, draft, beside=output.parent, mask=mask)
    if not quiet:
        from correlator.reports.cleaning import visible

        typer.echo(f"correlator: wrote {visible(str(output))}", err=True)
