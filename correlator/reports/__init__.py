"""How a person, or a program, sees a finished Diagnosis. A report renders and decides nothing.

A report is one module here with a function `render` (see `Renderer`) and one member of `ReportFormat`.
"""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TextIO, cast

if TYPE_CHECKING:
    from correlator.core.model import Diagnosis


class ReportFormat(StrEnum):
    """The reports, each named as its module."""

    TEXT = "text"
    JSON = "json"


class Renderer(Protocol):
    """What each report module offers as `render`."""

    def __call__(self, diagnosis: Diagnosis, out: TextIO, *, width: int, color: bool, verbose: bool) -> None:
        """Write the report to `out`. A format without lines or colours ignores `width` (columns) and `color`."""


def render(
    diagnosis: Diagnosis,
    out: TextIO,
    *,
    report: ReportFormat = ReportFormat.TEXT,
    width: int = 100,
    color: bool = False,
    verbose: bool = False,
) -> None:
    """Write a report of a diagnosis to a text stream, with credentials masked.

    >>> import sys
    >>> render(diagnosis, sys.stdout, report=ReportFormat.JSON)  # doctest: +SKIP
    """
    from correlator.reports.cleaning import shareable

    renderer = cast("Renderer", import_module(f"{__name__}.{report.value}").render)
    renderer(shareable(diagnosis), out, width=width, color=color, verbose=verbose)
