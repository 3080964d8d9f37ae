"""`correlator dialects`: the programs whose lines it reads."""

from __future__ import annotations

from typing import Annotated

import typer

from correlator.cli.output import ColorChoice, page_width, standard_output, use_color

Patterns = Annotated[bool, typer.Option("--patterns", help="Show also each kind of line, with a sample.")]


def dialects(*, patterns: Patterns = False, color: ColorChoice = ColorChoice.AUTO) -> None:
    """List the programs whose lines it reads."""
    from correlator.parsers.dialects import DIALECTS
    from correlator.reports.page import Page, styled
    from correlator.reports.phrases import count

    with standard_output() as out:
        page = Page(out, width=page_width(out), color=use_color(color, out))
        for dialect in sorted(DIALECTS, key=lambda dialect: dialect.name):
            kinds = count(len(dialect.patterns), "kind of line", "kinds of lines")
            page.row(dialect.name, styled(dialect.title, (f"  ({kinds})", "dim")), indent=24)
            for pattern in dialect.patterns if patterns else ():
                page.block(styled((pattern.id, "dim")), indent=4)
                page.block(styled(pattern.samples[0]), indent=6, max_lines=2)
