"""Which names can be hosts. A name alone is weak evidence; a name that log lines also carry is strong."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.IGNORECASE)
_LETTER: Final = re.compile(r"[a-z]", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_NAMED: Final = (
    r"(?:[a-z][a-z0-9]{0,9}-){0,2}[a-z0-9]{0,6}?(?:node|nid|host|gpu|dgx|hgx|compute|server|srv|machine|blade|vm|cn|slave|box)[a-z]{0,3}-?\d[a-z0-9-]*"
    r"|ip(?:-\d{1,3}){4}"
)
_SHAPE: Final = re.compile(
    rf"(?:{_NAMED}"
    r"|[a-z]{1,6}\d{1,4}(?:-\d{1,4}){1,3}"  # h100-01-028, dgx1-07
    r"|[a-z]{1,6}(?:-\d{1,4}){2,3}"  # compute-0-1
    r"|[a-z]{1,3}\d{1,4}(?:[a-z]{1,2}\d{1,4}){1,3}"  # c01n02, r3i5n7
    r"|[a-z]{1,4}\d{3,8})",  # cn1234, x1000
    re.IGNORECASE,
)
_TAIL: Final = re.compile(rf"[a-z0-9-]{{1,40}}?[._-](?P<host>{_NAMED})", re.IGNORECASE)
_NO_SHAPE: Final = re.compile(
    r"(?:v|jobs?|runs?|exp|rank|logs?|step|part|epoch|pid|seed|trial|proc|task|out|err|attempt|iter|try|test|lr|bs|[tpdecm]p)[-\d]",
    re.IGNORECASE,
)
_WORD: Final = re.compile(
    r"(?:local|global)?[._-]?(?:attempt|rank|worker|proc|process|task|gpu|cuda|device|dev|log|logs|out|output|err|error|errors|"
    r"stdout|stderr|console|run|runs|job|jobs|jobid|exp|experiment|trial|try|seed|step|iter|iteration|epoch|part|shard|chunk|"
    r"restart|retry|version|ver|v|stage|phase|gen|generation|session|checkpoint|ckpt|global[._-]?step|save|saves|model|models|"
    r"data|dataset|tmp|temp|pid|r|rc|test|tests|train|training|trainer|pretrain|finetune|sft|eval|debug|trace|traces|dump|"
    r"dumps|core|nccl|fr|flight[._-]?recorder|pyspy|py[._-]?spy|stack|stacks|kernel|kern|dmesg|journal|journalctl|journalctl[._-]k|"
    r"syslog|messages|torchrun|torchelastic|elastic|launcher|launch|agent|pod|pods|node|nodes|host|hosts|slurm|srun|sbatch|"
    r"slurmd|slurmctld|ray|k8s|kube|kubernetes|kubectl|containers|container|pytorch|torch|deepspeed|megatron|nohup|main|"
    r"default|none|null|archive|archives|old|backup|report|reports|results|artifacts|user|users|home|root|var|system|files|"
    r"profile|profiles|metrics|wandb|tensorboard|tb|mlruns|lightning[._-]logs|hydra|scratch|work|workspace|config|configs|"
    r"monitor|monitoring|dashboard|raylet|gcs[._-]server|driver|events|event|nvidia[._-]smi|smi|dcgm|ib|network|net|"
    r"cluster|all|merged|combined|raw|text|txt|info|warn|warning|lr|bs|tp|pp|dp|ep|cp|mp|llama|gpt|bert|moe|resnet|vit)s?"
    r"[._-]?\d*[a-z]?",
    re.IGNORECASE,
)
_DEVICE: Final = re.compile(r"gpu\d{1,2}", re.IGNORECASE)
_COUNTER: Final = re.compile(r"(?:[a-z]|file|item|doc|split|piece|copy|page|batch|entry)[._-]?\d+", re.IGNORECASE)
_POD: Final = re.compile(
    r"[a-z0-9][a-z0-9.-]*-(?:master|worker|launcher|head|leader|ps|chief|server|learner|trainer|actor|node|replica|workers)"
    r"-\d{1,5}(?:-\d{1,5})?(?:-[a-z0-9]{5})?|[a-z0-9][a-z0-9-]*-\d{1,5}-\d{1,5}-[a-z0-9]{5}"
)


def short_host(name: str) -> str:
    """First DNS label of a host name; an IPv4 address stays whole."""
    return name if _ADDRESS.fullmatch(name) else name.partition(".")[0]


@lru_cache(maxsize=4096)
def can_be_host(name: str) -> bool:
    """True for a DNS label or address that is no everyday word of log folders, with or without a number behind it."""
    if _ADDRESS.fullmatch(name):
        return True
    short = short_host(name)
    if len(short) < 2 or not _LABEL.fullmatch(short) or not _LETTER.search(short):
        return False
    return is_host_shape(short) or not _WORD.fullmatch(short)


@lru_cache(maxsize=4096)
def is_host_shape(name: str) -> bool:
    """True for a name built like those of cluster nodes: node03, gpu-044, nid001011, ip-10-1-7-110, c01n02."""
    if _ADDRESS.fullmatch(name):
        return True
    short = short_host(name)
    return bool(_SHAPE.fullmatch(short)) and not _NO_SHAPE.match(short) and not _DEVICE.fullmatch(short)


@lru_cache(maxsize=4096)
def is_counter(name: str) -> bool:
    """True for f00016 and kin: no host is believed from such a name alone, as files are numbered like that too."""
    return _COUNTER.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def host_at_end(name: str) -> str | None:
    """The host behind words of any kind: gpu-033 of case7731-gpu-033, where it says itself that it is a machine."""
    found = _TAIL.fullmatch(name)
    return found["host"] if found and is_host_shape(found["host"]) else None


@lru_cache(maxsize=4096)
def is_pod_shape(name: str) -> bool:
    """True for names that controllers give to pods: job-worker-3, set-workers-0-3-x7k2p (formats.md E2)."""
    return _POD.fullmatch(name) is not None
