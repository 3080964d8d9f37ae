"""The causal graph for other programs: GraphML, DOT and node-link JSON of all of it, Mermaid of its folded form.

Labels are quoted for each format, since they hold names from log files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO, assert_never

from correlator.core.model import Diagnosis
from correlator.core.ranges import fold_numbers
from correlator.core.vocabulary import Role
from correlator.reports.cause_groups import Group, Story, tell, title_of
from correlator.reports.causes import Cause, CauseGraph, moment_of, read_causes
from correlator.reports.cleaning import clipped, shareable, visible
from correlator.reports.details import Details, shareable_details
from correlator.reports.graph_formats import GraphFormat

if TYPE_CHECKING:
    import networkx as nx

LONGEST_LABEL = 160
LONGEST_TEXT = 2_000
MOST_EVENTS = 100
"""So many event ids of a node are written: a hub of ten thousand waiters is told by its ranks."""
SCHEMA = "correlator.graph/1"


def export_graph(diagnosis: Diagnosis, details: Details, out: TextIO, *, graph_format: GraphFormat) -> None:
    """Write the causal graph of a run, with credentials masked."""
    diagnosis, details = shareable(diagnosis), shareable_details(details)
    graph = read_causes(diagnosis, details)
    match graph_format:
        case GraphFormat.MERMAID:
            lines: Iterable[str] = mermaid_lines(tell(diagnosis, graph, details.catalogue))
        case GraphFormat.DOT:
            lines = _dot_lines(graph, details)
        case GraphFormat.GRAPHML:
            lines = _graphml_lines(_plain_graph(graph, details))
        case GraphFormat.JSON:
            lines = [_json_text(_plain_graph(graph, details), diagnosis)]
        case _:
            assert_never(graph_format)
    out.writelines(line + "\n" for line in lines)


# --- Mermaid: the folded graph, since its renderers stop at a few hundred edges --------------------------------------


def mermaid_lines(story: Story, *, most_boxes: int = 60, most_links: int = 120) -> Iterable[str]:
    """A flowchart of the boxes; those past the limits are left out, the last ones first."""
    yield "flowchart TD"
    shown = {group.id for group in story.groups[:most_boxes]}
    for group in story.groups[:most_boxes]:
        label = f"{group.title}<br/>{group.where}" if group.where else group.title
        label = "<br/>".join(_mermaid_text(part) for part in label.split("<br/>", 1))
        yield f'  {group.id}["{label}"]{_mermaid_class(group)}'
    links = [link for link in story.links if link.cause in shown and link.effect in shown]
    for link in links[:most_links]:
        count = f' -->|"\N{MULTIPLICATION SIGN}{link.count}"| ' if link.count > 1 else " --> "
        yield f"  {link.cause}{count}{link.effect}"
    if any(group.role == Role.INITIATING for group in story.groups[:most_boxes]):
        yield "  classDef started fill:#fdecea,stroke:#c4281f,color:#15181d"


def _mermaid_class(group: Group) -> str:
    return ":::started" if group.role == Role.INITIATING else ""


def _mermaid_text(text: str) -> str:
    """Text inside Mermaid's quotes: everything that it, Markdown or HTML could take for an order is a character code."""
    text = visible(clipped(text, LONGEST_LABEL))
    return "".join(c if c.isalnum() or c in " .,:/+-'?\N{MULTIPLICATION SIGN}…" else f"#{ord(c)};" for c in text)


# --- DOT -------------------------------------------------------------------------------------------------------------


def _dot_lines(graph: CauseGraph, details: Details) -> Iterable[str]:
    yield "digraph causes {"
    yield '  graph [rankdir="TB", fontname="Helvetica"];'
    yield '  node [shape="box", style="rounded,filled", fillcolor="#f1f3f6", fontname="Helvetica", fontsize="11"];'
    yield '  edge [fontname="Helvetica", fontsize="9"];'
    for cause in graph.causes:
        colors = ""
        if cause.id in graph.roots:
            colors = ', fillcolor="#fdecea", color="#c4281f", penwidth="2"'
        elif cause.kind == "hub":
            colors = ', fillcolor="#fdf5e4", color="#8f5c00"'
        label = "\\n".join(_dot_text(part) for part in label_of(cause, details))
        yield f'  "{_dot_text(cause.id)}" [label="{label}"{colors}];'
    for link in graph.links:
        words = f'label="{_dot_text(link.rule)}", tooltip="{_dot_text(link.reason)}", weight="{round(link.q * 100)}"'
        yield f'  "{_dot_text(link.cause)}" -> "{_dot_text(link.effect)}" [{words}];'
    yield "}"


def _dot_text(text: str) -> str:
    """Text inside DOT's quotes, on one line."""
    return visible(clipped(text, LONGEST_LABEL)).replace("\\", "\\\\").replace('"', '\\"')


def label_of(cause: Cause, details: Details) -> list[str]:
    """Lines that name a cause: what, where, when."""
    if cause.kind == "hub":
        missing = f" for {fold_numbers(cause.missing)}" if cause.missing else ""
        lines = [f"waiting in {cause.name}", f"ranks {fold_numbers(cause.ranks)}{missing}"]
    else:
        where = [f"rank {fold_numbers(cause.ranks)}"] if cause.ranks else []
        lines = [title_of(cause.code, cause.role, details.catalogue), " on ".join([*where, *cause.nodes])]
    first = cause.first
    if first is not None and first.time_ns is not None:
        lines.append(f"{moment_of(first.time_ns):%Y-%m-%d %H:%M:%S.%f}"[:-3])
    return [line for line in lines if line]


# --- GraphML and node-link JSON --------------------------------------------------------------------------------------


def _plain_graph(graph: CauseGraph, details: Details) -> nx.DiGraph[str]:
    """The graph with plain values: texts and numbers only, an absent value left out."""
    import networkx as nx

    plain: nx.DiGraph[str] = nx.DiGraph()
    for cause in graph.causes:
        plain.add_node(cause.id, **_node_values(cause, graph, details))
    for link in graph.links:
        plain.add_edge(link.cause, link.effect, rule=_text(link.rule), q=round(link.q, 4), reason=_text(link.reason))
    return plain


def _node_values(cause: Cause, graph: CauseGraph, details: Details) -> dict[str, str | int | float | bool]:
    first = cause.first
    values: dict[str, str | int | float | bool | None] = {
        "label": _text(", ".join(label_of(cause, details))),
        "kind": cause.kind,
        "code": cause.code,
        "role": cause.role,
        "initiator": cause.id in graph.roots,
        "explained": cause.id in graph.explained,
        "ranks": fold_numbers(cause.ranks) or None,
        "missing": fold_numbers(cause.missing) or None,
        "node": _text(", ".join(cause.nodes)) or None,
        "events": " ".join(str(number) for number in cause.event_ids[:MOST_EVENTS]),
    }
    if first is not None:
        time = first.time_ns
        values |= {
            "time": None if time is None else moment_of(time).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "time_uncertainty_ms": None if first.uncertainty_ms is None else round(first.uncertainty_ms, 3),
            "file": _text(first.file),
            "line": first.line,
            "text": _text(first.text),
        }
    return {name: value for name, value in values.items() if value is not None}


def _text(text: str) -> str:
    return visible(clipped(text, LONGEST_TEXT))


def _graphml_lines(graph: nx.DiGraph[str]) -> Iterable[str]:
    import networkx as nx

    for _, values in graph.nodes(data=True):  # XML's booleans are written small, networkx writes Python's
        values.update({name: str(value).lower() for name, value in values.items() if isinstance(value, bool)})
    yield "<?xml version='1.0' encoding='utf-8'?>"
    yield from nx.generate_graphml(graph, prettyprint=True)


def _json_text(graph: nx.DiGraph[str], diagnosis: Diagnosis) -> str:
    import networkx as nx

    data: dict[str, Any] = nx.node_link_data(graph, edges="links")
    head = {"schema": SCHEMA, "run": diagnosis.run.path, "summary": diagnosis.verdict.summary}
    return json.dumps(data | {"graph": head}, indent=1, allow_nan=False)
