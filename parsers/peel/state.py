"""What the peeler has gathered so far, and the rules that gather it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from correlator.core.vocabulary import Severity
from correlator.parsers.base import FileContext, Layer, Prefix, Stamp
from correlator.parsers.timestamps import parse_stamp

DIGITS = "0123456789"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

COLLECTORS = frozenset(
    {Layer.CRI, Layer.KUBECTL, Layer.DOCKER_JSON, Layer.SYSLOG, Layer.KERNEL, Layer.MPI_TAG},
)
"""Layers whose stamp every line of a file has: it, not the line's own, is the time of the line."""

PID_LIMIT = 1 << 22
"""Linux' largest pid; a larger number in a pid's place is a thread identifier."""

_SEVERITIES = {
    "TRACE": Severity.TRACE,
    "DEBUG": Severity.DEBUG,
    "INFO": Severity.INFO,
    "NOTICE": Severity.INFO,
    "SUCCESS": Severity.INFO,
    "WARN": Severity.WARN,
    "WARNING": Severity.WARN,
    "ERROR": Severity.ERROR,
    "ERR": Severity.ERROR,
    "EXCEPTION": Severity.ERROR,
    "CRITICAL": Severity.FATAL,
    "FATAL": Severity.FATAL,
    "ABORT": Severity.FATAL,
    "PANIC": Severity.FATAL,
    "V": Severity.DEBUG,
    "D": Severity.DEBUG,
    "I": Severity.INFO,
    "W": Severity.WARN,
    "E": Severity.ERROR,
    "C": Severity.FATAL,
    "F": Severity.FATAL,
    "EMERG": Severity.FATAL,
    "ALERT": Severity.FATAL,
    "CRIT": Severity.FATAL,
}
_SYSLOG_LEVELS = ["EMERG", "ALERT", "CRIT", "ERR", "WARN", "NOTICE", "INFO", "DEBUG"]


def severity_of(word: str | None) -> Severity | None:
    """The severity that a level name or letter means, whatever its case; None for no level."""
    return _SEVERITIES.get(word.strip().upper()) if word else None


def severity_of_priority(number: int) -> Severity | None:
    """The severity of a syslog priority (facility * 8 + level)."""
    return severity_of(_SYSLOG_LEVELS[number % 8])


@dataclass(slots=True)
class Peeling:
    """The mutable half-made `Prefix` of one line."""

    context: FileContext
    layers: list[Layer] = field(default_factory=list)
    stamps: list[tuple[Layer, Stamp]] = field(default_factory=list)
    severity: Severity | None = None
    rank: int | None = None
    local_rank: int | None = None
    task_id: int | None = None
    group_rank: int | None = None
    process_group: str | None = None
    process_group_id: str | None = None
    process_group_description: str | None = None
    host: str | None = None
    pid: int | None = None
    pod: str | None = None
    ip: str | None = None
    stream: str | None = None
    logger: str | None = None
    source_file: str | None = None
    partial: bool = False
    device_index: int | None = None
    repeated: int = 1

    def stamp(self, layer: Layer, text: str) -> bool:
        """Read a printed time of a layer; False where it is none."""
        return self.add_stamp(layer, parse_stamp(text, self.context))

    def add_stamp(self, layer: Layer, stamp: Stamp | None) -> bool:
        """Keep a time of a layer; False where there is none."""
        if stamp is None:
            return False
        self.stamps.append((layer, stamp))
        return True

    def level(self, word: str | None) -> None:
        """Take a severity; the innermost one printed is the line's own."""
        self.severity = severity_of(word) or self.severity

    def process(self, text: str | None) -> None:
        """Take a pid, unless the number can only be a thread identifier."""
        if text and 0 < (number := int(text[:19])) <= PID_LIMIT:
            self.pid = number

    def spoken(self) -> bool:
        """Whether a layer other than a collector's or a multiplexer's was peeled: the text is the program's own."""
        return bool(self.layers) and self.layers[-1] not in _CARRIERS

    def freeze(self) -> Prefix:
        """The finished prefix, with the line's time chosen among those printed."""
        stamp, other = self._choose()
        return Prefix(
            layers=tuple(self.layers),
            stamp=stamp,
            outer_stamp=other,
            severity=self.severity,
            rank=self.rank,
            local_rank=self.local_rank,
            task_id=self.task_id,
            group_rank=self.group_rank,
            process_group=self.process_group,
            process_group_id=self.process_group_id,
            process_group_description=self.process_group_description,
            host=self.host,
            pid=self.pid,
            pod=self.pod,
            ip=self.ip,
            stream=self.stream,
            logger=self.logger,
            source_file=self.source_file,
            partial=self.partial,
            device_index=self.device_index,
            repeated=self.repeated,
        )

    def _choose(self) -> tuple[Stamp | None, Stamp | None]:
        if not self.stamps:
            return None, None
        outer_layer, outer = self.stamps[0]
        inner = self.stamps[-1][1]
        if len(self.stamps) == 1:
            return outer, None
        if outer.ns is not None and (outer_layer in COLLECTORS or inner.ns is None):
            return outer, inner
        return inner, outer


CARRIERS = frozenset({Layer.CRI, Layer.KUBECTL, Layer.DOCKER_JSON, Layer.SRUN_LABEL, Layer.PDSH, Layer.MPI_TAG})
"""Layers of runtimes and launchers that stand for the whole line, whoever wrote into it."""
_CARRIERS = CARRIERS | {Layer.RAY, Layer.TEE, Layer.RANK}


Apply = Callable[[Peeling, re.Match[str]], str | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One prefix shape: the characters it can begin with, its regex (matched at the start), and what it means.

    `apply` takes the facts and returns the text that is left, or None to refuse (it must then have changed nothing).
    """

    heads: str
    regex: re.Pattern[str]
    apply: Apply
    second: str = ""
    """Behind a `[`, the characters that can follow it; empty = any."""

    def may_begin(self, start: str) -> bool:
        """Whether a text that begins with these two characters (or one) is worth a try."""
        if self.heads and start[0] not in self.heads:
            return False
        return not (self.second and start[0] == "[") or start[1:] in self.second


def number(text: str | None) -> int | None:
    """An int that fits every column, or None."""
    return int(text) if text and len(text) <= 9 else None
