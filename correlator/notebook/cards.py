"""A diagnosis and a run as a few lines of HTML: inline styles and SVG only, so that it survives any viewer and e-mail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from correlator.core.model import Diagnosis, Initiator
from correlator.core.vocabulary import VerdictStatus
from correlator.reports import phrases
from correlator.reports.cleaning import shareable, visible

if TYPE_CHECKING:
    from correlator.notebook.views import Shown

MOST_INITIATORS = 8
_WIDTH, _HEIGHT = 720, 46
_BINS = 240
_STATUS_COLOR = {
    VerdictStatus.IDENTIFIED: "#c0392b",
    VerdictStatus.TIED: "#c0392b",
    VerdictStatus.UNDETERMINED: "#b9770e",
    VerdictStatus.NO_FAILURE: "#1e8449",
}
_CELL = "text-align:left;vertical-align:top;padding:1px 14px 1px 0;border:none"


def diagnosis_card(diagnosis: Diagnosis) -> str:
    """The verdict, who and what, what to do, and a strip of when; credentials masked, log text harmless."""
    return _card(_verdict(shareable(diagnosis)))


def run_card(run: Shown) -> str:
    """The card of its diagnosis, and the run in numbers."""
    diagnosis = shareable(run.diagnosis)
    summary = diagnosis.run
    ranks = f"{summary.ranks_seen} of {summary.world_size}" if summary.world_size else str(summary.ranks_seen)
    nodes = phrases.fold_places((None, node) for node in summary.nodes)
    numbers = (
        ("run", summary.path),
        ("ranks seen", f"{ranks} on {nodes}" if nodes else ranks),
        ("read", f"{phrases.count(summary.files, 'file')}, {phrases.count(summary.lines, 'line')}"),
        ("events", f"{run.events.height:,}"),
        ("attempts", str(summary.attempts)),
        ("from, to", f"{phrases.moment(summary.first_time)}, {phrases.moment(summary.last_time)}"),
    )
    return _card([*_verdict(diagnosis), _table(numbers)])


def _verdict(diagnosis: Diagnosis) -> list[str]:
    verdict = diagnosis.verdict
    color = _STATUS_COLOR[verdict.status]
    badge = f'<b style="color:{color}">{escape(verdict.status.value.replace("_", " ").upper())}</b>'
    parts = [f'<div style="margin-bottom:4px">{badge}&ensp;{_text(verdict.summary)}</div>']
    facts: list[tuple[str, str]] = []
    for initiator in verdict.initiators[:MOST_INITIATORS]:
        facts += _initiator(initiator)
    if len(verdict.initiators) > MOST_INITIATORS:
        facts.append(("", f"and {len(verdict.initiators) - MOST_INITIATORS} more"))
    if verdict.initiators:
        facts.append(("how sure", phrases.confidence(verdict.confidence)))
    if diagnosis.actions.first:
        facts.append(("do first", diagnosis.actions.first))
    if diagnosis.collateral:
        facts.append(("dragged in", f"{phrases.count_places(diagnosis.collateral)}, not to blame"))
    if diagnosis.missing_evidence:
        facts.append(("missing", "; ".join(diagnosis.missing_evidence[:3])))
    return [*parts, _table(facts), _strip(diagnosis)]


def _initiator(initiator: Initiator) -> list[tuple[str, str]]:
    details = phrases.place_details(initiator)
    phase = phrases.doing(initiator)
    when = phrases.moment(initiator.time)
    if initiator.time_uncertainty_ms is not None:
        when += f" ± {phrases.duration(initiator.time_uncertainty_ms)}"
    rows = [
        ("who", phrases.culprit(initiator) + (f" ({details})" if details else "")),
        ("what", f"{initiator.fault.value}, {initiator.fault_class.value}"),
        ("since", f"{when}, {phase}" if phase else when),
    ]
    if initiator.evidence:
        first = initiator.evidence[0]
        rows.append(("evidence", f"{first.file}:{first.line}  {first.text[:300]}"))
    return rows


def _strip(diagnosis: Diagnosis) -> str:
    """The initiators (red) above those dragged in (grey, higher where there are more), along the time of the failure."""
    started = [(time, i) for i in diagnosis.verdict.initiators if (time := _seconds(i.time)) is not None]
    dragged = [time for entry in diagnosis.collateral if (time := _seconds(entry.time)) is not None]
    times = [time for time, _ in started] + dragged
    if not times:
        return ""
    first, last = min(times), max(times)
    span = max(last - first, 1e-3)

    def x(time: float) -> float:
        return 8 + (_WIDTH - 16) * min(max((time - first) / span, 0.0), 1.0)

    marks = [_bar(place, share) for place, share in _heights([x(time) for time in dragged])]
    for time, initiator in started:
        half = min((initiator.time_uncertainty_ms or 0.0) / 1000 / span * (_WIDTH - 16), float(_WIDTH))
        low, high = max(x(time) - half, 0.0), min(x(time) + half, float(_WIDTH))
        label = escape(
            visible(f"{phrases.culprit(initiator)}: {initiator.fault.value}, {phrases.moment(initiator.time)}")
        )
        marks.append(
            f'<rect x="{low:.1f}" y="2" width="{max(high - low, 1):.1f}" height="30" fill="#c0392b" opacity="0.15"/>'
            f'<rect x="{x(time) - 1.5:.1f}" y="2" width="3" height="30" fill="#c0392b"><title>{label}</title></rect>'
        )
    words = f"{phrases.duration(span * 1000)} from the first to the last of them"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'style="max-width:100%;margin-top:6px" xmlns="http://www.w3.org/2000/svg">'
        f'<line x1="0" y1="32.5" x2="{_WIDTH}" y2="32.5" stroke="currentColor" opacity="0.4"/>{"".join(marks)}'
        f'<text x="0" y="44" font-size="10" fill="currentColor" opacity="0.7">red: who started it; grey: who was '
        f"dragged in; {escape(words)}</text></svg>"
    )


def _heights(places: Sequence[float]) -> list[tuple[float, float]]:
    """(x, share of the highest) of the bars that stand for these marks."""
    counts: dict[int, int] = {}
    for place in places:
        index = int(place / _WIDTH * _BINS)
        counts[index] = counts.get(index, 0) + 1
    highest = max(counts.values(), default=1)
    return [(index * _WIDTH / _BINS, count / highest) for index, count in sorted(counts.items())]


def _bar(x: float, share: float) -> str:
    height = 6 + 20 * share
    return f'<rect x="{x:.1f}" y="{32 - height:.1f}" width="2.5" height="{height:.1f}" fill="#7f8c8d"/>'


def _seconds(time: str | None) -> float | None:
    """Of an ISO time, on whatever clock: only differences are drawn."""
    try:
        return None if time is None else datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def _table(rows: Iterable[tuple[str, str]]) -> str:
    body = "".join(
        f'<tr style="background:none"><td style="{_CELL};opacity:0.65">{_text(label)}</td>'
        f'<td style="{_CELL}">{_text(value)}</td></tr>'
        for label, value in rows
    )
    return f'<table style="border:none;border-collapse:collapse;margin:2px 0">{body}</table>' if body else ""


def _text(text: str) -> str:
    return escape(visible(text))


def _card(parts: Iterable[str]) -> str:
    style = "border-left:3px solid #7f8c8d;padding:4px 0 4px 12px;max-width:60em"
    return f'<div style="{style}">{"".join(parts)}</div>'
