"""What a path says: each naming convention and its hints."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.sources import discover
from correlator.sources.found import natural_key, shown
from correlator.sources.hosts import can_be_host, host_at_end, is_host_shape, is_pod_shape
from correlator.sources.names import read_name
from correlator.sources.settle import _known_host

LAYOUTS: list[tuple[str, dict[str, object]]] = [
    ("rank_3.log", {"rank": 3}),
    ("rank-003.txt", {"rank": 3}),
    ("Rank3.LOG", {"rank": 3}),
    ("log.3", {"rank": 3, "rank_guessed": True}),
    ("worker3.log", {"rank": 3}),
    ("r3.out", {"rank": 3, "rank_guessed": True}),
    ("0003.out", {"rank": 3, "rank_guessed": True}),
    ("17.log.gz", {"rank": 17, "rank_guessed": True}),
    ("proc_5.err.gz", {"rank": 5, "stream": "stderr"}),
    ("stderr_rank7", {"rank": 7, "stream": "stderr"}),
    ("stdout.7", {"rank": 7, "rank_guessed": True, "stream": "stdout"}),
    ("logs-run-rank3.txt", {"rank": 3}),
    ("rank12of64.log", {"rank": 12}),
    ("rank.3/stdout", {"rank": 3, "stream": "stdout"}),
    ("node03_rank_17.log", {"rank": 17, "node": "node03"}),
    ("node03/rank_17.log", {"rank": 17, "node": "node03"}),
    ("rank_17.node03.err", {"rank": 17, "node": "node03", "stream": "stderr"}),
    ("local_rank_2.log", {"local_rank": 2}),
    ("node03/gpu3.log", {"local_rank": 3, "node": "node03"}),
    ("node02-gpu3.log", {"local_rank": 3, "node": "node02"}),
    ("node_1/rank3.log", {"rank": 3, "node_rank": 1}),
    ("node_rank1_local_rank2.log", {"node_rank": 1, "local_rank": 2}),
    ("tp_rank_1.log", {}),
    ("node03.log", {"node": "node03"}),
    ("gpu-044.log", {"node": "gpu-044"}),
    ("10.0.0.5.log", {"node": "10.0.0.5"}),
    ("gx0834.cluster.local.log", {"node": "gx0834"}),
    ("kernel_gpu-044.log", {"node": "gpu-044"}),
    ("node058.kern.log", {"node": "node058"}),
    ("dmesg/ip-10-1-13-251.txt", {"node": "ip-10-1-13-251"}),
    ("syslog/nid001032.log", {"node": "nid001032"}),
    ("journal/h100-01-007.log", {"node": "h100-01-007"}),
    ("node028/journalctl-k.log", {"node": "node028"}),
    ("node028/syslog", {"node": "node028"}),
    ("launcher_nid001015.log", {"node": "nid001015"}),
    ("agent_node00.log", {"node": "node00"}),
    ("node028/torchrun.log", {"node": "node028"}),
    ("nccl/nccl.node03.4245.log", {"node": "node03", "pid": 4245}),
    ("nccl.node03.cluster.local.4245.log", {"node": "node03", "pid": 4245}),
    ("nccl.4245.log", {"pid": 4245}),
    ("pyspy/rank0_pid25867.txt", {"rank": 0, "pid": 25867}),
    ("py-spy-node03-4245.txt", {"node": "node03", "pid": 4245}),
    ("slurm-707323.out", {"job_id": "707323"}),
    ("slurm-707323_1.out", {"job_id": "707323", "task_id": 1}),
    ("123456_node03_5.out", {"job_id": "123456", "task_id": 5, "node": "node03"}),
    ("slurm-123456_node03_5.err", {"job_id": "123456", "task_id": 5, "node": "node03", "stream": "stderr"}),
    ("slurm-123456_node03.out", {"job_id": "123456", "node": "node03"}),
    ("train_707323_3.err", {"job_id": "707323", "task_id": 3, "stream": "stderr"}),
    ("20481177.err", {"job_id": "20481177", "stream": "stderr"}),
    ("slurm-12_3.out", {"job_id": "12", "task_id": 3}),
    (
        "node00/job28621_ikcybrl4/attempt_0/2/stderr.log",
        {"node": "node00", "run_id": "job28621_ikcybrl4", "attempt": 0, "local_rank": 2, "stream": "stderr"},
    ),
    ("none_u2r3zl_f/attempt_1/3/error.json", {"run_id": "none_u2r3zl_f", "attempt": 1, "local_rank": 3}),
    (
        "logs/h100-01-028/torchrun/none_zl_kn0qy/attempt_0/0/stdout.log.gz",
        {"node": "h100-01-028", "run_id": "none_zl_kn0qy", "attempt": 0, "local_rank": 0, "stream": "stdout"},
    ),
    ("node03/3/stderr.log", {"node": "node03", "local_rank": 3, "stream": "stderr"}),
    ("gpu-061/fr/nccl_trace_rank_1.json.gz", {"rank": 1, "node": "gpu-061"}),
    ("flight_recorder/job-master-0_comm_lib_trace_rank_0.gz", {"rank": 0, "pod": "job-master-0"}),
    ("node03_nccl_trace_rank_9", {"rank": 9, "node": "node03"}),
    ("pods/moe-run7-worker-3.log", {"pod": "moe-run7-worker-3"}),
    ("pod_gpt-train-0.log", {"pod": "gpt-train-0"}),
    ("pods/ns_job-worker-2_0a1b2c3d-11aa/pytorch/1.log", {"pod": "job-worker-2", "attempt": 1}),
    (f"containers/job-worker-2_ns_pytorch-{'ab' * 32}.log", {"pod": "job-worker-2"}),
    ("session_2026/logs/worker-0a1b2c3d4e5f-01000000-4245.err", {"pid": 4245, "stream": "stderr"}),
    ("logs.tar.gz/node03/dmesg.txt", {"node": "node03"}),
    ("gpu-cluster01/node03.log", {"node": "node03"}),
    ("rank_3/0.log", {"rank": 3}),
    ("node07/rank_1/node03_rank_2.log", {"node": "node03", "rank": 2}),
    ("nohup.out", {}),
    ("console.log", {}),
    ("job.log", {}),
    ("2026-11-30/output.log", {}),
    ("attempt_0/logs/run/flight_recorder/stdout.txt", {"attempt": 0, "stream": "stdout"}),
]


def hints_of(path: str, known: frozenset[str] = frozenset()) -> dict[str, object]:
    facts = read_name(path, known)
    said = {key: value for key, value in dataclasses.asdict(facts.hints).items() if value is not None}
    node = next((word for word in facts.hosts if is_host_shape(word)), None)
    return said | ({"node": node} if node else {})


@pytest.mark.parametrize(("path", "expected"), LAYOUTS, ids=[path for path, _ in LAYOUTS])
def test_each_naming_convention_gives_its_hints(path: str, expected: dict[str, object]) -> None:
    assert hints_of(path) == expected


def test_a_numbered_copy_beside_its_base_is_a_rotated_file() -> None:
    assert hints_of("train.log.1", frozenset({"train.log", "train.log.1"})) == {}


def test_numbered_files_from_zero_without_a_base_are_ranks() -> None:
    known = frozenset(f"out/train.log.{number}" for number in range(4))
    assert hints_of("out/train.log.3", known) == {"rank": 3, "rank_guessed": True}


def test_out_is_standard_output_only_beside_an_err_file() -> None:
    assert hints_of("rank_1.out", frozenset({"rank_1.err"}))["stream"] == "stdout"
    assert "stream" not in hints_of("rank_1.out")


@pytest.mark.parametrize(
    "word", ["logs", "run7", "attempt_0", "pods", "nccl", "dmesg", "kernel", "fr", "rank3", "step100"]
)
def test_everyday_folder_words_are_no_hosts(word: str) -> None:
    assert not can_be_host(word)


@pytest.mark.parametrize("word", ["node03", "gpu-044", "nid001011", "ip-10-1-7-110", "h100-01-028", "c01n02", "dgx-12"])
def test_cluster_names_are_built_like_hosts(word: str) -> None:
    assert is_host_shape(word)
    assert not is_pod_shape(word)


@given(st.text(max_size=300))
def test_any_path_can_be_read(path: str) -> None:
    """No name raises, and every number that it gives fits a 64-bit column."""
    hints = read_name(path).hints
    for value in dataclasses.asdict(hints).values():
        assert not isinstance(value, int) or 0 <= value < 2**63


@given(st.lists(st.text(alphabet="a1٣²0_-/.", max_size=12), max_size=8))
def test_natural_order_is_total(paths: list[str]) -> None:
    """Sorting never fails and does not depend on the order before."""
    backwards = list(reversed(paths))
    assert sorted(paths, key=natural_key) == sorted(backwards, key=natural_key)


def test_natural_order_reads_numbers() -> None:
    assert sorted(["rank_10", "rank_2"], key=natural_key) == ["rank_2", "rank_10"]


@given(st.binary(max_size=40))
def test_shown_paths_can_be_printed(name: bytes) -> None:
    """Any bytes of a file name become text without control characters that UTF-8 can hold."""
    text = shown(name.decode("utf-8", "surrogateescape"))
    text.encode("utf-8")
    assert not any(ord(char) < 32 or ord(char) == 127 for char in text)


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("job-7731-gpu-033", "gpu-033"),
        ("case9_node03", "node03"),
        ("INC-42-ip-10-1-13-251", "ip-10-1-13-251"),
        ("gpu-033", None),
        ("resnet-v2", None),
        ("llama-tp8", None),
        ("a-" * 200, None),
    ],
)
def test_a_host_may_stand_behind_other_words(name: str, host: str | None) -> None:
    assert host_at_end(name) == host


def test_a_host_that_lines_carry_is_found_anywhere_in_a_name() -> None:
    hosts = {"alpha", "gpu-03", "gpu-033", "the"}
    assert _known_host("case-12-gpu-033-dmesg.txt", hosts) == "gpu-033"
    assert _known_host("alpha/x.log", hosts) == "alpha"
    assert _known_host("alphabet/gpu-0333.log", hosts) is None
    assert _known_host("-" * 5000 + "alpha", hosts) is None


def test_a_kernel_log_belongs_to_the_host_that_other_files_name(tmp_path: Path) -> None:
    """Its own lines do not say where they come from."""
    (tmp_path / "syslog.txt").write_bytes(b"Mar  2 17:05:01 alpha7x kernel: NVRM: loading\n" * 9)
    (tmp_path / "case-9-alpha7x-kern.txt").write_bytes(b"[    1.000000] NVRM: loading\n" * 9)
    with discover([tmp_path]) as run:
        assert run.files[0].hints.node == "alpha7x"
