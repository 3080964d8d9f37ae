"""What some reports show beside the diagnosis: the event table and the causal graph, with credentials masked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from correlator.core.catalogue import Catalogue
from correlator.core.vocabulary import Role
from correlator.reports.cleaning import shareable_text

if TYPE_CHECKING:
    import networkx as nx
    import polars as pl

_LABELS = (
    "time_source",
    "event_name",
    "role",
    "host_name",
    "process_group",
    "collective_op",
    "gpu",
    "log_file_path",
)
_NUMBERS = (
    "event_id",
    "rank",
    "attempt",
    "collective_seq",
    "step",
    "loss",
    "line_number",
    "body_line_number",
    "time_uncertainty_ms",
)
_TIMES = ("timestamp", "time_aligned")


@dataclass(frozen=True, slots=True)
class Details:
    """The material behind a diagnosis.

    `events` follows core.schema; `graph` has episodes and wait hubs as nodes (kind, code, role, rank, node, events) and
    explanations as edges (rule, q, reason); `catalogue` names the faults, where one is at hand.
    """

    events: pl.DataFrame
    graph: nx.DiGraph[str]
    catalogue: Catalogue | None = None


def shareable_details(details: Details, change: Callable[[str], str] = shareable_text) -> Details:
    """The columns that reports show, with every text in them changed as those of the diagnosis are.

    Lines outside the graph that only give context keep their values and lose their text: no report quotes them. Equal
    texts are masked once.
    """
    cited = sorted({number for _, values in details.graph.nodes(data=True) for number in values.get("events", ())})
    return Details(_events(details.events, cited, change), _graph(details.graph, change), details.catalogue)


def _events(events: pl.DataFrame, cited: list[int], change: Callable[[str], str]) -> pl.DataFrame:
    import polars as pl

    in_graph = pl.col("event_id").is_in(pl.Series(cited, dtype=pl.UInt64).implode())
    telling = (pl.col("role") != Role.CONTEXT.value) | in_graph
    table = events.select(
        *(pl.col(name) for name in (*_NUMBERS, *_TIMES)),
        *(pl.col(name).cast(pl.String) for name in _LABELS),
        pl.when(telling).then(pl.col("body")).alias("body"),
        "attributes",
    )
    return table.with_columns(_changed(table[name], change) for name in ("host_name", "log_file_path", "gpu", "body"))


def _changed(texts: pl.Series, change: Callable[[str], str]) -> pl.Series:
    import polars as pl

    known = texts.drop_nulls().unique()
    if known.is_empty():
        return texts
    old = known.to_list()
    return texts.replace_strict(old, [change(text) for text in old], default=None, return_dtype=pl.String)


def _graph(graph: nx.DiGraph[str], change: Callable[[str], str]) -> nx.DiGraph[str]:
    import networkx as nx

    masked: nx.DiGraph[str] = nx.DiGraph()
    for name, values in graph.nodes(data=True):
        masked.add_node(name, **_values(values, change))
    for cause, effect, values in graph.edges(data=True):
        masked.add_edge(cause, effect, **_values(values, change))
    return masked


def _values(values: dict[str, object], change: Callable[[str], str]) -> dict[str, object]:
    return {key: change(value) if isinstance(value, str) else value for key, value in values.items()}
