"""The steps from a run directory to a diagnosis, in order: sources, ingest, identity, clocks, graph, advice."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from correlator.advice import Given, advise, weigh
from correlator.clocks import align
from correlator.core.catalogue import Catalogue, load_catalogue
from correlator.core.errors import NoLogsError
from correlator.core.files import FileReport, Skipped
from correlator.core.masking import map_texts
from correlator.core.model import ClockModel, Diagnosis, RunSummary, SkippedFile, Topology, Verdict
from correlator.core.progress import NoProgress, Progress
from correlator.core.reasons import ContextLine
from correlator.core.vocabulary import VerdictStatus
from correlator.graphs import Findings, RunFacts, judge
from correlator.graphs.collateral import steps_of
from correlator.graphs.episodes import iso
from correlator.graphs.facts import prints_zone
from correlator.graphs.reasoning import rule_uses
from correlator.identity import identify
from correlator.ingest import ingest
from correlator.masking import mask_frame, masker_of
from correlator.notebook.views import RunViews
from correlator.parsers.table import pattern_table
from correlator.provisional import Tell, answer_meanwhile
from correlator.sources import Limits, RunFiles, discover
from correlator.sources.context import writer_lines_before
from correlator.sources.tails import tails
from correlator.timeline import TIMELINE_SUFFIXES, Stored, read_timeline, write_timeline

if TYPE_CHECKING:
    import networkx as nx
    import polars as pl
    import pyarrow as pa

CONTEXT_LINES = 100

Target = str | Path


@dataclass(frozen=True, repr=False)
class Run(RunViews):
    """A run that was read: its event table, topology, clocks and, on first use, its diagnosis.

    `events` follows core.schema; `clocks` and `graph` are what the verdict rests on. Nothing is read again.
    """

    path: str
    events: pl.DataFrame
    topology: Topology
    clocks: ClockModel
    reports: tuple[FileReport, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    catalogue: Catalogue
    context: dict[str, tuple[ContextLine, ...]]
    """`file:line` of an event -> the raw lines before it; filled for the initiating event while the files are at hand."""
    healthy: frozenset[str] | None = None
    """Moulds of the unknown errors that a run without failure printed; None = no such run was given."""

    @cached_property
    def findings(self) -> Findings:
        """What the causal graph says."""
        healthy = self.healthy or frozenset()
        return judge(RunFacts(self.events, self.topology, self.clocks, self.reports, self.skipped, healthy))

    @property
    def graph(self) -> nx.DiGraph[str]:
        """The causal graph: episodes and wait hubs as nodes with their event ids, rules with reason and q as edges."""
        return self.findings.attempt.graph

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The finished answer."""
        found = self.findings
        return Diagnosis(
            run=self._summary(),
            verdict=found.verdict,
            hypotheses=weigh(found.hypotheses, found.verdict, self.catalogue, self.events, self._given(found)),
            collateral=found.collateral,
            episodes=steps_of(found.attempt, found.collateral),
            rules=rule_uses(found.attempt),
            context=self._context(found),
            actions=advise(found.verdict, found.checkpoint, found.missing_evidence, self.catalogue, self.events),
            checkpoint=found.checkpoint,
            clocks=self.clocks.estimates,
            missing_evidence=found.missing_evidence,
            skipped=tuple(SkippedFile(skip.path, skip.reason) for skip in self.skipped),
            warnings=(*self.warnings, *self.clocks.contradictions),
        )

    def _given(self, found: Findings) -> Given:
        return Given(
            reports=self.reports,
            skipped=self.skipped,
            clocks=self.clocks,
            missing=found.missing_evidence,
            world_size=self.topology.world_size,
            healthy=self.healthy is not None,
        )

    def masked(self, *, places: bool = False) -> Run:
        """The same run as it can be shown to others: credentials and e-mail addresses masked in every text.

        `places` masks home directories, host names and addresses too (`user1`, `host3`, `address2`), alike in all of it.
        The verdict is the same one, and the files of the run are left alone.
        """
        mask = masker_of(self.events, self.topology, places=places)
        shown = _run(
            map_texts(self._stored(()), mask),
            mask_frame(self.events, mask),
            self.catalogue,
            {mask(place): map_texts(lines, mask) for place, lines in self.context.items()},
        )
        shown = replace(shown, healthy=self.healthy)
        shown.__dict__["diagnosis"] = map_texts(self.diagnosis, mask)
        return shown

    def _stored(self, context: tuple[ContextLine, ...]) -> Stored:
        return Stored(self.path, self.topology, self.clocks, self.reports, self.skipped, self.warnings, context)

    def write_timeline(self, path: Path, *, rows: Iterable[pa.Table] | None = None, partition: bool = False) -> None:
        """The event table as Parquet, sorted by aligned time, with all that is needed to reopen it without parsing.

        `rows` (of `all_lines.open_lines`, with events) are written in place of the events alone; `partition` makes it a
        folder with one file for each node.
        """
        stored = self._stored(self.diagnosis.context)
        write_timeline(path, self.events, stored, self.diagnosis, rows=rows, partition=partition)

    def _summary(self) -> RunSummary:
        times = self.events["time_aligned"].drop_nulls()
        if times.is_empty():
            times = self.events["timestamp"].drop_nulls()
        zoned = prints_zone(self.events)
        first, last = (times.min(), times.max()) if len(times) else (None, None)
        return RunSummary(
            path=self.path,
            world_size=self.topology.world_size,
            ranks_seen=sum(place.has_log for place in self.topology.ranks),
            nodes=self.topology.nodes,
            files=len(self.reports),
            lines=sum(report.lines for report in self.reports),
            attempts=self.topology.attempts,
            first_time=_iso(first, zoned=zoned),
            last_time=_iso(last, zoned=zoned),
        )

    def _context(self, found: Findings) -> tuple[ContextLine, ...]:
        for root in found.roots:
            lines = self.context.get(root.head.place)
            if lines:
                return lines
        return next(iter(self.context.values()), ()) if found.roots else ()


def _iso(value: object, *, zoned: bool) -> str | None:
    import polars as pl

    return (
        None
        if value is None
        else iso(pl.Series([value], dtype=pl.Datetime("ns", "UTC")).dt.epoch("ns")[0], zoned=zoned)
    )


def open_run(
    targets: Target | Sequence[Target],
    *,
    workers: int | None = None,
    catalogue: Sequence[Path] = (),
    progress: Progress | None = None,
    limits: Limits | None = None,
    healthy: Target | None = None,
    context_lines: int = CONTEXT_LINES,
    first_verdict: Tell | None = None,
) -> Run:
    """Read a run: a directory, files, an archive, `-` for stdin, or a timeline.parquet written before.

    `workers` processes read large runs (None = as many as there are CPUs); `limits` bound what hostile or huge input may
    take (None = the defaults). `healthy` is a run of the same job that did not fail: an unknown error that it prints too is
    no cause. At least CONTEXT_LINES lines before the initiating event are kept, more where `context_lines` says so.
    `first_verdict` is told, from another thread, what the last lines of all files say while the rest is read; nothing waits
    for it. Raises InputError where nothing can be read.
    """
    paths = [targets] if isinstance(targets, (str, Path)) else _each_once(targets)
    known = load_catalogue(tuple(catalogue))
    moulds, warnings = (None, ()) if healthy is None else _moulds(healthy, workers, catalogue, limits)
    if len(paths) == 1 and str(paths[0]).endswith(TIMELINE_SUFFIXES):
        events, stored = read_timeline(Path(paths[0]))
        run = _run(stored, events, known, {"": stored.context} if stored.context else {})
        return replace(run, healthy=moulds, warnings=(*run.warnings, *warnings))
    with discover(paths, limits=limits) as found:
        wanted = _Wanted(limits, moulds, warnings, max(CONTEXT_LINES, context_lines), first_verdict)
        return _read(found, known, workers, progress or NoProgress(), wanted)


def _each_once(targets: Sequence[Target]) -> list[Target]:
    """A file that is given twice, under whatever names, is one file: its lines are no second witness."""
    return list({os.path.realpath(target): target for target in reversed(targets)}.values())[::-1]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is asked of a reading beside the run itself."""

    limits: Limits | None
    healthy: frozenset[str] | None
    warnings: tuple[str, ...]
    context_lines: int
    first_verdict: Tell | None


def _moulds(
    healthy: Target, workers: int | None, catalogue: Sequence[Path], limits: Limits | None
) -> tuple[frozenset[str], tuple[str, ...]]:
    """The unknown errors of a run without failure, and a warning where that run failed as well."""
    run = open_run(healthy, workers=workers, catalogue=catalogue, limits=limits)
    found = frozenset(template for template in run.events["template"].cast(str).unique() if template is not None)
    verdict = run.findings.verdict
    if verdict.status is VerdictStatus.NO_FAILURE:
        return found, ()
    said = "failed too" if verdict.initiators else "shows no good end"
    return found, (f"the run given as healthy {said} ({verdict.summary})",)


def _read(found: RunFiles, known: Catalogue, workers: int | None, progress: Progress, wanted: _Wanted) -> Run:
    progress.start(sum(file.size_bytes for file in found.files))
    if wanted.first_verdict is not None:
        answer_meanwhile(lambda: _first_verdict(found, known, wanted), wanted.first_verdict)
    try:
        read = ingest(
            found.files, pattern_table(known), found.hints, workers=workers, progress=progress, limits=wanted.limits
        )
        if read.events.is_empty():
            raise _nothing_known(found, read.reports)
        progress.step("who")
        identified = identify(read.events, found.files, read.reports)
        progress.step("when")
        aligned = align(identified.events, identified.topology, found.files, read.reports)
        progress.step("why")
        stored = Stored(
            found.path,
            identified.topology,
            aligned.clocks,
            read.reports,
            (*found.skipped, *read.skipped),
            (*identified.warnings, *wanted.warnings),
            (),
        )
        run = replace(_run(stored, aligned.events, known, {}), healthy=wanted.healthy)
        run.context.update(_raw_context(run, found, wanted.context_lines))
        return run
    finally:
        progress.finish()


def _first_verdict(found: RunFiles, known: Catalogue, wanted: _Wanted) -> Verdict | None:
    """The verdict of the last lines of all files, or None where they hold nothing that is known."""
    files = tails(found.files)
    read = ingest(files, pattern_table(known), found.hints, workers=1, limits=wanted.limits, only_tails=True)
    if read.events.is_empty():
        return None
    identified = identify(read.events, files, read.reports)
    aligned = align(identified.events, identified.topology, files, read.reports)
    facts = RunFacts(aligned.events, identified.topology, aligned.clocks, read.reports, found.skipped)
    return judge(facts).verdict


def _nothing_known(found: RunFiles, reports: Sequence[FileReport]) -> NoLogsError:
    lines = sum(report.lines for report in reports)
    count = f"{lines} line{'s' if lines != 1 else ''} of {len(reports)} file{'s' if len(reports) != 1 else ''}"
    hint = "point it at the directory that holds the ranks' logs; correlator dialects lists what it reads"
    return NoLogsError(f"{found.path}: none of {count} is one that a known program writes", hint=hint)


def _run(stored: Stored, events: pl.DataFrame, known: Catalogue, context: dict[str, tuple[ContextLine, ...]]) -> Run:
    return Run(
        path=stored.path,
        events=events,
        topology=stored.topology,
        clocks=stored.clocks,
        reports=stored.reports,
        skipped=stored.skipped,
        warnings=stored.warnings,
        catalogue=known,
        context=context,
    )


def _raw_context(run: Run, found: RunFiles, count: int) -> dict[str, tuple[ContextLine, ...]]:
    """The raw lines before the first initiating event, read while the files (or the unpacked archive) still exist."""
    if not run.findings.roots:
        return {}
    head = run.findings.roots[0].head
    file = next((file for file in found.files if file.path == head.file), None)
    if file is None:
        return {}
    lines = writer_lines_before(file, head.line, count)
    return {head.place: tuple(ContextLine(file.path, number, text) for number, text in lines)}


def diagnose(
    targets: Target | Sequence[Target],
    *,
    workers: int | None = None,
    catalogue: Sequence[Path] = (),
    limits: Limits | None = None,
) -> Diagnosis:
    """The diagnosis of a run; see open_run for what `targets` may be."""
    return open_run(targets, workers=workers, catalogue=catalogue, limits=limits).diagnosis
