"""Reads the numbers of a GPU out-of-memory message, in every wording since PyTorch 1.x (formats.md A11)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_UNITS: dict[str, int] = {"bytes": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = r"(\d{1,15}(?:\.\d{1,4})?) (bytes|[KMGT]iB)"
_REQUEST = re.compile(
    rf"(?:Tried to allocate {_SIZE}|Out of memory (?:while trying to allocate|allocating) (\d+) bytes)"
)
_GARBAGE = re.compile(r"Tried to allocate more than 1EB")
_CAPACITY = re.compile(rf"(?:total capac\w+ of {_SIZE}|{_SIZE} total capacity)")
_FREE = re.compile(rf"(?:of which {_SIZE} is free|; {_SIZE} free)")
_OTHER = re.compile(rf"Process (\d{{1,10}}) has {_SIZE} memory in use")
_THIS = re.compile(rf"this process has {_SIZE} memory in use")
_ALLOCATED = re.compile(rf"(?:{_SIZE} is allocated by PyTorch|{_SIZE} already allocated)")
_POOLS = re.compile(rf"{_SIZE} allocated in private pools")
_UNALLOCATED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_RESERVED = re.compile(rf"{_SIZE} reserved in total by PyTorch")
_ALLOWED = re.compile(rf"{_SIZE} allowed")

_HUGE_SHARE = 0.4
"""A single request of this share of the GPU is a wrong shape more often than a need."""
_IDLE_SHARE = 0.04
"""Less than this share of the GPU reserved and idle is the rounding of blocks: the GPU is full all the same."""
_OTHERS_SHARE = 0.03
"""Less than this share of the GPU in other processes is what CUDA contexts of the neighbours take."""


class MemoryCause(StrEnum):
    """Why a request for GPU memory could not be met, as far as its own message tells."""

    EXHAUSTION = "exhaustion"
    """This process itself needs more than there is."""
    FRAGMENTATION = "fragmentation"
    """It has reserved enough memory that is not in use, but not in one piece."""
    OTHER_PROCESS = "other_process"
    """With the memory that other processes hold on this GPU the request would have been met."""
    HUGE_REQUEST = "huge_request"
    """One request for a large part of the GPU, or for more than it has."""
    LIMIT = "limit"
    """A memory fraction that was set for this process is used up, not the GPU."""
    UNSTATED = "unstated"
    """The message gives no numbers to judge by."""


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """The numbers of one message, in bytes; None where it does not give them."""

    requested: int | None = None
    capacity: int | None = None
    free: int | None = None
    this_process: int | None = None
    """Held by this process, outside PyTorch too; None in older messages, which tell only what PyTorch reserved."""
    reserved: int | None = None
    """Held by PyTorch's allocator, in use or not; only older messages say it."""
    others: tuple[tuple[int, int], ...] = ()
    """(pid, bytes) of each other process that the message names. The pids are those of the host."""
    allocated: int | None = None
    pools: int | None = None
    """Part of `allocated` that private pools such as those of CUDA graphs hold."""
    unallocated: int | None = None
    """Reserved by PyTorch's allocator and not in use."""
    allowed: int | None = None
    cause: MemoryCause = MemoryCause.UNSTATED

    @property
    def held_by_others(self) -> int:
        """Bytes of all other processes that are named."""
        return sum(size for _, size in self.others)

    @property
    def unseen(self) -> int | None:
        """Bytes of the GPU that are neither free nor accounted for: processes that the message does not name."""
        if self.capacity is None or self.free is None or self.this_process is None:
            return None
        return max(0, self.capacity - self.free - self.this_process - self.held_by_others)


def read_memory(message: str) -> MemoryReading | None:
    """The reading of an out-of-memory message; None where it has no number at all."""
    request, garbage = _REQUEST.search(message), _GARBAGE.search(message)
    if request is None and garbage is None:
        return None
    allocated, reserved = _size(_ALLOCATED, message), _size(_RESERVED, message)
    unallocated = _size(_UNALLOCATED, message)
    if unallocated is None and allocated is not None and reserved is not None:
        unallocated = max(0, reserved - allocated)
    reading = MemoryReading(
        requested=None if request is None else int(request[3]) if request[3] else _bytes(request[1], request[2]),
        capacity=_size(_CAPACITY, message),
        free=_size(_FREE, message),
        this_process=_size(_THIS, message),
        reserved=reserved,
        others=tuple((int(m[1]), _bytes(m[2], m[3])) for m in _OTHER.finditer(message)),
        allocated=allocated,
        pools=_size(_POOLS, message),
        unallocated=unallocated,
        allowed=_size(_ALLOWED, message),
    )
    cause = MemoryCause.HUGE_REQUEST if garbage is not None else _cause(reading)
    return MemoryReading(
        **{name: getattr(reading, name) for name in MemoryReading.__slots__ if name != "cause"}, cause=cause
    )


def _cause(reading: MemoryReading) -> MemoryCause:
    """The first that holds, from the most certain to what is left."""
    asked, capacity, free = reading.requested, reading.capacity, reading.free
    if asked is None or capacity is None or capacity == 0:
        return MemoryCause.UNSTATED
    room = free or 0
    if asked > capacity:
        return MemoryCause.HUGE_REQUEST
    if reading.allowed is not None and room >= asked:
        return MemoryCause.LIMIT
    foreign = reading.held_by_others + (reading.unseen or 0 if reading.others or _told_apart(reading) else 0)
    if foreign >= _OTHERS_SHARE * capacity and room + foreign >= asked:
        return MemoryCause.OTHER_PROCESS
    if reading.unallocated is not None and reading.unallocated >= max(asked, _IDLE_SHARE * capacity):
        return MemoryCause.FRAGMENTATION
    if asked >= _HUGE_SHARE * capacity:
        return MemoryCause.HUGE_REQUEST
    return MemoryCause.EXHAUSTION


def _told_apart(reading: MemoryReading) -> bool:
    """Whether what no one accounts for must belong to others: not where only PyTorch's own share is told."""
    return (
        reading.this_process is not None and reading.allocated is not None and reading.this_process > reading.allocated
    )


def describe_memory(reading: MemoryReading) -> str:
    """The numbers as one or two sentences."""
    if reading.requested is None:
        return "It asked for more than an exabyte: the size is garbage, from an overflow or a wrong shape."
    words = f"It asked for {size_text(reading.requested)}"
    if reading.capacity is not None and reading.free is not None:
        words += f" with {size_text(reading.free)} of {size_text(reading.capacity)} free"
    words += "."
    parts = []
    if reading.this_process is not None:
        parts.append(f"this process holds {size_text(reading.this_process)}")
    if reading.reserved is not None:
        parts.append(f"PyTorch has reserved {size_text(reading.reserved)}")
    if reading.allocated is not None:
        parts.append(f"PyTorch has {size_text(reading.allocated)} in use")
    if reading.unallocated is not None:
        parts.append(f"{size_text(reading.unallocated)} reserved but unused")
    if reading.others:
        count = len(reading.others)
        parts.append(
            f"{count} other process{'es' if count > 1 else ''} hold{'s' if count == 1 else ''} "
            f"{size_text(reading.held_by_others)}"
        )
    return f"{words} {'; '.join(parts)[:1].upper()}{'; '.join(parts)[1:]}." if parts else words


def size_text(size: int) -> str:
    """Bytes for people, as PyTorch prints them: `2.00 GiB`."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.2f} {unit}"
    return f"{size} bytes"


def _size(pattern: re.Pattern[str], message: str) -> int | None:
    match = pattern.search(message)
    if match is None:
        return None
    number, unit = (part for part in match.groups() if part is not None)
    return _bytes(number, unit)


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])
