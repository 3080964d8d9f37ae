"""`correlator explain`: a catalogue entry."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated

import typer

from correlator.cli.options import CatalogueFiles
from correlator.cli.output import ColorChoice, page_width, standard_output, use_color
from correlator.core.errors import UsageError
from correlator.core.vocabulary import CollateralKind, FaultCode, Role

CODES: tuple[str, ...] = tuple(dict.fromkeys([*map(str, FaultCode), *map(str, CollateralKind)]))


def _complete(incomplete: str) -> Iterator[str]:
    """Codes for the shell's completion."""
    return (code for code in CODES if code.startswith(incomplete))


Code = Annotated[
    str, typer.Argument(metavar="CODE", autocompletion=_complete, help="A fault code or a kind of collateral.")
]


def explain(code: Code, *, color: ColorChoice = ColorChoice.AUTO, catalogue: CatalogueFiles = None) -> None:
    """Explain a fault code: meaning, first action, rivals.

    For example: correlator explain gpu_off_bus
    """
    if code not in CODES:
        close = get_close_matches(code, CODES, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "correlator catalogue lists the codes"
        raise UsageError(f"no such code: {code}", hint=hint)

    from correlator.core.catalogue import load_catalogue
    from correlator.reports.entries import render_entry

    known = load_catalogue(catalogue or ())
    entries = [entry for role in (Role.INITIATING, Role.COLLATERAL) if (entry := known.find(code, role)) is not None]
    with standard_output() as out:
        for index, entry in enumerate(entries or [known.entry(code)]):
            out.write("\n" if index else "")
            render_entry(entry, out, width=page_width(out), color=use_color(color, out))
