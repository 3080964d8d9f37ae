"""`correlator explain`: a catalogue entry, or what pasted lines mean."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from correlator.cli.options import CatalogueFiles
from correlator.cli.output import ColorChoice, page_width, standard_output, use_color
from correlator.core.errors import NoLogsError, UsageError
from correlator.core.vocabulary import CollateralKind, FaultCode

_MOST_BYTES = 64 << 20
"""More than anybody pastes; whole logs go to `correlator diagnose`."""
CODES: tuple[str, ...] = tuple(dict.fromkeys([*map(str, FaultCode), *map(str, CollateralKind)]))


class ExplainFormat(StrEnum):
    """How an explanation is shown."""

    TEXT = "text"
    JSON = "json"


def _complete(incomplete: str) -> Iterator[str]:
    """Codes for the shell's completion."""
    return (code for code in CODES if code.startswith(incomplete))


Code = Annotated[
    str,
    typer.Argument(
        metavar="CODE|-|FILE",
        autocompletion=_complete,
        help="A fault code, a kind of collateral, a finer entry such as gpu_ecc_dbe.xid_94, or lines to explain: a file, "
        "or - for stdin.",
    ),
]
Format = Annotated[ExplainFormat, typer.Option("--format", "-f", help="How to show it.")]
Json = Annotated[bool, typer.Option("--json", help="The same as --format json.")]


def explain(
    code: Code,
    *,
    report: Format = ExplainFormat.TEXT,
    as_json: Json = False,
    color: ColorChoice = ColorChoice.AUTO,
    catalogue: CatalogueFiles = None,
) -> None:
    """Explain a fault code, or a pasted traceback: meaning, first action, rivals.

    For example: correlator explain gpu_off_bus, or: tail -50 rank_3.log | correlator explain -
    """
    in_json = as_json or report is ExplainFormat.JSON
    if code == "-" or (_folded(code).partition(".")[0] not in CODES and Path(code).is_file()):
        _explain_lines(code, catalogue or (), in_json=in_json, color=color)
    else:
        _explain_code(code, catalogue or (), in_json=in_json, color=color)


def _explain_code(code: str, catalogue: Sequence[Path], *, in_json: bool, color: ColorChoice) -> None:
    from correlator.cli.explained import entry_values, write_json
    from correlator.core.catalogue import load_catalogue
    from correlator.reports.entries import render_entry

    known = load_catalogue(catalogue)
    entries = known.keyed(code) or known.keyed(_folded(code))
    if not entries:
        finer = (variant.entry.key for entry in known.entries for variant in entry.variants)
        names = list(finer) if "." in code else CODES
        close = get_close_matches(_folded(code), names, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "correlator catalogue lists the codes"
        raise UsageError(f"no such code: {code}", hint=hint)
    with standard_output() as out:
        if in_json:
            values = [entry_values(entry) for entry in entries]
            write_json(values[0] if len(values) == 1 else values, out)
            return
        for index, entry in enumerate(entries):
            out.write("\n" if index else "")
            render_entry(entry, out, width=page_width(out), color=use_color(color, out))


def _folded(code: str) -> str:
    """A code as it is spelt in the catalogue: `GPU-Off-Bus` is gpu_off_bus."""
    return code.strip().lower().replace("-", "_").replace(" ", "_")


def _explain_lines(target: str, catalogue: Sequence[Path], *, in_json: bool, color: ColorChoice) -> None:
    from correlator.cli.explained import paste_values, read_lines, render_paste, write_json

    with _as_file(target) as path:
        paste = read_lines(path, catalogue)
    with standard_output() as out:
        if in_json:
            write_json(paste_values(paste), out)
        else:
            render_paste(paste, out, width=page_width(out), color=use_color(color, out))


@contextmanager
def _as_file(target: str) -> Iterator[Path]:
    """The file itself, or stdin as one, under a name that says nothing of ranks or nodes."""
    if target != "-":
        yield Path(target)
        return
    from correlator.cli.explained import PASTED

    if sys.stdin is None:  # `<&-`
        raise NoLogsError("nothing to explain: standard input is closed")
    data = sys.stdin.buffer.read(_MOST_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / PASTED
        path.write_bytes(data)
        yield path
