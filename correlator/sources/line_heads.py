"""How lines begin: who prints them, for whom, and when (formats.md B1, B5, C1, E1-E3, H4)."""

from __future__ import annotations

import re
from typing import Final

MONTH: Final = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
DAY: Final = rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
ISO: Final = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
ZONE: Final = rb"(?:Z|[+-]\d\d:?\d\d)"
HOST: Final = rb"[A-Za-z0-9][\w.-]{0,253}"
PROGRAM: Final = rb"(?P<program>[A-Za-z][\w./@()-]{0,63})(?:\[\d+\])?: "

CONTAINER: Final = re.compile(
    rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}" + ZONE + rb' (?:stdout|stderr) [FP] |\{"log":"'
)
KUBECTL: Final = re.compile(rb"(?:\[pod/[^\]\n]+\] )?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6,9}Z ")
KUBECTL_START: Final = frozenset({b"2", b"["})
ANSI: Final = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
LABEL: Final = re.compile(rb" {0,6}(\d{1,6}): ")
PDSH: Final = re.compile(rb"([A-Za-z][A-Za-z0-9.-]{0,62}\d[A-Za-z0-9.-]{0,62}): ")

KERNEL: Final = re.compile(
    rb"(?:<\d{1,3}>)?\[ *\d{1,9}\.\d{6}\]"  # dmesg, journalctl short-monotonic
    rb"|\[" + DAY + rb" " + MONTH + rb" [ \d]\d \d\d:\d\d:\d\d \d{4}\] "  # dmesg -T
    rb"|(?:kern|user|daemon|syslog) *:[a-z]+ *: "  # dmesg -x
    rb"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}" + ZONE + rb" "  # dmesg --time-format iso
    rb"|" + HOST + rb": kern: [a-z]+: \["  # Talos
    rb"|-- (?:Boot|Journal begins|Logs begin|No entries)|__CURSOR="
    rb'|\{(?=[^\n]*"__REALTIME_TIMESTAMP")'
)
SYSLOG: Final = re.compile(
    rb"(?:" + MONTH + rb" [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    rb"|" + ISO + ZONE + rb"|" + DAY + rb" " + ISO + rb" [A-Z]{2,5}|\d{10}\.\d{6})"
    rb" (?P<host>" + HOST + rb") " + PROGRAM
)
RFC5424: Final = re.compile(
    rb"<\d{1,3}>1 \S+ (?P<host>" + HOST + rb") (?P<program>\S{1,48}) \S{1,128} \S{1,32} (?:-|\[)"
)
SYSTEM_START: Final = re.compile(
    rb"[<\[{]|-- |__|\d{4}-|\d{10}\.|[JFMASOND][a-z]{2} [ \d]\d |[MTWFS][a-z]{2} \d|\w+ *:[a-z]+ *: |\S+: kern: "
)
"""Cheap test: no line of the kernel, of syslog or of the journal begins otherwise."""
APPLICATION: Final = re.compile(
    rb"python|torchrun|train|srun|bash|sh$|docker|container|pt_main|deepspeed|accelerate|mpi|ray"
)

TORCH_PYTHON: Final = (
    rb"[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ (?:[\w.-]+/)*torch/distributed/(?:run|launch|launcher|elastic)"
)
LINE: Final = re.compile(
    rb"(?P<rank>\[rank ?\d{1,6}\]|rank[ _-]?\d{1,6}(?::| \|) )"
    rb"|(?P<tee>\[[A-Za-z_]\w*?(?P<tee_local>\d{1,4})\]:)"
    rb"|(?P<bare>\[(?P<bare_rank>\d{1,6})\](?::(?=\S)| [A-Z]))"
    rb"|(?P<mpi>\[\d+,(?:mpirank:)?(?P<mpi_rank>\d+)[^\]\n]*\]<std(?:out|err)>:)"
    rb"|(?P<nccl>(?:\[\d{4}-\d\d-\d\d [\d:.]+\] )?(?P<nccl_host>[\w.-]+):(?P<nccl_pid>\d+):\d+ "
    rb"(?:\[-?\d+\] )?(?:\S+ )*?NCCL "
    rb"|NCCL version \d)"
    rb"|(?P<ray>\((?:\w[\w.:()]*) pid=\d+(?:, ip=[\d.]+)?\) |\((?:raylet|autoscaler|pid=)[^)\n]*\) "
    rb"|\[" + ISO + rb" [DIWECF] \d+ \d+\] |" + ISO + rb"\t(?:INFO|WARNING|ERROR|DEBUG) )"
    rb"|(?P<scheduler>(?:srun|sbatch|salloc|scancel|slurmstepd(?:-[\w.-]+)?|slurmctld|slurmd): )"
    rb"|(?P<daemon>\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?(?:[+-]\d\d:\d\d)?\] )"
    rb"|(?P<agent>" + TORCH_PYTHON + rb"|(?:INFO|WARNING|ERROR):torch\.distributed\."
    rb"|\[" + ISO + rb"\] torch\.distributed\.(?:run|launch|elastic)[\w.]*: \["
    rb"|\[" + ISO + rb"\] \[[A-Z]+\] \[(?:launch|runner|multinode_runner)\.py"
    rb"|torch\.distributed\.elastic\.|torch\.distributed\.DistNetworkError)"
    rb"|(?P<table>={8,}|-{8,}|\*{8,}|Failures:|Root Cause|\[\d+\]:$"
    rb"| {2}(?:time|host|rank|exitcode|error_file|traceback) +: "
    rb'|Traceback \(most|  File "|    |\S+ FAILED$|  <NO_OTHER|Setting OMP_NUM|\[W\d{3,4} [\d:.]+ socket\.cpp)'
)
RANK_HEAD: Final = re.compile(rb"\[rank ?(\d{1,6})\]")
RANK_OF: Final = re.compile(rb"\brank(?:=| |: )(\d{1,6})(?: of \d|/\d|[ ,]+local_rank)")
LOCAL_OF: Final = re.compile(rb"\blocal_rank(?:=| |: )(\d{1,4})\b")
RANK_WORD: Final = re.compile(rb"rank[ _-]?(\d{1,6})(?::| \|) ", re.IGNORECASE)
HOST_OF: Final = re.compile(
    rb"\bhost(?:name)?(?P<colon>=|: | +: | )(?P<host>" + HOST + rb")(?=[\s,;)\]]|$)"
    rb"|error: (?P<task_host>" + HOST + rb"): tasks? \d"
)
STAMP: Final = re.compile(rb"[^:\n]{0,40}\d\d:\d\d:\d\d")
