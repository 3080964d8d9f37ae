"""`correlator events`: all ranks merged on the corrected clock."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from correlator.cli.options import CatalogueFiles, LimitOptions, Mask, Quiet, Targets, Workers, limits_of
from correlator.cli.output import ColorChoice, use_color
from correlator.cli.pager import paged_output
from correlator.cli.progress import shown_progress
from correlator.core.files import Skipped
from correlator.core.vocabulary import CollateralKind, FaultCode, Severity

if TYPE_CHECKING:
    import polars as pl

    from correlator.core.masking import Masker
    from correlator.core.progress import Progress
    from correlator.pipeline import Run
    from correlator.reports.event_rows import JsonRows, TextRows
    from correlator.sources import Limits
    from correlator.timeline_query import Query

CONTEXT_AROUND = 20
"""Rows on both sides of --around, where --context does not say how many."""


class Level(StrEnum):
    """Severities, as people type them."""

    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"
    FATAL = "fatal"


def _complete(incomplete: str) -> Iterator[str]:
    """Names of faults and of collateral for the shell's completion."""
    return (name for name in map(str, [*FaultCode, *CollateralKind]) if name.startswith(incomplete))


Ranks = Annotated[str | None, typer.Option("--rank", "-r", metavar="RANKS", help="Only these ranks: 3,8-15.")]
Nodes = Annotated[
    list[str] | None,
    typer.Option("--node", "-n", metavar="NODES", help="Only these nodes: node[01-03],login*. May be given again."),
]
LevelOption = Annotated[
    Level | None,
    typer.Option(
        "--level", "-l", case_sensitive=False, help="This severity and above; faults without one count as error."
    ),
]
Events = Annotated[
    list[str] | None,
    typer.Option(
        "--event",
        "-e",
        metavar="NAME",
        autocompletion=_complete,
        help="Only these events: cuda_oom, checkpoint_*, or a role: initiating, collateral, context. May be given again.",
    ),
]
Around = Annotated[
    str | None,
    typer.Option(metavar="PLACE", help="What was near a time (17:35), an event (its id) or a line (FILE:LINE)."),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="From then on: 17:35, '10 minutes ago', 'Mar 2 17:35 CET'. Words are relative to the run's end.",
    ),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Up to then.")]
Context = Annotated[
    int | None,
    typer.Option(
        "--context",
        "-C",
        min=0,
        max=100_000,
        metavar="N",
        help="Show also N rows before and after each hit of --level, --event, --grep and --around (with which it is 20).",
        show_default=False,
    ),
]
Grep = Annotated[
    str | None, typer.Option("--grep", "-g", metavar="REGEX", help="Only where message or stack trace match; (?i)...")
]
AllLines_ = Annotated[bool, typer.Option("--all-lines", "-a", help="Every line as it was printed, not events alone.")]
Unclassified_ = Annotated[bool, typer.Option("--unclassified", help="Lines that look like errors and are no event.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, with all columns.")]
Color = Annotated[ColorChoice, typer.Option("--color", help="When to use colours; NO_COLOR is honoured.")]
Pager = Annotated[bool, typer.Option("--pager/--no-pager", help="On a terminal: show it through $PAGER.")]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options that say which rows are shown."""

    ranks: str | None
    nodes: Sequence[str]
    level: Level | None
    events: Sequence[str]
    around: str | None
    since: str | None
    until: str | None
    context: int | None
    words: str | None
    all_lines: bool
    unclassified: bool

    def query(self, run: Run) -> Query:
        """What they mean for a run. Raises UsageError."""
        from correlator.timeline_query import (
            Query,
            last_time,
            parse_events,
            parse_moment,
            parse_nodes,
            parse_ranks,
            parse_time,
        )

        last = last_time(run.events)
        nodes = [*run.topology.nodes, *(str(host) for host in run.events["host_name"].drop_nulls().unique())]
        around = parse_moment(self.around, run.events, last, all_lines=self.all_lines) if self.around else None
        context = self.context
        if context is None:
            context = CONTEXT_AROUND if around is not None else 0
        return Query(
            ranks=parse_ranks(self.ranks) if self.ranks else (),
            nodes=parse_nodes(self.nodes, nodes),
            since=parse_time(self.since, last) if self.since else None,
            until=parse_time(self.until, last) if self.until else None,
            level=None if self.level is None else Severity[self.level.name],
            events=parse_events(self.events),
            words=self.words,
            around=around,
            context=context,
        )


def events(
    run: Targets,
    *,
    rank: Ranks = None,
    node: Nodes = None,
    level: LevelOption = None,
    event: Events = None,
    around: Around = None,
    since: Since = None,
    until: Until = None,
    context: Context = None,
    grep: Grep = None,
    all_lines: AllLines_ = False,
    unclassified: Unclassified_ = False,
    as_json: Json = False,
    mask: Mask = False,
    color: Color = ColorChoice.AUTO,
    pager: Pager = True,
    quiet: Quiet = False,
    workers: Workers = None,
    catalogue: CatalogueFiles = None,
    limit: LimitOptions = None,
) -> None:
    """Show what happened on all ranks, in the order of time.

    Times are corrected for the clocks of the nodes. A ~ marks a row that may as well have come before the one above it; a
    > one without a time of its own, which came not before the time shown.

    For example: correlator events RUN --event cuda_oom --all-lines --context 30
    """
    every = all_lines or unclassified
    asked = _Asked(
        rank, node or (), level, event or (), around, since, until, context, grep, all_lines=every, unclassified=unclassified
    )  # fmt: skip

    from correlator.masking import masker_of
    from correlator.pipeline import open_run

    with shown_progress(quiet=quiet) as progress:
        limits = limits_of(limit)
        opened = open_run(run, workers=workers, catalogue=catalogue or (), progress=progress, limits=limits)
        query = asked.query(opened)
        with _rows(opened, run, asked, workers, progress, limits) as rows:
            progress.finish()
            with paged_output(pager=pager) as out:
                change = masker_of(opened.events, opened.topology, places=True) if mask else None
                writer = _writer(opened, out, change, as_json=as_json, color=color)
                shown = _show(opened, query, rows.blocks, writer, change)
    if not quiet:
        _tell(shown, rows.skipped)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What there is to choose from, in the order of time."""

    blocks: Iterable[pl.DataFrame]
    skipped: Sequence[Skipped]


@contextmanager
def _rows(
    run: Run, targets: Sequence[str], asked: _Asked, workers: int | None, progress: Progress, limits: Limits | None
) -> Iterator[_Rows]:
    """The events, or all lines with the names of the events that begin on them."""
    if not asked.all_lines:
        yield _Rows([run.events.sort("time_aligned", nulls_last=True, maintain_order=True)], ())
        return
    from correlator.all_lines import open_lines
    from correlator.all_lines.choice import Labels, Unclassified, as_frame

    choose = Unclassified(run.events) if asked.unclassified else Labels(run.events)
    with open_lines(targets, run, workers=workers, progress=progress, limits=limits) as lines:
        yield _Rows((choose(as_frame(table)) for table in lines.tables), lines.skipped)


def _writer(run: Run, out: TextIO, change: Masker | None, *, as_json: bool, color: ColorChoice) -> TextRows | JsonRows:
    from correlator.core.masking import map_texts
    from correlator.graphs.facts import prints_zone
    from correlator.reports.event_rows import JsonRows, TextRows

    if as_json:
        return JsonRows(out)
    topology = run.topology if change is None else map_texts(run.topology, change)
    return TextRows(out, topology, color=use_color(color, sys.stdout), zoned=prints_zone(run.events))


def _show(
    run: Run, query: Query, blocks: Iterable[pl.DataFrame], writer: TextRows | JsonRows, change: Masker | None
) -> int:
    """Write the rows that are asked for; returns how many they are."""
    from correlator.masking import mask_frame
    from correlator.timeline_query import OrderMarks, select

    marks = OrderMarks(run.clocks)
    shown = 0
    for rows in select(query, blocks):
        shown_rows = rows.with_columns(marks(rows))
        for row in (shown_rows if change is None else mask_frame(shown_rows, change)).iter_rows(named=True):
            writer.write(row, gaps=query.context > 0)
            shown += 1
    return shown


def _tell(shown: int, unread: Sequence[Skipped]) -> None:
    """Files that are not all there, and whether nothing was found, on stderr."""
    from correlator.reports.cleaning import visible

    for skip in unread:
        typer.echo(f"correlator: warning: {visible(skip.path)}: {visible(skip.reason)}", err=True)
    if not shown:
        typer.echo("correlator: nothing matches", err=True)
