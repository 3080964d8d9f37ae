"""What the lines of a sample are, counted: whose prefixes, how many ranks, which hosts.

Only heads of lines are looked at. Messages speak of other ranks and hosts; the writer stands in front.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from correlator.sources import line_heads as heads
from correlator.sources.hosts import is_host_shape, short_host
from correlator.sources.sample import Sample

_LINE_BYTES: Final = 320
"""Bytes of a line that are looked at."""
_LINES: Final = 600
"""Lines of a sample that are looked at, evenly spread."""

_LABEL_START: Final = frozenset(bytes([byte]) for byte in b" 0123456789")
_NO_NUMBERS: Final[set[int]] = set()
_NO_NAMES: Final[set[str]] = set()
_NO_COUNTS: Final[Counter[int]] = Counter()
_HOSTS: Final = 64
"""Hosts kept for each file."""


@dataclass(slots=True)
class Traits:
    """What was counted in one sample."""

    lines: int = 0
    """Lines looked at that are not blank."""
    stamped: int = 0
    """Lines with a clock time at their head."""
    kernel: int = 0
    application: int = 0
    """Syslog lines of a program that belongs to the job."""
    container: int = 0
    """Lines with the stamp of a container runtime."""
    heads: Counter[str] = field(default_factory=Counter)
    """Lines by the group of `heads.LINE` that their head matched."""
    ranks: Counter[int] = field(default_factory=Counter)
    """Global ranks that lines were written by."""
    locals: set[int] = field(default_factory=set)
    labels: Counter[int] = field(default_factory=Counter)
    """srun task ids or MPI ranks in front of lines."""
    places: dict[int, int] = field(default_factory=dict)
    """Local rank -> the one global rank seen with it."""
    several_nodes: bool = False
    """One local rank was seen with two global ranks."""
    hosts: set[str] = field(default_factory=set)
    """Short names of hosts that wrote lines, or that lines name as a host."""
    writers: set[str] = field(default_factory=set)
    """Those of them that stand in a prefix."""
    pids: set[int] = field(default_factory=set)

    def share(self, *heads: str) -> float:
        """Share of the lines with one of these heads."""
        return sum([self.heads.get(head, 0) for head in heads]) / max(self.lines, 1)

    @property
    def many_ranks(self) -> bool:
        """Two ranks or more wrote here; one line in twenty of another rank is only a quotation."""
        return _several(self.ranks) or len(self.locals) > 1 or _several(self.labels)

    @property
    def one_rank(self) -> int | None:
        """The one rank that wrote here, where lines say it again and again."""
        if self.many_ranks or not self.ranks:
            return None
        rank, count = self.ranks.most_common(1)[0]
        return rank if count > 1 else None


def _several(counts: Counter[int]) -> bool:
    return len(counts) > 1 and max(counts.values()) < 0.95 * counts.total()


def read_traits(sample: Sample) -> Traits:
    """Count the lines of both ends of a file."""
    traits = Traits()
    for line in _lines(sample):
        _count(line, traits)
    _share_empties(traits)
    return traits


def _share_empties(traits: Traits) -> None:
    """One empty container for all files: of 100,000 small files, each would keep half a dozen."""
    traits.locals = traits.locals or _NO_NUMBERS
    traits.pids = traits.pids or _NO_NUMBERS
    traits.hosts = traits.hosts or _NO_NAMES
    traits.writers = traits.writers or _NO_NAMES
    traits.labels = traits.labels or _NO_COUNTS
    traits.places = traits.places or _NO_COUNTS


def _lines(sample: Sample) -> Iterator[bytes]:
    lines = sample.head.split(b"\n")
    if sample.tail:
        lines.pop()  # cut by the end of the sample
        lines += sample.tail.split(b"\n")[1:]
    step = max(1, len(lines) // _LINES)
    for line in lines[::step]:
        last = line.rstrip(b"\r").rpartition(b"\r")[2]
        text = last.strip(b"\0")[:_LINE_BYTES]
        if text and not text.isspace():
            yield text


def _count(line: bytes, traits: Traits) -> None:
    traits.lines += 1
    if b"\x1b" in line:
        line = heads.ANSI.sub(b"", line)
    container = heads.CONTAINER.match(line)
    if container:
        traits.container += 1
        line = line[container.end() :]
    if heads.STAMP.match(line):
        traits.stamped += 1
    if heads.SYSTEM_START.match(line) and _count_system(line, traits):
        return
    if not container and line[:1] in heads.KUBECTL_START and (container := heads.KUBECTL.match(line)):
        traits.container += 1
        line = line[container.end() :]
    line = _peel_writer(line, traits)
    head = heads.LINE.match(line)
    if head is not None and head.lastgroup is not None:
        traits.heads[head.lastgroup] += 1
    _count_ranks(line, head, traits)
    _count_hosts(line, head, traits)


def _count_system(line: bytes, traits: Traits) -> bool:
    """Count a line of the kernel, of syslog or of the journal; True if it was one."""
    syslog = heads.RFC5424.match(line) if line.startswith(b"<") else heads.SYSLOG.match(line)
    if syslog is None:
        if heads.KERNEL.match(line):
            traits.kernel += 1
            return True
        return False
    _add_host(syslog["host"], traits, writer=True)
    if heads.APPLICATION.match(syslog["program"]):
        traits.application += 1
        _count_ranks(line[syslog.end() :], None, traits)
    else:
        traits.kernel += 1
    return True


def _peel_writer(line: bytes, traits: Traits) -> bytes:
    """The line behind a task id of srun or a host name of pdsh."""
    if line[:1] in _LABEL_START and (label := heads.LABEL.match(line)):
        traits.labels[int(label[1])] += 1
        traits.heads["label"] += 1
        return line[label.end() :]
    if line[:1].isalpha() and (writer := heads.PDSH.match(line)) and is_host_shape(writer[1].decode("ascii")):
        _add_host(writer[1], traits, writer=True)
        traits.heads["pdsh"] += 1
        return line[writer.end() :]
    return line


def _count_ranks(line: bytes, head: re.Match[bytes] | None, traits: Traits) -> None:
    found = None
    if b"rank" in line or b"RANK" in line or b"Rank" in line:
        found = heads.RANK_HEAD.search(line, 0, 120) or heads.RANK_WORD.match(line) or heads.RANK_OF.search(line)
    local = None
    if head is not None:
        if head["mpi_rank"]:
            traits.labels[int(head["mpi_rank"])] += 1
        if head["tee_local"]:
            local = int(head["tee_local"])
        elif head["bare_rank"] and found is None:
            traits.ranks[int(head["bare_rank"])] += 1
    if found is None:
        if local is not None:
            traits.locals.add(local)
        return
    rank = int(found[1])
    traits.ranks[rank] += 1
    if local is None and (said := heads.LOCAL_OF.search(line)):
        local = int(said[1])
    if local is not None:
        traits.locals.add(local)
        if traits.places.setdefault(local, rank) != rank:
            traits.several_nodes = True


def _count_hosts(line: bytes, head: re.Match[bytes] | None, traits: Traits) -> None:
    if head is not None and head["nccl_host"]:
        _add_host(head["nccl_host"], traits, writer=True)
        traits.pids.add(int(head["nccl_pid"]))
    elif b"host" in line or b": task" in line:
        identity = heads.RANK_OF.search(line) is not None
        for named in heads.HOST_OF.finditer(line):
            table = named["colon"] is not None and named["colon"].startswith(b"  ")
            _add_host(named["host"] or named["task_host"], traits, writer=identity or table)


def _add_host(name: bytes, traits: Traits, *, writer: bool) -> None:
    if len(traits.hosts) < _HOSTS:
        host = short_host(name.decode("ascii", "replace"))
        traits.hosts.add(host)
        if writer:
            traits.writers.add(host)
