"""Gloo's start-up and connection lines (formats.md A8). Its failures are texts of Python exceptions, in the catalogue."""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Context, Role
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import with_attributes

_LOGGER = "[/pytorch/third_party/gloo/gloo/transport/tcp/debug_logger.cc:9] "
_PLACE = "rank=3, size=4, local=[10.0.0.3]:1210, remote=[10.0.0.5]:1961$3, error=SO_ERROR: Connection refused"
_CONNECT = (
    r"(?:\[[^\]\n]*debug_logger\.cc:\d+\] )?(?:ERROR |WARNING )?failed to connect, willRetry={retry}, retry=(?P<retry>\d+), "
    r"retryLimit=(?P<retry_limit>\d+), rank=(?P<group_rank>\d+), size=(?P<nranks>\d+), local=\[(?P<own_ip>[^\]\n]*)\]:\d+, "
    r"remote=\[(?P<peer>[^\]\n]*)\]:(?P<peer_port>\d+)(?:\$\d+)?, error=(?P<reason>[^\n]+)"
)


def _connected(hit: Hit) -> Iterable[Event]:
    connected, expected = int(hit.match["connected"]), int(hit.match["expected"])
    event = hit.make(attributes=())
    yield with_attributes(event, nranks=expected + 1, connected=connected, complete=connected >= expected)


DIALECT = Dialect(
    name="gloo",
    title="Gloo start-up and connections",
    source="formats.md A8",
    patterns=(
        LinePattern(
            id="gloo.connected",
            event_name=Context.MESSAGE,
            regex=r"\[Gloo\] Rank (?P<group_rank>\d+) is connected to (?P<connected>\d+) peer ranks\. "
            r"Expected number of connected peer ranks is : (?P<expected>\d+)",
            samples=("[Gloo] Rank 0 is connected to 7 peer ranks. Expected number of connected peer ranks is : 7",),
            lookalikes=("[Gloo] Rank 0 is connected",),
            source="formats.md A8",
            build=_connected,
        ),
        LinePattern(
            id="gloo.connect_retry",
            event_name=Context.MESSAGE,
            regex=_CONNECT.replace("{retry}", "1"),
            samples=(f"{_LOGGER}ERROR failed to connect, willRetry=1, retry=1, retryLimit=3, {_PLACE}",),
            lookalikes=(f"{_LOGGER}ERROR failed to connect, willRetry=0, retry=3, retryLimit=3, {_PLACE}",),
            source="gloo/transport/tcp/debug_logger.cc",
        ),
        LinePattern(
            id="gloo.connect_failed",
            event_name=CollateralKind.REMOTE_PEER_LOST,
            role=Role.COLLATERAL,
            regex=_CONNECT.replace("{retry}", "0"),
            samples=(f"{_LOGGER}ERROR failed to connect, willRetry=0, retry=3, retryLimit=3, {_PLACE}",),
            lookalikes=(f"{_LOGGER}ERROR failed to connect, willRetry=1, retry=1, retryLimit=3, {_PLACE}",),
            source="gloo/transport/tcp/debug_logger.cc",
        ),
    ),
)
