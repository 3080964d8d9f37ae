"""Collectives that never end: stalled ranks, sub-groups, mismatches (formats.md A3, A4, D)."""

from __future__ import annotations

from benchmarks.scenarios.dumps import Recorded, dump
from benchmarks.scenarios.endings import settle, subgroup, time_out
from benchmarks.scenarios.expected import Accused, Expected
from benchmarks.scenarios.registry import identified, scenario, tied
from benchmarks.scenarios.simulation import VERSIONS, Simulation
from benchmarks.scenarios.torch_text import Group, Work
from correlator.core.vocabulary import CollateralKind, FaultCode, VerdictStatus


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
    faults = dict.fromkeys(group.members, FaultCode.COLLECTIVE_MISMATCH)
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
        VerdictStatus.UNDETERMINED, (), also, (), dict.fromkeys(sim.cluster.ranks, "collective_timeout"),
        "all entered, none finished; network lines are missing",
    )  # fmt: skip


# --- chains of groups, and what only counters or dumps show ---


def _data_groups(sim: Simulation) -> dict[int, Group]:
    """A data-parallel group for each local rank, over all nodes."""
    gpus = sim.cluster.gpus
    return {
        rank: subgroup(
            2, str(10 + sim.cluster.local(rank)), "mesh_dp", [r for r in sim.cluster.ranks if r % gpus == rank % gpus]
        )
        for rank in sim.cluster.ranks
    }


def _chain(sim: Simulation, *, dumps: bool) -> Expected:
    """A rank stalls before its tensor group's next operation; each data group waits for the member on that node."""
    _counters(sim)
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    tensor, data = _tensor_groups(sim), _data_groups(sim)
    limit = sim.timeout_s * 1000
    inner, outer = 511 + sim.rng.randrange(90), 77 + sim.rng.randrange(20)
    sim.stuck.add(rank)
    members = tensor[rank].members
    for local in range(sim.cluster.gpus):
        group = data[local]
        waiting = [r for r in group.members if r not in members]
        time_out(sim, waiting, Work(group, outer, "_REDUCE_SCATTER_BASE", 4_194_304, 1_048_576, limit), late=0.4)
    first = [r for r in members if r != rank]
    time_out(sim, first, Work(tensor[rank], inner, "ALLREDUCE", 8_388_608, 8_388_608, limit), silent=[rank])
    if dumps:
        last = {}
        for r in sim.cluster.ranks:
            here = r in members
            mine = inner - 1 if r == rank else inner if here else inner + 40
            last[r] = [
                (tensor[r], mine, "ALLREDUCE", 8_388_608, r == rank or not here),
                (data[r], outer - 1 if here else outer, "_REDUCE_SCATTER_BASE", 4_194_304, here),
            ]
        write_dumps(sim, list(sim.cluster.ranks), {r: [sim.world, tensor[r], data[r]] for r in sim.cluster.ranks}, last)
    settle(sim)
    return identified(
        sim, FaultCode.RANK_STALLED, rank, why="data groups wait for its node, its tensor group waits for it"
    )


@scenario("wait")
def stalled_in_a_chain(sim: Simulation) -> Expected:
    """Data groups wait for a tensor group that waits for a rank; no dumps."""
    return _chain(sim, dumps=False)


@scenario("wait")
def stalled_in_a_chain_with_dumps(sim: Simulation) -> Expected:
    """The same, with dumps that name the members of every group."""
    return _chain(sim, dumps=True)


@scenario("wait")
def mismatch_of_type(sim: Simulation) -> Expected:
    """One rank reduces another number of bytes: the log shows no difference, the dumps show the sizes."""
    _counters(sim)
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    work = sim.work()
    time_out(sim, list(sim.cluster.ranks), work)
    last = {r: [(sim.world, work.seq, "ALLREDUCE", 1_048_576 // (1 + (r == rank)), False)] for r in sim.cluster.ranks}
    write_dumps(sim, list(sim.cluster.ranks), {r: [sim.world] for r in sim.cluster.ranks}, last)
    settle(sim)
    return identified(
        sim, FaultCode.COLLECTIVE_MISMATCH, rank, why="its entry of the hanging operation has another size"
    )


@scenario("wait")
def stopped_on_the_gpu(sim: Simulation) -> Expected:
    """All enqueued the same; one GPU never finished the operation before: its rank holds the others up."""
    _counters(sim)
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    work = sim.work()
    earlier = Work(work.group, work.seq - 1, work.op, work.numel_in, work.numel_out, work.timeout_ms)
    time_out(sim, [r for r in sim.cluster.ranks if r != rank], work)
    time_out(sim, [rank], earlier)
    settle(sim)
    return identified(
        sim, FaultCode.RANK_STALLED, rank, FaultCode.CUDA_LAUNCH_FAILURE, why="it alone hangs one operation earlier"
    )


@scenario("wait")
def interpreter_hangs(sim: Simulation) -> Expected:
    """A rank holds its interpreter lock: its own watchdog notices that it cannot move, all others time out."""
    _counters(sim)
    sim.begin()
    sim.train(sim.rng.randrange(4, 30))
    rank = sim.some_rank(not_on=())
    sim.stuck.add(rank)
    first = time_out(sim, [r for r in sim.cluster.ranks if r != rank], sim.work())
    tag = sim.world.tag(sim.torch.version, rank)
    sim.c10d(
        rank,
        first + 1,
        "ProcessGroupNCCL.cpp",
        1554,
        f"{tag}Could not acquire GIL within 300 ms on exit, possible GIL induced hang",
    )
    settle(sim)
    return identified(
        sim, FaultCode.RANK_STALLED, rank, why="it alone never entered, and its interpreter did not answer"
    )
