"""Links, interfaces and the start of communication (formats.md B6, C3, H3)."""

from __future__ import annotations

from benchmarks.scenarios.endings import collapse, settle, time_out
from benchmarks.scenarios.expected import Accused, Expected
from benchmarks.scenarios.registry import identified, scenario, tied, whole_node
from benchmarks.scenarios.simulation import Simulation
from benchmarks.scenarios.torch_text import SITE, Frame, Work
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


def _status_12(sim: Simulation, rank: int, at: float, peer: int, device: int) -> None:
    host = sim.node_of(peer)
    last = (
        f"NET/IB: Got completion from peer {host.ip}<{sim.rng.randrange(32768, 60999)}> with status=12 opcode=0 len=0 "
        f"vendor err 129 (Send) localGid fe80::1 remoteGids fe80::2 hca mlx5_{device}"
    )
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
            "/pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:275, internal error - please report this issue to the NCCL "
            f"developers, NCCL version {sim.torch.nccl}",
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
            "/pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:275, invalid usage (run with NCCL_DEBUG=WARN for details), "
            f"NCCL version {sim.torch.nccl}",
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
        failed = f"The node '{node.name}_{pid}_0' has failed to shutdown the rendezvous '{sim.job}'"
        place = ("distributed/elastic/rendezvous/dynamic_rendezvous.py", 1284)
        text = f"{failed} due to an error of type RendezvousTimeoutError."
        sim.agent(node, at + 0.1, sim.torch.agent("W", node.local(at + 0.1), pid, place, text))
        server = ("distributed/elastic/agent/server/api.py", 522)
        text = "[default] Rendezvous'ing worker group"
        sim.agent(node, began, sim.torch.agent("I", node.local(began), pid, server, text))
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
