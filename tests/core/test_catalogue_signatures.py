"""What the signatures say of lines that decide who is accused."""

from __future__ import annotations

import re

import pytest

from correlator.core.catalogue import Signature, load_catalogue
from correlator.core.vocabulary import Role

SIGNATURES = load_catalogue().signatures


def best(
    message: str, *, layers: tuple[str, ...] = (), stack: str | None = None
) -> tuple[Signature, re.Match[str]] | None:
    """The signature that takes a peeled message, as a parser would choose it: highest priority, then first."""
    found: list[tuple[Signature, re.Match[str]]] = []
    for signature in SIGNATURES:
        if signature.requires and not set(signature.requires) & set(layers):
            continue
        if signature.stack is not None and not (stack and re.search(signature.stack, stack)):
            continue
        match = signature.regex.match(message) if signature.anchor == "start" else signature.regex.search(message)
        if match:
            found.append((signature, match))
    return max(found, key=lambda pair: pair[0].priority) if found else None


def code_of(message: str, *, layers: tuple[str, ...] = (), stack: str | None = None) -> str | None:
    """The code of a peeled message, or None."""
    taken = best(message, layers=layers, stack=stack)
    return taken[0].code if taken else None


DATA_STACK = 'File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", line 54, in fetch'
SAVE_STACK = 'File "/workspace/trainer/checkpoint.py", line 118, in save'
LOAD_STACK = 'File "/workspace/trainer/resume.py", line 18, in load_checkpoint'
CONFIG_STACK = 'File "/workspace/megatron/training/arguments.py", line 300, in validate_args'
PLAIN_STACK = 'File "/workspace/trainer/metrics.py", line 57, in log'


@pytest.mark.parametrize(
    "message",
    [
        "ERROR: previous run ended with: torch.distributed.DistBackendError: NCCL error (see old log); resuming fresh",
        "WARNING: CUDA is not available, falling back to CPU; CUDA error: no kernel image will not be raised",
        "WARNING: host memory 91% used, the OOM killer may be invoked above 98%",
        "WARNING: nan encountered in grad norm of blocks.3.norm.bias; value clipped",
        "ConnectionResetError: [Errno 104] Connection reset by peer while uploading tfevents (retry 1/5)",
        "ckpt: CUDA out of memory while pinning staging buffer, falling back to unpinned copy",
        "WARNING: gradient overflow detected, skipping step, loss scale reduced to 32768",
        "WARNING: slow step: watchdog timeout threshold is 600.0 s, no action taken",
        "ERROR: dataset: record 12 failed checksum, skipped (1 of 3)",
        "step: 1200  loss: nan  grad_norm: nan",
    ],
)
def test_chatter_of_a_healthy_run_says_nothing(message: str) -> None:
    """Frightening words in the middle of a line, or without the raised form, are no fault."""
    assert code_of(message) is None


@pytest.mark.parametrize(
    "message",
    [
        "mce: [Hardware Error]: Machine check events logged",
        "EDAC MC0: 3 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1 offset:0x0)",
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
        "mlx5_core 0000:41:00.0: firmware version: 28.39.1002",
        "TCP: request_sock_TCP: Possible SYN flooding on port 29500. Sending cookies.  Check SNMP counters.",
        "python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
    ],
)
def test_noise_of_a_healthy_kernel_says_nothing(message: str) -> None:
    """Corrected errors and teardown noise are on every node."""
    assert code_of(message, layers=("kernel",)) is None


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (13, "gpu_mmu_fault"),
        (31, "gpu_mmu_fault"),
        (43, "xid"),
        (45, "xid"),
        (48, "gpu_ecc_dbe"),
        (63, "gpu_ecc_dbe"),
        (64, "gpu_ecc_dbe"),
        (74, "gpu_nvlink"),
        (79, "gpu_off_bus"),
        (92, "xid"),
        (94, "gpu_ecc_dbe"),
        (95, "gpu_ecc_dbe"),
        (109, "cuda_launch_failure"),
        (119, "gpu_gsp_timeout"),
        (120, "gpu_gsp_timeout"),
        (140, "gpu_ecc_dbe"),
        (154, "xid"),
        (999, "xid"),
    ],
)
def test_xids(number: int, code: str) -> None:
    """Each Xid has the meaning of the driver's table; an unknown one is a fact, not a fault."""
    message = f"NVRM: Xid (PCI:0000:3b:00): {number}, pid=4245, name=pt_main_thread, Ch 00000008"
    taken = best(message, layers=("kernel",))
    assert taken is not None
    signature, match = taken
    assert signature.code == code
    groups = match.groupdict()
    assert groups["gpu"] == "0000:3b:00"
    assert groups["xid"] == str(number)
    assert groups["process_pid"] == "4245"
    assert groups["pid_name"] == "pt_main_thread"
    assert (signature.role is Role.CONTEXT) == (code == "xid")


def test_an_xid_without_a_known_process() -> None:
    """Drivers print <unknown> or leave the process out; a MIG instance adds words to the address."""
    for text in (
        "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 79, GPU has fallen off the bus.",
        "NVRM: Xid (0000:3b:00): 79, GPU has fallen off the bus.",
    ):
        taken = best(text, layers=("kernel",))
        assert taken is not None
        assert taken[0].code == "gpu_off_bus"
        assert taken[1]["process_pid"] is None
    assert code_of("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.") is None


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "cuda_ecc_uncorrectable"),
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "cuda_illegal_address"),
        ("RuntimeError: CUDA error: device-side assert triggered", "cuda_device_assert"),
        ("RuntimeError: CUDA error: invalid device ordinal", "cuda_invalid_device"),
        ("RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution", "gpu_nvlink"),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
            "cublas_cudnn_failure",
        ),
        ("RuntimeError: HIP error: an illegal memory access was encountered", "cuda_illegal_address"),
        ("Cuda failure 719 'unspecified launch failure'", "cuda_launch_failure"),
        (
            "Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure",
            "cuda_launch_failure",
        ),
        (
            "  what():  [Rank 1] NCCL watchdog thread terminated with exception: CUDA error: misaligned address",
            "cuda_misaligned_address",
        ),
        ("terminate called after throwing an instance of 'c10::DistBackendError'", "secondary_abort"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "native_abort"),
        ("Fatal Python error: Aborted", "secondary_abort"),
        ("Fatal Python error: Bus error", "native_bus_error"),
        ("ncclUnhandledCudaError: Call to CUDA function failed.", "context_poisoned"),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/x'", "shm_exhausted"),
        ("OSError: [Errno 28] No space left on device: '/ckpt/x'", "disk_full"),
        ("RuntimeError: DataLoader worker (pid 5123) is killed by signal: Killed. ", "dataloader_worker_died"),
        ("RuntimeError: DataLoader worker (pid 5123) is killed by signal: Bus error. It is possible", "shm_exhausted"),
        ("AssertionError: loss is nan at step 21, aborting", "nan_loss"),
        ("AssertionError: expected 16 experts, got 15", "assertion_failure"),
        ("EOFError: ", "remote_peer_lost"),
        ("EOFError: Ran out of input", "checkpoint_load_failure"),
    ],
)
def test_meaning_of_a_message(message: str, code: str) -> None:
    """The most exact signature wins."""
    assert code_of(message) == code


@pytest.mark.parametrize(
    ("message", "stack", "code"),
    [
        ("KeyError: 'input_ids'", DATA_STACK, "data_error"),
        ("KeyError: 'input_ids'", PLAIN_STACK, None),
        ("ValueError: I/O operation on closed file.", PLAIN_STACK, None),
        ("PermissionError: [Errno 13] Permission denied: '/ckpt/x'", SAVE_STACK, "checkpoint_save_failure"),
        ("OSError: [Errno 28] No space left on device: '/ckpt/x'", SAVE_STACK, "disk_full"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/x'", LOAD_STACK, "checkpoint_load_failure"),
        ("AssertionError: world size (16) is not divisible by 3", CONFIG_STACK, "config_error"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", DATA_STACK, "cuda_oom"),
        ("RuntimeError: CUDA error: device-side assert triggered", SAVE_STACK, "cuda_device_assert"),
    ],
)
def test_the_stack_narrows_a_general_exception(message: str, stack: str, code: str | None) -> None:
    """Where it was raised tells data from code; an exact text needs no stack."""
    assert code_of(message, stack=stack) == code


def test_a_named_peer_is_a_pointer_and_not_the_writer() -> None:
    """What an observer says of its peer goes into attributes, never into rank or host of the event."""
    taken = best(
        "NET/IB: Got completion from peer 10.0.0.5<43210> with status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_3"
    )
    assert taken is not None
    assert taken[0].role is Role.COLLATERAL
    assert taken[1].groupdict() == {"peer": "10.0.0.5", "peer_port": "43210", "status": "12"}


def test_the_last_error_of_nccl_says_more_than_its_first_line() -> None:
    """`internal error` is the catch-all; the WARN text that NCCL appends decides."""
    message = (
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:94, internal error - "
        "please report this issue to the NCCL developers, NCCL version 2.21.5\nncclInternalError: Internal check failed.\n"
        "Last error:\nBootstrap : no socket interface found"
    )
    assert code_of(message) == "nccl_init_failure"
    assert code_of(message.partition("\n")[0]) == "nccl_internal_error"
