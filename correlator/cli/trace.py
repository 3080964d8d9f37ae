"""`correlator trace`: the run for ui.perfetto.dev."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from correlator.cli.options import CatalogueFiles, Force, LimitOptions, Mask, Quiet, Targets, Workers, limits_of
from correlator.cli.output import atomic_path, check_output, text_output
from correlator.cli.progress import shown_progress

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE.json[.gz]", help="The file to write; - is stdout.")
]


def trace(
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
    """Write the run as a trace: open it at ui.perfetto.dev.

    A process for each node, a thread for each rank; steps, collectives, faults, and arrows from cause to effect.
    For example: correlator trace /path/to/run -o trace.json.gz
    """
    if output != Path("-"):
        check_output(output, force=force)

    from correlator.pipeline import open_run
    from correlator.reports.details import Details
    from correlator.reports.perfetto import write_trace

    with shown_progress(quiet=quiet) as progress:
        opened = open_run(run, workers=workers, catalogue=catalogue or (), progress=progress, limits=limits_of(limit))
        if mask:
            opened = opened.masked(places=True)
        details = Details(opened.events, opened.graph, opened.catalogue)
    with _stream(output, force=force) as out:
        write_trace(opened.diagnosis, details, out)


@contextmanager
def _stream(output: Path, *, force: bool) -> Iterator[TextIO]:
    """A text stream; compressed where the name says so, without a time or a name inside: same run, same bytes."""
    if output.suffix != ".gz":
        with text_output(output, force=force) as out:
            yield out
        return
    with (
        atomic_path(output, force=force) as draft,
        draft.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="ascii") as out,
    ):
        yield out
