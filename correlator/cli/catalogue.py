"""`correlator catalogue`: all faults and kinds of collateral that it knows."""

from __future__ import annotations

from typing import Annotated

import typer

from correlator.cli.options import CatalogueFiles
from correlator.cli.output import ColorChoice, page_width, standard_output, use_color

Patterns = Annotated[bool, typer.Option("--patterns", help="Show also the patterns that recognise each.")]


def catalogue(
    *, patterns: Patterns = False, color: ColorChoice = ColorChoice.AUTO, catalogue: CatalogueFiles = None
) -> None:
    """List the fault codes by class, and the kinds of collateral."""
    from correlator.core.catalogue import load_catalogue
    from correlator.reports.entries import render_catalogue

    known = load_catalogue(catalogue or ())
    with standard_output() as out:
        render_catalogue(known, out, width=page_width(out), color=use_color(color, out), patterns=patterns)
