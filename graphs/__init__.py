"""What caused what: episodes, wait hubs, edge rules, roots, confidence. Never reads text."""

if not __name__.startswith("correlator."):
    raise ImportError("import correlator.graphs: the bare name would load every class a second time")

from correlator.graphs.facts import RunFacts
from correlator.graphs.verdict import Findings, judge

__all__ = ["Findings", "RunFacts", "judge"]
