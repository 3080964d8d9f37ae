"""Advice put into the words of a run: only its own values, only shell words in commands, rivals with a control each."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.advice import Given, advise, weigh
from correlator.advice.kernel import KernelLogs, KernelSays, kernel_view
from correlator.advice.known import Known, job_of
from correlator.advice.lines import Line
from correlator.advice.pattern import Spread, pattern_of
from correlator.advice.resume import resume_words, trainer_of
from correlator.advice.watchdog import describe_progress, progress_of
from correlator.core.catalogue import load_catalogue
from correlator.core.catalogue.model import PLACEHOLDERS
from correlator.core.files import FileReport
from correlator.core.model import Checkpoint, ClockEstimate, ClockModel, Evidence, Hypothesis, Initiator, Verdict
from correlator.core.vocabulary import FAULT_CLASS, ClockStatus, FaultCode, FileKind, Role, VerdictStatus
from tests.helpers_events import event, log, table

CATALOGUE = load_catalogue()
SECOND = 10**9


def initiator(fault: FaultCode, *, line: int = 7, file: str = "node03/kern.log", **fields: Any) -> Initiator:
    values: dict[str, Any] = dict.fromkeys(
        ("rank", "local_rank", "node", "gpu", "pid", "time", "time_uncertainty_ms", "phase", "step")
    )
    cited = (Evidence(file, line, 0, "text", None, "test.rule"),)
    return Initiator(**(values | fields), fault=fault, fault_class=FAULT_CLASS[fault], evidence=cited)


def identified(*initiators: Initiator) -> Verdict:
    return Verdict(VerdictStatus.IDENTIFIED, 0.9, "", initiators)


def line(name: str, **fields: Any) -> Line:
    role = Role.INITIATING if name in set(FaultCode) else Role.CONTEXT
    defaults: dict[str, Any] = {"role": role, "signature": f"test.{name}", "file": "rank_3.log", "number": 1}
    return Line(name, **(defaults | fields))


EVENTS = table([(log("node03/kern.log", FileKind.KERNEL_LOG, node="node03"), [
    event("gpu_ecc_dbe", 7, seconds=5, host_name="node03", gpu="0000:3b:00", rank=17, body="NVRM: Xid 94, Contained: SM (0x1). RST: No", attributes={"xid": "94"}, dialect="slurm"),
    event("gpu_identity", 8, gpu="0000:3b:00", attributes={"uuid": "GPU-34d7319c"}),
])])  # fmt: skip
ECC = initiator(FaultCode.GPU_ECC_DBE, rank=17, local_rank=1, node="node03", gpu="0000:3b:00", pid=4245, step=12)


def test_commands_hold_this_run() -> None:
    """Node, both spellings of the GPU, and the scheduler's list of nodes to leave out."""
    actions = advise(
        identified(ECC), Checkpoint(safe_to_resume_from="step_10", why="its save completed"), (), CATALOGUE, EVENTS
    )
    assert "ssh node03 nvidia-smi -i 0000:3b:00.0 -q -d ECC,ROW_REMAPPER" in actions.commands
    assert any("Xid.*0000:3b:00'" in command for command in actions.commands)
    assert any(command.startswith('sbatch --exclude="node03"') for command in actions.commands)
    assert any("State=DRAIN" in command for command in actions.commands)
    assert actions.first.startswith("Xid 94: ")
    assert "step_10" in actions.resume
    assert "first sign" in actions.resume


def test_without_a_scheduler_in_the_logs_none_is_addressed() -> None:
    """Slurm's commands are of no use on a cluster without Slurm."""
    other = table(
        [
            (
                log("node03/kern.log", FileKind.KERNEL_LOG),
                [event("gpu_ecc_dbe", 7, host_name="node03", attributes={"xid": "94"})],
            )
        ]
    )
    commands = advise(identified(ECC), Checkpoint(), (), CATALOGUE, other).commands
    assert not [command for command in commands if command.startswith(("sbatch", "scontrol", "sacct", "kubectl"))]


def test_a_command_whose_value_nobody_printed_is_left_out() -> None:
    """Nothing is guessed: without a node and a GPU no command about them."""
    nowhere = initiator(FaultCode.GPU_ECC_DBE)
    actions = advise(identified(nowhere), Checkpoint(), (), CATALOGUE, EVENTS.clear())
    assert actions.commands == ()
    assert "{" not in actions.first + actions.verify
    assert "the node" in actions.first


@given(
    st.dictionaries(st.sampled_from(sorted(PLACEHOLDERS)), st.text(max_size=40)), st.sampled_from(sorted(PLACEHOLDERS))
)
def test_no_log_text_becomes_shell(values: dict[str, str], name: str) -> None:
    """A value in a command is one plain word for the shell, and no option; else the command is left out."""
    command = Known(values).command(f"ssh {{{name}}} true")
    if command is not None:
        assert shlex.split(command) == ["ssh", values[name], "true"]
        assert not values[name].startswith("-")
        assert not set(values[name]) & set("$`;&|<>(){}*?[]!#\"'\\ \n\t")
    assert "{" not in Known({}).prose(f"look at rank {{{name}}} now")


@pytest.mark.parametrize(
    ("signature", "body", "name", "attributes", "says"),
    [
        ("megatron.saved", "successfully saved checkpoint from iteration    1200 to /ckpt/gpt [ t 1/8, p 1/4 ]", "iter_0001200", {"checkpoint": "iter_0001200"}, "--load /ckpt/gpt --ckpt-step 1200"),
        ("hf.save_started", "Saving model checkpoint to out/checkpoint-1200", "checkpoint-1200", {"checkpoint": "checkpoint-1200"}, "--resume_from_checkpoint out/checkpoint-1200"),
        ("torchtitan.saved", "Finished saving the checkpoint", "step-1200", {"naming": "step-{step}"}, "--checkpoint.load_step 1200"),
        ("lightning.epoch_end", "saving model to '/ckpt/epoch=0-step=500.ckpt' as top 3", "epoch=0-step=500.ckpt", {"checkpoint": "epoch=0-step=500.ckpt"}, "ckpt_path=/ckpt/epoch=0-step=500.ckpt"),
        ("deepspeed.saved", "Saving model checkpoint: /ckpt/global_step1200", "global_step1200", {"checkpoint": "global_step1200"}, 'load_checkpoint(..., tag="global_step1200")'),
        ("checkpoint.saved", "saved step 10", "step_10", {"checkpoint": "step_10"}, ""),
    ],
)  # fmt: skip
def test_the_option_of_the_trainer_that_the_logs_show(
    signature: str, body: str, name: str, attributes: dict[str, str], says: str
) -> None:
    """Each trainer is told in its own way; a script that we do not know, in none."""
    told = [line("checkpoint_saved", signature=signature, body=body, attributes=attributes)]
    words = resume_words(Checkpoint(safe_to_resume_from=name, why="its save completed"), None, told)
    assert name in words
    assert says in words
    assert (trainer_of(name, told) is None) == (says == "")
    assert trainer_of("another", told) is None


def test_the_advice_on_resuming_agrees_with_the_checkpoint() -> None:
    """What is safe is named, not what is merely the last; where nothing is safe, nothing is."""
    spoilt = Checkpoint(30, "step_20", "step_10", "its save completed (a.log:3); step_20: it was saved after the error")
    words = resume_words(spoilt, CATALOGUE.entry("gpu_ecc_dbe"), [])
    assert words.startswith("Resume from step_10: ")
    assert "first sign" in words
    none = Checkpoint(30, "step_20", None, "step_20: it was saved after the error; no checkpoint completed before that")
    assert resume_words(none, None, []).startswith("No checkpoint here can be trusted: step_20")
    assert resume_words(Checkpoint(30), None, []) == "No checkpoint here is known to be complete."


def stalled(*more: Any, node: str = "node03", dialect: str = "test") -> tuple[str, ...]:
    """Commands for a rank that stalled, in a run with these further events."""
    own = event("collective_timeout", 7, seconds=5, host_name=node, rank=17, dialect=dialect)
    events = table([(log("rank_17.log", FileKind.RANK_LOG, node=node), [own, *more])])
    chosen = initiator(FaultCode.RANK_STALLED, rank=17, node=node, pid=4245, file="rank_17.log")
    return advise(identified(chosen), Checkpoint(), (), CATALOGUE, events).commands


def test_a_process_that_is_gone_is_not_asked() -> None:
    """py-spy needs a living process: not where a launcher or scheduler shows its end."""
    assert any("py-spy dump --pid 4245" in command for command in stalled())
    for name in ("worker_failed", "worker_signalled", "child_failed_row"):
        commands = stalled(event(name, 9, rank=17))
        assert not [command for command in commands if "--pid" in command or "/proc/4245" in command], name
        assert any("TORCH_NCCL_DUMP_ON_TIMEOUT=1 $TRAIN" in command for command in commands)
    for name in ("task_exit", "scheduler_cancelled", "agent_signalled"):
        assert not [command for command in stalled(event(name, 9)) if "--pid" in command], name
    assert any("py-spy" in command for command in stalled(event("worker_failed", 9, rank=3))), "another rank ended"


def test_a_pod_or_a_container_is_not_a_host() -> None:
    """A pid of a pod means nothing on its node, and nobody logs in to a container by its id."""
    assert not [command for command in stalled(dialect="kubernetes") if "4245" in command]
    assert any(command.startswith("ssh node03 ") for command in stalled(dialect="kubernetes"))
    assert not [command for command in stalled(node="d3c0a9f1e27b") if command.startswith("ssh ")]


def test_the_line_of_the_code_is_shown_by_a_command() -> None:
    """The innermost frame of the user's code, where its path is a whole one."""
    raised = event(
        "python_exception",
        7,
        seconds=5,
        host_name="node03",
        rank=17,
        code_file_path="/workspace/train.py",
        code_line_number=3,
    )
    events = table([(log("rank_17.log", FileKind.RANK_LOG, node="node03"), [raised])])
    chosen = initiator(FaultCode.PYTHON_EXCEPTION, rank=17, node="node03", file="rank_17.log")
    actions = advise(identified(chosen), Checkpoint(), (), CATALOGUE, events)
    assert 'ssh node03 "sed -n 1,8p /workspace/train.py"' in actions.commands
    assert "/workspace/train.py:3" in actions.first


def test_evidence_names_the_decisive_line_of_a_record() -> None:
    """A traceback begins far above the line that is cited: its numbers and its finer entry are read all the same."""
    said = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which "
        "1.05 GiB is free. Including non-PyTorch memory, this process has 78.05 GiB memory in use. Of the allocated memory 70.10 GiB "
        "is allocated by PyTorch, and 5.90 GiB is reserved by PyTorch but unallocated."
    )
    raised = event("cuda_oom", 40, seconds=5, host_name="node03", rank=17, body=said, line_count=30)
    events = table([(log("rank_17.log", FileKind.RANK_LOG, node="node03"), [raised])])
    chosen = initiator(FaultCode.CUDA_OOM, rank=17, node="node03", file="rank_17.log", line=69)
    actions = advise(identified(chosen), Checkpoint(), (), CATALOGUE, events)
    assert "2.00 GiB with 1.05 GiB" in actions.first
    assert any("expandable_segments" in command for command in actions.commands)


def test_both_faults_of_a_tie_get_their_advice() -> None:
    """The second is not left without a word where it is another fault."""
    events = table(
        [
            (log("rank_17.log", FileKind.RANK_LOG, node="node03"), [event("cuda_oom", 7, host_name="node03", rank=17)]),
            (log("rank_3.log", FileKind.RANK_LOG, node="node01"), [event("disk_full", 7, host_name="node01", rank=3)]),
        ]
    )
    chosen = (
        initiator(FaultCode.CUDA_OOM, rank=17, node="node03", file="rank_17.log"),
        initiator(FaultCode.DISK_FULL, rank=3, node="node01", file="rank_3.log"),
    )
    tied = Verdict(VerdictStatus.TIED, 0.8, "", chosen)
    first = advise(tied, Checkpoint(), (), CATALOGUE, events).first
    assert "Rank 3 on node01, disk_full: Free space" in first


def test_the_job_is_named_only_where_there_is_one() -> None:
    """Two ids in the lines are no answer; the name of a default output file is."""
    assert job_of([line("message", body="slurmstepd: error: *** STEP 123456.0 ON node03 CANCELLED ***")]) == "123456"
    assert job_of([line("message", body="StepId=1234.0"), line("message", body="JobId=5678")]) is None
    assert job_of([line("message", file="logs/slurm-449014_3.out")]) == "449014"
    assert job_of([line("message", file="rank_3.log")]) is None


def weighed(verdict: Verdict, *given: Hypothesis, **more: Any) -> tuple[Hypothesis, ...]:
    return weigh(given, verdict, CATALOGUE, EVENTS, Given(**more))


@pytest.mark.parametrize("fault", list(FaultCode))
@pytest.mark.parametrize("probability", [0.05, 0.55, 0.96, 1.0])
def test_every_fault_gets_a_rival_with_a_control(fault: FaultCode, probability: float) -> None:
    """At least one other explanation, each with what separates it, and probabilities that leave room for the unknown."""
    chosen = initiator(fault, rank=3, node="node03")
    found = weighed(identified(chosen), Hypothesis(("rank 3 on node03",), fault, probability))
    assert len(found) >= 2
    assert all(hypothesis.control and "{" not in hypothesis.control for hypothesis in found)
    assert sum(hypothesis.probability for hypothesis in found) <= 1 + 1e-9
    assert all(0 <= hypothesis.probability <= probability or hypothesis.probability <= 0.1 for hypothesis in found)
    assert len({(h.initiators, h.fault) for h in found}) == len(found)


def test_a_hypothesis_that_was_ruled_out_keeps_its_words() -> None:
    """Supports, contradictions and probabilities of the graph are not rewritten."""
    own = Hypothesis(("rank 17 on node03",), FaultCode.GPU_ECC_DBE, 0.9, ("a",), ("b",))
    other = Hypothesis(("rank 3 on node01",), FaultCode.RANK_STALLED, 0.05, ("c",), ("d",))
    found = weighed(identified(ECC), own, other)
    assert [h.probability for h in found[:2]] == [0.9, 0.05]
    assert found[0].supports[0] == "a"
    assert found[1].supports == ("c",)
    assert found[1].contradicts == ("d",)
    assert any("Xid 94" in words for words in found[0].supports)


def test_an_undetermined_verdict_says_what_would_decide() -> None:
    """The missing file is the control; without a failure nothing is weighed."""
    open_verdict = Verdict(VerdictStatus.UNDETERMINED, 0.5, "")
    found = weighed(open_verdict, missing=("kernel log of node03",))
    assert "kernel log of node03" in found[0].control
    assert weighed(Verdict(VerdictStatus.NO_FAILURE, 0.9, "")) == ()


def report(**fields: Any) -> FileReport:
    return FileReport("kern.log", FileKind.KERNEL_LOG, node="node03", **fields)


def xid(name: str, number: int, at_s: int = 95, **fields: Any) -> Line:
    """A line of a kernel log of node03, of GPU 3b unless told otherwise."""
    values: dict[str, Any] = {"node": "node03", "gpu": "0000:3b:00", "domain": "node03", "file_kind": "kernel_log"}
    return line(name, attributes={"xid": str(number)}, aligned_ns=at_s * SECOND, **(values | fields))


FAILED_AT = 100 * SECOND
FAILED = line(
    "cuda_illegal_address", node="node03", gpu="0000:3b:00", printed_ns=FAILED_AT, aligned_ns=FAILED_AT, domain="node03"
)


@pytest.mark.parametrize(
    ("lines", "reports", "says"),
    [
        ([xid("gpu_off_bus", 79)], [], KernelSays.HARDWARE),
        ([xid("gpu_ecc_dbe", 94)], [report(first_time_ns=0, last_time_ns=200 * SECOND)], KernelSays.HARDWARE),
        ([xid("gpu_off_bus", 79, gpu="0000:5d:00")], [], KernelSays.ABSENT),
        ([xid("gpu_off_bus", 79, node="node04")], [], KernelSays.ABSENT),
        ([xid("gpu_off_bus", 79, at_s=-9000)], [], KernelSays.ABSENT),
        ([xid("gpu_off_bus", 79, at_s=-9000)], [report(first_time_ns=0, last_time_ns=200 * SECOND)], KernelSays.CLEAN),
        ([xid("gpu_off_bus", 79, gpu=None)], [], KernelSays.NEARBY),
        ([xid("gpu_mmu_fault", 31, at_s=99)], [], KernelSays.SOFTWARE),
        ([xid("gpu_mmu_fault", 31, at_s=99), xid("gpu_ecc_dbe", 48, at_s=98)], [], KernelSays.HARDWARE),
        ([], [report(first_time_ns=0, last_time_ns=200 * SECOND)], KernelSays.CLEAN),
        ([], [report(first_time_ns=0, last_time_ns=50 * SECOND)], KernelSays.NOT_THEN),
        ([], [report(first_time_ns=150 * SECOND, last_time_ns=200 * SECOND)], KernelSays.NOT_THEN),
        ([], [report()], KernelSays.NOT_THEN),
        ([], [], KernelSays.ABSENT),
    ],
)
def test_the_kernel_log_tells_hardware_from_software(
    lines: list[Line], reports: list[FileReport], says: KernelSays
) -> None:
    """Only an Xid of the same GPU, node and time counts, and only a log whose lines span the time is clean."""
    view = kernel_view(FAILED, lines, KernelLogs(reports))
    assert view.says is says
    settled, words = view.told("node03")
    assert settled == (says in {KernelSays.HARDWARE, KernelSays.SOFTWARE, KernelSays.CLEAN})
    assert ("node03" in words) or ("kern.log" in words) or ("rank_3.log" in words)


def test_an_xid_of_the_node_is_not_that_of_a_process_whose_gpu_nobody_named() -> None:
    """Eight GPUs share a node: without an address on both sides the Xid may be a neighbour's."""
    view = kernel_view(replace(FAILED, gpu=None), [xid("gpu_off_bus", 79)], KernelLogs())
    assert view.says is KernelSays.NEARBY


@pytest.mark.parametrize(
    ("ahead_s", "half_s", "says"),
    [(18_000, 1, KernelSays.CLEAN), (18_000, 120, KernelSays.NOT_THEN), (0, 1, KernelSays.NOT_THEN)],
)
def test_a_kernel_log_in_another_zone_covers_what_it_covers(ahead_s: int, half_s: int, says: KernelSays) -> None:
    """Its span is compared on the corrected clock, and only where the clocks leave no doubt."""
    half = half_s * 1000.0
    kernel = ClockEstimate(
        "node03 (kernel)",
        ahead_s * 1e3,
        (ahead_s * 1e3 - half, ahead_s * 1e3 + half),
        0.0,
        None,
        5,
        ClockStatus.ALIGNED,
    )
    own = ClockEstimate("node03", 0.0, (0.0, 0.0), 0.0, None, 5, ClockStatus.ALIGNED)
    zoned = report(first_time_ns=18_000 * SECOND, last_time_ns=18_200 * SECOND)
    logs = KernelLogs([zoned], ClockModel((own, kernel)), {"kern.log": "node03 (kernel)"})
    assert kernel_view(FAILED, [], logs).says is says
    unknown = KernelLogs([zoned], ClockModel((own, kernel)))
    assert kernel_view(FAILED, [], unknown).says is KernelSays.NOT_THEN, "nothing says which clock the file prints"


def test_a_damaged_kernel_log_is_not_clean() -> None:
    """What a part that could not be read would say, nobody knows."""
    logs = KernelLogs([report(first_time_ns=0, last_time_ns=200 * SECOND)], damaged=frozenset({"kern.log"}))
    assert kernel_view(FAILED, [], logs).says is KernelSays.NOT_THEN


def test_a_hardware_xid_excludes_code_as_a_rival() -> None:
    """With the kernel log's word for hardware, an assert of the data is no open rival of a launch failure."""
    events = table([
        (log("node03/kern.log", FileKind.KERNEL_LOG, node="node03"), [event("gpu_off_bus", 7, seconds=5, host_name="node03", gpu="0000:3b:00", attributes={"xid": "79"})]),
        (log("rank_3.log", FileKind.RANK_LOG), [event("cuda_launch_failure", 9, seconds=6, host_name="node03", gpu="0000:3b:00", rank=3)]),
    ])  # fmt: skip
    chosen = initiator(FaultCode.CUDA_LAUNCH_FAILURE, rank=3, node="node03", file="rank_3.log", line=9)
    found = weigh([Hypothesis(("rank 3",), FaultCode.CUDA_LAUNCH_FAILURE, 0.8)], identified(chosen), CATALOGUE, events)
    assert FaultCode.CUDA_ILLEGAL_ADDRESS not in {hypothesis.fault for hypothesis in found}


@pytest.mark.parametrize(
    ("places", "world", "spread"),
    [
        ([(3, "node01", 0)], 16, Spread.ONE_RANK),
        ([(0, "node01", 0), (1, "node01", 0)], 16, Spread.ONE_NODE),
        ([(0, "node01", 0), (9, "node02", 0)], 16, Spread.SOME_RANKS),
        ([(0, "node01", 0), (1, "node01", 0)], 2, Spread.ALL_RANKS),
        ([(0, "node01", 0), (1, "node02", 0)], 2, Spread.ALL_RANKS),
        ([(3, "node01", 0), (3, "node01", 1)], 16, Spread.SAME_PLACE_AGAIN),
        ([(3, "node01", 0), (9, "node02", 1)], 16, Spread.MOVES),
    ],
)
def test_the_pattern_of_ranks(places: list[tuple[int, str, int]], world: int, spread: Spread) -> None:
    """One rank, a node, all, some, the same place in each attempt, or another one each time."""
    lines = [line("cuda_oom", rank=rank, node=node, attempt=attempt) for rank, node, attempt in places]
    found = pattern_of(initiator(FaultCode.CUDA_OOM, rank=places[0][0], node=places[0][1]), lines, 16, world)
    assert found is not None
    assert found.spread is spread
    one_machine = len({node for _, node, _ in places}) == 1
    assert ("not one machine's hardware" in found.sentence) == (spread is Spread.ALL_RANKS and not one_machine)


def test_the_pattern_of_an_unknown_error_is_that_of_its_words() -> None:
    """63 ranks that raise something else do not make an exception of one rank a common one."""
    own = line("python_exception", rank=3, node="node01", template="KeyError: <text>")
    others = [line("python_exception", rank=rank, node="node02", template="RuntimeError: gone") for rank in range(4, 9)]
    found = pattern_of(initiator(FaultCode.PYTHON_EXCEPTION, rank=3, node="node01"), [own, *others], 16, 16)
    assert found is not None
    assert found.spread is Spread.ONE_RANK


def test_no_pattern_without_others_to_compare() -> None:
    """One rank in a run of which one rank left a log says nothing; nor does a fault that was inferred."""
    lines = [line("cuda_oom", rank=3, node="node01")]
    assert pattern_of(initiator(FaultCode.CUDA_OOM, rank=3), lines, 1, 16) is None
    assert pattern_of(initiator(FaultCode.CUDA_OOM, rank=4), lines, 16, 16) is None


def test_watchdog_numbers_say_who_is_behind() -> None:
    """The rank that had issued less than its peers, or that all had issued the same."""

    def status(rank: int, issued: int, done: int) -> Line:
        return line(
            "work_status", rank=rank, group="0", attributes={"last_enqueued": str(issued), "last_completed": str(done)}
        )

    behind = [status(0, 632, 631), status(1, 632, 631), status(2, 631, 631)]
    assert progress_of(behind)[0].behind == (2,)
    assert "rank 2 had issued 631 operations, 2 other ranks 632" in describe_progress(2, behind)
    assert describe_progress(1, behind) == ""
    together = [status(rank, 632, 631) for rank in range(3)]
    assert "ranks 0-2 had all issued the same operation" in describe_progress(None, together)
