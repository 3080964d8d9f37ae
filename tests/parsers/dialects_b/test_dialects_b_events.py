"""What the builders make of the lines: the fields and attributes that the rest of the product reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from correlator.core.event import Event
from correlator.core.vocabulary import CollateralKind, Context, FaultCode, FileKind, Role, TimeSource

Parse = Callable[..., list[Event]]
_UTC_0102 = 1_764_464_523_000_000_000


def _only(events: list[Event]) -> Event:
    assert len(events) == 1, events
    return events[0]


@pytest.mark.parametrize(
    ("reason", "code", "core"),
    [
        ("Exited with exit code 1", 1, None),
        ("Killed", -9, None),
        ("Terminated", -15, None),
        ("Segmentation fault (core dumped)", -11, "true"),
        ("Bus error (core dumped)", -7, "true"),
        ("Aborted", -6, None),
        ("Out Of Memory", -9, None),
        ("Unspecified error", None, None),
    ],
)
def test_task_exit_codes(parse: Parse, reason: str, code: int | None, core: str | None) -> None:
    """A reason becomes an exit code, negative for a signal."""
    event = _only(parse(f"srun: error: node03: task 11: {reason}"))
    assert event.event_name == Context.TASK_EXIT
    assert event.exit_code == code
    assert event.attribute("core_dumped") == core


def test_task_exit_expands_hosts_and_ids(parse: Parse) -> None:
    """Compressed lists become JSON lists."""
    event = _only(parse("srun: error: node[03-04]: tasks 8-10,12: Killed"))
    assert json.loads(event.attribute("nodes") or "") == ["node03", "node04"]
    assert json.loads(event.attribute("tasks") or "") == [8, 9, 10, 12]
    assert event.attribute("reason") == "Killed"


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ("", "cancelled"),
        (" DUE TO TIME LIMIT", "time_limit"),
        (" DUE TO PREEMPTION", "preemption"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "node_failure"),
        (" DUE TO JOB REQUEUE", "requeue"),
        (" DUE TO TASK FAILURE", "task_failure"),
        (" DUE to SIGNAL Terminated", "signal"),
    ],
)
def test_cancelled_carries_reason_time_and_host(parse: Parse, cause: str, reason: str) -> None:
    """The time inside the text is the event's time."""
    line = f"slurmstepd: error: *** STEP 77.0 ON node03 CANCELLED AT 2025-11-30T01:02:03{cause} ***"
    event = _only(parse(line))
    assert (event.event_name, event.attribute("reason")) == (Context.SCHEDULER_CANCELLED, reason)
    assert (event.timestamp_ns, event.time_source, event.host_name) == (_UTC_0102, TimeSource.EXPLICIT, "node03")
    assert event.attribute("target") == "step"


def test_cancelled_behind_a_bar_without_newline_is_seen(parse: Parse) -> None:
    """The step daemon writes into the stderr of the tasks (R6)."""
    bar = "  1%|1         | 97/7800 [02:07<2:43:22,  1.31s/it]"
    events = parse(
        bar + "slurmstepd: error: *** JOB 77 ON node03 CANCELLED AT 2025-11-30T01:02:03 DUE TO PREEMPTION ***"
    )
    assert events[0].attribute("reason") == "preemption"
    assert events[0].attribute("target") == "job"


def test_a_quoted_slurm_line_in_a_trainer_log_is_nothing(parse: Parse) -> None:
    """The words count only behind Slurm's own head."""
    assert (
        parse("2025-11-30 01:02:03,123 [INFO] last run: *** STEP 5.0 ON a CANCELLED AT 2025-11-29T01:02:03 ***") == []
    )


def test_node_failures_name_each_node(parse: Parse) -> None:
    """One event for each node of the list."""
    events = parse("[2025-11-30T01:02:03.123] error: Nodes node[05-06] not responding, setting DOWN")
    assert [event.attribute("node") for event in events] == ["node05", "node06"]
    assert {event.event_name for event in events} == {Context.NODE_FAILURE_REPORTED}


def test_lost_pod_reports_its_node(parse: Parse) -> None:
    """NodeLost in a listing is a pod status and a node failure."""
    row = "job-worker-1   0/1     NodeLost   0          55m   10.41.3.14   node05    <none>           <none>"
    pod, node = parse(row, kind=FileKind.POD_LISTING)
    assert pod.event_name == Context.POD_STATUS
    facts = {name: pod.attribute(name) for name in ("pod", "node", "status", "ip", "restarts")}
    assert facts == {"pod": "job-worker-1", "node": "node05", "status": "NodeLost", "ip": "10.41.3.14", "restarts": "0"}
    assert (node.event_name, node.attribute("node")) == (Context.NODE_FAILURE_REPORTED, "node05")


def test_xid_context(parse: Parse) -> None:
    """GPU address, code, process and the cause that newer drivers print."""
    line = (
        "[12345.678901] NVRM: Xid (PCI:0000:5D:00): 45, pid=4245, name=python3, Ch 00000001 caused by previous Xid 149"
    )
    event = _only(parse(line, kind=FileKind.KERNEL_LOG))
    assert (event.event_name, event.gpu, event.process_pid) == (Context.XID, "0000:5d:00", 4245)
    facts = [event.attribute(name) for name in ("xid", "pid_name", "caused_by_xid")]
    assert facts == ["45", "python3", "149"]


def test_gpu_identity_and_boot_clock(parse: Parse) -> None:
    """The bus address of a UUID, and the wall clock that the hardware clock gave at boot."""
    clock, gpu = parse(
        "[    2.000000] rtc_cmos 00:01: setting system clock to 2025-11-30T01:02:03 UTC (1764464523)",
        "[   20.000000] NVRM: GPU at PCI:0000:3b:00: GPU-34d7319c-5b19-1e75-186d-c187099e4fe5",
        kind=FileKind.KERNEL_LOG,
    )
    assert (clock.event_name, clock.timestamp_ns) == (Context.KERNEL_BOOT, _UTC_0102)
    assert (gpu.gpu, gpu.attribute("uuid")) == ("0000:3b:00", "GPU-34d7319c-5b19-1e75-186d-c187099e4fe5")


def test_clock_steps_and_slews_differ(parse: Parse) -> None:
    """Only a real step has step_s."""
    step, slew = parse(
        "Nov 30 01:02:03 node03 chronyd[812]: System clock was stepped by -1.5 seconds",
        "Nov 30 01:02:04 node03 chronyd[812]: System clock wrong by 0.25 seconds",
        kind=FileKind.KERNEL_LOG,
    )
    assert (step.attribute("step_s"), step.attribute("offset_s")) == ("-1.5", None)
    assert (slew.attribute("step_s"), slew.attribute("offset_s")) == (None, "0.25")


def test_ray_victim_is_named_by_pid_and_address(parse: Parse) -> None:
    """The raylet's line points at the process that died."""
    event = _only(
        parse(
            "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker IP address: "
            "10.0.0.5 Worker port: 45555 Worker PID: 26103 Worker exit type: SYSTEM_ERROR Worker exit detail: End of file."
        )
    )
    assert (event.event_name, event.process_pid, event.attribute("ip")) == (
        CollateralKind.ACTOR_DIED,
        26103,
        "10.0.0.5",
    )
    assert event.attribute("exit_type") == "SYSTEM_ERROR"


def test_deepspeed_failure_is_marked_unreliable(parse: Parse) -> None:
    """The printed command may be that of the process started last."""
    event = _only(
        parse(
            "[2025-11-30 01:02:06,345] [ERROR] [launch.py:341:sigkill_handler] ['python', '-u', 'train.py', "
            "'--local_rank=3', '--save_steps', '400'] exits with return code = -11"
        )
    )
    assert (event.event_name, event.local_rank, event.exit_code) == (Context.WORKER_FAILED, 3, -11)
    assert (event.attribute("unreliable"), event.attribute("save_steps")) == ("true", "400")


def test_deepspeed_mapping_gives_an_identity_for_each_rank(parse: Parse) -> None:
    """Host, local rank and node rank follow from the order of the map."""
    events = parse(
        "[2025-11-30 01:00:00,123] [INFO] [launch.py:179:main] global_rank_mapping=defaultdict(<class 'list'>, "
        "{'node01': [0, 1], 'node02': [2, 3]})"
    )
    seen = [(event.rank, event.local_rank, event.host_name, event.node_rank, event.world_size) for event in events]
    assert seen == [(0, 0, "node01", 0, 4), (1, 1, "node01", 0, 4), (2, 0, "node02", 1, 4), (3, 1, "node02", 1, 4)]


def test_mpi_names_rank_host_and_signal(parse: Parse) -> None:
    """PID 0 is Open MPI's word for unknown."""
    known, unknown = parse(
        "mpirun noticed that process rank 3 with PID 4245 on node node03 exited on signal 11 (Segmentation fault).",
        "mpirun noticed that process rank 4 with PID 0 on node node04 exited on signal 9 (Killed).",
    )
    assert (known.rank, known.process_pid, known.host_name, known.exit_code) == (3, 4245, "node03", -11)
    assert (unknown.rank, unknown.process_pid, unknown.exit_code) == (4, None, -9)


def test_ucx_signal_says_which_fault(parse: Parse) -> None:
    """The signal number decides the code."""
    event = _only(parse("[node03:4245 :0:4245] Caught signal 7 (Bus error: nonexistent physical address)"))
    assert (event.event_name, event.host_name, event.process_pid) == (FaultCode.NATIVE_BUS_ERROR, "node03", 4245)


def test_missing_ranks_are_named(parse: Parse) -> None:
    """JAX names a task, Horovod a rank."""
    jax, horovod = parse(
        "E1130 01:02:03.594192 1044529 coordination_service.cc:1170] /job:jax_worker/replica:0/task:37 has been set to ERROR in "
        "coordination service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:37 heartbeat timeout.",
        "5!: [allreduce.grad_0]",
    )
    assert (jax.event_name, jax.attribute("ranks")) == (Context.NAMED_MISSING_RANKS, "[37]")
    assert (horovod.attribute("ranks"), horovod.attribute("stalled")) == ("[5]", "true")


PROGRESS: list[tuple[str, dict[str, Any]]] = [
    (
        "2025-11-30 01:02:03,123 [INFO] trainer: [rank 8] step 1 | loss 5.98 | lr 3.0e-05",
        {"rank": 8, "step": 1, "loss": 5.98},
    ),
    ("step 2/80 loss 1.10 lr 1.0e-03 12.1 ms/step", {"step": 2, "loss": 1.10}),
    ("rank 0: batch 0 done, loss 2.3", {"rank": 0, "step": 0, "loss": 2.3}),
    (" [2025-11-30 01:02:03] iteration     1200/   50000 | lm loss: 2.504220E+00 |", {"step": 1200, "loss": 2.50422}),
    (
        "[titan] 2025-11-30 01:02:03,123 - root - INFO - step: 1200  loss:  2.50422  tps: 5,123",
        {"step": 1200, "loss": 2.50422},
    ),
    ("  0%|          | 5/100000 [00:48<266:39:22,  9.60s/it]", {"step": 5, "loss": None}),
    ("Epoch 3:  45%|####5     | 450/1000 [07:30<09:10,  1.00s/it, v_num=0, loss=2.5]", {"step": 3450, "loss": 2.5}),
    ("Epoch 2/3:  45%|####5     | 450/1000 [07:30<09:10,  1.00s/it]", {"step": 1450, "loss": None}),
    (
        "Epoch 0: :   6%|6         | 120/2000 [10:00<2:36:40, reduced_train_loss=2.590, global_step=119.0]",
        {"step": 119, "loss": 2.59},
    ),
    ("Epoch: 2/10, Step: 50/375, Lr: 0.000025, Loss: 5.900000, Time/step: 0.918629", {"step": 425, "loss": 5.9}),
    ("Epoch: [1]  [  10/5005]  eta: 1:02:03  lr: 0.1  loss: 6.9123 (6.9301)", {"step": 5015, "loss": 6.9123}),
    (
        "25-11-30 01:02:03.123 : <epoch:  8, iter:   1,000, lr:4.000e-04> G_loss: 4.300e-02 ",
        {"step": 1000, "loss": 0.043},
    ),
    (
        "Training epoch 1, iteration 20/1999 | global_step: 2019 | reduced_train_loss: 2.233",
        {"step": 2019, "loss": 2.233},
    ),
    (
        "[2025-11-30 01:02:03,123] [INFO] [logging.py:128:log_dist] [Rank 0] step=1200, skipped=3, lr=[1e-05]",
        {"step": 1200, "rank": 0},
    ),
    ("[epoch=1][batch=1200/50000]:", {"step": 1200}),
    (
        "[2025-11-30 01:02:03 TP3] model.py:918 - step 120: {'train/loss': 0.12, 'train/step': 120}",
        {"step": 120, "loss": 0.12},
    ),
    ("{'loss': 4.18, 'epoch': 0.0, 'global_step/max_steps': '12/2440'}", {"step": 12, "loss": 4.18}),
    ("  1%|1         | 12/2440 [00:07<09:10,  1.00s/it]{'loss': 2.5, 'epoch': 0.1}", {"step": 12, "loss": 2.5}),
]


@pytest.mark.parametrize(("line", "fields"), PROGRESS, ids=[line[:40] for line, _ in PROGRESS])
def test_progress(parse: Parse, line: str, fields: dict[str, Any]) -> None:
    """Step and loss of each trainer's shape."""
    event = _only(parse(line))
    assert event.event_name == Context.PROGRESS
    assert {name: getattr(event, name) for name in fields} == pytest.approx(fields)


@pytest.mark.parametrize(
    "line",
    [
        "Step 1: downloading the tokenizer",
        "step 3/5: building extensions",
        "Loading checkpoint shards: 100%|##########| 30/30 [00:18<00:00,  1.47it/s]",
        "Epoch 3 evaluation:  45%|####5     | 450/1000 [07:30<09:10,  1.00s/it]",
        "2025-11-30 01:02:03,123 [INFO] trainer: training finished epoch 3",
        "rank 0: batch 12 of the plan",
        "iteration 3 of the warm-up",
    ],
)
def test_chatter_is_no_progress(parse: Parse, line: str) -> None:
    """A number behind the word step is not yet a training step."""
    assert parse(line) == []


def test_validation_is_no_progress(parse: Parse) -> None:
    """The loss of an evaluation is kept apart from the training loss."""
    event = _only(parse("2025-11-30 01:02:03,123 [INFO] eval: step 5025 val_loss 2.2616 val_ppl 9.596"))
    assert (event.event_name, event.step, event.loss, event.attribute("val_loss")) == (
        Context.EVALUATION,
        5025,
        None,
        "2.2616",
    )


STARTED, SAVED = Context.CHECKPOINT_SAVE_STARTED, Context.CHECKPOINT_SAVED
LOADING, LOADED = Context.CHECKPOINT_LOAD_STARTED, Context.CHECKPOINT_LOADED
CHECKPOINTS: list[tuple[str, Context, str, int]] = [
    ("saving checkpoint at iteration    1200 to /ckpt in torch_dist format", STARTED, "iter_0001200", 1200),
    ("  successfully saved checkpoint from iteration    1200 to /ckpt [ t 1/8, p 1/4 ]", SAVED, "iter_0001200", 1200),
    (" loading distributed checkpoint from /ckpt at iteration 1200", LOADING, "iter_0001200", 1200),
    ("  successfully loaded checkpoint from /ckpt [ t 1/8, p 1/4 ] at iteration 1200", LOADED, "iter_0001200", 1200),
    ("saved checkpoint step_000010 (8 shards) in 0.03 s", SAVED, "step_000010", 10),
    ("saving checkpoint step_000010", STARTED, "step_000010", 10),
    ("checkpoint saved to /ckpt/iter_000100", SAVED, "iter_000100", 100),
    ("2025-11-30 01:02:03,123 [INFO] checkpoint: saving step 1200 to /ckpt/run7/step_1200", STARTED, "step_1200", 1200),
    ("2025-11-30 01:02:03,123 [INFO] checkpoint: saved /ckpt/run7/step_1200 in 12.3s", SAVED, "step_1200", 1200),
    (
        "[INFO|trainer.py:4236] 2025-11-30 01:02:03,123 >> Saving model checkpoint to out/checkpoint-20",
        STARTED,
        "checkpoint-20",
        20,
    ),
    ("Special tokens file saved in out/checkpoint-20/special_tokens_map.json", SAVED, "checkpoint-20", 20),
    (
        "[2025-11-30 01:02:03,123] [INFO] [logging.py:96:log_dist] [Rank 0] Saving model checkpoint: "
        "./out/checkpoint-1200/global_step1200/zero_pp_rank_0_mp_rank_00_model_states.pt",
        STARTED,
        "checkpoint-1200",
        1200,
    ),
    (
        "[2025-11-30 01:02:03,123] [INFO] [logging.py:96:log_dist] [Rank 0] [Torch] Checkpoint global_step1200 is ready now!",
        SAVED,
        "global_step1200",
        1200,
    ),
    (
        "Epoch 0, global step 500: 'loss' reached 2.5 (best 2.5), saving model to '/ckpt/epoch=0-step=500.ckpt' as top 3",
        STARTED,
        "epoch=0-step=500.ckpt",
        500,
    ),
    (
        "[titan] 2025-11-30 01:02:03,123 - root - INFO - Loading the checkpoint from ./out/step-1000.",
        LOADING,
        "step-1000",
        1000,
    ),
    ("2025-11-30 01:02:03,123 [INFO] trainer: [rank 3] resumed from /ckpt/run7/step_1200", LOADED, "step_1200", 1200),
]


@pytest.mark.parametrize(("line", "name", "checkpoint", "step"), CHECKPOINTS, ids=[row[0][:40] for row in CHECKPOINTS])
def test_checkpoints(parse: Parse, line: str, name: Context, checkpoint: str, step: int) -> None:
    """Name as printed or as on disk, and the step."""
    event = _only(parse(line))
    assert (event.event_name, event.attribute("checkpoint"), event.step) == (name, checkpoint, step)


def test_a_written_shard_is_no_saved_checkpoint(parse: Parse) -> None:
    """DeepSpeed's `Saved FILE` ends one file, not the checkpoint."""
    event = _only(
        parse(
            "[2025-11-30 01:02:03,123] [INFO] [torch_checkpoint_engine.py:23:save] [Torch] Saved "
            "./out/checkpoint-1200/global_step1200/zero_pp_rank_0_mp_rank_00_model_states.pt."
        )
    )
    assert event.event_name == STARTED


def test_a_bar_before_the_save_line_still_counts(parse: Parse) -> None:
    """Both facts of the torn line are kept."""
    save, progress = parse(
        "  0%|          | 225/250000 [04:14<501:01:04,  7.22s/it][INFO|trainer.py:3993] 2025-11-30 01:02:03,123 >> "
        "Saving model checkpoint to output/checkpoint-225"
    )
    assert (save.event_name, save.attribute("checkpoint")) == (STARTED, "checkpoint-225")
    assert (progress.event_name, progress.step) == (Context.PROGRESS, 225)


def test_titan_saves_say_how_their_folder_is_called(parse: Parse) -> None:
    """Neither step nor folder is printed."""
    event = _only(
        parse("[titan] 2025-11-30 01:02:03,123 - root - INFO - Saving the checkpoint (or staging if async is enabled).")
    )
    assert (event.event_name, event.step, event.attribute("naming")) == (STARTED, None, "step-{step}")


@pytest.mark.parametrize(
    "line",
    [
        "2025-11-30 01:02:03,123 INFO [rank 0] training finished at step 24",
        "[titan] 2025-11-30 01:02:03,123 - root - INFO - Training completed",
        "[after training is done] datetime: 2025-11-30 01:02:03 ",
        "{'train_runtime': 3600.1, 'train_loss': 2.1, 'epoch': 3.0}",
        "`Trainer.fit` stopped: `max_steps=2000` reached.",
        "Training completed. Do not forget to share your model on huggingface.co/models =)",
    ],
)
def test_orderly_ends(parse: Parse, line: str) -> None:
    """A run that ends by itself says so."""
    assert _only(parse(line)).event_name == Context.TRAINING_FINISHED


def test_mlperf_time_is_epoch_time(parse: Parse) -> None:
    """time_ms places the line without any other stamp."""
    event = _only(parse(':::MLLOG {"time_ms": 1764464523123, "key": "run_stop", "metadata": {"status": "aborted"}}'))
    assert (event.timestamp_ns, event.time_zone, event.attribute("status")) == (
        1_764_464_523_123_000_000,
        "Z",
        "aborted",
    )


def test_megatron_result_check_names_the_rank(parse: Parse) -> None:
    """NaN with rank, node and device is an initiating fault; a loss spike is not."""
    event = _only(parse("Rank 11, node node03, device 3, iteration 1201: Unexpected result nan (message='found NaN')"))
    assert (event.event_name, event.rank, event.host_name, event.step) == (FaultCode.NAN_LOSS, 11, "node03", 1201)
    spike = _only(parse("Unexpected result 17.2 on rank 11 at iteration #1201 invocation #0 (message='Spiky loss')"))
    assert (spike.event_name, spike.role, spike.rank) == (Context.MESSAGE, Role.CONTEXT, 11)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (
            "[rank: 3] Child process with PID 4245 terminated with code -11. Forcefully",
            {"process_pid": 4245, "exit_code": -11},
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGKILL",
            {"local_rank": 3, "exit_code": -9},
        ),
        (
            "/bin/bash: line 12:  4245 Segmentation fault      (core dumped) python train.py",
            {"process_pid": 4245, "exit_code": -11},
        ),
        ("Process 3 exit with status code 139.", {"rank": 3, "exit_code": 139}),
        ("Worker proc VllmWorker-3 died unexpectedly (exit code: -9)", {"local_rank": 3, "exit_code": -9}),
    ],
)
def test_worker_ends(parse: Parse, line: str, fields: dict[str, int]) -> None:
    """Who ended, and how."""
    event = _only(parse(line))
    assert event.event_name == Context.WORKER_FAILED
    assert {name: getattr(event, name) for name in fields} == fields
