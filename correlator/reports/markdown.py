"""The report as Markdown for a ticket or a chat: under sixty lines, log text only inside code that it cannot end.

Renderers differ in what they take for markup, so lines of logs stand in code blocks only; our own sentences, which quote
names of hosts and checkpoints, have every character escaped that could begin markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TextIO

from correlator.core.model import Diagnosis, Initiator
from correlator.core.ranges import fold_hosts
from correlator.core.vocabulary import VerdictStatus
from correlator.reports import phrases
from correlator.reports.cause_groups import Story, tell
from correlator.reports.causes import read_causes
from correlator.reports.cleaning import clipped, visible
from correlator.reports.details import Details
from correlator.reports.folding import alike, in_order, named
from correlator.reports.graph_export import mermaid_lines

MOST_LINES = 60
"""The report stays below; the limits that follow add up to it, in the worst case."""
MOST_EVIDENCE = 5
MOST_INITIATORS = 4
MOST_KINDS = 4
MOST_RIVALS = 2
MOST_ITEMS = 4
MOST_COMMANDS = 3
MOST_BOXES = 6
MOST_LINKS = 7
_LINE = 240
_SENTENCE = 600
_MARKUP = re.compile(r"[\\`*{}\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])")
_TAKEN_FOR_LINK = re.compile(r"(?:\w{1,20}:)?//\S+|\bwww\.\S+|\bmailto:\S+|#\d+|@")
"""What many renderers make a link, a mention or a reference of without any markup; in code they leave it alone."""
_RUN_OF_TICKS = re.compile(r"`+")


def render(
    diagnosis: Diagnosis, out: TextIO, *, width: int, color: bool, verbose: bool, details: Details | None = None
) -> None:
    """Write the report; width, colour and verbosity mean nothing here."""
    del width, color, verbose
    story = tell(
        diagnosis,
        None if details is None else read_causes(diagnosis, details),
        None if details is None else details.catalogue,
    )
    sections = (
        _verdict(diagnosis),
        _remedy(diagnosis),
        _evidence(diagnosis),
        _collateral(diagnosis),
        _causes(story),
        _rivals(diagnosis),
        _gaps(diagnosis),
        _footer(diagnosis),
    )
    out.write("\n\n".join("\n".join(section) for section in map(list, sections) if section) + "\n")


def plain(text: str) -> str:
    r"""Our own words with foreign names in them: no character of theirs can begin markup, none is taken for a link.

    >>> plain("node*01* <b> waits in pg #12 for @all")
    'node\\*01\\* \\<b\\> waits in pg `#12` for `@`all'
    """
    words = " ".join(visible(clipped(text, _SENTENCE)).split())
    parts = []
    end = 0
    for match in _TAKEN_FOR_LINK.finditer(words):
        parts += [_MARKUP.sub(r"\\\g<0>", words[end : match.start()]), code(match[0])]
        end = match.end()
    return "".join([*parts, _MARKUP.sub(r"\\\g<0>", words[end:])])


def code(text: str, most: int = _LINE) -> str:
    """A code span that no text can end: its fence is longer than any run of backticks inside."""
    text = " ".join(visible(clipped(text, most)).split()) or " "
    fence = _fence(text, 1)
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def code_block(lines: Iterable[str], language: str = "text") -> list[str]:
    """A code block that no line can end; a line break or a control character inside a line is spelt out."""
    shown = [visible(line) for line in lines]
    fence = _fence("\n".join(shown), 3)
    return [f"{fence}{language}", *shown, fence]


def _fence(text: str, least: int) -> str:
    return "`" * max(least, 1 + max((len(run) for run in _RUN_OF_TICKS.findall(text)), default=0))


def _verdict(diagnosis: Diagnosis) -> Iterable[str]:
    verdict = diagnosis.verdict
    status = verdict.status.value.replace("_", " ")
    yield f"### {status[:1].upper()}{status[1:]}: {plain(verdict.summary)}"
    if not verdict.initiators:
        return
    yield ""
    yield "| who | what | since | how sure |"
    yield "| --- | --- | --- | --- |"
    for who, initiator in _suspects(verdict.initiators):
        margin = initiator.time_uncertainty_ms
        since = phrases.moment(initiator.time) + (
            f" ± {phrases.duration(margin)}"
            if initiator.time is not None and margin is not None and margin >= 1
            else ""
        )
        what = f"{code(initiator.fault.value)}, {initiator.fault_class.value}"
        doing = phrases.doing(initiator)
        since += f", {doing}" if doing else ""
        yield f"| **{plain(who)}** | {what} | {plain(since)} | {phrases.confidence(verdict.confidence)} |"


def _suspects(initiators: Sequence[Initiator]) -> Iterable[tuple[str, Initiator]]:
    """Each while they are few, else one row a fault."""
    if len(initiators) <= MOST_INITIATORS:
        for initiator in initiators:
            place = phrases.place_details(initiator)
            yield phrases.culprit(initiator) + (f" ({place})" if place else ""), initiator
        return
    by_fault = {initiator.fault: initiator for initiator in initiators}
    for fault, example in list(by_fault.items())[:MOST_INITIATORS]:
        yield phrases.fold_places((i.rank, i.node) for i in initiators if i.fault is fault), example


def _remedy(diagnosis: Diagnosis) -> Iterable[str]:
    actions = diagnosis.actions
    if diagnosis.verdict.status is VerdictStatus.UNDETERMINED and diagnosis.missing_evidence:
        yield f"**Get:** {plain('; '.join(diagnosis.missing_evidence[:MOST_ITEMS]))}"
        yield ""
    if actions.first:
        yield f"**Do first:** {plain(actions.first)}"
    if actions.commands:
        yield from code_block((clipped(command, 2000) for command in actions.commands[:MOST_COMMANDS]), "sh")
    for label, words in (("Then verify", actions.verify), ("Resume", actions.resume)):
        if words and diagnosis.verdict.status is not VerdictStatus.NO_FAILURE:
            yield f"**{label}:** {plain(words)}  "


def _evidence(diagnosis: Diagnosis) -> Iterable[str]:
    groups = [group for group in alike(diagnosis.verdict.initiators) if group.example.evidence]
    if not groups:
        return
    # With several initiators each shows its first lines before one shows them all.
    most = max(1, MOST_EVIDENCE // len(groups))
    shown = [line for group in groups for line in in_order(group.example.evidence[:most])][:MOST_EVIDENCE]
    like = [group for group in groups if group.count > 1]
    each = "; ".join(f"{group.who} each have lines like those of {phrases.culprit(group.example)}" for group in like)
    yield f"**Evidence** ({plain(clipped(each, 300))})" if each else "**Evidence**"
    yield from code_block(
        f"{clipped(line.file, 120)}:{line.line}  {phrases.clock_time(line.time)}  {clipped(line.text, _LINE)}"
        for line in shown
    )


def _collateral(diagnosis: Diagnosis) -> Iterable[str]:
    if not diagnosis.collateral:
        return
    kinds: dict[str, list[tuple[int | None, str | None]]] = {}
    for entry in diagnosis.collateral:
        kinds.setdefault(entry.kind, []).append((entry.rank, entry.node))
    ordered = sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0]))
    yield f"**Dragged in** ({phrases.count_places(diagnosis.collateral)}, not to blame)"
    for kind, places in ordered[:MOST_KINDS]:
        yield f"- {code(str(kind))}: {plain(clipped(phrases.fold_places(places), 160))}"
    if len(ordered) > MOST_KINDS:
        yield f"- and {len(ordered) - MOST_KINDS} kinds more"


def _causes(story: Story) -> Iterable[str]:
    if len(story.groups) > 1 and story.links:
        return code_block(mermaid_lines(story, most_boxes=MOST_BOXES, most_links=MOST_LINKS), "mermaid")
    return ()


def _rivals(diagnosis: Diagnosis) -> Iterable[str]:
    rivals = sorted(diagnosis.hypotheses, key=lambda hypothesis: -hypothesis.probability)
    if diagnosis.verdict.status is VerdictStatus.IDENTIFIED:
        rivals = rivals[1:]
    if not rivals:
        return
    yield "**Also weighed**"
    for rival in rivals[:MOST_RIVALS]:
        words = named(rival.initiators)
        words += f", {rival.fault.value}" if rival.fault is not None else ""
        words += f" ({rival.probability * 100:.0f} %)"
        words += f"; against it: {rival.contradicts[0]}" if rival.contradicts else ""
        words += f"; to tell: {rival.control}" if rival.control else ""
        yield f"- {plain(words)}"


def _gaps(diagnosis: Diagnosis) -> Iterable[str]:
    items = list(diagnosis.missing_evidence)
    if items and diagnosis.verdict.status is not VerdictStatus.UNDETERMINED:
        more = f"; {len(items) - MOST_ITEMS} more" if len(items) > MOST_ITEMS else ""
        yield f"**Missing:** {plain('; '.join(items[:MOST_ITEMS]) + more)}"


def _footer(diagnosis: Diagnosis) -> Iterable[str]:
    run = diagnosis.run
    world = f" of {run.world_size:,}" if run.world_size is not None else ""
    nodes = f" on {fold_hosts(run.nodes)}" if run.nodes else ""
    words = f"{phrases.count(run.files, 'file')}, {phrases.count(run.lines, 'line')}; {run.ranks_seen:,}{world} ranks{nodes}"
    yield f"<sub>correlator on {code(run.path, 120)}: {plain(words)}</sub>"
