"""`correlator diagnose`: the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, assert_never

import typer

from correlator.cli.options import CatalogueFiles, Force, LimitOptions, Mask, Quiet, Targets, Workers, limits_of
from correlator.cli.output import ColorChoice, check_output, page_width, text_output, use_color
from correlator.cli.progress import shown_progress
from correlator.core.errors import UsageError
from correlator.core.model import Verdict
from correlator.core.vocabulary import VerdictStatus
from correlator.reports import DETAILED, ReportFormat, render

Format = Annotated[ReportFormat | None, typer.Option("--format", "-f", help="How to show it (default: text).")]
Json = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, not to stdout.")]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="Exit 10 if identified, 11 if tied, 12 if undetermined, 0 if no failure.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="All evidence, the lines before it, every clock.")]
Context = Annotated[
    int | None, typer.Option("--context", min=0, metavar="N", help="Show N raw lines before the initiating event.")
]
Healthy = Annotated[
    str | None,
    typer.Option(metavar="RUN", help="A run of the same job that did not fail: what it prints too is no cause."),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Say on stderr what the last lines of all files suggest, while the rest is read."),
]
Color = Annotated[ColorChoice, typer.Option("--color", help="When to use colours; NO_COLOR is honoured.")]


def _check(report: ReportFormat | None, *, as_json: bool, quick: bool, mask: bool) -> None:
    """Raise UsageError for options that contradict each other."""
    if as_json and report not in {None, ReportFormat.JSON}:
        raise UsageError("--json and --format name two different formats")
    if quick and mask:
        raise UsageError("--quick tells what it finds as it finds it, before --mask could mask it")


def diagnose(
    run: Targets,
    *,
    report: Format = None,
    as_json: Json = False,
    output: Output = None,
    mask: Mask = False,
    force: Force = False,
    exit_code: ExitCode = False,
    verbose: Verbose = False,
    context: Context = None,
    healthy: Healthy = None,
    quick: Quick = False,
    quiet: Quiet = False,
    color: Color = ColorChoice.AUTO,
    workers: Workers = None,
    catalogue: CatalogueFiles = None,
    limit: LimitOptions = None,
) -> None:
    """Say who started the failure, what it was, and what to do.

    html and markdown are for tickets and mails: one file, credentials masked. For example:
    correlator diagnose /path/to/run --format html -o report.html
    """
    _check(report, as_json=as_json, quick=quick, mask=mask)
    if output is not None and output != Path("-"):
        check_output(output, force=force)
    from correlator.pipeline import open_run
    from correlator.reports.details import Details

    first = _First()
    with shown_progress(quiet=quiet) as progress:
        opened = open_run(
            run, workers=workers, catalogue=catalogue or (), progress=progress, limits=limits_of(limit),
            healthy=healthy, context_lines=context or 0, first_verdict=first.tell if quick else None,
        )  # fmt: skip
        if mask:
            opened = opened.masked(places=True)
        diagnosis = opened.diagnosis
    chosen = ReportFormat.JSON if as_json else report or ReportFormat.TEXT
    details = Details(opened.events, opened.graph, opened.catalogue) if chosen in DETAILED else None
    with text_output(output, force=force) as out:
        width, colored = page_width(out), use_color(color, out)

        render(
            diagnosis, out, report=chosen, width=width, color=colored, verbose=verbose, context=context, details=details
        )
    first.compare(diagnosis.verdict)
    if exit_code:
        raise typer.Exit(verdict_exit_code(diagnosis.verdict.status))


class _First:
    """The provisional verdict on stderr, where remarks go."""

    def __init__(self) -> None:
        self._told: Verdict | None = None

    def tell(self, verdict: Verdict) -> None:
        """Say it at once."""
        self._told = verdict
        self._say(f"provisional, from the last lines of all files: {verdict.summary}")

    def compare(self, final: Verdict) -> None:
        """Say so if it did not hold."""
        from correlator.provisional import differs

        if self._told is not None and differs(self._told, final):
            self._say(
                "the whole run says something else than its last lines did: the provisional verdict does not hold"
            )

    def _say(self, text: str) -> None:
        from correlator.reports.cleaning import visible

        typer.echo(f"correlator: {visible(text)}", err=True)


def verdict_exit_code(status: VerdictStatus) -> int:
    """The exit code that stands for a verdict under --exit-code."""
    match status:
        case VerdictStatus.NO_FAILURE:
            return 0
        case VerdictStatus.IDENTIFIED:
            return 10
        case VerdictStatus.TIED:
            return 11
        case VerdictStatus.UNDETERMINED:
            return 12
        case _:
            assert_never(status)
