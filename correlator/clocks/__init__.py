"""When: the offset of each node's clock, estimated from the logs alone, and event times on the common clock.

aligned = align(identified.events, identified.topology)
aligned.clocks.estimate("node02")  # ClockEstimate(node="node02", offset_ms=30125.0, ...)
"""

from __future__ import annotations

from correlator.clocks.align import Aligned, align

__all__ = ["Aligned", "align"]
