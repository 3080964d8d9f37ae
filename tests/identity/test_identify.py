"""Identity on hand-made tables: each kind of evidence fills what it proves, and contradictions are kept."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from correlator.core.event import Event
from correlator.core.schema import validate
from correlator.core.vocabulary import FileKind
from correlator.identity import Identified, identify
from tests.helpers_events import event, log, report, table


def run(parts: list) -> Identified:
    files = [file for file, _ in parts]
    result = identify(table(parts), files, [report(file) for file in files])
    assert validate(result.events) == []
    return result


def cell(result: Identified, path: str, line: int, column: str) -> object:
    row = result.events.filter((pl.col("log_file_path").cast(pl.String) == path) & (pl.col("line_number") == line))
    return row[column].to_list()[0]


def rendezvous(line: int, node_rank: int, size: int = 2, nodes: int = 2, attempt: int = 0, **fields: Any) -> Event:
    ranks = list(range(node_rank * size, node_rank * size + size))
    attributes = {
        "global_ranks": json.dumps(ranks),
        "local_ranks": json.dumps(list(range(size))),
        "master_addr": "node01.cluster.local",
        "group_world_size": nodes,
    }
    return event(
        "rendezvous_complete",
        line,
        node_rank=node_rank,
        attempt=attempt,
        world_size=size * nodes,
        attributes=attributes,
        seconds=line,
        **fields,
    )


def test_rendezvous_places_ranks_and_tee_prefix_finds_them() -> None:
    """A merged node log: the agent's table maps [default1]: to a global rank; the agent's own lines get none."""
    one, two = log("node01.log", FileKind.NODE_LOG, node="node01"), log("node02.log", FileKind.NODE_LOG, node="node02")
    result = run(
        [
            (one, [rendezvous(1, 0), event("progress", 5, local_rank=1, step=3)]),
            (two, [rendezvous(1, 1), event("cuda_oom", 7, local_rank=0), event("python_exception", 8)]),
        ]
    )
    assert cell(result, "node01.log", 5, "rank") == 1
    assert cell(result, "node02.log", 7, "rank") == 2
    assert cell(result, "node02.log", 8, "rank") is None
    assert cell(result, "node02.log", 1, "rank") is None
    assert cell(result, "node02.log", 1, "host_name") == "node02"
    assert result.topology.world_size == 4
    assert [(p.rank, p.node, p.local_rank, p.node_rank) for p in result.topology.ranks] == [
        (0, "node01", 0, 0),
        (1, "node01", 1, 0),
        (2, "node02", 0, 1),
        (3, "node02", 1, 1),
    ]
    assert result.topology.store_node == "node01"
    assert all(place.has_log for place in result.topology.ranks)


def test_rank_introductions_place_ranks_in_a_labelled_console() -> None:
    """srun --label with one task a node: the task is the node, its lines find host and clock, not a rank."""
    console = log("slurm-7.out", FileKind.CONSOLE_LOG)
    events = [
        event(
            "rank_identity",
            n + 1,
            task_id=n // 2,
            rank=n,
            local_rank=n % 2,
            host_name=f"node{n // 2:02d}",
            world_size=4,
        )
        for n in range(4)
    ]
    events += [event("launcher_started", 9, task_id=1), event("cuda_oom", 10, task_id=1, rank=3)]
    result = run([(console, events)])
    assert cell(result, "slurm-7.out", 9, "host_name") == "node01"
    assert cell(result, "slurm-7.out", 9, "rank") is None
    assert cell(result, "slurm-7.out", 9, "clock_domain") == "node01"
    assert cell(result, "slurm-7.out", 10, "local_rank") == 1


def test_task_files_are_ranks_where_there_is_a_task_for_each() -> None:
    """`slurm-7_3.out` without any prefix is rank 3 when the run has as many tasks as ranks."""
    files = [log(f"slurm-7_{n}.out", FileKind.RANK_LOG, task_id=n) for n in range(4)]
    parts = [(file, [event("python_exception", 5)]) for file in files]
    exits = [
        event("task_exit", 1, exit_code=1, attributes={"nodes": '["node01"]', "tasks": "[0, 1]"}),
        event("task_exit", 2, exit_code=1, attributes={"nodes": '["node02"]', "tasks": "[2, 3]"}),
        event("rank_identity", 3, world_size=4),
    ]
    result = run([*parts, (log("slurm-7.out", FileKind.SCHEDULER_LOG), exits)])
    assert cell(result, "slurm-7_3.out", 5, "rank") == 3
    assert cell(result, "slurm-7_3.out", 5, "host_name") == "node02"
    assert cell(result, "slurm-7_3.out", 5, "local_rank") == 1
    assert cell(result, "slurm-7.out", 1, "clock_domain") == "slurm-7.out"


def test_task_files_are_nodes_where_each_holds_several_ranks() -> None:
    """`slurm-7_1.out` holding ranks 2 and 3 is a node: task 1 is not rank 1."""
    files = [log(f"slurm-7_{n}.out", FileKind.NODE_LOG, task_id=n) for n in range(2)]
    parts = [
        (file, [event("progress", 1, rank=2 * n), event("progress", 2, rank=2 * n + 1), event("cuda_oom", 3)])
        for n, file in enumerate(files)
    ]
    result = run(parts)
    assert cell(result, "slurm-7_1.out", 3, "rank") is None
    assert result.topology.world_size == 4


def test_pods_take_the_node_of_the_listing() -> None:
    """A pod's lines are on the node that the listing names, and its address resolves to that node."""
    listing = log("pods.txt", FileKind.POD_LISTING)
    pod = log("pods/job-worker-3.log", FileKind.NODE_LOG, pod="job-worker-3")
    status = {"pod": "job-worker-3", "node": "node060", "ip": "10.40.3.20"}
    result = run(
        [
            (listing, [event("pod_status", 2, attributes=status)]),
            (pod, [event("nccl_warning", 4, host_name="job-worker-3", process_pid=83)]),
        ]
    )
    assert cell(result, "pods/job-worker-3.log", 4, "host_name") == "node060"
    assert result.topology.nodes == ("node060",)


def test_nccl_world_communicator_ties_pid_to_rank_and_gpu() -> None:
    """Rank in the communicator of all ranks is the global rank; a kernel line with that pid or PCI address finds it."""
    nccl = log("nccl.node03.4245.log", FileKind.NCCL_DEBUG_LOG, node="node03", pid=4245)
    kernel = log("kern.log", FileKind.KERNEL_LOG, node="node03")
    init = {"comm_id": "0xabc", "nranks": 16, "phase": "complete"}
    small = {"comm_id": "0xdef", "nranks": 4, "phase": "complete"}
    fields = {"host_name": "node03.cluster.local", "process_pid": 4245, "gpu": "0000:4b:00"}
    result = run(
        [
            (
                nccl,
                [
                    event("nccl_comm_init", 1, group_rank=10, attributes=init, **fields),
                    event("nccl_comm_init", 2, group_rank=1, attributes=small, **fields),
                ],
            ),
            (
                kernel,
                [
                    event("native_segfault", 1, process_pid=4245),
                    event("xid", 2, gpu="0000:4b:00"),
                    event("xid", 3, gpu="0000:5d:00"),
                ],
            ),
        ]
    )
    assert result.topology.world_size == 16
    place = result.topology.place(10)
    assert (place.node, place.pid, place.gpu, place.has_log) == ("node03", 4245, "0000:4b:00", False)
    assert [cell(result, "kern.log", n, "rank") for n in (1, 2, 3)] == [10, 10, None]


def test_gpu_by_order_is_marked() -> None:
    """With all addresses of a node known, the i-th is local rank i's, and the event says that it is a guess."""
    kernel = log("kern.log", FileKind.KERNEL_LOG, node="node01")
    agent = log("agent.log", FileKind.LAUNCHER_LOG, node="node01")
    lines = [event("gpu_identity", 1, gpu="0000:3b:00"), event("xid", 2, gpu="0000:5d:00", attributes={"xid": 79})]
    result = run([(agent, [rendezvous(1, 0, nodes=1)]), (kernel, lines)])
    assert cell(result, "kern.log", 2, "rank") == 1
    assert {"key": "gpu_by_order", "value": "true"} in cell(result, "kern.log", 2, "attributes")
    assert any("PCI" in warning for warning in result.warnings)


def test_agent_reports_name_their_subject() -> None:
    """`Sending process N` and `failed ... local_rank: 1 (pid: N)` get the rank they speak of."""
    agent = log("agent_node01.log", FileKind.LAUNCHER_LOG, node="node01")
    events = [
        rendezvous(1, 0, nodes=1),
        event("worker_failed", 5, local_rank=1, process_pid=4243, exit_code=-11),
        event("worker_signalled", 6, process_pid=4242),
        event("child_failed_row", 7, rank=0, local_rank=0, process_pid=4242, host_name="node01.cluster.local"),
        event("agent_signalled", 8, process_pid=99),
    ]
    result = run([(agent, events)])
    assert [cell(result, "agent_node01.log", n, "rank") for n in (5, 6, 7, 8)] == [1, 0, 0, None]


def test_file_name_against_content_is_a_conflict() -> None:
    """A file named rank_3 whose lines say rank 5 is rank 5's, and the contradiction is kept with its place."""
    file = log("rank_3.log", FileKind.RANK_LOG, rank=3)
    result = run([(file, [event("rank_identity", 2, rank=5, world_size=8), event("cuda_oom", 9)])])
    assert cell(result, "rank_3.log", 9, "rank") == 5
    conflict = next(c for c in result.topology.conflicts if c.subject == "rank of rank_3.log")
    assert conflict.places[0] == "rank_3.log:2"


def test_two_nodes_for_one_rank_are_left_open() -> None:
    """Equal evidence for two nodes decides nothing: the rank's node stays unknown, the conflict is reported."""
    files = [log(f"{n}.log", FileKind.TEXT) for n in "ab"]
    parts = [
        (file, [event("rank_identity", 1, rank=0, host_name=f"node0{n}"), event("rank_identity", 2, rank=n + 1)])
        for n, file in enumerate(files)
    ]
    topology = run(parts).topology
    assert topology.place(0).node is None
    assert any(c.subject == "node of rank 0" and set(c.values) == {"node00", "node01"} for c in topology.conflicts)


def test_attempts_are_cut_at_restart_counts() -> None:
    """A merged node log: the agent announces a restart, stops the old workers, and gathers: attempt 1 begins there."""
    file = log("node01.log", FileKind.NODE_LOG, node="node01")
    events = [
        rendezvous(1, 0, nodes=1),
        event("rank_identity", 2, rank=1, local_rank=1, process_pid=100, host_name="node01"),
        event("cuda_oom", 3, rank=1),
        event("attempt_started", 4, process_pid=9),
        event("worker_signalled", 5, process_pid=100),
        event("rendezvous_started", 6, process_pid=9),
        rendezvous(7, 0, nodes=1, attempt=1),
        event("rank_identity", 8, rank=1, local_rank=1, process_pid=200, host_name="node01"),
        event("native_segfault", 9, process_pid=200, local_rank=1),
    ]
    result = run([(file, events)])
    assert result.events["attempt"].to_list() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert cell(result, "node01.log", 5, "rank") == 1
    assert result.topology.attempts == 2
    assert result.topology.place(1).pid == 200


def test_attempt_folders_number_the_attempts() -> None:
    """torchrun's attempt_<n> folders decide, and a kernel line is placed by time between them on its node."""
    hints = {"node": "node01", "run_id": "none_ab12cd34", "local_rank": 0}
    first, second = (
        log(f"none_ab12cd34/attempt_{n}/0/stderr.log", FileKind.RANK_LOG, attempt=n, **hints) for n in (0, 1)
    )
    kernel = log("kern.log", FileKind.KERNEL_LOG, node="node01")
    result = run(
        [
            (first, [event("progress", 1, seconds=10, rank=0, step=1)]),
            (second, [event("progress", 1, seconds=100, rank=0, step=1)]),
            (kernel, [event("xid", 1, seconds=50), event("xid", 2, seconds=150)]),
        ]
    )
    assert result.events["attempt"].to_list() == [0, 1, 0, 1]


def test_a_rank_that_fails_and_starts_again_in_one_file_is_two_attempts() -> None:
    """Introduction, failure, introduction with another pid; errors quoted before the first start no attempt."""
    file = log("rank_0.log", FileKind.RANK_LOG, rank=0)
    events = [
        event("python_exception", 1),
        event("rank_identity", 2, rank=0, process_pid=10),
        event("cuda_oom", 3),
        event("rank_identity", 4, rank=0, process_pid=11),
        event("progress", 5, step=1),
    ]
    assert run([(file, events)]).events["attempt"].to_list() == [0, 0, 0, 1, 1]


def test_block_map_fills_ranks_that_wrote_nothing() -> None:
    """One confirmed pair on each node places its silent ranks; the last unnamed block goes to the last node."""
    parts = [
        (
            log(f"{node}.log", FileKind.NODE_LOG, node=node),
            [event("rank_identity", 1, rank=rank, local_rank=1, host_name=node, world_size=6)],
        )
        for node, rank in (("node01", 1), ("node02", 3))
    ]
    exits = [event("task_exit", 1, attributes={"nodes": '["node09"]', "tasks": "[2]"})]
    topology = run([*parts, (log("srun.log", FileKind.SCHEDULER_LOG), exits)]).topology
    assert [(p.rank, p.node) for p in topology.ranks] == [
        (0, "node01"),
        (1, "node01"),
        (2, "node02"),
        (3, "node02"),
        (4, "node09"),
        (5, "node09"),
    ]
    assert topology.nodes == ("node01", "node02", "node09")
    assert topology.nodes_with_logs == ("node01", "node02")
    assert [p.has_log for p in topology.ranks] == [True] * 4 + [False] * 2


def test_a_contradicted_block_map_is_not_used() -> None:
    """Local rank 0 on rank 3 of a node of two: no regular map, nothing is filled by it."""
    file = log("x.log", FileKind.TEXT)
    events = [
        event("rank_identity", 1, rank=3, local_rank=0, host_name="node01", world_size=4),
        event("rank_identity", 2, rank=0, local_rank=1, host_name="node01"),
        event("rank_identity", 3, rank=1, local_rank=0, host_name="node02"),
    ]
    topology = run([(file, events)]).topology
    assert topology.place(2).node is None


def test_process_groups_come_from_the_recorder_and_the_world() -> None:
    """Configured members are kept in order; the default group is everyone, under each of its names."""
    file = log("fr_0", FileKind.FLIGHT_RECORDER, rank=0)
    events = [
        event("process_group", 1, rank=0, process_group="7", attributes={"members": "[2, 0]", "description": "tp"}),
        event("work_status", 2, rank=0, process_group="0", attributes={"pg_description": "default_pg"}),
        event("rank_identity", 3, rank=0, world_size=4),
    ]
    groups = {group.name: group.members for group in run([(file, events)]).topology.groups}
    assert groups == {"7": (2, 0), "0": (0, 1, 2, 3), "default_pg": (0, 1, 2, 3)}


def test_a_lone_host_without_a_name_uses_local_ranks() -> None:
    """A console of one unnamed machine: [default1]: is rank 1."""
    file = log("console.log", FileKind.CONSOLE_LOG)
    events = [event("progress", n, local_rank=n - 1, step=1) for n in (1, 2)]
    assert run([(file, events)]).events["rank"].to_list() == [0, 1]


def test_an_empty_table_has_an_empty_topology() -> None:
    """No events and no files: nothing known, nothing raised."""
    topology = run([]).topology
    assert (topology.world_size, topology.ranks, topology.nodes, topology.attempts) == (None, (), (), 1)
