"""The report as one HTML page: no script, no request, nothing outside the file; it opens from a ticket and it prints.

Every value that the template writes is made visible (no control or direction characters), cut to a sane length and escaped.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TextIO

from correlator.core.model import Diagnosis
from correlator.core.ranges import fold_hosts
from correlator.reports import phrases
from correlator.reports.cleaning import clipped, visible
from correlator.reports.details import Details
from correlator.reports.html_view import view_of

if TYPE_CHECKING:
    from jinja2 import Environment

_LEGEND_SHAPES = {
    "circle": "M4.5 6a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    "square": "M5 2h8v8h-8z",
    "diamond": "M9 0.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
}
LONGEST = 4_000
"""Characters of any one value."""


def render(
    diagnosis: Diagnosis, out: TextIO, *, width: int, color: bool, verbose: bool, details: Details | None = None
) -> None:
    """Write the page. It is always whole: width, colour and verbosity mean nothing here."""
    del width, color, verbose
    out.write(_environment().get_template("report.html.j2").render(view=view_of(diagnosis, details)))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("correlator.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_harmless,
    )
    environment.filters |= {
        "cut": clipped,
        "short": _short,
        "n": _number,
        "counted": phrases.count,
        "clock": phrases.clock_time,
        "sure": phrases.confidence,
        "hosts": fold_hosts,
    }
    environment.globals |= {
        "count_places": phrases.count_places,
        "culprit": phrases.culprit,
        "shape_of": _LEGEND_SHAPES.__getitem__,
    }
    return environment


def _harmless(value: Any) -> Any:
    """What reaches the page: markup of the template itself as it is, all other text visible and not endless."""
    return visible(clipped(value, LONGEST)) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _short(text: str, most: int) -> str:
    """A text for a place of a certain width: the middle gives way, since names differ at their ends."""
    text = visible(clipped(text, LONGEST))
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


def _number(value: float) -> str:
    """A coordinate, as short as it can be."""
    return f"{value:.1f}".removesuffix(".0")
