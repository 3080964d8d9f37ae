"""What the lines of a sample are, counted: whose prefixes, how many ranks, which hosts (formats.md B1, B5, C1, E1-E3, H4).

Only heads of lines are looked at. Messages speak of other ranks and hosts; the writer stands in front.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from correlator.sources.hosts import is_host_shape, short_host
from correlator.sources.sample import Sample

_LINE_BYTES: Final = 320
"""Bytes of a line that are looked at."""
_LINES: Final = 600
"""Lines of a sample that are looked at, evenly spread."""

_MONTH: Final = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY: Final = rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_ISO: Final = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ZONE: Final = rb"(?:Z|[+-]\d\d:?\d\d)"
_HOST: Final = rb"[A-Za-z0-9][\w.-]{0,253}"
_PROGRAM: Final = rb"(?P<program>[A-Za-z][\w./@()-]{0,63})(?:\[\d+\])?: "

_CRI: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}" + _ZONE + rb" (?:stdout|stderr) [FP] ")
_KUBECTL: Final = re.compile(rb"(?:\[pod/[^\]\n]+\] )?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6,9}Z ")
_DOCKER: Final = re.compile(rb'\{"log":"')
_ANSI: Final = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
_LABEL: Final = re.compile(rb" {0,6}(\d{1,6}): ")
_PDSH: Final = re.compile(rb"([A-Za-z][A-Za-z0-9.-]{0,62}\d[A-Za-z0-9.-]{0,62}): ")

_KERNEL: Final = re.compile(
    rb"(?:<\d{1,3}>)?\[ *\d{1,9}\.\d{6}\]"  # dmesg, journalctl short-monotonic
    rb"|\[" + _DAY + rb" " + _MONTH + rb" [ \d]\d \d\d:\d\d:\d\d \d{4}\] "  # dmesg -T
    rb"|(?:kern|user|daemon|syslog) *:[a-z]+ *: "  # dmesg -x
    rb"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}" + _ZONE + rb" "  # dmesg --time-format iso
    rb"|" + _HOST + rb": kern: [a-z]+: \["  # Talos
    rb"|-- (?:Boot|Journal begins|Logs begin|No entries)|__CURSOR="
    rb'|\{(?=[^\n]*"__REALTIME_TIMESTAMP")'
)
_SYSLOG: Final = re.compile(
    rb"(?:" + _MONTH + rb" [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    rb"|" + _ISO + _ZONE + rb"|" + _DAY + rb" " + _ISO + rb" [A-Z]{2,5}|\d{10}\.\d{6})"
    rb" (?P<host>" + _HOST + rb") " + _PROGRAM
)
_RFC5424: Final = re.compile(
    rb"<\d{1,3}>1 \S+ (?P<host>" + _HOST + rb") (?P<program>\S{1,48}) \S{1,128} \S{1,32} (?:-|\[)"
)
_APPLICATION: Final = re.compile(rb"python|torchrun|train|srun|bash|sh$|docker|container|pt_main|deepspeed|accelerate|mpi|ray")

_TORCH_PYTHON: Final = (
    rb"[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ (?:[\w.-]+/)*torch/distributed/(?:run|launch|launcher|elastic)"
)
_LINE: Final = re.compile(
    rb"(?P<tee>\[[A-Za-z_]\w*?(?P<tee_local>\d{1,4})\]:)"
    rb"|(?P<bare>\[(?P<bare_rank>\d{1,6})\](?::| [A-Z]))"
    rb"|(?P<mpi>\[\d+,(?:mpirank:)?(?P<mpi_rank>\d+)[^\]\n]*\]<std(?:out|err)>:)"
    rb"|(?P<nccl>(?:\[\d{4}-\d\d-\d\d [\d:.]+\] )?(?P<nccl_host>[\w.-]+):(?P<nccl_pid>\d+):\d+ (?:\[-?\d+\] )?(?:\S+ )*?NCCL "
    rb"|NCCL version \d)"
    rb"|(?P<ray>\((?:\w[\w.:()]*) pid=\d+(?:, ip=[\d.]+)?\) |\((?:raylet|autoscaler|pid=)[^)\n]*\) "
    rb"|\[" + _ISO + rb" [DIWECF] \d+ \d+\] |" + _ISO + rb"\t(?:INFO|WARNING|ERROR|DEBUG) )"
    rb"|(?P<scheduler>(?:srun|sbatch|salloc|scancel|slurmstepd(?:-[\w.-]+)?|slurmctld|slurmd): )"
    rb"|(?P<daemon>\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?(?:[+-]\d\d:\d\d)?\] )"
    rb"|(?P<agent>" + _TORCH_PYTHON + rb"|(?:INFO|WARNING|ERROR):torch\.distributed\."
    rb"|\[" + _ISO + rb"\] torch\.distributed\.(?:run|launch|elastic)[\w.]*: \["
    rb"|\[" + _ISO + rb"\] \[[A-Z]+\] \[(?:launch|runner|multinode_runner)\.py"
    rb"|torch\.distributed\.elastic\.|torch\.distributed\.DistNetworkError)"
    rb"|(?P<table>={8,}|-{8,}|\*{8,}|Failures:|Root Cause|\[\d+\]:$| {2}(?:time|host|rank|exitcode|error_file|traceback) +: "
    rb'|Traceback \(most|  File "|    |\S+ FAILED$|  <NO_OTHER|Setting OMP_NUM|\[W\d{3,4} [\d:.]+ socket\.cpp)'
)
_RANK_HEAD: Final = re.compile(rb"\[rank ?(\d{1,6})\]")
_RANK_OF: Final = re.compile(rb"\brank(?:=| |: )(\d{1,6})(?: of \d|/\d|[ ,]+local_rank)")
_LOCAL_OF: Final = re.compile(rb"\blocal_rank(?:=| |: )(\d{1,4})\b")
_RANK_WORD: Final = re.compile(rb"rank[ _-]?(\d{1,6})(?::| \|) ", re.IGNORECASE)
_HOST_OF: Final = re.compile(
    rb"\bhost(?:name)?(?:=|: | +: | )(" + _HOST + rb")(?=[\s,;)\]]|$)|error: (" + _HOST + rb"): tasks? \d"
)
_STAMP: Final = re.compile(rb".{0,40}?\d\d:\d\d:\d\d")
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
    """Lines by the group of `_LINE` that their head matched."""
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
        return sum(self.heads[head] for head in heads) / max(self.lines, 1)

    @property
    def many_ranks(self) -> bool:
        """Two ranks or more wrote here; one line in twenty of another rank is only a quotation."""
        return _several(self.ranks) or len(self.locals) > 1 or _several(self.labels)


def _several(counts: Counter[int]) -> bool:
    return len(counts) > 1 and max(counts.values()) < 0.95 * counts.total()


def read_traits(sample: Sample) -> Traits:
    """Count the lines of both ends of a file."""
    traits = Traits()
    for line in _lines(sample):
        _count(line, traits)
    return traits


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
        line = _ANSI.sub(b"", line)
    container = _CRI.match(line) or _DOCKER.match(line)
    if container:
        traits.container += 1
        line = line[container.end() :]
    if _STAMP.match(line):
        traits.stamped += 1
    if _count_system(line, traits):
        return
    if not container and (container := _KUBECTL.match(line)):
        traits.container += 1
        line = line[container.end() :]
    line = _peel_writer(line, traits)
    head = _LINE.match(line)
    if head is not None and head.lastgroup is not None:
        traits.heads[head.lastgroup] += 1
    _count_ranks(line, head, traits)
    _count_hosts(line, head, traits)


def _count_system(line: bytes, traits: Traits) -> bool:
    """Count a line of the kernel, of syslog or of the journal; True if it was one."""
    syslog = _SYSLOG.match(line) or _RFC5424.match(line)
    if syslog is None:
        if _KERNEL.match(line):
            traits.kernel += 1
            return True
        return False
    _add_host(syslog["host"], traits, writer=True)
    if _APPLICATION.match(syslog["program"]):
        traits.application += 1
        _count_ranks(line[syslog.end() :], None, traits)
    else:
        traits.kernel += 1
    return True


def _peel_writer(line: bytes, traits: Traits) -> bytes:
    """The line behind a task id of srun or a host name of pdsh."""
    if label := _LABEL.match(line):
        traits.labels[int(label[1])] += 1
        traits.heads["label"] += 1
        return line[label.end() :]
    if writer := _PDSH.match(line):
        if is_host_shape(writer[1].decode("ascii")):
            _add_host(writer[1], traits, writer=True)
            traits.heads["pdsh"] += 1
            return line[writer.end() :]
    return line


def _count_ranks(line: bytes, head: re.Match[bytes] | None, traits: Traits) -> None:
    found = _RANK_HEAD.search(line, 0, 120) or _RANK_WORD.match(line) or _RANK_OF.search(line)
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
    if local is None and (said := _LOCAL_OF.search(line)):
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
        for named in _HOST_OF.finditer(line):
            _add_host(named[1] or named[2], traits, writer=False)


def _add_host(name: bytes, traits: Traits, *, writer: bool) -> None:
    if len(traits.hosts) < _HOSTS:
        host = short_host(name.decode("ascii", "replace"))
        traits.hosts.add(host)
        if writer:
            traits.writers.add(host)
