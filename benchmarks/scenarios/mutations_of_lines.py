"""Changes of single lines: harmless ones added, some lost, doubled, swapped, torn, or woven into one file."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

from benchmarks.scenarios.specimen import LOGS, OWN, SHARED, Mutation, Specimen, content, store
from correlator.core.files import FileReport
from correlator.core.vocabulary import FileKind

_CLOCK = re.compile(rb"^.{0,70}?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?")
_LOUD = re.compile(rb"(?:^|[\[\]: ])[EF]\d{3,4} |ERROR|CRITICAL|FATAL|error|kern", re.IGNORECASE)
"""Heads that would make a warning of what is put behind them."""
_SHARE = 0.1
_CHATTER = (
    b"compiling kernels for the next hour",
    b"dataset cache is warm",
    b"validation set has 4096 samples in 16 shards",
    b"0 errors, 0 failed, 12 retried downloads",
    b"timeout is set to 1800 s",
)
_SCARY = (
    b"UserWarning: The given NumPy array is not writable, and PyTorch does not support non-writable tensors.",
    b"FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. It will raise an error in the next release.",
    b"[W socket.cpp:697] [c10d] The client socket has failed to connect to [localhost]:29500 "
    b"(errno: 99 - Cannot assign requested address).",
    b"checked 8 GPUs for errors: no ECC error, no Xid, no NVLink error",
    b"error handling: on OutOfMemoryError the batch is halved (none so far)",
    b"NCCL_ASYNC_ERROR_HANDLING is deprecated; use TORCH_NCCL_ASYNC_ERROR_HANDLING instead",
    b"loss is not nan: nan check passed",
    b"the last run was killed by SIGKILL; this one starts from its checkpoint",
    b"grep -c 'CUDA error' returned 0",
)
"""Words that alarm a person who skims, in lines that say that nothing is wrong."""


def _edited(kinds: frozenset[FileKind], edit: Callable[[list[bytes], random.Random], list[bytes]]) -> Mutation:
    def mutation(specimen: Specimen) -> bool:
        changed = False
        for path in specimen.texts(kinds):
            data = content(path)
            new = b"\n".join(edit(data.split(b"\n"), specimen.rng))
            if new != data:
                store(path, new)
                changed = True
        return changed

    return mutation


def _is_head(line: bytes) -> bool:
    """A line that begins something: it prints a clock of its own."""
    return _CLOCK.match(line) is not None


def _with_lines(texts: tuple[bytes, ...]) -> Callable[[list[bytes], random.Random], list[bytes]]:
    """Lines among others, never within a record of several lines; with the stamp of the next line or without one."""

    def edit(lines: list[bytes], rng: random.Random) -> list[bytes]:
        stamped = [index for index, line in enumerate(lines) if _is_head(line)]
        places = set(rng.sample(stamped, int(len(stamped) * _SHARE)))
        out: list[bytes] = []
        for index, line in enumerate(lines):
            if index in places and (index + 1 == len(lines) or _is_head(lines[index - 1])):
                head = _CLOCK.match(line)
                before = head[0] + b" " if head and not _LOUD.search(line[:160]) else b""
                out.append(before + rng.choice(texts))
            out.append(line)
        return [rng.choice(texts), *out]

    return edit


def _doubled(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """Some records of one line are printed twice, as by two handlers of one logger."""
    out = []
    for line, following in zip(lines, [*lines[1:], b""], strict=True):
        out.append(line)
        if rng.random() < _SHARE and _is_head(line) and (not following or _is_head(following)):
            out.append(line)
    return out


def _dropped(lines: list[bytes], rng: random.Random) -> list[bytes]:
    return [line for line in lines if rng.random() > _SHARE]


def _swapped(lines: list[bytes], rng: random.Random) -> list[bytes]:
    lines = list(lines)
    for index in range(len(lines) - 1):
        if rng.random() < _SHARE / 2:
            lines[index], lines[index + 1] = lines[index + 1], lines[index]
    return lines


def _torn(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """Some lines are broken in two, some glued to the next: several processes wrote to one pipe."""
    out: list[bytes] = []
    for line in lines:
        fate = rng.random()
        if fate < _SHARE / 4 and line:
            cut = rng.randrange(len(line))
            out += [line[:cut], line[cut:]]
        elif fate < _SHARE / 2 and out:
            out[-1] += line
        else:
            out.append(line)
    return out


def _cut(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """The file ends early, within a line."""
    text = b"\n".join(lines)
    return text[: int(len(text) * rng.uniform(0.3, 1))].split(b"\n")


def _from_dos(lines: list[bytes], _rng: random.Random) -> list[bytes]:
    return [line if line.endswith(b"\r") or not line else line + b"\r" for line in lines]


def _bad_bytes(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """Torn writes of other things than text before and behind the lines, and holes of NULs as a lost node leaves them."""
    return [b"\xc3\x28\x00\xfe torn write \xc3", *lines, b"\0" * rng.randrange(1, 5000)]


def woven_by_node(specimen: Specimen) -> bool:
    """The ranks of a node wrote to one file, records of several ranks in turn, each line with its rank as by srun."""
    places = {place.rank: place.node for place in specimen.run.topology.ranks}
    groups: dict[str, list[FileReport]] = {}
    for report in specimen.reports:
        if report.rank is not None and report.kind is FileKind.RANK_LOG and specimen.path(report).is_file():
            groups.setdefault(places.get(report.rank) or "", []).append(report)
    if not groups or "" in groups or not any(len({r.rank for r in some}) > 1 for some in groups.values()):
        return False
    width = len(str(max(rank for rank in places)))
    for node, reports in groups.items():
        queues = [_records(specimen.path(r), b"%*d: " % (width, r.rank or 0)) for r in reports]
        for report in reports:
            specimen.path(report).unlink()
        (specimen.folder / f"srun-{node}.log").write_bytes(_woven(queues, specimen.rng))
    return True


def _records(path: Path, label: bytes) -> list[tuple[bytes, bytes]]:
    """(clock as printed, labelled lines) of each record; a record runs to the next line with a clock."""
    records: list[tuple[bytes, bytes]] = []
    clock = b""
    for line in content(path).splitlines():
        head = _CLOCK.match(line)
        if head is None and records:
            records[-1] = (clock, records[-1][1] + label + line + b"\n")
            continue
        clock = re.sub(rb"^.*?(?=\d\d:\d\d:\d\d)", b"", head[0]) if head else b""
        records.append((clock, label + line + b"\n"))
    return records


def _woven(queues: list[list[tuple[bytes, bytes]]], rng: random.Random) -> bytes:
    """Records by their clocks (of one node, so comparable), each rank's in its own order."""
    heads = [0] * len(queues)
    latest = [b""] * len(queues)
    out = bytearray()
    while any(head < len(queue) for head, queue in zip(heads, queues, strict=True)):
        ready = [n for n, queue in enumerate(queues) if heads[n] < len(queue)]
        nearest = min(max(latest[n], queues[n][heads[n]][0]) for n in ready)
        chosen = rng.choice([n for n in ready if max(latest[n], queues[n][heads[n]][0]) == nearest])
        out += queues[chosen][heads[chosen]][1]
        latest[chosen] = nearest
        heads[chosen] += 1
    return bytes(out)


healthy_added = _edited(LOGS, _with_lines(_CHATTER))
scary_added = _edited(LOGS, _with_lines(_SCARY))
doubled = _edited(LOGS, _doubled)
from_dos = _edited(LOGS, _from_dos)
bad_bytes_added = _edited(LOGS, _bad_bytes)
dropped = _edited(OWN | SHARED | LOGS, _dropped)
swapped = _edited(LOGS, _swapped)
torn = _edited(LOGS, _torn)
cut = _edited(LOGS, _cut)
