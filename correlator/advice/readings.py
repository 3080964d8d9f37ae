"""What the numbers of one event say: a label by which the catalogue chooses a finer entry, and a sentence for a person."""

from __future__ import annotations

from dataclasses import dataclass

from correlator.advice.codes import read_completion, read_exit, read_nccl, read_xid, xid_detail
from correlator.advice.lines import Line
from correlator.advice.memory import MemoryCause, describe_memory, read_memory
from correlator.core.catalogue import Entry
from correlator.core.vocabulary import CollateralKind, Context, FaultCode

_ENDS = frozenset(
    {
        FaultCode.SILENT_EXIT,
        FaultCode.PROCESS_KILLED,
        Context.WORKER_FAILED,
        Context.CHILD_FAILED_ROW,
        Context.TASK_EXIT,
    }
)
"""Events whose exit code is the message."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the numbers of a message say; empty where it has none."""

    label: str = ""
    """Value of the attribute `reading` in a variant's `when`."""
    sentence: str = ""


def read(line: Line) -> Reading:
    """The reading of an event."""
    if line.name == FaultCode.CUDA_OOM:
        memory = read_memory(line.text)
        if memory is None:
            return Reading(MemoryCause.UNSTATED)
        return Reading(memory.cause, describe_memory(memory))
    if (number := line.attributes.get("xid", "")).isdigit():
        return _xid(int(number), line.body)
    if line.exit_code is not None and line.name in _ENDS:
        end = read_exit(line.exit_code)
        return Reading(end.name, f"It ended with {_code(line.exit_code)}: {end.meaning}.")
    if line.name in {CollateralKind.REMOTE_PEER_LOST, FaultCode.NETWORK_FAULT}:
        completion = read_completion(line.text)
        if completion is not None:
            return Reading(line.attributes.get("status", ""), f"The adapter says {completion}.")
    if line.name.startswith("nccl_") or line.name in {CollateralKind.REMOTE_PEER_LOST, CollateralKind.CONTEXT_POISONED}:
        result = read_nccl(line.text)
        if result is not None:
            return Reading(result[0], f"{result[0]}: {result[1]}.")
    return Reading()


def numbers_of(fault: str, line: Line | None) -> str:
    """The sentence on the numbers of the event that stands for a fault; an exit code only speaks for faults without a word."""
    if line is None or (line.name != fault and fault not in _ENDS):
        return ""
    return read(line).sentence


def _xid(number: int, body: str) -> Reading:
    known = read_xid(number)
    if known is None:
        return Reading(f"xid_{number}", f"Xid {number} is not on the list that we know.")
    detail = xid_detail(body)
    return Reading(f"xid_{number}", f"Xid {number}: {known.meaning}" + (f"; {detail}." if detail else "."))


def _code(code: int) -> str:
    end = read_exit(code)
    return f"{end.name} (code {code})" if end.signal is not None else end.name


def entry_for(entry: Entry, line: Line) -> Entry:
    """The finest entry for an event."""
    attributes = dict(line.attributes)
    if label := read(line).label:
        attributes["reading"] = label
    return entry.specific(line.signature, attributes, f"{line.text}\n{line.stack}")
