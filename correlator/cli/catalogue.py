"""`correlator catalogue`: all faults and kinds of collateral that it knows; checks a catalogue, and writes its pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from correlator.cli.options import CatalogueFiles
from correlator.cli.output import ColorChoice, page_width, standard_output, use_color
from correlator.core.errors import CatalogueError, OutputError, UsageError

if TYPE_CHECKING:
    from correlator.core.catalogue import Catalogue

Patterns = Annotated[bool, typer.Option("--patterns", help="Show also the patterns that recognise each.")]
Check = Annotated[
    bool,
    typer.Option("--check", help="Check patterns, samples and prose, also those of --catalogue; exit 2 if one is bad."),
]
Pages = Annotated[
    Path | None, typer.Option("--pages", metavar="FOLDER", help="Write one Markdown page an entry into the folder.")
]


def catalogue(
    *,
    patterns: Patterns = False,
    check: Check = False,
    pages: Pages = None,
    color: ColorChoice = ColorChoice.AUTO,
    catalogue: CatalogueFiles = None,
) -> None:
    """List the fault codes by class, and the kinds of collateral.

    For example: correlator catalogue --check --catalogue my.toml
    """
    if check and pages is not None:
        raise UsageError("--check and --pages are two different tasks")

    from correlator.core.catalogue import load_catalogue

    known = load_catalogue(catalogue or ())
    if check:
        _check(known)
    elif pages is not None:
        _write_pages(known, pages)
    else:
        from correlator.reports.entries import render_catalogue

        with standard_output() as out:
            render_catalogue(known, out, width=page_width(out), color=use_color(color, out), patterns=patterns)


def _check(known: Catalogue) -> None:
    """Every broken rule on stdout, one a line; the first decides the exit code."""
    from correlator.core.catalogue.lint import lint_catalogue

    problems = lint_catalogue(known)
    with standard_output() as out:
        out.writelines(f"{problem}\n" for problem in problems)
        if not problems:
            out.write(f"{len(known.entries)} entries and {len(known.signatures)} signatures: nothing to object to\n")
    if problems:
        raise CatalogueError(f"the catalogue breaks {len(problems)} rule{'s' if len(problems) > 1 else ''}")


def _write_pages(known: Catalogue, folder: Path) -> None:
    """Write every page, and take away a page that was written for a code which is no more."""
    from correlator.reports.fault_pages import fault_pages

    wanted = fault_pages(known)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in wanted.items():
            (folder / name).write_text(text, encoding="utf-8")
        for page in folder.glob("*.md"):
            if page.name not in wanted and page.read_text(encoding="utf-8").startswith(
                "<!-- Generated from the catalogue"
            ):
                page.unlink()
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(f"{folder} cannot be written: {error}") from error
