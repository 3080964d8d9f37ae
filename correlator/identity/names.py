"""One name for each node: short host names, with addresses, pods and domain names mapped to them.

Sources: pod listings (pod -> node, ip -> node; in Kubernetes the NODE column is the name people drain), NCCL and
rendezvous address lines (host -> ip). Without a listing the pod is the node (formats.md E2).
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from correlator.core.vocabulary import Context
from correlator.identity.frame import attribute, is_event

_NOWHERE = frozenset({"", "localhost", "localhost4", "localhost6", "ip6-localhost", "<none>", "none"})
_DIGITS = re.compile(r"(\d+)")


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which node2 comes before node10."""
    parts = _DIGITS.split(name)
    return tuple((1, int(part[:15]), part) if part.isdecimal() else (0, 0, part) for part in parts if part)


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def short(text: str | None) -> str | None:
    """First label of a host name, an address as it is; None for names that say nothing about where (localhost)."""
    cleaned = (text or "").strip().strip("[]").rstrip(".")
    if cleaned.lower() in _NOWHERE or cleaned.startswith("127."):
        return None
    if is_address(cleaned):
        address = ipaddress.ip_address(cleaned)
        return None if address.is_loopback or address.is_unspecified else cleaned
    return cleaned.split(".", 1)[0] or None


@dataclass(frozen=True, slots=True)
class HostNames:
    """What the run calls its nodes."""

    aliases: tuple[tuple[str, str], ...] = ()
    """(pod or address, node), sorted."""
    listed: tuple[str, ...] = ()
    """Nodes that a pod listing names."""

    def mapping(self, raw: Iterable[str]) -> dict[str, str | None]:
        """The node behind each raw name."""
        known = dict(self.aliases)
        return {name: _resolve(name, known) for name in raw}

    def node(self, raw: str | None) -> str | None:
        """The node behind one raw name."""
        return None if raw is None else _resolve(raw, dict(self.aliases))


def _resolve(raw: str, known: dict[str, str]) -> str | None:
    name = short(raw)
    if name is None:
        return None
    name = known.get(name, name)
    return known.get(name, name)


def host_names(frame: pl.DataFrame) -> HostNames:
    """All aliases that the events state. An address or pod that two nodes claim is mapped to neither."""
    pods: dict[str, set[str]] = defaultdict(set)
    listed: set[str] = set()
    listing = frame.filter(is_event(Context.POD_STATUS)).select(
        "host", attribute("pod"), attribute("node"), attribute("ip")
    )
    for host, pod, node, ip in listing.iter_rows():
        where = short(node) or short(host)
        if where is None:
            continue
        listed.add(where)
        for alias in (short(pod), short(ip)):
            if alias and alias != where:
                pods[alias].add(where)
    known = _certain(pods)
    addresses: dict[str, set[str]] = defaultdict(set)
    stated = frame.filter(is_event(Context.NODE_ADDRESS)).select("host", attribute("ip")).unique()
    for host, ip in stated.iter_rows():
        name, address = short(host), short(ip)
        if name and address and is_address(address) and not is_address(name):
            addresses[address].add(known.get(name, name))
    aliases = _certain(addresses) | known
    return HostNames(aliases=tuple(sorted(aliases.items())), listed=tuple(sorted(listed, key=natural)))


def _certain(claims: dict[str, set[str]]) -> dict[str, str]:
    return {alias: next(iter(nodes)) for alias, nodes in claims.items() if len(nodes) == 1}
