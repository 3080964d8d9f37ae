"""Each rule is a pure function, listed once; it links what it says it links, and without it the link is gone."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from correlator.core.model import ProcessGroup
from correlator.core.vocabulary import FileKind
from correlator.graphs import Findings, build, rules
from correlator.graphs.rules import RULES, application, device, launchers, nodes, peers, process, waits
from correlator.graphs.scene import Rule
from tests.graphs.conftest import RunBuilder

KERNEL = {"node": "node00", "file": "kern.log", "kind": FileKind.KERNEL_LOG}
AGENT = {"file": "agent.log", "kind": FileKind.LAUNCHER_LOG}
SLURM = {"file": "slurm.out", "kind": FileKind.SCHEDULER_LOG}
TERM = {"signal": "SIGTERM"}
TRIO = ProcessGroup("20", "tp", (0, 1, 2))


def raised(r: RunBuilder, code: str, at_s: float, rank: int) -> RunBuilder:
    return r.add(code, at_s, rank=rank, exception_type="RuntimeError")


def group(r: RunBuilder, name: str, members: list[int], waiting: list[int]) -> RunBuilder:
    """Some ranks of a group that its members print time out in it."""
    for rank in waiting:
        r.add("process_group", None, rank=rank, process_group=name, attributes={"members": str(members)})
        r.add("collective_timeout", 600, rank=rank, collective_seq=9, collective_op="ALLREDUCE", process_group=name)
    return r


def held(r: RunBuilder) -> RunBuilder:
    return r.timeouts([0, 1, 2, 3, 4, 6, 7], 600)


def also_waits(r: RunBuilder) -> RunBuilder:
    """Rank 4 waits for 5 in the default group; in its pair with 6, which both entered, it waits too."""
    return group(held(r), "30", [4, 6], [4, 6])


def no_members(r: RunBuilder) -> RunBuilder:
    """Ranks 4, 6 and 7 wait in a group of which no line tells the members; the other node waits for all of node01."""
    r.timeouts([0, 1, 2, 3], 600)
    raised(r, "cuda_oom", 6.0, 5)
    for rank in (4, 6, 7):
        r.add("collective_timeout", 600, rank=rank, collective_seq=3, collective_op="ALLREDUCE", process_group="9")
    return r


def stopped(r: RunBuilder) -> RunBuilder:
    raised(r, "data_error", 6.0, 0)
    r.add("worker_signalled", 6.5, node="node00", attributes=TERM, **AGENT)
    return r.add("worker_failed", 6.6, rank=1, exit_code=-15, **AGENT)


def srun(r: RunBuilder) -> RunBuilder:
    raised(r, "cuda_oom", 6.0, 5)
    return r.add("task_exit", 7.0, exit_code=143, attributes={"tasks": "[0, 1]", "nodes": '["node00"]'}, **SLURM)


CASES: tuple[tuple[Rule, str, str, str, Callable[[RunBuilder], RunBuilder]], ...] = (
    (process.process_order, "E1", "data_error", "native_abort",
     lambda r: raised(r, "data_error", 6.0, 1).add("native_abort", 7.0, rank=1)),
    (process.dragged_in_first, "E1", "remote_peer_lost", "python_exception",
     lambda r: raised(raised(raised(r, "cuda_oom", 6.0, 6), "remote_peer_lost", 7.0, 1), "python_exception", 9.0, 1)),
    (process.poisoned_context, "E2", "cuda_illegal_address", "cuda_launch_failure",
     lambda r: raised(raised(r, "cuda_illegal_address", 6.0, 1), "cuda_launch_failure", 6.0, 1)),
    (waits.waiters, "E3", "waiting", "collective_timeout", held),
    (waits.holders, "E3", "rank_stalled", "waiting", held),
    (waits.unknown_members, "E3", "cuda_oom", "waiting", no_members),
    (waits.wait_chains, "E3b", "waiting", "waiting",
     lambda r: group(r, "20", [4, 5, 6, 7], [4, 5, 6]).timeouts([0, 1, 2, 3], 601)),
    (waits.behind_another, "E3b", "waiting", "waiting", also_waits),
    (waits.mismatch, "E4", "collective_mismatch", "waiting",
     lambda r: r.timeouts([0, 1, 3, 4, 5, 6, 7], 600).timeouts([2], 600, op="BROADCAST")),
    (peers.peer_lost, "E5", "cuda_oom", "remote_peer_lost",
     lambda r: raised(raised(r, "cuda_oom", 6.0, 6), "remote_peer_lost", 7.0, 1)),
    (peers.weak_faults, "E5", "cuda_oom", "nccl_internal_error",
     lambda r: raised(raised(r, "cuda_oom", 6.0, 6), "nccl_internal_error", 7.0, 1)),
    (peers.store_lost, "E6", "cuda_oom", "store_lost",
     lambda r: raised(r, "cuda_oom", 6.0, 0).add("store_lost", 7.0, rank=1)),
    (waits.dump_signals, "E7", "collective_timeout", "secondary_abort",
     lambda r: held(r).add("secondary_abort", 660.0, rank=0)),
    (launchers.launcher_signal, "E8", "data_error", "terminated_by_launcher", stopped),
    (launchers.across_nodes, "E8b", "cuda_oom", "scheduler_cancel",
     lambda r: raised(r, "cuda_oom", 6.0, 6).add("agent_signalled", 7.0, node="node00", attributes=TERM, **AGENT)),
    (launchers.scheduler_teardown, "E8b", "cuda_oom", "scheduler_cancel", srun),
    (launchers.launcher_report, "E9", "data_error", "launcher_report",
     lambda r: raised(r, "data_error", 6.0, 1).add("launcher_report", 7.0, rank=1, **AGENT)),
    (device.device_fault, "E10", "gpu_off_bus", "cuda_launch_failure",
     lambda r: raised(r.add("gpu_off_bus", 5.9, rank=1, **KERNEL), "cuda_launch_failure", 6.0, 1)),
    (device.switch_fault, "E11", "gpu_nvlink", "cuda_launch_failure",
     lambda r: raised(r.add("gpu_nvlink", 5.9, rank=0, gpu="0000:3b:00", **KERNEL), "cuda_launch_failure", 6.0, 1)),
    (device.host_memory, "E12", "host_oom_kill", "process_killed",
     lambda r: r.add("host_oom_kill", 6.0, rank=3, **KERNEL).add("worker_failed", 7.0, rank=3, exit_code=-9, **AGENT)),
    (device.storage, "E13", "storage_io", "checkpoint_save_failure",
     lambda r: raised(raised(r.add("storage_io", 5.9, **KERNEL), "checkpoint_save_failure", 6.0, 1),
                      "checkpoint_save_failure", 6.0, 2)),
    (device.shared_memory, "E14", "shm_exhausted", "native_bus_error",
     lambda r: raised(r, "shm_exhausted", 6.0, 1).add("native_bus_error", 6.5, rank=2)),
    (launchers.scheduler, "E15", "preempted", "scheduler_cancel",
     lambda r: r.add("scheduler_cancelled", 6.0, attributes={"reason": "time_limit"}, **SLURM).add(
         "agent_signalled", 6.5, node="node00", attributes=TERM, **AGENT)),
    (nodes.node_lost, "E16", "node_lost", "remote_peer_lost",
     lambda r: raised(r.add("node_failure_reported", 6.0, attributes={"node": "node01"}, **SLURM),
                      "remote_peer_lost", 7.0, 1)),
    (nodes.rendezvous, "E16", "rendezvous_timeout", "rendezvous_timeout",
     lambda r: r.add("rendezvous_timeout", 6.0, node="node00", exception_type="TimeoutError", **AGENT)),
    (nodes.fabric, "E17", "network_fault", "remote_peer_lost",
     lambda r: raised(r.add("network_fault", 6.0, **KERNEL), "remote_peer_lost", 7.0, 5)),
    (application.child_worker, "E18", "dataloader_worker_died", "python_exception",
     lambda r: raised(raised(r, "dataloader_worker_died", 6.0, 1), "python_exception", 6.5, 1)),
    (application.application_chain, "E19", "nan_loss", "assertion_failure",
     lambda r: raised(raised(r, "nan_loss", 6.0, 1), "assertion_failure", 6.5, 1)),
)  # fmt: skip


def links(found: Findings, rule: str, cause: str, effect: str) -> list[dict[str, object]]:
    graph = found.attempt.graph
    codes = {node: "waiting" if values["kind"] == "hub" else values["code"] for node, values in graph.nodes(data=True)}
    return [
        data
        for one, other, data in graph.edges(data=True)
        if data["rule"] == rule and (codes[one], codes[other]) == (cause, effect)
    ]


@pytest.mark.parametrize(("rule", "number", "cause", "effect", "made"), CASES, ids=[c[0].__name__ for c in CASES])
def test_a_rule_links_what_it_says_and_nothing_else_does(
    rule: Rule,
    number: str,
    cause: str,
    effect: str,
    made: Callable[[RunBuilder], RunBuilder],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its link carries a reason and a probability; taken out of RULES, the link is gone."""
    found = links(made(RunBuilder().steps(5)).judge(), number, cause, effect)
    assert found
    assert all(0.5 < data["q"] < 1 and data["reason"] for data in found)  # type: ignore[operator]
    monkeypatch.setattr(build, "RULES", tuple(one for one in RULES if one is not rule))
    assert len(links(made(RunBuilder().steps(5)).judge(), number, cause, effect)) < len(found)


def test_every_rule_has_a_case_and_every_number_of_the_method_a_rule() -> None:
    assert [case[0] for case in CASES if RULES.count(case[0]) != 1] == []
    assert {case[0] for case in CASES} == set(RULES)
    assert {case[1] for case in CASES} == {*(f"E{number}" for number in range(1, 20)), "E3b", "E8b"}


def test_every_public_function_of_the_rule_files_is_listed() -> None:
    """A new rule is one function in a file and one line in RULES; without the line this fails."""
    found = set()
    for module_info in pkgutil.iter_modules(rules.__path__):
        module = importlib.import_module(f"correlator.graphs.rules.{module_info.name}")
        found |= {
            function
            for name, function in inspect.getmembers(module, inspect.isfunction)
            if not name.startswith("_") and function.__module__ == module.__name__
        }
    assert found == set(RULES)
    assert len(RULES) == len(set(RULES))


def test_every_rule_says_what_it_holds() -> None:
    """The docstring of a rule begins with its number, since verdicts cite it."""
    for rule in RULES:
        assert re.match(r"E[0-9]{1,2}b?[: ]", rule.__doc__ or ""), rule


@pytest.mark.parametrize(
    ("made", "rule", "reason"),
    [
        (lambda r: raised(raised(r, "cuda_oom", 9.0, 6), "remote_peer_lost", 6.0, 1), "E5", "it lost its peer before that"),
        (lambda r: raised(raised(r, "cuda_oom", 6.0, 6), "remote_peer_lost", 900.0, 1), "E5", "too long after"),
        (lambda r: raised(r.add("gpu_off_bus", 30.0, rank=1, **KERNEL), "cuda_launch_failure", 6.0, 1),
         "E10", "the kernel line came after the error"),
        (lambda r: raised(group(r, "20", [0, 1, 2], [0, 1]), "cuda_oom", 6.0, 6),
         "E3", "nothing tells who belongs to the group"),
        (lambda r: raised(group(replace(r, groups=(TRIO,)), "20", [0, 1, 2], [0, 1]), "cuda_oom", 6.0, 6),
         "E3", "not a member of the group"),
        (lambda r: raised(held(r), "cuda_oom", 6.0, 2), "E3", "the rank had entered the collective and waited"),
    ],
)  # fmt: skip
def test_a_refusal_says_why(made: Callable[[RunBuilder], RunBuilder], rule: str, reason: str) -> None:
    """Order reversed, too late, not a member."""
    refused = made(RunBuilder().steps(5)).judge().attempt.refused
    assert (rule, reason) in {(one.rule, one.reason) for one in refused}
