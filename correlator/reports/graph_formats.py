"""The formats of the causal graph, apart from the code that writes them: the command line shows them in its help."""

from __future__ import annotations

from enum import StrEnum


class GraphFormat(StrEnum):
    """The formats, each named as its usual suffix."""

    GRAPHML = "graphml"
    DOT = "dot"
    MERMAID = "mmd"
    JSON = "json"


SUFFIXES: dict[str, GraphFormat] = {
    ".graphml": GraphFormat.GRAPHML,
    ".xml": GraphFormat.GRAPHML,
    ".dot": GraphFormat.DOT,
    ".gv": GraphFormat.DOT,
    ".mmd": GraphFormat.MERMAID,
    ".mermaid": GraphFormat.MERMAID,
    ".json": GraphFormat.JSON,
}
"""What a file name says."""
