"""What srun, pdsh, mpirun, Ray, torchrun's tee, Slurm and DeepSpeed put before a line (formats.md B5, E1-E5)."""

from __future__ import annotations

import re

from correlator.core.vocabulary import FileKind, Severity
from correlator.parsers.base import Layer
from correlator.parsers.peel.state import DIGITS, LETTERS, Peeling, Rule, number, severity_of
from correlator.parsers.timestamps import CTIME

_MANY_WRITERS = frozenset({FileKind.NODE_LOG, FileKind.CONSOLE_LOG, FileKind.SCHEDULER_LOG})
_ONE_WRITER = frozenset({FileKind.RANK_LOG, FileKind.KERNEL_LOG, FileKind.NCCL_DEBUG_LOG, FileKind.STACK_DUMP})
_OUTER = frozenset({Layer.CRI, Layer.KUBECTL, Layer.DOCKER_JSON})
_NO_HOST = re.compile(
    r"(?:rank|task|cuda|mlx|nvme|eth|ib|bond|epoch|step|iter|batch|device|stage|layer|thread|python|proc|process"
    r"|attempt|phase"
    r"|node_rank|group|pg|tp|pp|dp|ep|cp|line|frame|link|sd|level|run|fold|split|model|expert|warn|error|info"
    r"|debug|test|train"
    r"|eval|val|block|conv|fp|bf|int|float|utf|sha|md)[-_\d.]*$"
    r"|(?:slurmstepd|slurmd|slurmctld)-"
    r"|(?:gpu|worker|job)[-_]?[1-9]?\d$"
)
"""Numbered things that are no machines; `gpu-044` and `worker012` are, `gpu3` is not."""
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}$")


def _outermost(peeling: Peeling) -> bool:
    return all(layer in _OUTER for layer in peeling.layers)


def _label(peeling: Peeling, match: re.Match[str]) -> str | None:
    """srun --label: only outermost, and in the file of a single writer only where it is that writer's own number."""
    context = peeling.context
    if not _outermost(peeling) or (context.kind in _ONE_WRITER and int(match[1]) != context.hints.rank):
        return None
    peeling.layers.append(Layer.SRUN_LABEL)
    peeling.task_id = int(match[1])
    return match.string[match.end() :]


def _template_rank(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`[11]:text`, torchrun's line prefix where its template is `[${rank}]:`."""
    if not _outermost(peeling) or peeling.context.kind in _ONE_WRITER:
        return None
    peeling.layers.append(Layer.TEE)
    peeling.rank = number(match[1])
    return match.string[match.end() :]


def _hydra(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`[3] text`, the label of MPICH's `mpiexec -l`; only where nothing else can have numbered the line."""
    if not _outermost(peeling) or peeling.context.kind not in _MANY_WRITERS:
        return None
    peeling.layers.append(Layer.MPI_TAG)
    peeling.task_id = number(match[1])
    return match.string[match.end() :]


def _accelerate(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`stderr: text`: accelerate's own runner says which stream it passes on."""
    if not _outermost(peeling):
        return None
    peeling.layers.append(Layer.TEE)
    peeling.stream = match[1]
    return match.string[match.end() :]


def _pdsh(peeling: Peeling, match: re.Match[str]) -> str | None:
    """A host name and a colon: only outermost, in a file of several writers, and only what can be a host."""
    name = match[1]
    if not _outermost(peeling) or peeling.context.kind in _ONE_WRITER:
        return None
    short = name.split(".")[0]
    known = short in (peeling.context.host, peeling.context.hints.node)
    numbered = any(char.isdigit() for char in short) and short[0].isalpha() and short == short.lower()
    if not (known or _IPV4.match(name) or (numbered and not _NO_HOST.match(short))):
        return None
    peeling.layers.append(Layer.PDSH)
    if _IPV4.match(name):
        peeling.ip = name
    else:
        peeling.host = name
    return match.string[match.end() :]


def _mpi(peeling: Peeling, match: re.Match[str]) -> str | None:
    peeling.layers.append(Layer.MPI_TAG)
    if match["when"]:
        peeling.stamp(Layer.MPI_TAG, match["when"])
    peeling.task_id = number(match["rank"])
    peeling.host = (
        match.groupdict().get("host") or peeling.host
    )  # prterun's name has the launcher's host, not the rank's
    peeling.stream = match["stream"] or peeling.stream
    return match.string[match.end() :]


def _ray(peeling: Peeling, match: re.Match[str]) -> str | None:
    peeling.layers.append(Layer.RAY)
    peeling.process(match["pid"])
    peeling.ip = match["ip"] or peeling.ip
    peeling.logger = match["actor"]
    if match["rank"]:
        peeling.rank = number(match["rank"])
    return match.string[match.end() :]


def _ray_component(peeling: Peeling, match: re.Match[str]) -> str | None:
    peeling.layers.append(Layer.RAY)
    peeling.logger, peeling.ip = match[1], match[2] or peeling.ip
    return match.string[match.end() :]


def _ray_native(peeling: Peeling, match: re.Match[str]) -> str | None:
    """Ray's C++ log line."""
    if not peeling.stamp(Layer.RAY, match[1]):
        return None
    peeling.layers.append(Layer.RAY)
    peeling.level(match[2])
    peeling.process(match[3])
    peeling.logger, peeling.source_file = match[4], match[5]
    return match.string[match.end() :]


def _tee(peeling: Peeling, match: re.Match[str]) -> str | None:
    peeling.layers.append(Layer.TEE)
    peeling.local_rank = number(match[1])
    return match.string[match.end() :]


def _slurm(peeling: Peeling, match: re.Match[str]) -> str | None:
    peeling.layers.append(Layer.SLURM)
    peeling.logger = match[1]
    peeling.host = match[2] or peeling.host
    if match[3]:
        peeling.severity = severity_of(match[3])
    return match.string[match.end() :]


def _slurm_daemon(peeling: Peeling, match: re.Match[str]) -> str | None:
    if not peeling.stamp(Layer.SLURM_DAEMON, match[1]):
        return None
    peeling.layers.append(Layer.SLURM_DAEMON)
    peeling.severity = Severity.ERROR if match[2] in ("error", "fatal") else Severity.INFO
    return match.string[match.end() :]


def _deepspeed(peeling: Peeling, match: re.Match[str]) -> str | None:
    if not peeling.stamp(Layer.DEEPSPEED, match[1]):
        return None
    peeling.layers.append(Layer.DEEPSPEED)
    peeling.level(match[2])
    peeling.source_file, peeling.logger = match[3], match[4]
    return match.string[match.end() :]


_STREAM = r"(?:<(?P<stream>stdout|stderr|stddiag)>)"
RULES: tuple[Rule, ...] = (
    Rule(DIGITS + " P", re.compile(r"(?:P\d{1,3} )? {0,6}(\d{1,6}):(?: |$)"), _label),
    Rule("s", re.compile(r"(stderr|stdout): (?=\S)"), _accelerate),
    Rule(LETTERS + DIGITS, re.compile(r"([A-Za-z0-9][\w.-]{1,253}):(?: |$)"), _pdsh),
    Rule(
        "[" + "MTWFS",
        re.compile(
            rf"(?P<when>{CTIME})?\[(?:\d{{1,9}},(?:mpirank:(?P<rank>\d{{1,9}}),(?P<host>[\w.-]{{1,253}})\]{_STREAM}?:)"
            r")"
        ),
        _mpi,
        second=DIGITS + "p",
    ),
    Rule(
        "[" + "MTWFS",
        re.compile(
            rf"(?P<when>{CTIME})?\[(?:prterun-(?P<launcher>[\w.-]{{1,253}})-\d{{1,9}}@)?(?:\d{{1,9}},)?(?P<rank>\d{{1,9"
            rf"}})\]"
            rf"{_STREAM}: ?"
        ),
        _mpi,
        second=DIGITS + "p",
    ),
    Rule(
        "(",
        re.compile(
            r"\((?P<actor>[A-Za-z_][\w.:<>-]{0,120}(?: [\w.<>-]{1,60}){0,3}?)(?: rank=(?P<rank>\d{1,6}))?"
            r" pid=(?P<pid>\d{1,9})"
            r"(?:, ip=(?P<ip>[\w.:]{2,64}))?\) ?"
        ),
        _ray,
    ),
    Rule(
        "(", re.compile(r"\((raylet|gcs_server|autoscaler)(?: \+\w{1,12})?(?:, ip=([\w.:]{2,64}))?\) ?"), _ray_component
    ),
    Rule(
        "[",
        re.compile(
            r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) ([DIWECF]) (\d{1,9}) \d{1,9}\] (?:\(([\w-]{1,40})\)"
            r" )?([\w./-]{1,80}:\d{1,6}): "
        ),
        _ray_native,
        second=DIGITS,
    ),
    Rule("[", re.compile(r"\[(?:default|trainer|worker|actor)(\d{1,6})\]:"), _tee, second="dtwa"),
    Rule("[", re.compile(r"\[(\d{1,6})\]:(?=\S)"), _template_rank, second=DIGITS),
    Rule("[", re.compile(r"\[(\d{1,6})\] (?=[A-Za-z\[(])(?![A-Z]{4,8}: )"), _hydra, second=DIGITS),
    Rule(
        "sS",
        re.compile(
            r"(srun|sbatch|salloc|scancel|slurmstepd|slurmd|slurmctld)(?:-([\w.-]{1,253}))?: (?:(error|fatal"
            r"|warning|debug\d?): )?"
        ),
        _slurm,
    ),
    Rule(
        "[",
        re.compile(
            r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:?\d\d)?)\] (?:\[\d{1,12}\.\w{1,12}\] )?"
            r"(?:slurm\w+: )?(?:(error|fatal|debug\d?|verbose|info): )?"
        ),
        _slurm_daemon,
        second=DIGITS,
    ),
    Rule(
        "[",
        re.compile(
            r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d{3})\] \[(DEBUG|INFO|WARNING|ERROR|CRITICAL)\] "
            r"\[([\w.]{1,80}\.py:\d{1,6}):([\w<>]{1,80})\] ?"
        ),
        _deepspeed,
        second=DIGITS,
    ),
)
