"""Where a fault shows: one rank, a node, all ranks at once, or another rank in each attempt; and what that speaks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from correlator.advice.lines import Line
from correlator.core.model import Initiator
from correlator.core.ranges import fold_hosts, fold_numbers
from correlator.core.vocabulary import Role


class Spread(StrEnum):
    """Who printed a fault."""

    ONE_RANK = "one_rank"
    ONE_NODE = "one_node"
    ALL_RANKS = "all_ranks"
    SOME_RANKS = "some_ranks"
    SAME_PLACE_AGAIN = "same_place_again"
    """In several attempts, and always on one node."""
    MOVES = "moves"
    """In several attempts, each time on another node."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The spread of a fault, what it speaks for, and the evidence."""

    spread: Spread
    sentence: str


def pattern_of(initiator: Initiator, lines: Sequence[Line], ranks_seen: int, world_size: int | None) -> Pattern | None:
    """The pattern of the initiator's fault over ranks, nodes and attempts.

    None where it was not printed where the initiator is (it was inferred), or where too few ranks left a line to compare.
    """
    seen = [line for line in lines if line.name == initiator.fault and line.role is Role.INITIATING]
    moulds = {line.template for line in seen if line.rank == initiator.rank and line.template is not None}
    if moulds:  # an error that only its words tell from others of its code
        seen = [line for line in seen if line.template in moulds]
    ranks = {line.rank for line in seen if line.rank is not None}
    nodes = {line.node for line in seen if line.node is not None}
    attempts = {line.attempt for line in seen}
    if initiator.rank not in ranks or ranks_seen < 2:
        return None
    if len(attempts) > 1 and nodes:
        return _over_attempts(seen, nodes, len(attempts))
    if len(ranks) == 1:
        shared = any(line.node == initiator.node and line.rank not in {None, initiator.rank} for line in lines)
        own = "data, GPU" if shared and initiator.node is not None else "data, GPU, node"
        words = f"of {ranks_seen} ranks only rank {initiator.rank} shows it: something of its own ({own})"
        return Pattern(Spread.ONE_RANK, words)
    if world_size is not None and len(ranks) == world_size:
        words = f"all {world_size} ranks show it: code, data or configuration"
        apart = (
            ", not one machine's hardware" if len(nodes) > 1 else "; they share a node, so it may be that node's too"
        )
        return Pattern(Spread.ALL_RANKS, words + apart)
    named = f"ranks {fold_numbers(ranks)}"
    if len(nodes) == 1:
        node = next(iter(nodes))
        return Pattern(Spread.ONE_NODE, f"{named} show it, all on {node}: look at what they share (the node itself)")
    return Pattern(Spread.SOME_RANKS, f"{named} on {fold_hosts(nodes)} show it: look at what they share (code, data)")


def _over_attempts(seen: Sequence[Line], nodes: set[str], attempts: int) -> Pattern:
    if len(nodes) == 1:
        gpus = {line.gpu for line in seen if line.gpu is not None}
        gpu = f", always GPU {next(iter(gpus))}" if len(gpus) == 1 else ""
        where = f"{next(iter(nodes))}{gpu}"
        words = f"it came in {attempts} attempts and stayed on {where}: hardware, or data that this rank alone reads"
        return Pattern(Spread.SAME_PLACE_AGAIN, words)
    words = f"it came in {attempts} attempts on {fold_hosts(nodes)}: it moves, so software or the fabric, not one GPU"
    return Pattern(Spread.MOVES, words)
