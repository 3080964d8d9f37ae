"""The machines of a generated run: nodes with their names, addresses and clocks, GPUs with bus ids, ranks with pids."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property

BUS_IDS = (
    "0000:1b:00",
    "0000:43:00",
    "0000:9b:00",
    "0000:c3:00",
    "0000:0f:00",
    "0000:2d:00",
    "0000:ab:00",
    "0000:df:00",
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Skew(StrEnum):
    """How far the clocks of the nodes are apart."""

    NONE = "none"
    NTP = "ntp"
    SECONDS = "5s"
    HALF_MINUTE = "30s"
    ZONE = "zone"


_SPREAD_S = {Skew.NONE: 0.0, Skew.NTP: 0.02, Skew.SECONDS: 5.0, Skew.HALF_MINUTE: 30.0, Skew.ZONE: 5.0}


@dataclass(frozen=True, slots=True)
class Node:
    """A machine. Its clock is `offset_s` ahead of true time; local stamps are `zone_s` ahead of that."""

    index: int
    name: str
    ip: str
    offset_s: float
    zone_s: int
    boot_s: float
    """True time of its boot, epoch seconds; kernel lines may count from it."""

    def local(self, at: float) -> datetime:
        """What its clock shows, in its own time zone, at a true time in epoch seconds."""
        return EPOCH + timedelta(seconds=at + self.offset_s + self.zone_s)

    def utc(self, at: float) -> datetime:
        """The same in UTC: stamps that carry a zone, and epochs."""
        return EPOCH + timedelta(seconds=at + self.offset_s)

    @property
    def zone(self) -> str:
        """Its time zone as `+0100`."""
        return f"{'-' if self.zone_s < 0 else '+'}{abs(self.zone_s) // 3600:02d}00"


@dataclass(frozen=True)
class Cluster:
    """Equal nodes; global rank = node index * GPUs a node + local rank."""

    nodes: tuple[Node, ...]
    gpus: int
    pids: tuple[int, ...]
    agent_pids: tuple[int, ...]

    @cached_property
    def world(self) -> int:
        """Number of ranks."""
        return len(self.nodes) * self.gpus

    @cached_property
    def ranks(self) -> range:
        """All global ranks."""
        return range(self.world)

    def node(self, rank: int) -> Node:
        """Where a rank runs."""
        return self.nodes[rank // self.gpus]

    def local(self, rank: int) -> int:
        """Its local rank, which is also its GPU's index."""
        return rank % self.gpus

    def pid(self, rank: int) -> int:
        """Its process."""
        return self.pids[rank]

    def bus(self, rank: int) -> str:
        """PCI id of its GPU, as the kernel prints it."""
        return BUS_IDS[self.local(rank) % len(BUS_IDS)]

    def on(self, node: Node | int) -> range:
        """The ranks of a node."""
        index = node if isinstance(node, int) else node.index
        return range(index * self.gpus, (index + 1) * self.gpus)


_NAMES = ("node{n:02d}", "gpu-{n:03d}", "nid{n:06d}", "h100-{r:02d}-{n:03d}", "ip-10-20-{r}-{n}")


def make_cluster(rng: random.Random, nodes: int, gpus: int, skew: Skew, start: float) -> Cluster:
    """A cluster with names of one fashion and clocks spread as `skew` says."""
    fashion = rng.choice(_NAMES)
    numbers = sorted(rng.sample(range(11, 90), nodes))
    row = rng.randrange(2, 9)
    spread = _SPREAD_S[skew]
    offsets = [rng.uniform(-spread, spread) for _ in range(nodes)]
    zones = [0] * nodes
    if skew is Skew.ZONE:
        zones[rng.randrange(nodes)] = 3600 * rng.choice((-5, -1, 1, 2, 9))
    made = tuple(
        Node(
            index=index,
            name=fashion.format(n=number, r=row),
            ip=f"10.20.{row}.{number}",
            offset_s=offsets[index],
            zone_s=zones[index],
            boot_s=start - rng.uniform(3e5, 4e6),
        )
        for index, number in enumerate(numbers)
    )
    firsts = [rng.randrange(4_000, 3_900_000) for _ in range(nodes)]
    pids = tuple(firsts[rank // gpus] + 60 + 1 + rank % gpus for rank in range(nodes * gpus))
    return Cluster(made, gpus, pids, tuple(firsts))
