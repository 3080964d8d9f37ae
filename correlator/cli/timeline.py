"""`correlator timeline`: the aligned event table as Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from correlator.cli.options import CatalogueFiles, Force, LimitOptions, Mask, Quiet, Targets, Workers, limits_of
from correlator.cli.output import atomic_path, check_output
from correlator.cli.progress import shown_progress
from correlator.core.errors import InputError, OutputError, UsageError
from correlator.core.files import Skipped

if TYPE_CHECKING:
    from correlator.core.progress import Progress
    from correlator.pipeline import Run
    from correlator.sources import Limits

PARTITION_FROM_RANKS = 1_000

Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE.parquet", help="The file to write.")]
AllLines = Annotated[
    bool,
    typer.Option(
        "--all-lines", help="Write also every line as it was printed, with its time and rank (event_name = 'line')."
    ),
]
Unmasked = Annotated[
    bool, typer.Option("--unmasked", help="Keep credentials in it as they were printed: for your own eyes.")
]
Partition = Annotated[
    bool | None,
    typer.Option(
        "--partition/--no-partition",
        help="Write a folder with one file for each node (host_name=node03/) instead of one file; the default beyond "
        "1,000 ranks.",
        show_default=False,
    ),
]


def timeline(
    run: Targets,
    *,
    output: Output,
    all_lines: AllLines = False,
    partition: Partition = None,
    mask: Mask = False,
    unmasked: Unmasked = False,
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = None,
    catalogue: CatalogueFiles = None,
    limit: LimitOptions = None,
) -> None:
    """Write the events of all ranks, on one clock, as Parquet.

    For polars, pandas and DuckDB; `correlator diagnose FILE.parquet` gives the same verdict without reading the logs.
    Credentials and e-mail addresses are masked as in the reports; all else stands in it as it was printed.
    """
    if mask and unmasked:
        raise UsageError("--mask and --unmasked ask for two different things")
    if partition is not False and output.is_dir():
        _check_folder(output, force=force)
    else:
        check_output(output, force=force)

    from correlator.pipeline import open_run

    with shown_progress(quiet=quiet) as progress:
        limits = limits_of(limit)
        opened = open_run(run, workers=workers, catalogue=catalogue or (), progress=progress, limits=limits)
        by_host = (opened.diagnosis.run.world_size or 0) > PARTITION_FROM_RANKS if partition is None else partition
        lines = _Lines(opened, run, by_host, workers, progress, limits) if all_lines else None
        places = None if unmasked else mask
        unread = _write(opened, output, lines, by_host=by_host, force=force, places=places)
    if not quiet:
        _tell(opened, output, unread)


def _check_folder(path: Path, *, force: bool) -> None:
    """An existing folder may be replaced only if it is a timeline that was written before. Raises OutputError."""
    from correlator.timeline_files import describe_timeline

    try:
        describe_timeline(path)
    except InputError as error:
        raise OutputError(f"{path} is a folder", hint="name a file: -o FILE") from error
    if not force:
        raise OutputError(f"{path} exists already", hint="--force overwrites it")


@dataclass(frozen=True, slots=True)
class _Lines:
    """What it takes to read all lines."""

    run: Run
    targets: Sequence[str]
    by_host: bool
    workers: int | None
    progress: Progress
    limits: Limits | None


def _write(
    run: Run, output: Path, lines: _Lines | None, *, by_host: bool, force: bool, places: bool | None
) -> Sequence[Skipped]:
    """Write the timeline; returns the files whose lines are not all in it. `places` None: nothing is masked."""
    from correlator.masking import mask_tables, masker_of

    shown = run if places is None else run.masked(places=places)
    with nullcontext(output) if by_host else atomic_path(output, force=force) as path:
        if lines is not None:
            from correlator.all_lines import open_lines

            with open_lines(
                lines.targets,
                lines.run,
                with_events=True,
                by_host=by_host,
                workers=lines.workers,
                progress=lines.progress,
                limits=lines.limits,
            ) as found:
                mask = masker_of(run.events, run.topology, places=bool(places))
                rows = found.tables if places is None else mask_tables(found.tables, mask)
                shown.write_timeline(path, rows=rows, partition=by_host)
                return found.skipped
        elif by_host:
            shown.write_timeline(path, partition=True)
        else:
            shown.write_timeline(path)
    return ()


def _tell(run: Run, output: Path, unread: Sequence[Skipped]) -> None:
    """Warnings, and what was written, on stderr."""
    from correlator.reports.cleaning import visible

    for warning in (*run.diagnosis.warnings, *(f"{skip.path}: {skip.reason}" for skip in unread)):
        typer.echo(f"correlator: warning: {visible(warning)}", err=True)
    typer.echo(f"correlator: wrote {run.events.height:,} events to {visible(str(output))}", err=True)
