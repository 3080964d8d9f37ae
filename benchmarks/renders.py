"""Every report of every run: does it render, how large is it, how long does it take.

    python -m benchmarks.renders sample_runs ../shared/cases            # one line a run, and what failed
    python -m benchmarks.renders ../shared/cases --only xid79 --keep /tmp/pages
    python -m benchmarks.renders sample_runs --execute                  # notebooks too, in a kernel

A run that a report cannot show is a failure; so is a page with a size, a length or a verdict that it must not have.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import networkx as nx

import correlator
from correlator.all_lines import open_lines
from correlator.cli.events import CONTEXT_AROUND
from correlator.pipeline import Run
from correlator.reports import ReportFormat, render
from correlator.reports.details import Details
from correlator.reports.event_rows import JsonRows, TextRows
from correlator.reports.graph_export import export_graph
from correlator.reports.graph_formats import GraphFormat
from correlator.reports.markdown import MOST_LINES
from correlator.reports.perfetto import write_trace

MOST_HTML_BYTES = 300_000
EXECUTION_S = 120


@dataclass(slots=True)
class Rendered:
    """What came of one run."""

    name: str
    ranks: int
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of each report."""
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Source:
    """A run as the reports are given it, and where they are kept."""

    folder: Path
    run: Run
    keep: Path

    @property
    def details(self) -> Details:
        """What the detailed reports draw from."""
        return Details(self.run.events, self.run.graph, self.run.catalogue)


class ReportError(AssertionError):
    """A report that renders and is not right."""


def text(source: Source) -> Iterator[Path]:
    """At 80 and 200 columns, plain, in colour and in full; no line but a command (it is for copying) is wider."""
    for width, color, verbose in ((80, False, False), (200, True, False), (80, True, True), (200, False, True)):
        out = io.StringIO()
        render(source.run.diagnosis, out, width=width, color=color, verbose=verbose)
        path = source.keep / f"text-{width}{'-color' if color else ''}{'-verbose' if verbose else ''}.txt"
        path.write_text(out.getvalue())
        lines = [line for line in out.getvalue().splitlines() if not line.lstrip().startswith("$ ")]
        if not color and (wide := max(map(len, lines))) > width:
            raise ReportError(f"a line of {wide} at {width} columns")
        yield path


def documents(source: Source) -> Iterator[Path]:
    """JSON, Markdown and HTML."""
    for report, suffix in ((ReportFormat.JSON, "json"), (ReportFormat.MARKDOWN, "md"), (ReportFormat.HTML, "html")):
        out = io.StringIO()
        render(source.run.diagnosis, out, report=report, details=source.details)
        path = source.keep / f"report.{suffix}"
        path.write_text(out.getvalue())
        yield path
    json.loads((source.keep / "report.json").read_text())
    if (lines := (source.keep / "report.md").read_text().count("\n")) >= MOST_LINES:
        raise ReportError(f"{lines} lines of Markdown")
    ranks = source.run.diagnosis.run.world_size or 0
    if ranks <= 64 and (size := (source.keep / "report.html").stat().st_size) > MOST_HTML_BYTES:
        raise ReportError(f"{size} bytes of HTML for {ranks} ranks")


def graphs(source: Source) -> Iterator[Path]:
    """GraphML, DOT, Mermaid and node-link JSON."""
    for graph_format in GraphFormat:
        out = io.StringIO()
        export_graph(source.run.diagnosis, source.details, out, graph_format=graph_format)
        path = source.keep / f"causes.{graph_format.value}"
        path.write_text(out.getvalue())
        yield path
    nx.read_graphml(source.keep / f"causes.{GraphFormat.GRAPHML.value}")
    json.loads((source.keep / f"causes.{GraphFormat.JSON.value}").read_text())


def trace(source: Source) -> Iterator[Path]:
    """The trace for Perfetto."""
    path = source.keep / "trace.json"
    with path.open("w") as out:
        write_trace(source.run.diagnosis, source.details, out)
    json.loads(path.read_text())
    yield path


def timelines(source: Source) -> Iterator[Path]:
    """Parquet, with events alone and with all lines: both give the verdict again."""
    run = source.run
    events, lines = source.keep / "timeline.parquet", source.keep / "all_lines.parquet"
    run.write_timeline(events)
    yield events
    with open_lines([source.folder], run, with_events=True, workers=1) as found:
        run.write_timeline(lines, rows=found.tables)
    yield lines
    for path in (events, lines):
        if correlator.open_run(path).diagnosis != run.diagnosis:
            raise ReportError(f"{path.name} gives another diagnosis")


def rows(source: Source) -> Iterator[Path]:
    """What `correlator events` shows, as text and as JSON lines, around the middle of the run."""
    run = source.run
    frame = run.events.sort("time_aligned", nulls_last=True, maintain_order=True)
    middle = max(0, frame.height // 2 - CONTEXT_AROUND)
    shown = frame.slice(middle, 2 * CONTEXT_AROUND).with_row_index("number").to_dicts()
    for name in ("events.txt", "events.jsonl"):
        path = source.keep / name
        with path.open("w") as out:
            writer = TextRows(out, run.topology, color=False, zoned=True) if name.endswith("txt") else JsonRows(out)
            for row in shown:
                writer.write({**row, "order_uncertain": False}, gaps=False)
        yield path


def notebook(source: Source) -> Iterator[Path]:
    """The story as a notebook, and the card."""
    path = source.keep / "post_mortem.ipynb"
    from correlator.notebook.document import write_notebook

    write_notebook(source.run, [source.folder], path)
    yield path
    card = source.keep / "card.html"
    card.write_text(source.run._repr_html_())
    yield card


def executed(source: Source) -> Iterator[Path]:
    """The notebook after all its cells ran."""
    import nbclient
    import nbformat

    path = source.keep / "post_mortem.ipynb"
    story = nbformat.read(path, as_version=4)
    nbformat.validate(story)
    nbclient.NotebookClient(story, timeout=EXECUTION_S, resources={"metadata": {"path": str(source.keep)}}).execute()
    done = source.keep / "executed.ipynb"
    nbformat.write(story, done)
    yield done


Report = Callable[[Source], Iterator[Path]]
REPORTS: tuple[Report, ...] = (text, documents, graphs, trace, timelines, rows, notebook)


def render_all(folder: Path, keep: Path, reports: Sequence[Report] = REPORTS) -> Rendered:
    """Every report of one run, each whatever became of the others."""
    begun = time.process_time()
    keep.mkdir(parents=True, exist_ok=True)
    result = Rendered(folder.parent.name, 0)
    try:
        run = correlator.open_run(folder, workers=1)
        result.ranks = run.diagnosis.run.world_size or 0
    except Exception as error:  # noqa: BLE001 (what goes wrong is what is looked for)
        result.failures.append(f"open_run: {type(error).__name__}: {error}")
        return result
    for report in reports:
        try:
            for path in report(Source(folder, run, keep)):
                result.sizes[path.name] = path.stat().st_size
        except Exception as error:  # noqa: BLE001 (likewise)
            where = traceback.extract_tb(error.__traceback__)[-1]
            result.failures.append(f"{report.__name__}: {type(error).__name__}: {error} ({where.name}:{where.lineno})")
    result.seconds = time.process_time() - begun
    return result


def table(done: Sequence[Rendered]) -> Iterator[str]:
    """A line a run, then what failed."""
    yield f"{'run':52} ranks  html kB  trace kB  parquet kB  lines kB  notebook kB  CPU-s"
    for one in done:
        names = ("report.html", "trace.json", "timeline.parquet", "all_lines.parquet", "post_mortem.ipynb")
        html, trace_, parquet, lines, story = (one.sizes.get(name, 0) / 1000 for name in names)
        yield (
            f"{one.name[:52]:52} {one.ranks:5d}  {html:7.0f}  {trace_:8.0f}  {parquet:10.0f}  {lines:8.0f}  {story:11.1f}  "
            f"{one.seconds:5.1f}"
        )
    broken = [one for one in done if one.failures]
    reports = sum(len(one.sizes) for one in done)
    yield f"{len(done)} runs, {reports} reports; {len(broken)} runs with failures"
    yield from (f"  {one.name}: {failure}" for one in broken for failure in one.failures)


def main() -> None:
    """Run the harness from the command line; exit 1 where a report failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders with NAME/run in them")
    parser.add_argument("--only", default="", help="runs whose name contains one of these, by comma")
    parser.add_argument("--keep", type=Path, help="keep the reports there, a folder a run")
    parser.add_argument("--execute", action="store_true", help="execute the notebooks")
    options = parser.parse_args()
    only = [part for part in options.only.split(",") if part]
    found = [run for root in options.folders for run in sorted(root.glob("*/run")) if run.is_dir()]
    wanted = [run for run in found if not only or any(part in run.parent.name for part in only)]
    with tempfile.TemporaryDirectory() as temporary:
        keep = options.keep or Path(temporary)
        reports = (*REPORTS, executed) if options.execute else REPORTS
        done = [render_all(run, keep / run.parent.name, reports) for run in wanted]
    print("\n".join(table(done)))
    sys.exit(any(one.failures for one in done))


if __name__ == "__main__":
    main()
