"""Who is who: rank, local rank, node, pid and GPU of every event, and the topology of the last attempt.

identified = identify(events, files, reports)
identified.topology.place(17)      # RankPlace(rank=17, local_rank=1, node="node02", pid=4245, gpu="0000:43:00", ...)
"""

from __future__ import annotations

from correlator.identity.resolve import Identified, identify

__all__ = ["Identified", "identify"]
