"""What NCCL and UCX put before a line (formats.md C1, E5)."""

from __future__ import annotations

import re

from correlator.parsers.base import Layer
from correlator.parsers.peel.state import DIGITS, LETTERS, Peeling, Rule, number
from correlator.parsers.timestamps import CLOCK, ISO


def _nccl(peeling: Peeling, match: re.Match[str]) -> str | None:
    if match["when"]:
        peeling.stamp(Layer.NCCL, match["when"])
    peeling.layers.append(Layer.NCCL)
    peeling.host = match["host"]
    peeling.process(match["pid"])
    peeling.device_index = number(match["device"])
    peeling.source_file = match["source"]
    peeling.logger = match["function"]
    peeling.level({"VERSION": "INFO", "CALL": "TRACE"}.get(match["level"], match["level"]))
    return match.string[match.end() :]


def _ucx(peeling: Peeling, match: re.Match[str]) -> str | None:
    if not peeling.stamp(Layer.LOGGING, match["when"]):
        return None
    peeling.layers.append(Layer.LOGGING)
    peeling.host = match["host"]
    peeling.process(match["pid"])
    peeling.source_file = match["source"]
    peeling.level({"DIAG": "WARN", "REQ": "TRACE"}.get(match["level"], match["level"]))
    return match.string[match.end() :]


RULES: tuple[Rule, ...] = (
    Rule(
        "[" + LETTERS + DIGITS,
        re.compile(
            rf"(?:\[?(?P<when>{ISO}|{CLOCK})\]? )?(?P<host>[A-Za-z0-9][\w.-]{{0,253}}):(?P<pid>\d{{1,9}}):\d{{1,9}} "
            r"(?:\[(?P<device>\d{1,4})\] )?(?:\d{1,9}\.\d{1,9} )?(?:(?P<source>[\w./+-]{1,200}:\d{1,6}) )?"
            r"(?:\((?P<function>[\w:~<>]{1,120})\) )?NCCL (?P<level>WARN|INFO|ABORT|TRACE|VERSION|CALL) ?"
        ),
        _nccl,
        second=DIGITS,
    ),
    Rule(
        "[",
        re.compile(
            r"\[(?P<when>\d{10}\.\d{6})\] \[(?P<host>[\w.-]{1,253}):(?P<pid>\d{1,9}) *:\d{1,6}\] +"
            r"(?P<source>[\w./-]{1,80}:\d{1,6}) +UCX +(?P<level>[A-Z]{3,6}) +"
        ),
        _ucx,
        second=DIGITS,
    ),
)
