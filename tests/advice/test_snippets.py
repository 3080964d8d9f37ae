"""Pasted lines, as people paste them: each gives the right entry, and says the right thing that it cannot tell."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from correlator.advice import Paste
from correlator.cli.explained import read_lines
from correlator.core.errors import InputError

ROOT = Path(__file__).parent.parent.parent
FRAMES = 'Traceback (most recent call last):\n  File "/workspace/train.py", line 88, in <module>\n    main()\n  File "/workspace/train.py", line 61, in main\n    loss.backward()\n'
ASYNC = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
OOM_TAIL = "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n"


class Snippet(NamedTuple):
    """Pasted text, the key of the entry that it must give, and words of what it cannot tell."""

    name: str
    text: str
    key: str
    open: str
    numbers: str = ""


SNIPPETS = (
    Snippet(
        "illegal_access_torch_1",
        FRAMES + "RuntimeError: CUDA error: an illegal memory access was encountered\n" + ASYNC,
        "cuda_illegal_address",
        "kernels report late",
    ),
    Snippet(
        "illegal_access_torch_2_8",
        "[rank3]: "
        + FRAMES.replace("\n", "\n[rank3]: ").removesuffix("[rank3]: ")
        + "[rank3]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n",
        "cuda_illegal_address",
        "first error of the process",
    ),
    Snippet(
        "illegal_access_seen_in_a_save",
        'Traceback (most recent call last):\n  File "/workspace/train.py", line 90, in <module>\n    save_checkpoint(state)\n'
        '  File "/workspace/ckpt.py", line 12, in save_checkpoint\n    cpu = {k: v.cpu() for k, v in state.items()}\n'
        "RuntimeError: CUDA error: an illegal memory access was encountered\n",
        "cuda_illegal_address.during_save",
        "kernels report late",
    ),
    Snippet(
        "assert_with_its_kernel_line",
        "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1422: indexSelectSmallIndex: block: [12,0,0], thread: [64,0,0] "
        "Assertion `srcIndex < srcSelectDimSize` failed.\n"
        + FRAMES
        + "RuntimeError: CUDA error: device-side assert triggered\n",
        "cuda_device_assert.embedding",
        "from the data, from the tokenizer or from the model",
    ),
    Snippet(
        "assert_of_a_label",
        "../aten/src/ATen/native/cuda/Loss.cu:240: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [3,0,0] "
        "Assertion `t >= 0 && t < n_classes` failed.\n",
        "cuda_device_assert.label",
        "which line of Python called the kernel",
    ),
    Snippet(
        "launch_failure",
        FRAMES + "RuntimeError: CUDA error: unspecified launch failure\n" + ASYNC,
        "cuda_launch_failure",
        "only the kernel log can",
    ),
    Snippet(
        "graph_replay",
        'Traceback (most recent call last):\n  File "/opt/venv/lib/python3.11/site-packages/torch/cuda/graphs.py", line 88, in replay\n'
        "    super().replay()\ntorch.AcceleratorError: CUDA error: unspecified launch failure\n",
        "cuda_launch_failure.graph_replay",
        "which kernel of the graph failed",
    ),
    Snippet(
        "misaligned",
        FRAMES + "RuntimeError: CUDA error: misaligned address\n",
        "cuda_misaligned_address",
        "which tensor was misaligned",
    ),
    Snippet(
        "no_kernel_image",
        FRAMES + "RuntimeError: CUDA error: no kernel image is available for execution on the device\n",
        "cuda_no_kernel_image",
        "which library lacks the code",
    ),
    Snippet(
        "driver_too_old",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver.\n",
        "cuda_driver_insufficient",
        "which node is the odd one",
    ),
    Snippet(
        "driver_mismatch",
        "Failed to initialize NVML: Driver/library version mismatch\n",
        "cuda_driver_insufficient.mismatch",
        "whether host or container",
    ),
    Snippet(
        "stream_capture",
        FRAMES + "RuntimeError: CUDA error: operation not permitted when stream is capturing\n",
        "cuda_stream_capture",
        "which call broke the capture",
    ),
    Snippet(
        "invalid_device",
        FRAMES + "RuntimeError: CUDA error: invalid device ordinal\n",
        "cuda_invalid_device",
        "whether a GPU is lost or the number is wrong",
    ),
    Snippet(
        "invalid_configuration",
        FRAMES + "RuntimeError: CUDA error: invalid configuration argument\n",
        "cuda_invalid_configuration",
        "which shape was refused",
    ),
    Snippet(
        "cuda_after_fork",
        FRAMES
        + "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
        "'spawn' start method\n",
        "cuda_initialization.fork",
        "which CUDA call came before the fork",
    ),
    Snippet(
        "fabric_manager_down",
        "RuntimeError: CUDA error: system not yet initialized\n",
        "cuda_initialization.fabric_manager",
        "why CUDA did not start",
    ),
    Snippet(
        "ecc_in_the_process",
        FRAMES + "RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
        "cuda_ecc_uncorrectable",
        "whether values computed before were right",
    ),
    Snippet(
        "cublas_without_memory",
        FRAMES + "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n",
        "cublas_cudnn_failure.alloc_failed",
        "how much memory was left",
    ),
    Snippet(
        "cudnn_echo",
        FRAMES + "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED\n",
        "cublas_cudnn_failure.execution_failed",
        "whether the library itself failed",
    ),
    Snippet(
        "oom_old_wording",
        FRAMES
        + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 3; 79.15 GiB total capacity; "
        "78.10 GiB already allocated; 105.00 MiB free; 78.40 GiB reserved in total by PyTorch) If reserved memory is >> allocated "
        "memory try setting max_split_size_mb to avoid fragmentation.\n",
        "cuda_oom.exhaustion",
        "which tensor or which line of code grew",
        "512.00 MiB with 105.00 MiB of 79.15 GiB free",
    ),
    Snippet(
        "oom_fragmented",
        FRAMES
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB "
        "of which 1.05 GiB is free. Including non-PyTorch memory, this process has 78.05 GiB memory in use. Of the allocated memory "
        "70.10 GiB is allocated by PyTorch, and 5.90 GiB is reserved by PyTorch but unallocated. " + OOM_TAIL,
        "cuda_oom.fragmentation",
        "whether memory grew",
        "5.90 GiB reserved but unused",
    ),
    Snippet(
        "oom_beside_another_process",
        FRAMES
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
        "of which 512.00 MiB is free. Process 4242 has 40.00 GiB memory in use. Including non-PyTorch memory, this process has "
        "38.60 GiB memory in use. Of the allocated memory 37.00 GiB is allocated by PyTorch, and 600.00 MiB is reserved by PyTorch "
        "but unallocated. " + OOM_TAIL,
        "cuda_oom.other_process",
        "whose process it is",
        "1 other process holds 40.00 GiB",
    ),
    Snippet(
        "oom_of_one_huge_tensor",
        FRAMES
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
        "of which 60.00 GiB is free. Including non-PyTorch memory, this process has 19.00 GiB memory in use. Of the allocated memory "
        "18.00 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated. " + OOM_TAIL,
        "cuda_oom.huge_request",
        "which tensor",
        "96.00 GiB",
    ),
    Snippet(
        "exit_code_137",
        "E1130 01:02:05.123000 12345 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 3 "
        "(pid: 4245) of binary: /opt/venv/bin/python\n",
        "process_killed",
        "who sent SIGKILL",
    ),
    Snippet(
        "bare_exit_code",
        "command terminated with exit code 137\n",
        "process_killed",
        "who sent SIGKILL",
        "SIGKILL",
    ),
    Snippet(
        "nvidia_smi_row_remapper",
        "GPU 00000000:3B:00.0\n    ECC Errors\n        Volatile\n            SRAM Uncorrectable Parity         : 0\n"
        "            DRAM Uncorrectable                : 1\n    Remapped Rows\n        Correctable Error                     : 0\n"
        "        Uncorrectable Error                   : 1\n        Pending                               : Yes\n"
        "        Remapping Failure Occurred            : No\n",
        "gpu_ecc_dbe.xid_63",
        "since when values were wrong",
        "a remapping is pending",
    ),
    Snippet(
        "xid_79",
        "[Tue Feb 10 01:02:03 2026] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
        "gpu_off_bus",
        "why it fell off",
        "Xid 79",
    ),
    Snippet(
        "xid_94",
        "[12345.678901] NVRM: Xid (PCI:0000:9c:00): 94, pid=4245, name=python3, Contained: SM (0x1). RST: No, D-RST: No\n",
        "gpu_ecc_dbe.xid_94",
        "since when values were wrong",
        "no reset of the GPU is needed",
    ),
    Snippet(
        "xid_31",
        "May 12 01:02:03 node03 kernel: [12345.678901] NVRM: Xid (PCI:0000:3d:00): 31, pid=4245, name=pt_main_thread, Ch 00000010, "
        "intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f2a_04000000. Fault is of type FAULT_PDE "
        "ACCESS_TYPE_VIRT_WRITE\n",
        "gpu_mmu_fault.xid_31",
        "which rank it was",
    ),
    Snippet(
        "nccl_remote_error",
        "[rank3]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, remote "
        "process exited or there was a network error, NCCL version 2.26.2\n"
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n",
        "remote_peer_lost.nccl_remote",
        "why the peer went",
        "ncclRemoteError",
    ),
    Snippet(
        "nccl_system_error",
        "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1275, unhandled system error, NCCL "
        "version 2.14.3\n",
        "nccl_internal_error.system_error",
        "the failing call",
    ),
    Snippet(
        "nccl_duplicate_gpu",
        "node03:4245:4311 [2] init.cc:812 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 4b000\n",
        "nccl_init_failure.invalid_usage",
        "which rank is at fault",
    ),
    Snippet(
        "nccl_completion_12",
        "node03:4245:4311 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.5<43210> with status=12 "
        "opcode=0 len=0 vendor err 129 (Send)\n",
        "remote_peer_lost.no_answer",
        "whether the peer's process or only the way to it is gone",
        "RETRY_EXC_ERR",
    ),
    Snippet(
        "elastic_table",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "============================================================\n/workspace/train.py FAILED\n"
        "------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n"
        "------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
        "  time      : 2025-11-30_01:02:03\n  host      : node03\n  rank      : 11 (local_rank: 3)\n  exitcode  : -11 (pid: 4245)\n"
        "  error_file: <N/A>\n  traceback : Signal 11 (SIGSEGV) received by PID 4245\n"
        "============================================================\n",
        "native_segfault",
        "the Python line that led there",
    ),
    Snippet(
        "segfault_stack",
        "Fatal Python error: Segmentation fault\n\nThread 0x00007f8a1b2c3d40 (most recent call first):\n"
        '  File "/workspace/train.py", line 61 in main\n',
        "native_segfault",
        "whether the library at the top",
    ),
    Snippet(
        "segfault_in_an_extension",
        "[12345.678901] python3[4245]: segfault at 0 ip 00007f8a1b2c3d40 sp 00007ffd5e6f7a80 error 4 in "
        "fused_ops.cpython-311-x86_64-linux-gnu.so[7f8a1b200000+1c0000]\n",
        "native_segfault.extension",
        "memory had been damaged",
    ),
    Snippet(
        "ray_actor_death",
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "\tclass_name: TrainWorker\n\tactor_id: 7ea5c0ffee0123456789abcd01000000\n\tpid: 4245\n\tip: 10.0.0.5\n"
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR\n",
        "actor_died",
        "why the worker died",
    ),
    Snippet(
        "watchdog_timeout",
        "[rank3]:[E1130 01:12:03.123456789 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600012 milliseconds "
        "before timing out.\n",
        "collective_timeout",
        "who did not come",
    ),
    Snippet(
        "disk_full",
        FRAMES + "OSError: [Errno 28] No space left on device: '/ckpt/run77/step-1040/__35_0.distcp'\n",
        "disk_full",
        "what filled it",
    ),
    Snippet(
        "oom_killer",
        "Mar 10 01:02:03 node03 kernel: [12345.678901] Memory cgroup out of memory: Killed process 4245 (pt_main_thread) "
        "total-vm:87033376kB, anon-rss:60356340kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:169956kB oom_score_adj:0\n",
        "host_oom_kill.cgroup",
        "who grew",
    ),
)


@functools.cache
def read(text: str, folder: Path) -> Paste:
    file = folder / "pasted.txt"
    file.write_text(text)
    return read_lines(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder without a number in its name, which would be taken for a rank."""
    return tmp_path_factory.mktemp("pasted", numbered=False)


def test_there_are_thirty_of_them() -> None:
    """Each with a name of its own."""
    assert len({snippet.name for snippet in SNIPPETS}) == len(SNIPPETS) >= 30


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.name)
def test_a_paste_gives_the_right_entry(snippet: Snippet, folder: Path) -> None:
    """The best match, with the lines it rests on, its first action, and probabilities that are some."""
    paste = read(snippet.text, folder)
    assert [match.entry.key for match in paste.matches][:1] == [snippet.key]
    best = paste.matches[0]
    assert best.first_action
    assert "{" not in best.first_action
    assert snippet.numbers in best.reading
    assert all(1 <= line <= snippet.text.count("\n") for line in best.lines)
    assert 0 < best.probability < 1
    assert sum(match.probability for match in paste.matches) <= 1
    assert all(match.probability <= best.probability for match in paste.matches)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.name)
def test_a_paste_says_what_it_cannot_tell(snippet: Snippet, folder: Path) -> None:
    """What the message leaves open, and that a paste is a part of one log; and which file would decide."""
    paste = read(snippet.text, folder)
    assert any(snippet.open in words for words in paste.cannot_tell), paste.cannot_tell
    assert any("part of one log" in words for words in paste.cannot_tell)
    assert paste.fetch


def test_a_paste_without_times_says_so(folder: Path) -> None:
    """Order cannot be told without times; with one nothing is said about it."""
    timeless = read(SNIPPETS[0].text, folder)
    timed = read(next(s.text for s in SNIPPETS if s.name == "xid_79"), folder)
    assert any("no line has a time" in words for words in timeless.cannot_tell)
    assert not any("no line has a time" in words for words in timed.cannot_tell)


def test_an_unknown_paste_is_no_match(folder: Path) -> None:
    """Ordinary lines are not made into a fault; what would help is named."""
    paste = read("2025-11-30 01:02:03 INFO hello\nstep 3 of 10\n" * 5, folder)
    assert paste.matches == ()
    assert paste.fetch
    assert any("what failed" in words for words in paste.cannot_tell)


def test_nothing_pasted_is_an_error(folder: Path) -> None:
    """An empty file is no answer: one clear line and exit 3."""
    (folder / "nothing.txt").write_text("")
    with pytest.raises(InputError):
        read_lines(folder / "nothing.txt")


def test_the_command_reads_stdin_and_writes_the_published_shape() -> None:
    """`correlator explain - --format json`."""
    done = subprocess.run(
        [sys.executable, "-m", "correlator", "explain", "-", "--format", "json"],
        input=SNIPPETS[0].text, capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert set(answer) == {"matches", "cannot_tell", "fetch"}
    assert {"code", "class", "probability", "lines", "first_action"} <= set(answer["matches"][0])
    assert answer["matches"][0]["code"] == "cuda_illegal_address"
    assert answer["matches"][0]["class"] == "software"
