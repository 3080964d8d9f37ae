"""How a person, or a program, sees a finished Diagnosis. A report renders and decides nothing.

A report is one module here with a function `render` (see `Renderer`) and one member of `ReportFormat`; one that also shows
the event table and the causal graph (see `DetailedRenderer`) is listed in `DETAILED`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TextIO, cast

if TYPE_CHECKING:
    from correlator.core.model import Diagnosis
    from correlator.reports.details import Details


class ReportFormat(StrEnum):
    """The reports, each named as its module."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


DETAILED = frozenset({ReportFormat.MARKDOWN, ReportFormat.HTML})
"""Reports that draw from the event table and the graph where they are given."""


class Renderer(Protocol):
    """What each report module offers as `render`."""

    def __call__(self, diagnosis: Diagnosis, out: TextIO, *, width: int, color: bool, verbose: bool) -> None:
        """Write the report to `out`. A format without lines or colours ignores `width` (columns) and `color`."""


class DetailedRenderer(Protocol):
    """What the modules of `DETAILED` offer as `render`."""

    def __call__(
        self, diagnosis: Diagnosis, out: TextIO, *, width: int, color: bool, verbose: bool, details: Details | None
    ) -> None:
        """Write the report to `out`; without details it shows what the diagnosis alone can."""


def render(
    diagnosis: Diagnosis,
    out: TextIO,
    *,
    report: ReportFormat = ReportFormat.TEXT,
    width: int = 100,
    color: bool = False,
    verbose: bool = False,
    context: int | None = None,
    details: Details | None = None,
) -> None:
    """Write a report of a diagnosis to a text stream, with credentials masked, also in the details where they are given.

    `context` is how many of the raw lines before the initiating event a report shows that would show none or all of them;
    JSON always holds those that were kept, and no fewer than asked for.

    >>> import sys
    >>> render(diagnosis, sys.stdout, report=ReportFormat.JSON)  # doctest: +SKIP
    """
    from correlator.reports.cleaning import shareable

    if context is not None and report is not ReportFormat.JSON:
        diagnosis = replace(diagnosis, context=diagnosis.context[-context:] if context else ())
    module = import_module(f"{__name__}.{report.value}")
    if report is ReportFormat.TEXT and context is not None:
        module.render(shareable(diagnosis), out, width=width, color=color, verbose=verbose, context=True)
        return
    if report not in DETAILED:
        cast("Renderer", module.render)(shareable(diagnosis), out, width=width, color=color, verbose=verbose)
        return
    from correlator.reports.details import shareable_details

    material = None if details is None else shareable_details(details)
    renderer = cast("DetailedRenderer", module.render)
    renderer(shareable(diagnosis), out, width=width, color=color, verbose=verbose, details=material)
