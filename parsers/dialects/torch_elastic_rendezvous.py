"""Rendezvous errors of torchrun (formats.md B6): mostly the store's host going away. A timeout is in the catalogue."""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Role
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.scalars import int64
from correlator.parsers.dialects.support import with_attributes

_W = "W1130 01:02:03.123000 12345 "


def _keep_alive(hit: Hit) -> Iterable[Event]:
    """The node key is `fqdn_pid_localid` of the agent that speaks (formats.md B6)."""
    host, _, rest = hit.match["node_key"].rpartition("_")[0].rpartition("_")
    event = hit.make(process_pid=int64(rest)) if rest.isdecimal() else hit.make()
    yield with_attributes(event, agent_host=host or None)


_PATTERNS = (
    LinePattern(
        id="elastic.rendezvous_lost",
        event_name=CollateralKind.STORE_LOST,
        role=Role.COLLATERAL,
        regex=r"torch\.distributed\.elastic\.rendezvous\.api\."
        r"(?P<exception_type>RendezvousConnectionError|RendezvousClosedError|RendezvousStateError|RendezvousGracefulExitError"
        r"|RendezvousError)(?:: (?P<exception_message>[^\n]+))?",
        samples=(
            "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See "
            "inner exception for details.",
            "torch.distributed.elastic.rendezvous.api.RendezvousClosedError",
        ),
        lookalikes=("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",),
        source="formats.md B6",
    ),
    LinePattern(
        id="elastic.keep_alive_failed",
        event_name=CollateralKind.STORE_LOST,
        role=Role.COLLATERAL,
        regex=r"The node '(?P<node_key>[^'\n]+)' has failed to (?P<what>send a keep-alive heartbeat to|shutdown) the rendezvous "
        r"'[^'\n]*' due to an error of type (?P<exception_type>\w+)",
        samples=(
            f"{_W}torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1273] The node 'node03.cluster.local_12345_0' has "
            "failed to send a keep-alive heartbeat to the rendezvous '77' due to an error of type RendezvousConnectionError.",
            f"{_W}torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1341] The node 'node03_12345_0' has failed to "
            "shutdown the rendezvous '77' due to an error of type RendezvousConnectionError.",
        ),
        lookalikes=("The node 'node03' has failed to start",),
        priority=60,
        source="formats.md B6",
        build=_keep_alive,
    ),
)

DIALECT = Dialect(
    name="torch_elastic_rendezvous",
    title="torchrun rendezvous errors",
    patterns=_PATTERNS,
    source="formats.md B6",
)
