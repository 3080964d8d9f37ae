"""What an expert would answer for a generated run, in the form of expected.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from correlator.core.vocabulary import FAULT_CLASS, FaultCode, VerdictStatus


@dataclass(frozen=True, slots=True)
class Accused:
    """One initiator: a rank; where that is None, a node; where both are None, the scheduler or the fabric."""

    fault: FaultCode
    rank: int | None = None
    node: str | None = None

    @property
    def place(self) -> tuple[str, object]:
        """Who is accused, as the scorer compares it."""
        if self.rank is not None:
            return ("rank", self.rank)
        return ("node", self.node) if self.node else ("fault", str(self.fault))

    def as_json(self) -> dict[str, Any]:
        """The object of expected.json."""
        return {"rank": self.rank, "node": self.node, "fault": str(self.fault), "class": str(FAULT_CLASS[self.fault])}


@dataclass(frozen=True, slots=True)
class Expected:
    """The truth of one generated run."""

    status: VerdictStatus
    initiators: tuple[Accused, ...] = ()
    also: tuple[tuple[Accused, ...], ...] = ()
    also_status: tuple[VerdictStatus, ...] = ()
    collateral: Mapping[int, str] = field(default_factory=dict)
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """The content of expected.json."""
        return {
            "origin": "generated",
            "status": str(self.status),
            "initiators": [one.as_json() for one in self.initiators],
            "also_accept": [[one.as_json() for one in some] for some in self.also],
            "also_accept_status": [str(status) for status in self.also_status],
            "collateral": {str(rank): kind for rank, kind in sorted(self.collateral.items())},
            "why": self.why,
        }


def from_json(data: Mapping[str, Any]) -> Expected:
    """Read an expected.json, ours or that of a labelled case."""

    def accused(items: list[dict[str, Any]]) -> tuple[Accused, ...]:
        return tuple(Accused(FaultCode(i["fault"]), i.get("rank"), i.get("node")) for i in items)

    return Expected(
        status=VerdictStatus(data["status"]),
        initiators=accused(data.get("initiators", [])),
        also=tuple(accused(some) for some in data.get("also_accept") or []),
        also_status=tuple(VerdictStatus(status) for status in data.get("also_accept_status") or []),
        collateral={int(rank): kind for rank, kind in (data.get("collateral") or {}).items()},
        why=data.get("why", ""),
    )
