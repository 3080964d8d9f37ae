"""A post-mortem notebook: the story of one run as cells that execute as they are.

Words about the run go into Markdown cells with everything escaped that Markdown, HTML or MathJax could read; what a cell
executes holds nothing of the logs but literals.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from correlator.core.errors import UsageError
from correlator.core.model import Diagnosis, Hypothesis
from correlator.core.vocabulary import VerdictStatus
from correlator.reports import phrases
from correlator.reports.cleaning import shareable, visible
from correlator.reports.folding import alike, in_order, named

if TYPE_CHECKING:
    from correlator.notebook.views import Shown

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#!|~$])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "://": "&#58;//"}
"""`://` so that no viewer makes a link of it."""
_AROUND_LINES = 25
_IMPORTS = """\
import altair as alt
import polars as pl

import correlator

alt.renderers.enable("svg")  # drawn without a network, also where this is shown; "default" makes them interactive\
"""
_STDIN = "-"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell; `code` is executed, else it is Markdown."""

    source: str
    code: bool = False


def write_notebook(
    run: Shown, targets: Sequence[str | Path], path: Path, *, beside: Path | None = None, mask: bool = False
) -> None:
    """Write the notebook of a run, which opens it again from the same targets.

    Args:
        run: the opened run.
        targets: what it was opened from; paths are written relative to the notebook where that is shorter.
        path: the file to write.
        beside: the folder that the notebook will lie in, where that is not the folder of `path`.
        mask: mask home directories, hosts and addresses too, also in what its cells show. The path that it opens stays.

    Raises UsageError for standard input, which cannot be read again.
    """
    names = [os.fspath(target) for target in targets]
    if _STDIN in names:
        raise UsageError("a notebook opens the run again, which standard input does not allow", hint="name a file")
    folder = (beside or path.parent).resolve()
    opened = [_relative(Path(name), folder) for name in names]
    cells = list(_story(run.masked(places=mask), opened, mask=mask))
    path.write_text(json.dumps(_document(cells), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _relative(target: Path, folder: Path) -> str:
    """The path of a target as seen from the notebook; absolute where they share nothing but the root."""
    absolute = target.resolve()
    common = Path(os.path.commonpath([absolute, folder]))
    if common == Path(common.anchor):
        return str(absolute)
    return Path(os.path.relpath(absolute, folder)).as_posix()


def _document(cells: Sequence[Cell]) -> dict[str, Any]:
    """nbformat 4.5; ids are numbers, so that the same run gives the same bytes."""
    return {
        "cells": [_cell(number, cell) for number, cell in enumerate(cells, start=1)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(number: int, cell: Cell) -> dict[str, Any]:
    common = {"id": f"cell-{number}", "metadata": {}, "source": cell.source.splitlines(keepends=True)}
    if not cell.code:
        return {"cell_type": "markdown", **common}
    return {"cell_type": "code", "execution_count": None, **common, "outputs": []}


# --- the story -------------------------------------------------------------------------------------------------------


def _story(run: Shown, targets: Sequence[str], *, mask: bool) -> Iterator[Cell]:
    diagnosis = shareable(run.diagnosis)
    yield Cell(_title(diagnosis))
    named = repr(targets[0]) if len(targets) == 1 else repr(list(targets))
    yield Cell(
        f"{_IMPORTS}\n\nrun = correlator.open_run({named}).masked({'places=True' if mask else ''})\nrun", code=True
    )
    yield from _failure(diagnosis)
    yield from _steps(run)
    yield from _clocks(diagnosis)
    yield from _rivals(diagnosis)
    yield Cell(_next(diagnosis))
    yield Cell(
        "## Your own questions\n\n`run.events` is the whole event table; its columns are described in `docs/event_table.md`. "
        "It is taken as it is by pandas (`pandas.DataFrame.from_arrow(run)`) and DuckDB (`duckdb.sql('FROM run')`)."
    )
    yield Cell(
        'run.events.group_by("event_name", "role").len().sort("len", "event_name", descending=[True, False])', code=True
    )


def _title(diagnosis: Diagnosis) -> str:
    run = diagnosis.run
    read = f"{phrases.count(run.files, 'file')} with {phrases.count(run.lines, 'line')}"
    lines = [
        f"# Post-mortem of {markdown(run.path)}",
        "",
        f"**{markdown(diagnosis.verdict.status.value.replace('_', ' ').upper())}.** {markdown(diagnosis.verdict.summary)}",
        "",
        f"Written by `correlator notebook` from {markdown(read)}, "
        f"{markdown(phrases.moment(run.first_time))} to {markdown(phrases.moment(run.last_time))}. Run it from top to bottom; "
        "it reads the logs again.",
    ]
    return "\n".join(lines)


def _failure(diagnosis: Diagnosis) -> Iterator[Cell]:
    if diagnosis.verdict.status is VerdictStatus.NO_FAILURE:
        yield Cell("## What happened\n\nNothing failed. The events by rank and time show what the run did.")
        yield Cell("run.event_density_chart()", code=True)
        return
    yield Cell("## What happened\n\n" + _who(diagnosis))
    yield Cell("run.timeline_chart()", code=True)
    first = next((i.evidence[0] for i in diagnosis.verdict.initiators if i.evidence), None)
    if first is not None:
        yield Cell(
            f"The lines before it, of the same file, the last one being {markdown(f'{first.file}:{first.line}')}:"
        )
        yield Cell(
            f"for line in run.diagnosis.context[-{_AROUND_LINES}:]:\n"
            '    print(f"{line.line:>7}  {line.text[:160]}".encode("ascii", "backslashreplace").decode())',
            code=True,
        )
    yield Cell(
        "## Who was dragged in\n\n"
        f"{markdown(phrases.count_places(diagnosis.collateral))} in all, by kind. `explained_by` is the path to the "
        "initiator."
        if diagnosis.collateral
        else "## Who was dragged in\n\nNobody that the logs show."
    )
    if diagnosis.collateral:
        yield Cell(
            'run.collateral.group_by("kind").agg(\n'
            '    pl.len().alias("ranks"), pl.col("time").min().alias("first"), pl.col("time").max().alias("last")\n'
            ').sort("first", "kind")',
            code=True,
        )
    yield Cell("run.event_density_chart()", code=True)


def _who(diagnosis: Diagnosis) -> str:
    lines = []
    for group in alike(diagnosis.verdict.initiators):
        initiator = group.example
        when = phrases.moment(initiator.time)
        if initiator.time_uncertainty_ms is not None:
            when += f" ± {phrases.duration(initiator.time_uncertainty_ms)}"
        phase = phrases.doing(initiator)
        lines.append(
            f"- **{markdown(group.who)}**: `{initiator.fault.value}` "
            f"({initiator.fault_class.value}), {markdown(when)}{markdown(f', {phase}' if phase else '')}"
        )
        lines += [
            f"  - {markdown(f'{line.file}:{line.line}')}: {markdown(line.text[:300])}"
            for line in in_order(initiator.evidence[:3])
        ]
    if not lines:
        lines.append("The logs do not tell who started it.")
    if diagnosis.verdict.initiators:
        lines += ["", f"How sure: {markdown(phrases.confidence(diagnosis.verdict.confidence))}."]
    return "\n".join(lines)


def _steps(run: Shown) -> Iterator[Cell]:
    from correlator.notebook.frames import progress

    if progress(run)["step_time_s"].drop_nulls().is_empty():
        return
    yield Cell("## How fast it was\n\nA rank that slows down before the failure is worth a look.")
    yield Cell("run.step_time_chart()", code=True)


def _clocks(diagnosis: Diagnosis) -> Iterator[Cell]:
    if sum(estimate.offset_ms is not None for estimate in diagnosis.clocks) < 2:
        return
    yield Cell(
        "## The clocks\n\nAll times above are corrected for them. Without that, the first error would often be the work of "
        "the fastest clock."
    )
    yield Cell("run.clock_chart()", code=True)


def _rivals(diagnosis: Diagnosis) -> Iterator[Cell]:
    if len(diagnosis.hypotheses) < 2:
        return
    rows = [line for hypothesis in diagnosis.hypotheses for line in _hypothesis(hypothesis)]
    yield Cell("\n".join(["## Explanations weighed", "", *rows]))


def _hypothesis(hypothesis: Hypothesis) -> Iterator[str]:
    who = named(hypothesis.initiators)
    fault = f", `{hypothesis.fault.value}`" if hypothesis.fault is not None else ""
    yield f"- **{hypothesis.probability * 100:.0f} %** {markdown(who)}{fault}"
    yield from (f"  - for: {markdown(reason[:300])}" for reason in hypothesis.supports)
    yield from (f"  - against: {markdown(reason[:300])}" for reason in hypothesis.contradicts)
    if hypothesis.control:
        yield f"  - to tell: {markdown(hypothesis.control)}"


def _next(diagnosis: Diagnosis) -> str:
    actions, checkpoint = diagnosis.actions, diagnosis.checkpoint
    lines = ["## What to do", ""]
    lines += [f"- first: {markdown(actions.first)}"] if actions.first else []
    lines += [f"  - {_code(command)}" for command in actions.commands]
    lines += [f"- then verify: {markdown(actions.verify)}"] if actions.verify else []
    lines += [f"- resume: {markdown(actions.resume)}"] if actions.resume else []
    if checkpoint.safe_to_resume_from and not actions.resume:
        lines.append(f"- safe to resume from: {markdown(checkpoint.safe_to_resume_from)} ({markdown(checkpoint.why)})")
    lines += [f"- missing evidence: {markdown(missing)}" for missing in diagnosis.missing_evidence]
    if len(lines) == 2:
        lines.append("Nothing.")
    return "\n".join(lines)


def markdown(text: str) -> str:
    """Text that Markdown shows as it is, within a line: no markup, no HTML, no formula, no link."""
    shown = visible(text)
    for plain, entity in _ENTITIES.items():
        shown = shown.replace(plain, entity)
    return _SPECIAL.sub(r"\\\1", shown).replace("&\\#58;", "&#58;")


def _code(command: str) -> str:
    """A command in a code span, whatever backticks it has."""
    shown = visible(command)
    runs = [len(run) for run in re.findall(r"`+", shown)]
    fence = "`" * (max(runs, default=0) + 1)
    return f"{fence} {shown} {fence}"
