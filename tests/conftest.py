"""What all tests share: a repeatable property-test profile and finished diagnoses made by hand."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from correlator.core.model import (
    Actions,
    Checkpoint,
    ClockEstimate,
    Collateral,
    Diagnosis,
    Evidence,
    Hypothesis,
    Initiator,
    RunSummary,
    SkippedFile,
    Verdict,
)
from correlator.core.reasons import ContextLine
from correlator.core.vocabulary import ClockStatus, FaultClass, FaultCode, Phase, VerdictStatus

settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", parent=settings.get_profile("house"), max_examples=400, print_blob=True)
settings.load_profile("house")

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4245, name=python3, GPU has fallen off the bus."
WATCHDOG = (
    "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1893, OpType=ALLREDUCE, NumelIn=4194304, "
    "NumelOut=4194304, Timeout(ms)=600000) ran for 600008 milliseconds before timing out."
)


def evidence(file: str, line: int, text: str, time: str | None = None, rule: str = "test.rule") -> Evidence:
    """An evidence line whose byte offset does not matter."""
    return Evidence(file=file, line=line, byte_offset=line * 100, text=text, time=time, rule=rule)


def dragged_in(rank: int, kind: str) -> Collateral:
    """A collateral rank of a job with eight ranks a node."""
    node = f"node{rank // 8 + 1:02d}"
    line = evidence(f"{node}/rank_{rank}.log", 900 + rank, WATCHDOG, "2025-11-30T01:12:03.500000+00:00")
    return Collateral(
        rank=rank, node=node, kind=kind, time=line.time, evidence=(line,), explained_by=("hub:1893", "rank 17")
    )


def initiator(rank: int | None, node: str | None, fault: FaultCode, fault_class: FaultClass) -> Initiator:
    """An initiator with one line of evidence."""
    line = evidence(f"{node}/kern.log", 1021, XID, "2025-11-30T01:02:03.123456+00:00", "gpu_off_bus.xid79")
    return Initiator(
        rank=rank,
        local_rank=None if rank is None else rank % 8,
        node=node,
        gpu=None if rank is None else "0000:3b:00",
        pid=None if rank is None else 4245,
        fault=fault,
        fault_class=fault_class,
        time="2025-11-30T01:02:03.123456+00:00",
        time_uncertainty_ms=12.5,
        phase=Phase.STEP,
        step=1240,
        evidence=(line,),
    )


def run_summary() -> RunSummary:
    """Sixty-four ranks on eight nodes."""
    return RunSummary(
        path="llama-64",
        world_size=64,
        ranks_seen=64,
        nodes=tuple(f"node{number:02d}" for number in range(1, 9)),
        files=73,
        lines=1_204_332,
        attempts=1,
        first_time="2025-11-30T00:40:00+00:00",
        last_time="2025-11-30T01:12:09+00:00",
    )


@pytest.fixture
def identified() -> Diagnosis:
    """A GPU that fell off the bus, seen with every section filled."""
    clocks = [
        ClockEstimate(f"node{n:02d}", 1.5 * n, (1.0 * n, 2.0 * n), None, None, 40, ClockStatus.ALIGNED)
        for n in (1, 3, 4)
    ]
    clocks.append(ClockEstimate("node02", 30_125.0, (30_119.0, 30_131.0), 3.2, None, 14, ClockStatus.ALIGNED))
    clocks.append(
        ClockEstimate("node05", 7_200_125.0, (7_200_100.0, 7_200_150.0), None, "UTC+02:00", 3, ClockStatus.STALE)
    )
    clocks.append(ClockEstimate("node06", None, None, None, None, 0, ClockStatus.NONE))
    collateral = [dragged_in(rank, "collective_timeout") for rank in range(64) if rank not in {17, 20, 21}]
    collateral += [dragged_in(20, "remote_peer_lost"), dragged_in(21, "remote_peer_lost")]
    collateral.append(Collateral(None, "node03", "launcher_report", None))
    return Diagnosis(
        run=run_summary(),
        verdict=Verdict(
            VerdictStatus.IDENTIFIED,
            0.94,
            "Rank 17 on node02 started it: its GPU fell off the PCIe bus (Xid 79) at step 1240; the 63 other ranks waited "
            "for it in an all-reduce and timed out ten minutes later.",
            (initiator(17, "node02", FaultCode.GPU_OFF_BUS, FaultClass.HARDWARE),),
        ),
        hypotheses=(
            Hypothesis(
                ("rank 17 on node02",),
                FaultCode.GPU_OFF_BUS,
                0.94,
                (
                    "Xid 79 for GPU 0000:3b:00 ten minutes before the first timeout",
                    "rank 17 is the only one without a timeout",
                ),
            ),
            Hypothesis(
                ("rank 3 on node01",),
                FaultCode.RANK_STALLED,
                0.04,
                (),
                ("it printed its watchdog line first, but only by its own clock, which is 30 s behind node02",),
                "Compare the flight-recorder entries of ranks 3 and 17 for sequence number 1893.",
            ),
        ),
        collateral=tuple(collateral),
        context=tuple(ContextLine("node02/rank_17.log", 700 + n, f"step {1230 + n} loss 2.{n}") for n in range(3)),
        actions=Actions(
            "Drain node02 and power-cycle it: a GPU that fell off the bus does not come back by itself.",
            (
                "nvidia-smi -q -i 0000:3b:00 | grep -i -A3 'ecc\\|retired'",
                "scontrol update nodename=node02 state=drain reason=xid79",
            ),
            "The GPU answers again, and dcgmi diag -r 3 passes on node02.",
            "iter_0001200: the last one that all ranks completed, saved 40 steps before the fault.",
        ),
        checkpoint=Checkpoint(1240, "iter_0001200", "iter_0001200", "all 64 ranks reported its save as complete"),
        clocks=tuple(clocks),
        missing_evidence=("the kernel log of node05", "flight-recorder dumps: none were written"),
        skipped=tuple(SkippedFile(f"plots/loss_{n}.png", "binary, no log") for n in range(12)),
        warnings=("rank 40 is named on node05 and on node06; both are kept",),
    )


@pytest.fixture
def tied() -> Diagnosis:
    """Six ranks that failed within what the clocks can separate."""
    ranks = (3, 4, 5, 19, 20, 21)
    initiators = tuple(
        initiator(rank, f"node{rank // 8 + 1:02d}", FaultCode.CUDA_OOM, FaultClass.SOFTWARE) for rank in ranks
    )
    summary = "Ranks 3-5 and 19-21 each ran out of GPU memory on their own, too close together to order."
    return Diagnosis(run=run_summary(), verdict=Verdict(VerdictStatus.TIED, 0.81, summary, initiators))


@pytest.fixture
def undetermined() -> Diagnosis:
    """A rank that fell silent, with the file missing that would say why."""
    return Diagnosis(
        run=run_summary(),
        verdict=Verdict(VerdictStatus.UNDETERMINED, 0.4, "Rank 9 fell silent before all others, and no file says why."),
        hypotheses=(
            Hypothesis(("node02",), FaultCode.NODE_LOST, 0.4, ("all eight ranks of node02 end at 01:02:03",)),
            Hypothesis(("rank 9 on node02",), FaultCode.RANK_STALLED, 0.35, control="Read node02's kernel log."),
        ),
        missing_evidence=("the kernel log of node02", "rank 9's own log"),
    )


@pytest.fixture
def healthy() -> Diagnosis:
    """A run that ended well."""
    return Diagnosis(
        run=run_summary(),
        verdict=Verdict(VerdictStatus.NO_FAILURE, 0.97, "Nothing failed: all 64 ranks finished step 2000."),
        checkpoint=Checkpoint(2000, "iter_0002000", "iter_0002000", "all ranks completed it"),
    )
