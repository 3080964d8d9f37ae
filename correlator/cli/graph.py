"""`correlator graph`: the causal graph for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from correlator.cli.options import CatalogueFiles, Force, LimitOptions, Mask, Quiet, Targets, Workers, limits_of
from correlator.cli.output import check_output, text_output
from correlator.cli.progress import shown_progress
from correlator.core.errors import UsageError
from correlator.reports.graph_formats import SUFFIXES, GraphFormat

Format = Annotated[
    GraphFormat | None, typer.Option("--format", "-f", help="What to write (default: by the suffix of FILE, else dot).")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, not to stdout.")]


def graph(
    run: Targets,
    *,
    output: Output = None,
    graph_format: Format = None,
    mask: Mask = False,
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = None,
    catalogue: CatalogueFiles = None,
    limit: LimitOptions = None,
) -> None:
    """Write the causal graph: what led to what.

    graphml, dot and json hold every episode and link; mmd (Mermaid) has one box for all ranks that fared alike.
    For example: correlator graph /path/to/run -o causes.graphml
    """
    to_file = output is not None and output != Path("-")
    if to_file and output is not None:
        check_output(output, force=force)
    chosen = graph_format or _by_suffix(output if to_file else None)

    from correlator.pipeline import open_run
    from correlator.reports.details import Details
    from correlator.reports.graph_export import export_graph

    with shown_progress(quiet=quiet) as progress:
        opened = open_run(run, workers=workers, catalogue=catalogue or (), progress=progress, limits=limits_of(limit))
        if mask:
            opened = opened.masked(places=True)
        details = Details(opened.events, opened.graph, opened.catalogue)
    with text_output(output, force=force) as out:
        export_graph(opened.diagnosis, details, out, graph_format=chosen)


def _by_suffix(output: Path | None) -> GraphFormat:
    if output is None:
        return GraphFormat.DOT
    chosen = SUFFIXES.get(output.suffix.lower())
    if chosen is None:
        known = ", ".join(SUFFIXES)
        raise UsageError(f"cannot tell the format of {output.name} from its suffix", hint=f"use --format, or {known}")
    return chosen
