"""The readers of numbers: what each message's figures mean, and that no text makes a reader fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.advice.bare import code_of_exit
from correlator.advice.codes import code_of_cuda_number, read_completion, read_exit, read_nccl, read_xid, xid_detail
from correlator.advice.gpu_tools import read_memory_health
from correlator.advice.memory import MemoryCause, describe_memory, read_memory, size_text
from correlator.core.vocabulary import FaultCode

GIB = 1 << 30
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 3 has a total capacity of 80.00 GiB of which {free} "
    "is free. {others}Including non-PyTorch memory, this process has {mine} memory in use. {allowed}Of the allocated memory {used} is "
    "allocated by PyTorch, and {idle} is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting x"
)
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate {asked} (GPU 3; 80.00 GiB total capacity; {used} already allocated; {free} "
    "free; {reserved} reserved in total by PyTorch)"
)


def new(**values: str) -> str:
    defaults = {
        "asked": "2.00 GiB",
        "free": "1.00 GiB",
        "others": "",
        "mine": "79.00 GiB",
        "allowed": "",
        "used": "77.00 GiB",
        "idle": "500.00 MiB",
    }
    return NEW.format(**(defaults | values))


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (new(), MemoryCause.EXHAUSTION),
        (new(used="70.00 GiB", idle="7.50 GiB"), MemoryCause.FRAGMENTATION),
        (new(others="Process 4242 has 30.00 GiB memory in use. ", mine="49.00 GiB", used="48.00 GiB"), MemoryCause.OTHER_PROCESS),
        (new(asked="96.00 GiB", free="60.00 GiB", mine="20.00 GiB", used="19.00 GiB"), MemoryCause.HUGE_REQUEST),
        (new(asked="40.00 GiB", free="30.00 GiB", mine="50.00 GiB", used="49.00 GiB"), MemoryCause.HUGE_REQUEST),
        (new(asked="2.00 GiB", free="40.00 GiB", mine="40.00 GiB", allowed="40.00 GiB allowed; ", used="39.00 GiB"), MemoryCause.LIMIT),
        (new(free="20.00 MiB", mine="40.00 GiB", used="38.00 GiB"), MemoryCause.OTHER_PROCESS),
        (OLD.format(asked="512.00 MiB", used="78.10 GiB", free="105.00 MiB", reserved="78.40 GiB"), MemoryCause.EXHAUSTION),
        (OLD.format(asked="512.00 MiB", used="60.00 GiB", free="105.00 MiB", reserved="78.40 GiB"), MemoryCause.FRAGMENTATION),
        (OLD.format(asked="20 bytes", used="78.10 GiB", free="0 bytes", reserved="78.10 GiB"), MemoryCause.EXHAUSTION),
        ("RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory.", MemoryCause.HUGE_REQUEST),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes.", MemoryCause.UNSTATED),
        ("HIP out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 63.98 GiB of which 0 bytes is free.", MemoryCause.EXHAUSTION),
    ],
)  # fmt: skip
def test_the_cause_of_an_out_of_memory(message: str, cause: MemoryCause) -> None:
    """Each combination of figures, in the wordings of PyTorch 1 to 2.11, of HIP and of XLA."""
    reading = read_memory(message)
    assert reading is not None
    assert reading.cause is cause
    assert describe_memory(reading).endswith(".")


def test_contexts_of_neighbours_are_no_other_process() -> None:
    """Three ranks with 474 MiB each on the GPU of a fourth are what CUDA contexts take; the pieces decide."""
    message = new(
        asked="3.92 GiB", others="Process 1 has 474.00 MiB memory in use. " * 3, used="70.00 GiB", idle="7.60 GiB"
    )
    reading = read_memory(message)
    assert reading is not None
    assert len(reading.others) == 3
    assert reading.cause is MemoryCause.FRAGMENTATION


def test_all_figures_are_read() -> None:
    """Bytes, not gibibytes."""
    reading = read_memory(new(others="Process 4242 has 3.00 GiB memory in use. "))
    assert reading is not None
    assert (reading.requested, reading.capacity, reading.free) == (2 * GIB, 80 * GIB, GIB)
    assert (reading.this_process, reading.allocated, reading.unallocated) == (79 * GIB, 77 * GIB, 500 << 20)
    assert reading.others == ((4242, 3 * GIB),)
    assert "1 other process holds 3.00 GiB" in describe_memory(reading)


@given(st.text(max_size=300), st.integers(0, 10**30), st.sampled_from(["bytes", "KiB", "MiB", "GiB", "TiB"]))
def test_no_message_makes_the_reader_fail(text: str, number: int, unit: str) -> None:
    """Log text is untrusted: any words and any size."""
    reading = read_memory(
        f"Tried to allocate {number} {unit}. {text} total capacity of {number} {unit} of which {number} {unit} is free"
    )
    if reading is not None:
        assert describe_memory(reading)
    read_memory(text)
    read_memory_health(text)
    read_nccl(text)
    read_completion(text)
    xid_detail(text)


@given(st.integers(0, 1 << 60))
def test_sizes_are_read_back(size: int) -> None:
    """What we print as a size is a size to the reader, to two decimals of its unit."""
    reading = read_memory(f"Tried to allocate {size_text(size)}.")
    if size < 1 << 49:  # PyTorch prints no more digits than that
        assert reading is not None
        assert reading.requested is not None
        assert abs(reading.requested - size) <= 0.006 * max(size, 1 << 10)


@pytest.mark.parametrize(
    ("code", "signal", "name"),
    [
        (-9, 9, "SIGKILL"), (137, 9, "SIGKILL"), (139, 11, "SIGSEGV"), (-6, 6, "SIGABRT"), (135, 7, "SIGBUS"), (143, 15, "SIGTERM"),
        (0, None, "exit code 0"), (1, None, "exit code 1"), (2, None, "exit code 2"), (255, None, "exit code 255"), (129, 1, "SIGHUP"),
    ],
)  # fmt: skip
def test_exit_codes(code: int, signal: int | None, name: str) -> None:
    """Negative as torchelastic prints a signal, 128 + n as shells and containers do."""
    end = read_exit(code)
    assert (end.signal, end.name) == (signal, name)
    assert end.meaning


@pytest.mark.parametrize(
    ("code", "fault"),
    [(-11, FaultCode.NATIVE_SEGFAULT), (137, FaultCode.PROCESS_KILLED), (1, FaultCode.SILENT_EXIT), (0, None), (None, None), (134, FaultCode.NATIVE_ABORT)],
)  # fmt: skip
def test_the_fault_of_an_exit_code(code: int | None, fault: FaultCode | None) -> None:
    """A code alone points at a fault, where it is one."""
    assert code_of_exit(code) is fault


@pytest.mark.parametrize(
    ("number", "layer"),
    [(79, "hardware"), (94, "hardware"), (48, "hardware"), (74, "hardware"), (119, "hardware"), (31, "software"), (13, "software"), (45, "consequence"), (43, "consequence"), (154, "information"), (8, "either")],
)  # fmt: skip
def test_xids(number: int, layer: str) -> None:
    """Whom each family points at."""
    meaning = read_xid(number)
    assert meaning is not None
    assert meaning.layer == layer
    assert read_xid(9999) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "Node Reboot Required"),
        ("Ch 00000001 caused by previous Xid 149", "Xid 149"),
        ("Uncontained: LTC TAG (0x2,0x1). RST: Yes, D-RST: No", "needs a reset"),
        ("Contained: SM (0x1). RST: No, D-RST: No", "no reset"),
        ("Ch 00000008", ""),
    ],
)
def test_details_of_an_xid_line(text: str, words: str) -> None:
    """What the line says beyond its number."""
    assert words in xid_detail(text)
    assert bool(words) == bool(xid_detail(text))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NCCL error in: x.cpp:94, unhandled cuda error, NCCL version 2.26.2", "ncclUnhandledCudaError"),
        ("NCCL error in: x.cpp:94, unhandled system error, NCCL version 2.26.2", "ncclSystemError"),
        ("NCCL error: internal error - please report this issue", "ncclInternalError"),
        ("NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)", "ncclInvalidUsage"),
        ("NCCL error: remote process exited or there was a network error", "ncclRemoteError"),
        ("ncclRemoteError: A call failed possibly due to a network error", "ncclRemoteError"),
        ("node03:4245:4311 [2] NCCL INFO transport/net.cc:1134 -> 6", "ncclRemoteError"),
        ("nothing of that", None),
    ],
)
def test_nccl_results(text: str, name: str | None) -> None:
    """By name, by its words, or by its number in the trace."""
    result = read_nccl(text)
    assert (result and result[0]) == name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Got completion from peer 10.0.0.5<43210> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
            "RETRY_EXC_ERR",
        ),
        ("Got completion from peer 10.0.0.5<43210> with error 12, opcode 0, len 0, vendor err 129", "retry counter"),
        ("Got completion with status=IBV_WC_RNR_RETRY_EXC_ERR(13) opcode=IBV_WC_SEND(0) vendor_err=135", "never ready"),
        ("with status=5 opcode=0", "first completion"),
        ("with status=99 opcode=0", "unknown status"),
    ],
)
def test_completions(text: str, words: str) -> None:
    """ibv_wc_status in the wordings of NCCL 2.17 to 2.29, with the vendor's detail."""
    said = read_completion(text)
    assert said is not None
    assert words in said


SMI = """GPU 00000000:3B:00.0
    ECC Errors
        Volatile
            SRAM Correctable                  : 0
            SRAM Uncorrectable Parity         : 0
            DRAM Correctable                  : 3
            DRAM Uncorrectable                : {now}
        Aggregate
            SRAM Uncorrectable Parity         : 0
            DRAM Uncorrectable                : {ever}
    Remapped Rows
        Correctable Error                     : 0
        Uncorrectable Error                   : {rows}
        Pending                               : {pending}
        Remapping Failure Occurred            : {failed}
"""


@pytest.mark.parametrize(
    ("now", "ever", "rows", "pending", "failed", "advice"),
    [
        (0, 0, 0, "No", "No", "fine"),
        (1, 1, 1, "Yes", "No", "reset"),
        (1, 1, 0, "No", "No", "reset"),
        (0, 2, 2, "No", "No", "watch"),
        (0, 2, 2, "Yes", "Yes", "replace"),
    ],
)
def test_memory_health(now: int, ever: int, rows: int, pending: str, failed: str, advice: str) -> None:
    """Counters and row remapper of `nvidia-smi -q` together say: nothing, watch, reset or replace."""
    health = read_memory_health(SMI.format(now=now, ever=ever, rows=rows, pending=pending, failed=failed))
    assert health.advice == advice
    assert (health.uncorrectable_volatile, health.uncorrectable_aggregate) == (now, ever)
    assert read_memory_health("no such text").advice is None


def test_cuda_numbers_are_fault_codes() -> None:
    """Each number of cudaError_t that we know is a code of the vocabulary."""
    codes = {code_of_cuda_number(number) for number in range(1000)} - {None}
    assert len(codes) > 10
    assert codes <= set(map(str, FaultCode))


def test_a_table_without_its_head_is_told_by_its_root_cause() -> None:
    """The SIGTERM above was the agent's; the exit under `Root Cause` was first."""
    from correlator.advice.bare import plain_facts
    from correlator.core.catalogue import load_catalogue

    rows = "[1]:\n  rank      : 13\n  exitcode  : -15 (pid: 1)\nRoot Cause (first observed failure):\n[0]:\n  exitcode  : -9 (pid: 2)"
    (fact,) = plain_facts(rows, load_catalogue(), alone=True)
    assert fact.entry.code == "process_killed"
