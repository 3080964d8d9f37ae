"""`correlator clocks`: how far the clock of each node is off, and what says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from correlator.cli.options import CatalogueFiles, LimitOptions, Mask, Quiet, Targets, Workers, limits_of
from correlator.cli.output import ColorChoice, page_width, standard_output, use_color
from correlator.cli.progress import shown_progress

if TYPE_CHECKING:
    from correlator.core.model import ClockEstimate, ClockModel, ClockStep
    from correlator.reports.page import Page

_NODE_WIDTH = 18

Json = Annotated[bool, typer.Option("--json", help="Print the clocks as JSON.")]


def clocks(
    run: Targets,
    *,
    json: Json = False,
    mask: Mask = False,
    color: ColorChoice = ColorChoice.AUTO,
    quiet: Quiet = False,
    workers: Workers = None,
    catalogue: CatalogueFiles = None,
    limit: LimitOptions = None,
) -> None:
    """Show how far the clock of each node is off, how surely, and on what evidence.

    An offset is the node's clock minus the reference's, at the failure. Orders between nodes are derived from the
    intervals alone; a clock without one is never compared.
    """
    from correlator.core.masking import map_texts
    from correlator.pipeline import open_run
    from correlator.reports.cleaning import shareable_text

    with shown_progress(quiet=quiet) as progress:
        opened = open_run(run, workers=workers, catalogue=catalogue or (), progress=progress, limits=limits_of(limit))
        if mask:
            opened = opened.masked(places=True)
    known = map_texts(opened.clocks, shareable_text)
    with standard_output() as out:
        if json:
            from pydantic import TypeAdapter

            out.write(TypeAdapter(type(known)).dump_json(known, indent=2).decode() + "\n")
            return
        from correlator.reports.page import Page

        _render(Page(out, width=page_width(out), color=use_color(color, out)), known)


def _render(page: Page, known: ClockModel) -> None:
    from correlator.reports.page import styled

    references = list(dict.fromkeys(one.reference for one in known.estimates if one.reference is not None))
    for reference in references:
        members = [one for one in known.estimates if one.reference == reference]
        page.heading(f"Clocks against {reference}", _as_of(members))
        for one in members:
            _clock(page, one)
    loose = [one for one in known.estimates if one.reference is None]
    if loose:
        page.heading("Clocks with nothing to compare with", "their events are never ordered against others")
        for one in loose:
            page.row(one.node, styled(*_steps(one.steps)), indent=_NODE_WIDTH)
    if not known.estimates:
        page.block(styled("No line of this run has a time of its own."))
    if known.contradictions:
        page.heading("Contradictions", "lines that the clocks do not reconcile")
        page.list_items(known.contradictions, mark="!")


def _as_of(members: list[ClockEstimate]) -> str:
    moment = next((one.as_of_ms for one in members if one.as_of_ms is not None), None)
    if moment is None:
        return ""
    from datetime import UTC, datetime

    try:
        return f"as of {datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d %H:%M:%S} on it"
    except (ValueError, OverflowError, OSError):
        return ""


def _clock(page: Page, one: ClockEstimate) -> None:
    from correlator.reports import phrases
    from correlator.reports.page import styled

    words = [phrases.offset(one.offset_ms or 0.0)]
    if one.interval_ms is not None:
        low, high = one.interval_ms
        words.append(f"[{low / 1000:+.3f} s, {high / 1000:+.3f} s]")
    else:
        words.append("not bounded: it orders nothing")
    if one.drift_ppm is not None:
        words.append(f"drift {one.drift_ppm:+.1f} ppm")
    words.append(one.status.value)
    page.row((one.node, "bold"), styled("  ".join(words)), indent=_NODE_WIDTH)
    details = [one.timezone] if one.timezone else []
    details += [f"{kind.readings} x {kind.kind}" for kind in one.kinds]
    if details:
        page.block(styled((", ".join(details), "dim")), indent=_NODE_WIDTH)
    for line in _steps(one.steps):
        page.block(styled(line), indent=_NODE_WIDTH)


def _steps(steps: tuple[ClockStep, ...]) -> list[str]:
    from correlator.reports import phrases

    found: list[str] = []
    for step in steps:
        size = "" if step.step_ms is None else f" by {phrases.offset(step.step_ms)}"
        when = "" if step.time is None else f" at {step.time}"
        found.append(f"the clock jumped{size}{when} ({step.source})")
    return found
