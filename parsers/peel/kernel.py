"""Heads of kernel and system logs in every transport (formats.md H2, H4)."""

from __future__ import annotations

import re

from correlator.core.vocabulary import FileKind, Severity
from correlator.parsers.base import Layer
from correlator.parsers.peel.state import DIGITS, Peeling, Rule, severity_of, severity_of_priority
from correlator.parsers.timestamps import CTIME, EPOCH, ISO, SYSLOG, boot_time, epoch

_MAX_UPTIME_S = 1_000_000_000.0
_HOST = r"(?P<host>[A-Za-z0-9][\w.:-]{0,253})"
_TAG = r"(?P<tag>[\w./@()-]{1,100}?)(?:\[(?P<pid>\d{1,9})\])?: "
_SLURM_DAEMONS = frozenset({"slurmctld", "slurmd", "slurmstepd"})
_SLURM_LEVEL = re.compile(r"(?:error|fatal): ")
_BOOT = re.compile(r"(?:\[[^\S\n]*(?P<boot>\d{1,9}\.\d{6})\] ?)?(?:\[ *[TC]\d{1,9}\] ?)?")
_FACILITIES = r"kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]"


def _finish(peeling: Peeling, tag: str | None, pid: str | None, rest: str) -> str:
    """Name the layer by the program, and take the kernel's own clock where it stands behind the head."""
    if tag in _SLURM_DAEMONS:
        peeling.layers.append(Layer.SLURM_DAEMON)
        peeling.logger = tag
        match = _SLURM_LEVEL.match(rest)
        peeling.severity = Severity.ERROR if match else Severity.INFO
        return rest[match.end() :] if match else rest
    if tag != "kernel":
        peeling.layers.append(Layer.SYSLOG)
        peeling.logger = tag
        peeling.process(pid)
        return rest
    peeling.layers.append(Layer.KERNEL)
    match = _BOOT.match(rest)
    if match is None or not match["boot"]:
        return rest
    boot = boot_time(match["boot"], peeling.context)
    if peeling.stamps:
        layer, wall = peeling.stamps[-1]
        peeling.stamps[-1] = (layer, type(wall)(wall.ns, wall.granularity_ms, wall.zone, boot.boot_seconds))
    else:
        peeling.add_stamp(Layer.KERNEL, boot)
    return rest[match.end() :]


def _syslog(peeling: Peeling, match: re.Match[str]) -> str | None:
    """RFC 3164, journalctl short and short-precise."""
    if not peeling.stamp(Layer.SYSLOG, match["when"]):
        return None
    if match["priority"]:
        peeling.severity = severity_of_priority(int(match["priority"]))
    peeling.host = match["host"]
    return _finish(peeling, match["tag"], match["pid"], match.string[match.end() :])


def _iso_head(peeling: Peeling, match: re.Match[str]) -> str | None:
    """journalctl short-iso, -full, -unix, and rsyslog; not to be taken for a container's stamp and a user's words."""
    if match["tag"] != "kernel" and not match["pid"] and peeling.context.kind is not FileKind.KERNEL_LOG:
        return None
    if not peeling.stamp(Layer.SYSLOG, match["when"]):
        return None
    peeling.host = match["host"]
    return _finish(peeling, match["tag"], match["pid"], match.string[match.end() :])


def _rfc5424(peeling: Peeling, match: re.Match[str]) -> str | None:
    if match["when"] != "-" and not peeling.stamp(Layer.SYSLOG, match["when"]):
        return None
    peeling.severity = severity_of_priority(int(match["priority"]))
    peeling.host = None if match["host"] == "-" else match["host"]
    pid = match["pid"] if match["pid"].isascii() and match["pid"].isdigit() else None
    return _finish(peeling, match["tag"], pid, match.string[match.end() :])


def _dmesg(peeling: Peeling, match: re.Match[str]) -> str | None:
    """Raw dmesg, also with the caller, with a priority, and journalctl short-monotonic (`[..] host kernel: `)."""
    if float(match["boot"]) >= _MAX_UPTIME_S or any(layer is Layer.KERNEL for layer in peeling.layers):
        return None
    if match["priority"]:
        peeling.severity = severity_of_priority(int(match["priority"]))
    peeling.add_stamp(Layer.KERNEL, boot_time(match["boot"], peeling.context))
    peeling.host = match["host"] or peeling.host
    peeling.layers.append(Layer.KERNEL)
    return match.string[match.end() :]


def _dmesg_wall(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`dmesg -T` and `dmesg --time-format iso`, with or without `-x`."""
    facility, level = match["facility"], match["level"]
    if (
        facility is None
        and match["iso"]
        and "," not in match["iso"]
        and peeling.context.kind is not FileKind.KERNEL_LOG
    ):
        return None
    if not peeling.stamp(Layer.KERNEL, match["ctime"] or match["iso"]):
        return None
    peeling.layers.append(Layer.KERNEL)
    peeling.level(level)
    return match.string[match.end() :]


def _dmesg_decoded_raw(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`kern  :warn  : [12345.678901] text`: the facility and level only, the bracket follows."""
    peeling.severity = severity_of(match["level"])
    return match.string[match.end() :]


def _talos(peeling: Peeling, match: re.Match[str]) -> str | None:
    if not peeling.stamp(Layer.KERNEL, match["when"]):
        return None
    peeling.layers.append(Layer.KERNEL)
    peeling.ip = match["ip"]
    peeling.level(match["level"])
    return match.string[match.end() :]


def _monotonic_epoch(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`[1764464523.123][torchelastic]: `: an epoch in brackets, not kernel time."""
    if not peeling.add_stamp(Layer.LOGGING, epoch(match["when"])):
        return None
    peeling.layers.append(Layer.LOGGING)
    peeling.logger = match["name"]
    return match.string[match.end() :]


def _ntpdate(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`30 Nov 01:02:03 ntpdate[77]: `: ntpdate's and sntp's own head, day before month."""
    if not peeling.stamp(Layer.SYSLOG, match["when"]):
        return None
    return _finish(peeling, match["tag"], match["pid"], match.string[match.end() :])


def _export_time(peeling: Peeling, match: re.Match[str]) -> str | None:
    """The first field of a journal export record; the lines of the record inherit it."""
    if not peeling.add_stamp(Layer.SYSLOG, epoch(match[1])):
        return None
    peeling.layers.append(Layer.SYSLOG)
    return ""


def _export_message(peeling: Peeling, match: re.Match[str]) -> str | None:
    if peeling.context.kind is not FileKind.KERNEL_LOG or peeling.layers:
        return None
    peeling.layers.append(Layer.KERNEL)
    return match.string[match.end() :]


RULES: tuple[Rule, ...] = (
    Rule(
        "<ADFJMNOS",
        re.compile(rf"(?:<(?P<priority>\d{{1,3}})>)?(?P<when>{SYSLOG}) {_HOST} (?:{_TAG}|(?=last message repeated))"),
        _syslog,
    ),
    Rule(
        DIGITS + "MTWFS",
        re.compile(
            rf"(?P<when>(?:{ISO}|[MTWFS][a-z]{{2}} \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})?(?:"
            rf" [A-Z]{{3,4}})?|{EPOCH})) "
            rf"{_HOST} {_TAG}"
        ),
        _iso_head,
    ),
    Rule(
        DIGITS + " ",
        re.compile(
            r" ?(?P<when>\d{1,2} [A-Z][a-z]{2} \d\d:\d\d:\d\d) (?P<tag>[a-z][\w.-]{1,40})\[(?P<pid>\d{1,9})\]: "
        ),
        _ntpdate,
    ),
    Rule("_", re.compile(r"__REALTIME_TIMESTAMP=(\d{16})$"), _export_time),
    Rule("M", re.compile(r"MESSAGE="), _export_message),
    Rule(
        "<",
        re.compile(
            rf"<(?P<priority>\d{{1,3}})>1 (?P<when>{ISO}|-) (?P<host>\S{{1,255}}) (?P<tag>\S{{1,60}})"
            rf" (?P<pid>\S{{1,128}}) \S{{1,60}} "
            r"(?:-|\[[^\]\n]{0,1000}\]) ?"
        ),
        _rfc5424,
    ),
    Rule(
        "[",
        re.compile(rf"\[(?P<when>{EPOCH})\]\[(?P<name>[\w.]{{1,80}})\]: ?"),
        _monotonic_epoch,
        second=DIGITS,
    ),
    Rule(
        "<[",
        re.compile(
            r"(?:<(?P<priority>\d{1,3})>)?\[ *(?P<boot>\d{1,9}\.\d{6})\](?: ?\[ *[TC]\d{1,9}\])? ?"
            rf"(?:{_HOST} kernel: )?"
        ),
        _dmesg,
        second=" " + DIGITS,
    ),
    Rule(
        "[" + DIGITS + "kudaslmncf",
        re.compile(
            rf"(?:(?P<facility>{_FACILITIES}) *:(?P<level>\w{{3,6}}) *: )?"
            rf"(?:\[(?P<ctime>{CTIME})\] ?|(?P<iso>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d{{6}}[+-]\d\d:?\d\d) )"
        ),
        _dmesg_wall,
        second="MTWFS",
    ),
    Rule(
        "kudaslmncf",
        re.compile(rf"(?:{_FACILITIES}) *:(?P<level>emerg|alert|crit|err|warn|notice|info|debug) *: (?=\[ *\d)"),
        _dmesg_decoded_raw,
    ),
    Rule(
        DIGITS,
        re.compile(
            rf"(?P<ip>\d{{1,3}}(?:\.\d{{1,3}}){{3}}): (?:{_FACILITIES}): +(?P<level>\w{{3,8}}): \[(?P<when>{ISO})\]: ?"
        ),
        _talos,
    ),
)
