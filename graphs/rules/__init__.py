"""The edge rules, listed once. A rule is a pure function from a scene to edges (and refusals), each with its reason."""

from __future__ import annotations

from correlator.graphs.rules.application import application_chain, child_worker
from correlator.graphs.rules.device import device_fault, host_memory, shared_memory, storage, switch_fault
from correlator.graphs.rules.launchers import (
    across_nodes,
    launcher_report,
    launcher_signal,
    scheduler,
    scheduler_teardown,
)
from correlator.graphs.rules.nodes import fabric, node_lost, rendezvous
from correlator.graphs.rules.peers import peer_lost, store_lost, weak_faults
from correlator.graphs.rules.process import dragged_in_first, poisoned_context, process_order
from correlator.graphs.rules.waits import (
    behind_another,
    dump_signals,
    holders,
    mismatch,
    unknown_members,
    wait_chains,
    waiters,
)
from correlator.graphs.scene import Rule

RULES: tuple[Rule, ...] = (
    process_order,  # E1
    dragged_in_first,  # E1
    poisoned_context,  # E2
    waiters,  # E3
    holders,  # E3
    unknown_members,  # E3
    wait_chains,  # E3b
    behind_another,  # E3b
    mismatch,  # E4
    peer_lost,  # E5
    weak_faults,  # E5
    store_lost,  # E6
    dump_signals,  # E7
    launcher_signal,  # E8
    across_nodes,  # E8b
    scheduler_teardown,  # E8b
    launcher_report,  # E9
    device_fault,  # E10
    switch_fault,  # E11
    host_memory,  # E12
    storage,  # E13
    shared_memory,  # E14
    scheduler,  # E15
    node_lost,  # E16
    rendezvous,  # E16
    fabric,  # E17
    child_worker,  # E18
    application_chain,  # E19
)
