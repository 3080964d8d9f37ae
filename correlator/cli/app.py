"""The command `correlator`: registers the commands, and turns errors into one line and an exit code.

Heavy libraries are imported inside the commands, so that `--help` and completion are instant.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, NoReturn, TextIO

import typer

import correlator
from correlator.cli import (
    catalogue,
    clocks,
    diagnose,
    dialects,
    events,
    explain,
    graph,
    notebook,
    schema,
    timeline,
    trace,
)
from correlator.cli.output import READER_GONE, drop_output
from correlator.core.errors import CorrelatorError

EXIT_CODES = (
    "Exit codes: 0 the command did its work, whatever the verdict (with --exit-code: no failure, 10 identified, "
    "11 tied, 12 undetermined); 1 our own failure; 2 usage; 3 input unreadable or without logs."
)

app = typer.Typer(
    name="correlator",
    help="Name the rank that started a distributed training failure, from the logs that the run left behind.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: half the time, no frames
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.command("diagnose")(diagnose.diagnose)
app.command("timeline")(timeline.timeline)
app.command("events")(events.events)
app.command("graph")(graph.graph)
app.command("trace")(trace.trace)
app.command("notebook")(notebook.notebook)
app.command("clocks")(clocks.clocks)
app.command("explain")(explain.explain)
app.command("catalogue")(catalogue.catalogue)
app.command("dialects")(dialects.dialects)
app.command("schema")(schema.schema)


def _print_version(requested: bool) -> None:  # noqa: FBT001 (typer hands callbacks their value by position)
    if requested:
        typer.echo(f"correlator {correlator.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the program itself."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. The only place that catches: everything below raises."""
    _tolerate_any_encoding(sys.stdout, sys.stderr)
    _end_in_order()
    try:
        app(args=None if arguments is None else list(arguments), prog_name="correlator")
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        drop_output()  # click and rich leave with 1 of their own
        sys.exit(READER_GONE)
    except CorrelatorError as error:
        _fail(str(error), error.hint, error, error.exit_code)
    except Exception as error:  # noqa: BLE001 (a user gets a sentence; the traceback is one variable away)
        if _is_out_of_memory(error):
            _fail("not enough memory", "raise the limit (ulimit -v), or use fewer --workers", error, 1)
        words = f"internal error: {type(error).__name__}: {error}"
        _fail(words, "set CORRELATOR_DEBUG=1 to see the traceback, and please report it", error, 1)


def _tolerate_any_encoding(*streams: TextIO) -> None:
    """Characters that a terminal's encoding lacks are spelt out instead of ending the program."""
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _end_in_order() -> None:
    """Let the signals that end a job unwind the program, so that its temporary folder goes with it."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup, or a program that calls us, has its own wish
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # `timeout` sends it twice, and the second must not stop the cleaning
    sys.exit(128 + number)


def _is_out_of_memory(error: Exception) -> bool:
    """Also where the loader had no room for a library."""
    refused = ("failed to map segment", "cannot allocate memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, ImportError) and any(words in str(error).lower() for words in refused)
    )


def _fail(message: str, hint: str | None, error: Exception, code: int) -> NoReturn:
    """One line (and a hint) on stderr, then out."""
    from correlator.reports.cleaning import visible

    if os.environ.get("CORRELATOR_DEBUG"):
        raise error
    typer.echo(f"correlator: error: {visible(' '.join(message.split()))}", err=True)
    if hint:
        typer.echo(f"  hint: {visible(hint)}", err=True)
    sys.exit(code)
