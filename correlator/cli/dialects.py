"""`correlator dialects`: the programs whose lines it reads, on the terminal or as the page docs/dialects.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from correlator.cli.output import ColorChoice, page_width, standard_output, use_color

if TYPE_CHECKING:
    from correlator.parsers.base import Dialect, LinePattern

Patterns = Annotated[bool, typer.Option("--patterns", help="Show also each kind of line, with a sample.")]
Markdown = Annotated[
    bool, typer.Option("--markdown", help="Write docs/dialects.md: every kind of line, with a sample.")
]


def dialects(*, patterns: Patterns = False, markdown: Markdown = False, color: ColorChoice = ColorChoice.AUTO) -> None:
    """List the programs whose lines it reads."""
    from correlator.parsers.dialects import DIALECTS
    from correlator.reports.page import Page, styled
    from correlator.reports.phrases import count

    ordered = sorted(DIALECTS, key=lambda dialect: dialect.name)
    with standard_output() as out:
        if markdown:
            out.writelines(_page(ordered))
            return
        page = Page(out, width=page_width(out), color=use_color(color, out))
        for dialect in ordered:
            kinds = count(len(dialect.patterns), "kind of line", "kinds of lines")
            page.row(dialect.name, styled(dialect.title, (f"  ({kinds})", "dim")), indent=24)
            for pattern in dialect.patterns if patterns else ():
                page.block(styled((pattern.id, "dim")), indent=4)
                page.block(styled(pattern.samples[0]), indent=6, max_lines=2)


def _page(ordered: list[Dialect]) -> Iterator[str]:
    from correlator.reports.fault_pages import code, prose

    kinds = sum(len(dialect.patterns) for dialect in ordered)
    yield "<!-- Generated from the registry of dialects by `correlator dialects --markdown`; do not edit. -->\n\n# Dialects\n\n"
    yield f"The {len(ordered)} programs whose lines are read, and the {kinds} kinds of lines of them, each with a sample. "
    yield "Lines that state a fault\nare recognised by the [catalogue](faults/README.md) besides. "
    yield "What an event name means stands in [the event table](event_table.md).\n"
    for dialect in ordered:
        yield f"\n## {prose(dialect.title)}\n\n`{dialect.name}`"
        yield f" ({prose(dialect.source)})\n\n" if dialect.source else "\n\n"
        yield from (f"- `{pattern.id}`: {_meaning(pattern)}: {code(_shown(pattern))}\n" for pattern in dialect.patterns)


def _meaning(pattern: LinePattern) -> str:
    record = f", the head of a record ({pattern.record})" if pattern.record else ""
    return f"`{pattern.event_name}` ({pattern.role}){record}"


def _shown(pattern: LinePattern) -> str:
    """The first line of its first sample, without the control characters that some lines hold."""
    line = pattern.samples[0].partition("\n")[0]
    return "".join(character if character.isprintable() else "\u2423" for character in line).strip()
