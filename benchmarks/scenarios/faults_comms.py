"""Collectives, fabric and start-up of communication (formats.md A3-A8, B6, C3, H3)."""

from __future__ import annotations

from benchmarks.scenarios.dumps import Recorded, dump
from benchmarks.scenarios.endings import collapse, settle, subgroup, time_out
from benchmarks.scenarios.expected import Accused, Expected
from benchmarks.scenarios.registry import identified, scenario, tied, whole_node
from benchmarks.scenarios.simulation import VERSIONS, Simulation
from benchmarks.scenarios.torch_text import SITE, Frame, Group, Work
from correlator.core.vocabulary import CollateralKind, FaultCode, VerdictStatus

INIT_PG_FRAMES: tuple[Frame, ...] = (
    ("/workspace/train.py", 212, "<module>", "main()"),
    ("/workspace/train.py", 64, "main", 'dist.init_process_group("nccl")'),
    (
        f"{SITE}/torch/distributed/distributed_c10d.py",
        1710,
        "init_process_group",
        "store, rank, world_size = next(rendezvous_iterator)",
    ),
)


def _counters(sim: Simulation) -> None:
    """Only versions that print what was enqueued let an expert tell who never came."""
    if sim.torch.version < (2, 6):
        sim.torch = sim.rng.choice([version for version in VERSIONS if version.version >= (2, 6)])


def write_dumps(
    sim: Simulation,
    ranks: list[int],
    groups: dict[int, list[Group]],
    last: dict[int, list[tuple[Group, int, str, int, bool]]],
) -> None:
    """Dumps of `ranks`; `last` = what each enqueued last in each group: group, seq, op, numel, completed."""
    for rank in ranks:
        entries = []
        for group, seq, op, numel, done in last[rank]:
            for back in range(8, -1, -1):
                number = seq - back
                if number < 1:
                    continue
                at = sim.now + 0.5 * sim.step_s - back * 0.2
                created = int((at + sim.node_of(rank).offset_s) * 1e9)
                complete = done or back > 0
                name, size = (op, numel) if back == 0 else ("ALLREDUCE", 1_048_576)
                entries.append(Recorded(group, number, name, size, size, created, complete))
        entries.sort(key=lambda entry: entry.created_ns)
        name = "comm_lib_trace_rank_" if sim.torch.version >= (2, 9) else "nccl_trace_rank_"
        sim.journal.files[f"flight_recorder/{name}{rank}"] = dump(
            sim.torch, entries, groups[rank], sim.timeout_s * 1000
        )


@scenario("wait")
def stalled_rank(sim: Simulation) -> Expected:
    """A rank hangs outside of any collective, without a word; all others time out."""
    _counters(sim)
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    sim.stuck.add(rank)
    time_out(sim, [r for r in sim.cluster.ranks if r != rank], sim.work(), silent=[rank])
    settle(sim)
    return identified(
        sim,
        FaultCode.RANK_STALLED,
        rank,
        why="the one rank without a timeout: it never enqueued what all others wait in",
    )


@scenario("wait")
def stalled_rank_with_dumps(sim: Simulation) -> Expected:
    """The same with dumps of all ranks."""
    _counters(sim)
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    work = sim.work()
    time_out(sim, [r for r in sim.cluster.ranks if r != rank], work, silent=[rank])
    last = {r: [(sim.world, work.seq - (r == rank), "ALLREDUCE", 1_048_576, r == rank)] for r in sim.cluster.ranks}
    write_dumps(sim, list(sim.cluster.ranks), {r: [sim.world] for r in sim.cluster.ranks}, last)
    settle(sim)
    return identified(sim, FaultCode.RANK_STALLED, rank, why="its last entry is one behind, complete")


@scenario("wait")
def stalled_only_dumps(sim: Simulation) -> Expected:
    """Nothing but flight-recorder dumps was handed in."""
    _counters(sim)
    sim.begin()
    sim.train(6)
    rank = sim.some_rank(not_on=())
    seq = sim.sequence()
    sim.journal.keep(lambda _: False)
    last = {r: [(sim.world, seq - (r == rank), "ALLREDUCE", 1_048_576, r == rank)] for r in sim.cluster.ranks}
    write_dumps(sim, list(sim.cluster.ranks), {r: [sim.world] for r in sim.cluster.ranks}, last)
    waiting = {r: str(CollateralKind.COLLECTIVE_TIMEOUT) for r in sim.cluster.ranks if r != rank}
    node = sim.node_of(rank).name
    return Expected(
        VerdictStatus.IDENTIFIED, (Accused(FaultCode.RANK_STALLED, rank, node),), collateral=waiting,
        why="its last entry is one behind, complete",
    )  # fmt: skip


def _tensor_groups(sim: Simulation) -> dict[int, Group]:
    """A tensor-parallel group a node."""
    return {
        rank: subgroup(1, str(1 + sim.node_of(rank).index), "mesh_tp", sim.cluster.on(sim.node_of(rank)))
        for rank in sim.cluster.ranks
    }


@scenario("wait")
def stalled_in_a_subgroup(sim: Simulation) -> Expected:
    """A rank hangs before an operation of its tensor group; its peers wait there, all others in the default group."""
    _counters(sim)
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    group = _tensor_groups(sim)[rank]
    peers = [r for r in group.members if r != rank]
    others = [r for r in sim.cluster.ranks if r not in group.members]
    inner = Work(group, 811 + sim.rng.randrange(90), "ALLREDUCE", 4_194_304, 4_194_304, sim.timeout_s * 1000)
    sim.stuck.add(rank)
    time_out(sim, others, sim.work(), late=0.4)
    time_out(sim, peers, inner, silent=[rank])
    settle(sim)
    return identified(
        sim,
        FaultCode.RANK_STALLED,
        rank,
        why="the only member of its tensor group that did not enter the inner operation",
    )


@scenario("wait")
def two_stalled_ranks(sim: Simulation) -> Expected:
    """Two ranks hang; nothing orders them."""
    _counters(sim)
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    one, other = sim.rng.choice(list(sim.cluster.on(1))), sim.rng.choice(list(sim.cluster.on(3)))
    time_out(sim, [r for r in sim.cluster.ranks if r not in (one, other)], sim.work(), silent=[one, other])
    settle(sim)
    return tied(
        sim, {one: FaultCode.RANK_STALLED, other: FaultCode.RANK_STALLED}, why="both never entered; no line orders them"
    )


@scenario("wait")
def uneven_data(sim: Simulation) -> Expected:
    """A rank runs out of batches, leaves with exit code 0; its peers wait and time out."""
    _counters(sim)
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    at = sim.now + 0.2
    sim.c10d(
        rank, at, "ProcessGroupNCCL.cpp", 1476,
        "Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources. For more "
        "info, please see https://pytorch.org/docs/stable/distributed.html#shutdown (function operator())", letter="W",
    )  # fmt: skip
    sim.dies(rank, at + 0.5, 0)
    time_out(sim, sim.alive(), sim.work())
    settle(sim)
    return identified(
        sim, FaultCode.RANK_STALLED, rank, FaultCode.COLLECTIVE_MISMATCH, FaultCode.DATA_ERROR,
        why="it ended in order one step early and is the only one without a timeout",
    )  # fmt: skip


def _mismatch(sim: Simulation, op: str, numel: int) -> Expected:
    _counters(sim)
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    usual = sim.work()
    other = Work(sim.world, usual.seq, op, numel, numel, usual.timeout_ms)
    time_out(sim, [rank], other)
    time_out(sim, [r for r in sim.cluster.ranks if r != rank], usual)
    settle(sim)
    return identified(
        sim,
        FaultCode.COLLECTIVE_MISMATCH,
        rank,
        why="one rank brought another operation or size to the same sequence number",
    )


@scenario("wait")
def mismatch_of_operation(sim: Simulation) -> Expected:
    """One rank calls another collective at the same sequence number."""
    return _mismatch(sim, "BROADCAST", 1_048_576)


@scenario("wait")
def mismatch_of_size(sim: Simulation) -> Expected:
    """One rank brings another number of elements."""
    return _mismatch(sim, "ALLREDUCE", 1_048_000)


@scenario("wait")
def mismatch_two_against_two(sim: Simulation) -> Expected:
    """In a group of four, two bring one size and two another: no one can say who is wrong."""
    _counters(sim)
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    node = sim.rng.randrange(4)
    group = _tensor_groups(sim)[sim.cluster.on(node)[0]]
    a, b, c, d = group.members
    seq = 511 + sim.rng.randrange(90)
    limit = sim.timeout_s * 1000
    time_out(sim, [r for r in sim.cluster.ranks if r not in group.members], sim.work(), late=0.4)
    time_out(sim, [a, c], Work(group, seq, "ALLREDUCE", 8192, 8192, limit))
    time_out(sim, [b, d], Work(group, seq, "ALLREDUCE", 4096, 4096, limit))
    settle(sim)
    faults = {r: FaultCode.COLLECTIVE_MISMATCH for r in group.members}
    name = sim.node_of(a).name
    also = [
        tuple(Accused(FaultCode.COLLECTIVE_MISMATCH, r, name) for r in pair) for pair in ((a, c), (b, d))
    ] + [(Accused(FaultCode.COLLECTIVE_MISMATCH, None, name),), (Accused(FaultCode.COLLECTIVE_MISMATCH),)]  # fmt: skip
    found = tied(sim, faults, also=also, why="two against two in one group of four")
    return Expected(
        found.status,
        found.initiators,
        found.also,
        (VerdictStatus.UNDETERMINED, VerdictStatus.IDENTIFIED),
        {},
        found.why,
    )


@scenario("wait")
def everybody_waits(sim: Simulation) -> Expected:
    """All ranks entered the same collective and nobody finished: the fabric, and no rank to blame."""
    _counters(sim)
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    time_out(sim, list(sim.cluster.ranks), sim.work())
    settle(sim)
    also = ((Accused(FaultCode.NCCL_INTERNAL_ERROR),), (Accused(FaultCode.NETWORK_FAULT),))
    return Expected(
        VerdictStatus.UNDETERMINED, (), also, (), {r: "collective_timeout" for r in sim.cluster.ranks},
        "all entered, none finished; network lines are missing",
    )  # fmt: skip


def _status_12(sim: Simulation, rank: int, at: float, peer: int, device: int) -> None:
    host = sim.node_of(peer)
    last = f"NET/IB: Got completion from peer {host.ip}<{sim.rng.randrange(32768, 60999)}> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid fe80::1 remoteGids fe80::2 hca mlx5_{device}"
    sim.nccl_warn(rank, at, "transport/net_ib.cc:2098", last)
    sim.say(
        rank, at + 0.2, *sim.torch.taken_down(sim.clock(rank, at + 0.2), rank, sim.world, sim.torch.remote_error(last))
    )
    sim.dies(rank, at + 0.5, -6)


@scenario("network")
def link_down(sim: Simulation) -> Expected:
    """A port of a node goes down; the rank behind it and its ring neighbours exceed their retries, the others wait."""
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank()
    node = sim.node_of(rank)
    at = sim.now + 0.3 * sim.step_s
    device = sim.cluster.local(rank)
    sim.kernel(
        node,
        at,
        f"mlx5_core 0000:4{device}:00.0 ibp{device}s0: Link down",
        f"infiniband mlx5_{device}: port 1 changed state to DOWN",
    )
    neighbours = [(rank - 4) % 16, (rank + 4) % 16]
    _status_12(sim, rank, at + 14, neighbours[1], device)
    for other in neighbours:
        when = at + 14.5 + sim.rng.random()
        _status_12(sim, other, when, rank, device)
        sim.mark(other, when, CollateralKind.REMOTE_PEER_LOST)
    collapse(sim, at + 14.5, victim=rank)
    also = [(Accused(FaultCode.NETWORK_FAULT, None, node.name),)]
    return identified(
        sim, FaultCode.NETWORK_FAULT, rank, also=also, why="link of its adapter down just before the retries ran out"
    )


@scenario("start", skewed=False)
def no_network_interface(sim: Simulation) -> Expected:
    """NCCL finds no interface on one node."""
    sim.begin()
    node = sim.rng.randrange(1, 4)
    for rank in sim.cluster.on(node):
        at = sim.now + 0.3 * sim.rng.random()
        sim.nccl_warn(rank, at, "misc/socket.cc:514", "Bootstrap : no socket interface found")
        final = [
            "torch.distributed.DistBackendError: NCCL error in: "
            f"/pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:275, internal error - please report this issue to the NCCL developers, NCCL version {sim.torch.nccl}",
            "ncclInternalError: Internal check failed.", "Last error:", "Bootstrap : no socket interface found",
        ]  # fmt: skip
        sim.raises(rank, at + 0.2, final, INIT_PG_FRAMES)
        sim.dies(rank, at + 0.5, 1)
    if sim.has_console:
        settle(sim, sim.now + 3)
    else:
        time_out(sim, sim.alive(), Work(sim.world, 1, "ALLREDUCE", 1, 1, sim.timeout_s * 1000))
        settle(sim)
    return whole_node(sim, FaultCode.NCCL_INIT_FAILURE, node, why="all ranks of one node find no interface")


@scenario("start", skewed=False)
def duplicate_gpu(sim: Simulation) -> Expected:
    """Two ranks of a node were given the same GPU."""
    sim.begin()
    one, other = 5, 4
    for rank in (one, other):
        at = sim.now + 0.1 * sim.rng.random()
        text = f"Duplicate GPU detected : rank {one} and rank {other} both on CUDA device 43000"
        sim.nccl_warn(rank, at, "init.cc:943", text)
        final = [
            "torch.distributed.DistBackendError: NCCL error in: "
            f"/pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:275, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version {sim.torch.nccl}",
            "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.", "Last error:", text,
        ]  # fmt: skip
        sim.raises(rank, at + 0.2, final, INIT_PG_FRAMES)
        sim.dies(rank, at + 0.5, 1)
    collapse(sim, sim.now + 0.5, victim=one)
    name = sim.node_of(one).name
    also = [(Accused(FaultCode.NCCL_INIT_FAILURE, r, name),) for r in (one, other)]
    also += [(Accused(FaultCode.NCCL_INIT_FAILURE, None, name),)]
    found = tied(
        sim,
        {one: FaultCode.NCCL_INIT_FAILURE, other: FaultCode.NCCL_INIT_FAILURE},
        also=also,
        why="both ranks name each other",
    )
    return Expected(
        found.status, found.initiators, found.also, (VerdictStatus.IDENTIFIED,), found.collateral, found.why
    )


@scenario("start", skewed=False)
def rendezvous_timeout(sim: Simulation) -> Expected:
    """One node's agent never came: the others give up after their patience."""
    absent = sim.rng.randrange(1, 4)
    names = [node.name for node in sim.cluster.nodes]
    began = sim.now
    for node in sim.cluster.nodes:
        if node.index == absent:
            continue
        at = began + 600 + sim.rng.random()
        pid = sim.cluster.agent_pids[node.index]
        sim.agent(
            node, at, "Traceback (most recent call last):", '  File "/opt/venv/bin/torchrun", line 8, in <module>',
            "    sys.exit(main())",
            f'  File "{SITE}/torch/distributed/elastic/agent/server/api.py", line 583, in _rendezvous',
            "    rdzv_info = spec.rdzv_handler.next_rendezvous()",
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        )  # fmt: skip
        sim.agent(node, at + 0.1, sim.torch.agent("W", node.local(at + 0.1), pid, ("distributed/elastic/rendezvous/dynamic_rendezvous.py", 1284),
            f"The node '{node.name}_{pid}_0' has failed to shutdown the rendezvous '{sim.job}' due to an error of type RendezvousTimeoutError."))  # fmt: skip
        sim.agent(
            node,
            began,
            sim.torch.agent(
                "I",
                node.local(began),
                pid,
                ("distributed/elastic/agent/server/api.py", 522),
                "[default] Rendezvous'ing worker group",
            ),
        )
    sim.gone.add(absent)
    sim.console(began, f"srun: launching StepId={sim.job}.0 on host {names[0]}, 1 tasks: 0")
    also = [
        (Accused(FaultCode.RENDEZVOUS_TIMEOUT, None, names[absent]),),
        (Accused(FaultCode.NODE_LOST, None, names[absent]),),
    ]
    return Expected(
        VerdictStatus.IDENTIFIED, (Accused(FaultCode.RENDEZVOUS_TIMEOUT),), tuple(also), (VerdictStatus.UNDETERMINED,), {},
        "the agents that came gave up; one node left no file",
    )  # fmt: skip
