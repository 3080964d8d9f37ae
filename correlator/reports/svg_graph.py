"""The folded causal graph as boxes and curves, cause above effect."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from correlator.reports import phrases
from correlator.reports.cause_groups import Group, Story
from correlator.reports.cleaning import clipped, visible

WIDTH = 1040
GAP = 14.0
LAYER_GAP = 44.0
MOST_IN_A_ROW = 4
WIDEST = 320.0
PADDING = 14.0
LINE = 16.0
TITLE_LINES = 2
REASON_LINES = 2
_TITLE_CHARACTER = 7.9
_TEXT_CHARACTER = 6.9
"""Widths of a character on average, with room to spare: SVG does not wrap."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text in a box; `style` is title, where or reason."""

    y: float
    style: str
    text: str


@dataclass(frozen=True, slots=True)
class Box:
    """A group of the story, placed."""

    x: float
    y: float
    width: float
    height: float
    role: str
    explained: bool
    lines: tuple[Line, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A link, as an SVG path; `weight` is its strength, 0..1, `label` how many links it stands for."""

    path: str
    weight: float
    label: str
    label_x: float
    label_y: float
    words: str


@dataclass(frozen=True, slots=True)
class GraphPicture:
    """All shapes of the causal graph."""

    left: float
    width: float
    """The part of the page's width that is drawn on, so that a slim graph is not made small by empty sides."""
    height: float
    boxes: tuple[Box, ...]
    curves: tuple[Curve, ...]


def graph_picture(story: Story) -> GraphPicture | None:
    """The picture, or None where there is nothing to connect."""
    if len(story.groups) < 2:
        return None
    rows = [row for layer in _layers(story.groups) for row in _rows(layer)]
    columns = max(len(row) for row in rows)
    width = min(WIDEST, (WIDTH - GAP * (columns - 1)) / columns)
    start = min((g.first_ns for g in story.groups if g.first_ns is not None and g.layer == 0), default=None)
    boxes: dict[str, Box] = {}
    y = 2.0
    layer = 0
    for row in rows:
        y += LAYER_GAP - GAP if row[0].layer != layer else 0.0
        layer = row[0].layer
        texts = [_lines(group, width, start, story.margin_ms) for group in row]
        height = 2 * PADDING - 4 + LINE * max(len(lines) for lines in texts)
        x = (WIDTH - len(row) * width - (len(row) - 1) * GAP) / 2
        for group, lines in zip(row, texts, strict=True):
            boxes[group.id] = _box(group, lines, x, y, width, height)
            x += width + GAP
        y += height + GAP
    left = min(box.x for box in boxes.values()) - 2
    curves = tuple(_curves(story, boxes))
    return GraphPicture(left, round(WIDTH - 2 * left, 1), round(y - GAP + 4, 1), tuple(boxes.values()), curves)


def _layers(groups: Sequence[Group]) -> list[list[Group]]:
    layers: dict[int, list[Group]] = {}
    for group in groups:
        layers.setdefault(group.layer, []).append(group)
    return [layers[number] for number in sorted(layers)]


def _rows(layer: list[Group]) -> list[list[Group]]:
    """A layer in rows of nearly the same length."""
    number = -(-len(layer) // MOST_IN_A_ROW)
    size = -(-len(layer) // number)
    return [layer[start : start + size] for start in range(0, len(layer), size)]


def _lines(group: Group, width: float, start_ns: int | None, margin_ms: float) -> list[tuple[str, str]]:
    """(style, text) of a box: what, who, when, why."""
    room = width - 2 * PADDING
    title = _wrapped(group.title, int(room / _TITLE_CHARACTER), TITLE_LINES)
    where = _wrapped(group.where, int(room / _TEXT_CHARACTER), 2)
    lines = [("title", text) for text in title] + [("where", text) for text in where]
    if group.first_ns is not None and start_ns is not None and group.layer:
        ended = "gave up " if group.role == "hub" else ""
        lines.append(("when", _later((group.first_ns - start_ns) / 1e6, margin_ms, ended)))
    if not group.explained:
        lines.append(("reason", "no path to it is recorded"))
    lines += [("reason", text) for text in _wrapped(group.reason, int(room / _TEXT_CHARACTER), REASON_LINES)]
    return lines


def _later(late_ms: float, margin_ms: float, ended: str) -> str:
    """How long after the initiating event, as far as the clocks can tell the two apart."""
    if abs(late_ms) <= max(margin_ms, 1.0):
        return "at the same time, as far as clocks tell"
    return (
        f"{ended}{phrases.duration(late_ms)} later"
        if late_ms > 0
        else f"{phrases.duration(late_ms)} earlier by its clock"
    )


def _wrapped(text: str, characters: int, lines: int) -> list[str]:
    return (
        textwrap.wrap(visible(clipped(text, 400)), max(characters, 8), max_lines=lines, placeholder=" …")
        if text
        else []
    )


def _box(group: Group, lines: list[tuple[str, str]], x: float, y: float, width: float, height: float) -> Box:
    placed = tuple(Line(round(y + PADDING + 9 + LINE * n, 1), style, text) for n, (style, text) in enumerate(lines))
    words = f"{group.title}: {group.where}" if group.where else group.title
    return Box(round(x, 1), round(y, 1), round(width, 1), round(height, 1), group.role, group.explained, placed, words)


def _curves(story: Story, boxes: dict[str, Box]) -> list[Curve]:
    """A curve for each link; the one that is drawn last into a box says how many all of them stand for."""
    counts: Counter[str] = Counter()
    for link in story.links:
        counts[link.effect] += link.count
    last = {link.effect: number for number, link in enumerate(story.links)}
    curves = []
    for number, link in enumerate(story.links):
        a, b = boxes[link.cause], boxes[link.effect]
        x1, y1, x2, y2 = a.x + a.width / 2, a.y + a.height, b.x + b.width / 2, b.y
        # Curves leave a box towards where they go, so that they can be told apart.
        x1 += max(-0.35 * a.width, min(0.35 * a.width, (x2 - x1) * 0.12))
        bend = (y2 - y1) * 0.5
        path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2 - 5:.1f}"
        label = (
            f"\N{MULTIPLICATION SIGN}{counts[link.effect]}"
            if counts[link.effect] > 1 and last[link.effect] == number
            else ""
        )
        words = f"{link.rule}: {link.reason} ({link.q:.2f})"
        curves.append(Curve(path, link.q, label, round(x2 + 7, 1), round(y2 - 8, 1), words))
    return curves
