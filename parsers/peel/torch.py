"""What torch (C++ and Python), glog, absl and TSL put before a line (formats.md A1, A2, A9, B1, I1, I2)."""

from __future__ import annotations

import re

from correlator.parsers.base import Layer
from correlator.parsers.peel.state import DIGITS, Peeling, Rule, number
from correlator.parsers.timestamps import ISO, MONTH_DAY, epoch, month_day

_C10D_SOURCE = re.compile(
    r"(?:ProcessGroup\w*|TCPStore\w*|socket|NCCLUtils|Utils|reducer|logger|FlightRecorder)\.[ch]pp:"
)
_GLOBAL_RANK_VOICES = frozenset({Layer.DEEPSPEED, Layer.LOGGING, Layer.VLLM, Layer.JSON_LOG})


def _rank(peeling: Peeling, match: re.Match[str]) -> str | None:
    peeling.layers.append(Layer.RANK)
    peeling.rank = number(match[1])
    return match.string[match.end() :]


def _c10d(peeling: Peeling, match: re.Match[str]) -> str | None:
    source = match["source"]
    layer = Layer.HOROVOD if source.startswith("horovod") else Layer.C10D
    if match["when"] and not peeling.add_stamp(layer, month_day(match["when"], peeling.context, fake_fraction=True)):
        return None
    peeling.layers.append(layer)
    peeling.level(match["level"])
    peeling.source_file = source
    return match.string[match.end() :]


def _glog(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`E1130 01:02:03.123456 12345 path:line]`: torch's Python logger, absl, or C++ built with glog."""
    source = match["source"]
    stamp = month_day(match["when"], peeling.context)
    python = source.rpartition(":")[0].endswith(".py")
    if source.startswith(("torch/", "site-packages/torch/")) or "/torch/" in source:
        layer = Layer.TORCH_PYTHON
    else:
        layer = Layer.C10D if _C10D_SOURCE.match(source) else Layer.GLOG
    if stamp is not None and python and stamp.ns is not None and stamp.ns % 1_000_000 == 0:
        # Python >= 3.11 prints milliseconds and three zeros (formats.md R3).
        stamp = type(stamp)(stamp.ns, 1.0, stamp.zone)
    if not peeling.add_stamp(layer, stamp):
        return None
    peeling.layers.append(layer)
    peeling.level(match["level"])
    peeling.source_file = source
    if python:  # in C++ the number is a thread id
        peeling.process(match["pid"])
    return match.string[match.end() :]


def _grpc(peeling: Peeling, match: re.Match[str]) -> str | None:
    if not peeling.add_stamp(Layer.GLOG, epoch(match[2])):
        return None
    peeling.layers.append(Layer.GLOG)
    peeling.level(match[1])
    peeling.source_file = match[3]
    return match.string[match.end() :]


def _tsl(peeling: Peeling, match: re.Match[str]) -> str | None:
    if not peeling.stamp(Layer.GLOG, match[1]):
        return None
    peeling.layers.append(Layer.GLOG)
    peeling.level(match[2])
    peeling.source_file = match[3]
    return match.string[match.end() :]


def _torch_bracketed(peeling: Peeling, match: re.Match[str]) -> str | None:
    if not peeling.stamp(Layer.TORCH_PYTHON, match[1]):
        return None
    peeling.layers.append(Layer.TORCH_PYTHON)
    peeling.logger = match[2]
    peeling.level(match[3])
    return match.string[match.end() :]


def _basic_format(peeling: Peeling, match: re.Match[str]) -> str | None:
    name = match[2]
    peeling.layers.append(Layer.TORCH_PYTHON if name.split(".")[0] in ("torch", "torchelastic") else Layer.LOGGING)
    peeling.level(match[1])
    peeling.logger = name
    return match.string[match.end() :]


def _process_group(peeling: Peeling, match: re.Match[str]) -> str | None:
    peeling.layers.append(Layer.PROCESS_GROUP)
    peeling.process_group_id = match["local"]
    peeling.process_group = match["guid"] or None
    peeling.process_group_description = match["description"] or None
    peeling.group_rank = number(match["rank"])
    return match.string[match.end() :]


def _old_process_group(peeling: Peeling, match: re.Match[str]) -> str | None:
    peeling.layers.append(Layer.PROCESS_GROUP)
    peeling.process_group_id = match["local"]
    peeling.process_group_description = match["description"] or None
    peeling.group_rank = number(match["rank"])
    return match.string[match.end() :]


def _work_rank(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`[Rank 3]`: a rank in some group by c10d, the global rank after a logger's stamp (formats.md R4, F3)."""
    voices = set(peeling.layers)
    value = number(match[1])
    peeling.layers.append(Layer.WORK_RANK)
    if voices & _GLOBAL_RANK_VOICES and Layer.C10D not in voices:
        peeling.rank = value
    else:
        peeling.group_rank = value if peeling.group_rank is None else peeling.group_rank
    return match.string[match.end() :]


def _horovod(peeling: Peeling, match: re.Match[str]) -> str | None:
    when = match[1]  # the fraction is padded with blanks in place of zeros
    if not peeling.stamp(Layer.HOROVOD, when[:19] + when[19:].replace(" ", "0")):
        return None
    peeling.layers.append(Layer.HOROVOD)
    peeling.level(match[2])
    peeling.source_file = match[3]
    peeling.rank = number(match[4]) if match[4] else peeling.rank
    return match.string[match.end() :]


_SOURCE = r"(?P<source>[\w./<>+-]{1,200}:\d{1,6})"
RULES: tuple[Rule, ...] = (
    Rule("[", re.compile(r"\[rank(\d{1,6})\]: ?"), _rank, second="r"),
    Rule("[", re.compile(rf"\[(?P<level>[FEWIVC])(?P<when>{MONTH_DAY}) {_SOURCE}\] ?"), _c10d, second="FEWIVC"),
    Rule("[", re.compile(rf"\[(?P<level>[FEWIVC])(?P<when>) {_SOURCE}\] ?"), _c10d, second="FEWIVC"),
    Rule(
        "FEWIVCD",
        re.compile(
            rf"(?P<level>[FEWIVCD])(?P<when>{MONTH_DAY}) +(?P<pid>\d{{1,19}}) {_SOURCE}\] ?"
            r"(?:\[\d{1,6}/\d{1,6}(?:_\d{1,6})?\] ?)?(?:\[__\w{1,60}\] ?)?"
        ),
        _glog,
    ),
    Rule("FEWI", re.compile(rf"([FEWI])0000 00:00:(\d{{10}}\.\d{{6}}) +\d{{1,19}} {_SOURCE}\] ?"), _grpc),
    Rule(
        DIGITS,
        re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,6}): ([FEWIV]) ([\w./-]{1,200}:\d{1,6})\] ?"),
        _tsl,
    ),
    Rule("[", re.compile(rf"\[({ISO})\] (torch[\w.]{{0,200}}): \[([A-Z]{{4,8}})\] ?"), _torch_bracketed, second=DIGITS),
    Rule("DIWEC", re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL):([A-Za-z_][\w.]{0,200}):"), _basic_format),
    Rule(
        "[",
        re.compile(
            r"\[PG ID (?P<local>[^\s\]]{1,60}) PG GUID (?P<guid>[^\s(\]]{0,200})(?:\((?P<description>[^)\]\n]{0,20"
            r"0})\))? "
            r"Rank (?P<rank>\d{1,6})\] *"
        ),
        _process_group,
        second="P",
    ),
    Rule(
        "[",
        re.compile(
            r"\[PG (?P<local>[^\s\]]{1,200})(?: \((?P<description>[^)\]\n]{0,200})\))? Rank (?P<rank>\d{1,6})\] *"
        ),
        _old_process_group,
        second="P",
    ),
    Rule("[", re.compile(r"\[Rank (\d{1,6})\]:? *"), _work_rank, second="R"),
    Rule(
        "[",
        re.compile(
            r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.[ \d]{3,6}): ([A-Z]) (horovod/[\w./-]{1,200}:\d{1,6})\]"
            r" ?(?:\[(\d{1,6})\]: ?)?"
        ),
        _horovod,
        second=DIGITS,
    ),
)
