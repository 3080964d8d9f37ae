"""`correlator catalogue`: all faults and kinds of collateral that it knows; checks a catalogue, and writes its pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from correlator.cli.options import CatalogueFiles
from correlator.cli.output import ColorChoice, page_width, standard_output, use_color
from correlator.core.errors import CatalogueError, OutputError, UsageError

if TYPE_CHECKING:
    from correlator.core.catalogue import Catalogue, Signature

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show also the patterns that recognise each.")]
Patterns = Annotated[
    bool,
    typer.Option(
        "--patterns", help="Print all that is looked for in a log, one regex a line: rg -a --no-unicode -f takes them."
    ),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="Check patterns, samples and prose, also those of --catalogue; exit 2 if one is bad."),
]
Pages = Annotated[
    Path | None, typer.Option("--pages", metavar="FOLDER", help="Write one Markdown page an entry into the folder.")
]


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[check FILE.toml...]",
        help="Check your own files: each pattern, sample and text in them.",
        show_default=False,
    ),
]


def catalogue(
    words: Words = None,
    *,
    verbose: Verbose = False,
    patterns: Patterns = False,
    check: Check = False,
    pages: Pages = None,
    color: ColorChoice = ColorChoice.AUTO,
    catalogue: CatalogueFiles = None,
) -> None:
    """List the fault codes by class, and the kinds of collateral.

    For example: correlator catalogue check my.toml
    """
    own = _own_files(words or [])
    if (check or own) and pages is not None:
        raise UsageError("checking and --pages are two different tasks")

    from correlator.core.catalogue import load_catalogue

    known = load_catalogue([*own, *(catalogue or ())])
    if own:
        _check_own(known, load_catalogue())
    elif check:
        _check(known)
    elif pages is not None:
        _write_pages(known, pages)
    elif patterns:
        _print_patterns(known)
    else:
        from correlator.reports.entries import render_catalogue

        with standard_output() as out:
            render_catalogue(known, out, width=page_width(out), color=use_color(color, out), patterns=verbose)


def _print_patterns(known: Catalogue) -> None:
    """The scan form of each pattern, of signatures and dialects, in the syntax of Rust's regex."""
    from correlator.ingest.scanform import rust_form, scan_form
    from correlator.parsers.table import pattern_table

    with standard_output() as out:
        for pattern in pattern_table(known).patterns:
            out.write(f"{rust_form(scan_form(pattern.regex, dense=pattern.bulk))}\n")


def _own_files(words: list[str]) -> list[Path]:
    """The files behind `check`."""
    if not words:
        return []
    if words[0] != "check":
        raise UsageError(f"{words[0]!r} is no task of the catalogue", hint="correlator catalogue check my.toml")
    if len(words) == 1:
        raise UsageError("check which file?", hint="correlator catalogue check my.toml")
    return [Path(word) for word in words[1:]]


def _check(known: Catalogue) -> None:
    """Every broken rule of all that is known."""
    from correlator.core.catalogue.lint import lint_catalogue

    _report(lint_catalogue(known), len(known.entries), len(known.signatures))


def _check_own(known: Catalogue, builtin: Catalogue) -> None:
    """Every broken rule of what a person's files add or change, and their samples that others would take."""
    from correlator.core.catalogue.lint import lint_entry, lint_signature

    before = set(builtin.signatures)
    signatures = [signature for signature in known.signatures if signature not in before]
    entries = [entry for entry in known.entries if entry not in builtin.entries]
    problems = [f"{one.id}: {problem}" for one in signatures for problem in lint_signature(one)]
    problems += (f"{entry.code}: {problem}" for entry in entries for problem in lint_entry(entry))
    problems += (f"{one.id}: {problem}" for one in signatures for problem in _taken_by_others(one, known))
    _report(problems, len(entries), len(signatures))


def _taken_by_others(signature: Signature, known: Catalogue) -> list[str]:
    """A sample that goes to another signature: this one would never be heard."""
    from correlator.core.vocabulary import FileKind
    from correlator.parsers.table import pattern_table
    from correlator.parsers.whose import signatures_of

    table = pattern_table(known)
    kind = FileKind(min(signature.kinds)) if signature.kinds else FileKind.RANK_LOG
    if signature.stack is not None:
        return []  # it is told by the frames, which a sample line does not have
    taken = ((text, signatures_of(text, table, kind)) for text in signature.samples)
    return [
        f"its sample goes to {', '.join(takers) or 'nobody'} (raise `priority` above 50 to take it): {text!r}"
        for text, takers in taken
        if signature.id not in takers
    ]


def _report(problems: list[str], entries: int, signatures: int) -> None:
    """Every broken rule on stdout, one a line; the first decides the exit code."""
    from correlator.reports.phrases import count

    with standard_output() as out:
        out.writelines(f"{problem}\n" for problem in problems)
        if not problems:
            counts = f"{count(entries, 'entry', 'entries')} and {count(signatures, 'signature', 'signatures')}"
            out.write(f"{counts}: nothing to object to\n")
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
