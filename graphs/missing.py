"""Which file would tell more: asked for where the verdict is open, or where the accused left no word."""

from __future__ import annotations

from collections.abc import Sequence

from correlator.core.files import FileReport
from correlator.core.model import Topology
from correlator.core.ranges import fold_numbers
from correlator.core.vocabulary import CollateralKind, FaultCode, FileKind
from correlator.graphs.build import AttemptGraph
from correlator.graphs.episodes import Episode

_NEEDS_KERNEL = frozenset(
    {
        FaultCode.PROCESS_KILLED,
        FaultCode.CUDA_ECC_UNCORRECTABLE,
        FaultCode.CUDA_LAUNCH_FAILURE,
        FaultCode.NATIVE_BUS_ERROR,
        FaultCode.NODE_LOST,
        FaultCode.SILENT_EXIT,
        FaultCode.RANK_STALLED,
    }
)


def missing_evidence(attempt: AttemptGraph, roots: Sequence[Episode], reports: Sequence[FileReport]) -> list[str]:
    """Files to ask for, the most telling first."""
    topology = attempt.scene.topology
    asked = _silent_nodes(topology)
    kernel_nodes = {report.node for report in reports if report.kind is FileKind.KERNEL_LOG and report.node}
    for root in roots:
        if root.code in _NEEDS_KERNEL and root.node is not None and root.node not in kernel_nodes:
            asked.append(f"kernel log of {root.node}")
        if root.rank is not None and not _has_log(topology, root.rank):
            asked.insert(0, f"log of rank {root.rank}")
    hubs = attempt.scene.hubs
    if hubs and not roots:
        dumps = {report.path for report in reports if report.kind is FileKind.FLIGHT_RECORDER}
        if dumps <= attempt.stale_dumps:
            asked.append(
                "flight recorder dumps of all ranks (TORCH_NCCL_TRACE_BUFFER_SIZE, TORCH_NCCL_DUMP_ON_TIMEOUT)"
            )
    if not roots and not any(report.kind is FileKind.SCHEDULER_LOG for report in reports):
        asked.append("scheduler or launcher log (it names the first failing task)")
    if not roots and not kernel_nodes:
        asked.append("kernel logs of the nodes")
    if not roots:
        asked += [f"logs and kernel log of {node}" for node in _named_peers(attempt) if node not in kernel_nodes]
        asked = asked or ["NCCL_DEBUG=INFO output or flight recorder dumps of all ranks"]
    if attempt.stale_dumps:
        number = len(attempt.stale_dumps)
        asked.append(f"flight recorder dumps of this failure (the {number} at hand are of an older run)")
    asked += _cut_off(reports)
    return list(dict.fromkeys(asked))


def _named_peers(attempt: AttemptGraph) -> list[str]:
    """Nodes that at least two ranks name as the peer they lost, most named first."""
    named: dict[str, set[int | None]] = {}
    for fact in attempt.scene.facts:
        peer = fact.attribute("peer") if fact.name == CollateralKind.REMOTE_PEER_LOST else None
        node = peer.split(".")[0] if peer else None
        if node in attempt.scene.topology.nodes and node is not None:
            named.setdefault(node, set()).add(fact.rank)
    often = [node for node, ranks in named.items() if len(ranks) > 1]
    return sorted(often, key=lambda node: (-len(named[node]), node))[:3]


def _silent_nodes(topology: Topology) -> list[str]:
    """Nodes that left no file, and ranks of other nodes that left none."""
    asked: list[str] = []
    silent = [place for place in topology.ranks if not place.has_log]
    known = {place.rank for place in topology.ranks}
    unplaced = [rank for rank in range(topology.world_size or 0) if rank not in known]
    gone = [node for node in topology.nodes if node not in topology.nodes_with_logs]
    of_node: dict[str | None, list[int]] = {}
    for place in silent:
        of_node.setdefault(place.node, []).append(place.rank)
    for node in gone:
        ranks = of_node.get(node, [])
        asked.append(f"all logs of {node}" + (f" (ranks {fold_numbers(ranks)})" if ranks else ""))
    covered = {place.rank for place in silent if place.node in gone}
    rest = sorted({place.rank for place in silent if place.rank not in covered} | set(unplaced))
    if rest and len(rest) < (topology.world_size or 1 << 30):
        asked.append(f"logs of ranks {fold_numbers(rest)}" if len(rest) > 1 else f"log of rank {rest[0]}")
    return asked


def _has_log(topology: Topology, rank: int) -> bool:
    place = topology.place(rank)
    return place is not None and place.has_log


def _cut_off(reports: Sequence[FileReport]) -> list[str]:
    cut = [
        report.path for report in reports if report.cut_off and report.kind is FileKind.RANK_LOG and report.lines > 1
    ]
    return [f"end of {path} (cut off)" for path in cut[:8]]
