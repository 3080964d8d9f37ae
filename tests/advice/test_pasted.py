"""Text as people paste it: other wordings than the catalogue's samples, quoted, indented, numbered, cut, or no text at all."""

from __future__ import annotations

import io
import json
import os
import random
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.advice import tidy
from correlator.advice.fragments import may_hold_a_message
from correlator.cli.app import main
from correlator.cli.explained import read_lines
from correlator.core.catalogue import load_catalogue
from correlator.core.vocabulary import Role

ASYNC = "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
TABLE = (
    "============================================================\ntrain.py FAILED\n"
    "------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n"
    "------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
    "  time      : 2025-11-30_01:02:03\n  host      : node03\n  rank      : 3 (local_rank: 3)\n  exitcode  : {code} (pid: 4245)\n"
    "  error_file: <N/A>\n  traceback : Signal {signal} received by PID 4245\n"
    "============================================================\n"
)
NCCL = "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, "

PASTES: dict[str, tuple[str, str, str]] = {
    # name: (text, key of the entry, words of what it cannot tell)
    "gather_assert": ('/pytorch/aten/src/ATen/native/cuda/ScatterGatherKernel.cu:115: operator(): block: [0,0,0], thread: [0,0,0] Assertion `idx_dim >= 0 && idx_dim < index_size && "index out of bounds"` failed.', "cuda_device_assert.embedding", "bad index"),
    "sampling_assert": ("/pytorch/aten/src/ATen/native/cuda/TensorCompare.cu:110: _assert_async_cuda_kernel: block: [0,0,0], thread: [0,0,0] Assertion `probability tensor contains either `inf`, `nan` or element < 0` failed.", "cuda_device_assert.probability", "not finite"),
    "assert_only_in_python": ("RuntimeError: CUDA error: device-side assert triggered\n" + ASYNC, "cuda_device_assert", "traceback shows where the error was noticed"),
    "hip_out_of_memory": ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 191.98 GiB of which 1.00 GiB is free. Of the allocated memory 180.00 GiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch but unallocated.", "cuda_oom.exhaustion", "which tensor"),
    "oom_of_2019": ("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 9.55 GiB already allocated; 13.56 MiB free; 9.82 GiB reserved in total by PyTorch)", "cuda_oom.exhaustion", "whether memory grew"),
    "oom_of_jax": ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.", "cuda_oom.jax", "which tensor"),
    "cublas_handle": ("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "cublas_cudnn_failure.alloc_failed", "how much memory was left"),
    "cublas_product": ("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb, m, n, k, &falpha, a, CUDA_R_16F, lda)`", "cublas_cudnn_failure.execution_failed", "an earlier kernel"),
    "cudnn_refuses": ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.", "cublas_cudnn_failure.bad_arguments", "which operand"),
    "illegal_instruction_of_a_kernel": ("RuntimeError: CUDA error: an illegal instruction was encountered", "cuda_launch_failure.illegal_instruction", "only the kernel log"),
    "kernel_too_long": ("RuntimeError: CUDA error: the launch timed out and was terminated", "cuda_launch_failure.timed_out", "kernels report late"),
    "device_busy": ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", "cuda_initialization.busy", "other ranks of the node"),
    "environment_of_cuda": ("RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.", "cuda_initialization", "why CUDA did not start"),
    "initialization_error": ("RuntimeError: CUDA error: initialization error", "cuda_initialization.fork", "before the fork"),
    "no_gpu": ("RuntimeError: No CUDA GPUs are available", "cuda_initialization.no_device", "why CUDA did not start"),
    "capture_of_a_legacy_stream": ("RuntimeError: CUDA error: operation would make the legacy stream depend on a capturing blocking stream", "cuda_stream_capture", "which call broke the capture"),
    "misaligned_2_9": ("torch.AcceleratorError: CUDA error: misaligned address\nSearch for `cudaErrorMisalignedAddress' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.", "cuda_misaligned_address", "which tensor was misaligned"),
    "ecc_from_cpp": ("terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: uncorrectable ECC error encountered\n" + ASYNC, "cuda_ecc_uncorrectable", "values computed before"),
    "replay_without_a_head": ('  File "/opt/conda/lib/python3.11/site-packages/torch/cuda/graphs.py", line 88, in replay\n    super().replay()\nRuntimeError: CUDA error: an illegal memory access was encountered', "cuda_illegal_address.graph_replay", "kernels report late"),
    "segfault_in_a_save": ('Fatal Python error: Segmentation fault\n\nThread 0x00007f8a1b2c3d40 (most recent call first):\n  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/checkpoint/filesystem.py", line 88 in write_data\n  File "/workspace/train.py", line 140 in save_checkpoint', "native_segfault.during_save", "memory had been damaged"),
    "segfault_in_teardown": ('Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f8a1b2c3d40 (most recent call first):\n  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2168 in destroy_process_group\n  File "/workspace/train.py", line 200 in main', "native_segfault.teardown", "memory had been damaged"),
    "segfault_of_ucx": ("[node03:4245 :0:4311] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x10)\n==== backtrace (tid:   4311) ====\n 0 0x0000000000043090 __sigaction()  ???:0", "native_segfault", "library at the top"),
    "segfault_by_srun": ("srun: error: node03: task 3: Segmentation fault (core dumped)", "native_segfault", "the Python line"),
    "bus_error": ('Fatal Python error: Bus error\n\nThread 0x00007f8a1b2c3d40 (most recent call first):\n  File "/workspace/data.py", line 12 in __getitem__', "native_bus_error", "which mapping"),
    "heap": ("double free or corruption (out)\nAborted (core dumped)", "native_abort.heap", "who damaged the heap"),
    "abort_by_table": (TABLE.format(code=-6, signal="6 (SIGABRT)"), "native_abort.exit_code", "why it aborted"),
    "kill_by_table": (TABLE.format(code=-9, signal="9 (SIGKILL)"), "process_killed", "who sent SIGKILL"),
    "pod_out_of_memory": ("    State:          Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n", "host_oom_kill", "who grew"),
    "pod_exit_139": ("    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    139\n", "native_segfault", "the Python line"),
    "killed_by_a_shell": ("run.sh: line 12:  4245 Killed                  python train.py", "process_killed", "who sent SIGKILL"),
    "slurm_memory": ("slurmstepd: error: Detected 1 oom_kill event in StepId=1234.0. Some of the step tasks have been OOM Killed.", "host_oom_kill", "who grew"),
    "slurm_time_limit": ("slurmstepd: error: *** JOB 1234 ON node03 CANCELLED AT 2025-11-30T01:02:03 DUE TO TIME LIMIT ***", "preempted.time_limit", "between the signal and the end"),
    "ray_memory": ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node (IP: 10.0.0.5, ID: abc) where the task (actor ID: def) was running was 120.00GB / 125.00GB (0.96), which exceeds the memory usage threshold of 0.95.", "host_oom_kill.ray", "who grew"),
    "worker_bus_error": ("RuntimeError: DataLoader worker (pid 4245) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.", "shm_exhausted", "who fills it"),
    "worker_gone": ("RuntimeError: DataLoader worker (pid(s) 4245, 4246) exited unexpectedly", "dataloader_worker_died", "why the worker died"),
    "descriptors": ("RuntimeError: unable to open shared memory object </torch_4245_123_456> in read-write mode: Too many open files (24)", "file_descriptor_limit", "what the open files are"),
    "xid_13": ("[12345.678901] NVRM: Xid (PCI:0000:3d:00): 13, pid=4245, name=python3, Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): Illegal Instruction Encoding", "gpu_mmu_fault.xid_13", "which rank it was"),
    "xid_43": ("[12345.678901] NVRM: Xid (PCI:0000:3d:00): 43, pid=4245, name=python3, Ch 00000020", "context_poisoned.xid_43", "what the process did wrong"),
    "xid_45": ("[12345.678901] NVRM: Xid (PCI:0000:3d:00): 45, pid=4245, name=python3, Ch 00000001", "secondary_abort.xid_45", "why the process ended"),
    "xid_48": ("[12345.678901] NVRM: Xid (PCI:0000:3b:00): 48, pid=4245, name=python3, DBE (double bit error) ECC Error", "gpu_ecc_dbe.xid_48", "since when values were wrong"),
    "xid_62": ("[12345.678901] NVRM: Xid (PCI:0000:3b:00): 62, pid=4245, 0000(0000) 00000000 00000000", "gpu_gsp_timeout.halt", "why the firmware stopped"),
    "xid_109": ("[12345.678901] NVRM: Xid (PCI:0000:3b:00): 109, pid=4245, name=python3, Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x58005", "cuda_launch_failure.xid", "the cause at all"),
    "nccl_twice_one_gpu": (NCCL + "invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.20.5\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000", "nccl_init_failure.invalid_usage", "which rank is at fault"),
    "nccl_argument": (NCCL + "invalid argument (run with NCCL_DEBUG=WARN for details), NCCL version 2.26.2", "nccl_init_failure.invalid_argument", "which rank is at fault"),
    "nccl_internal": (NCCL + "internal error - please report this issue to the NCCL developers, NCCL version 2.17.1\nncclInternalError: Internal check failed.\nLast error:\nProxy Call to rank 3 failed (Connect)", "nccl_internal_error.internal_error", "the failing call"),
    "nccl_refused": (NCCL + "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.1\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \nLast error:\nsocketStartConnect: Connect to 10.0.0.5<43210> failed : Connection refused", "remote_peer_lost.refused", "why the peer went"),
    "nccl_cuda": (NCCL + "unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.19.3\nncclUnhandledCudaError: Call to CUDA function failed.", "context_poisoned.nccl_cuda", "an echo of the first CUDA error"),
    "shapes_differ": ("RuntimeError: Error(s) in loading state_dict for GPT:\n\tsize mismatch for wte.weight: copying a param with shape torch.Size([50257, 768]) from checkpoint, the shape in current model is torch.Size([50304, 768]).", "checkpoint_load_failure.mismatch", "whether the model or the checkpoint"),
    "mismatch_of_calls": ("RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float), but Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=5, OpType=BROADCAST).", "collective_mismatch", "which side is wrong"),
    "gloo_peer": ("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.5]:43210", "remote_peer_lost", "why the peer went"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder without a number in its name, which would be taken for a rank."""
    return tmp_path_factory.mktemp("wordings", numbered=False)


def best(text: str | bytes, folder: Path) -> tuple[str, float, tuple[int, ...]]:
    """Key, probability and lines of the best match; an empty key where there is none."""
    file = folder / "pasted.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    matches = read_lines(file).matches
    return (matches[0].entry.key, matches[0].probability, matches[0].lines) if matches else ("", 0.0, ())


@pytest.mark.parametrize("name", PASTES)
def test_other_wordings_give_the_right_entry(name: str, folder: Path) -> None:
    """Each with what its message leaves open, and what to fetch."""
    text, key, stays_open = PASTES[name]
    file = folder / "pasted.txt"
    file.write_text(text + "\n")
    paste = read_lines(file)
    assert [match.entry.key for match in paste.matches][:1] == [key]
    assert any(stays_open in words for words in paste.cannot_tell), paste.cannot_tell
    assert any("part of one log" in words for words in paste.cannot_tell)
    assert paste.fetch
    assert paste.matches[0].first_action


TRACE = (
    'Traceback (most recent call last):\n  File "/workspace/train.py", line 88, in <module>\n    main()\n'
    "RuntimeError: CUDA error: misaligned address"
)
DRESSES = {
    "quoted": "\n".join(f"> {line}" for line in TRACE.split("\n")),
    "quoted_twice": "\n".join(f">> {line}" for line in TRACE.split("\n")),
    "indented": "\n".join(f"      {line}" for line in TRACE.split("\n")),
    "first_line_cut": TRACE.replace("\n", "\n        "),
    "fenced": f"```pytb\n{TRACE}\n```",
    "numbered": "\n".join(f"{number:6}\t{line}" for number, line in enumerate(TRACE.split("\n"), 97)),
    "grep_n": "\n".join(f"{number}:{line}" for number, line in enumerate(TRACE.split("\n"), 97)),
    "grep_hn": "\n".join(f"logs/rank_a.log:{number}:{line}" for number, line in enumerate(TRACE.split("\n"), 97)),
    "after_a_prompt": f"(venv) me@node03:~$ python train.py\n{TRACE}\n(venv) me@node03:~$ ",
    "in_python": f">>> main()\n{TRACE}\n>>> ",
    "crlf": TRACE.replace("\n", "\r\n"),
    "bom": "\ufeff" + TRACE,
    "nbsp": TRACE.replace(" ", "\u00a0"),
    "entities": TRACE.replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;"),
    "coloured": f"\x1b[31m{TRACE}\x1b[0m",
}


@pytest.mark.parametrize("dress", DRESSES)
def test_marks_around_the_lines_change_nothing(dress: str, folder: Path) -> None:
    """Mail, chats, editors, grep and prompts leave marks; the error under them is the same."""
    key, probability, lines = best(DRESSES[dress], folder)
    assert key == "cuda_misaligned_address"
    assert probability == pytest.approx(0.9)
    assert max(lines) <= DRESSES[dress].count("\n") + 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_encodings(encoding: str, folder: Path) -> None:
    """What a Windows editor saves is read as well."""
    assert best((TRACE + "\n").encode(encoding), folder)[0] == "cuda_misaligned_address"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("rror: CUDA error: an illegal memory access was encountered", "cuda_illegal_address"),
        ("an illegal memory access was encountered", "cuda_illegal_address"),
        ('it says "RuntimeError: CUDA error: no kernel image is available for execution on the device", why?', "cuda_no_kernel_image"),
        ("we saw Xid 79 on two nodes", "gpu_off_bus"),
        ("XID: 94", "gpu_ecc_dbe.xid_94"),
    ],
)  # fmt: skip
def test_words_without_their_frame_are_a_guess(text: str, key: str, folder: Path) -> None:
    """Half a line, a quotation in a sentence, a bare number: the entry, never surely, and the doubt is said."""
    found, probability, _ = best(text, folder)
    assert found == key
    assert probability <= 0.5
    assert any("whether it happened here" in words for words in read_lines(folder / "pasted.txt").cannot_tell)


@pytest.mark.parametrize(
    "text", ["hello", "the run was fine", "error", "0 errors, 3 warnings", "step 10 loss 1.5", "no such file"]
)
def test_ordinary_words_match_nothing(text: str, folder: Path) -> None:
    """A guess needs words that only an error has."""
    assert best(text, folder) == ("", 0.0, ())


@pytest.mark.parametrize("line", ["step {n} loss 1.5 and other words", "error {n}: retrying in 5 s, attempt {n}"])
def test_a_long_paste_without_a_fault_is_read_in_seconds(line: str, folder: Path) -> None:
    """Searching for words without their frame must not cost what the lines do not promise."""
    text = "\n".join(line.format(n=number) for number in range(1_000))
    began = time.process_time()
    assert best(text, folder)[0] == ""
    assert time.process_time() - began < 10


def test_every_known_message_has_a_word_that_is_searched_for() -> None:
    """The filter in front of the search for fragments must let every sample pass."""
    samples = [
        (signature.id, sample)
        for signature in load_catalogue().signatures
        for sample in signature.samples
        if signature.role is not Role.CONTEXT and signature.stack is None and signature.priority >= 40
    ]
    assert [name for name, sample in samples if not may_hold_a_message(sample)] == []


def explained(
    text: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """`correlator explain -` in this process: exit code, stdout, stderr."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    with pytest.raises(SystemExit) as end:
        main(["explain", "-", *arguments])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


@pytest.mark.parametrize("text", [b"", b" \n\t\n", b"\0" * 100, "\ufeff\n".encode()])
def test_nothing_pasted(text: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says so, and exit 3; no name of a temporary file."""
    code, out, err = explained(text, monkeypatch, capsys)
    assert (code, out) == (3, "")
    assert err.startswith("correlator: error: nothing to explain")


def test_bytes_that_are_no_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing known, said in the published shape."""
    noise = random.Random(7).randbytes(50_000)
    code, out, _ = explained(noise, monkeypatch, capsys, "--format", "json")
    assert code in {0, 3}
    if code == 0:
        answer = json.loads(out)
        assert set(answer) == {"matches", "cannot_tell", "fetch"}
        assert answer["matches"] == []


def test_ten_megabytes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A whole log by mistake: its error is found, in seconds."""
    line = b"2025-11-30 01:02:03,123 [INFO] step 7 loss 1.25 and some more words of no meaning at all\n"
    began = time.process_time()
    code, out, _ = explained(line * (10_000_000 // len(line)) + TRACE.encode(), monkeypatch, capsys, "--json")
    assert code == 0
    assert json.loads(out)["matches"][0]["code"] == "cuda_misaligned_address"
    assert time.process_time() - began < 20


def test_codes_are_found_however_they_are_spelt(capsys: pytest.CaptureFixture[str]) -> None:
    """`GPU_OFF_BUS` and `gpu-off-bus` are the code; a wrong one is answered with the nearest."""
    for spelt in ("GPU_OFF_BUS", "gpu-off-bus", "Gpu_Ecc_Dbe.XID_94"):
        with pytest.raises(SystemExit) as end:
            main(["explain", spelt, "--format", "json"])
        assert not end.value.code
        answer = json.loads(capsys.readouterr().out)
        wanted = "code class title meaning first_action commands environment verify rivals checkpoint_trust sources"
        assert set(wanted.split()) <= set(answer)
        assert answer["code"] == spelt.lower().replace("-", "_").partition(".")[0]
        assert all(set(rival) == {"code", "control"} for rival in answer["rivals"])
    with pytest.raises(SystemExit) as end:
        main(["explain", "GPU_OF_BUS"])
    assert end.value.code == 2
    assert "gpu_off_bus" in capsys.readouterr().err


def test_one_file_given_to_diagnose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A single log of a run gets a diagnosis of its own: what it shows, and which files would tell more."""
    file = tmp_path / "rank_3.log"
    file.write_text(
        "\n".join(f"2025-11-30 01:02:{second:02},000 [INFO] step {second}" for second in range(10))
        + "\n"
        + TRACE
        + "\n"
    )
    with pytest.raises(SystemExit):
        main(["diagnose", os.fspath(file), "--format", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert [initiator["fault"] for initiator in answer["verdict"]["initiators"]] == ["cuda_misaligned_address"]
    assert answer["hypotheses"][0]["control"]
    assert answer["context"][-1]["file"] == "rank_3.log"
    with pytest.raises(SystemExit):
        main(["diagnose", os.fspath(file), "--context", "3"])
    out = capsys.readouterr().out
    assert out.count("rank_3.log:") >= 3
    assert "Before it" in out
    assert "step 8" in out
    assert "step 2" not in out


@given(st.text(alphabet="> |\t\n0123456789:abc`\"'&;#\u00a0", max_size=300))
def test_tidying_keeps_the_lines(text: str) -> None:
    """However odd the text: as many lines as before, and nothing that was not there."""
    assert tidy(text).count("\n") == text.count("\n")
