"""Lines that are JSON objects: docker, journald, cloud exports, structured loggers (formats.md E2, H4, I5)."""

from __future__ import annotations

import json
import re
from typing import Any

from correlator.parsers.base import Layer, Stamp
from correlator.parsers.peel.segments import clean
from correlator.parsers.peel.state import Peeling, Rule, severity_of, severity_of_priority
from correlator.parsers.timestamps import NS_PER_SECOND, epoch, parse_stamp

_TIME_KEYS = ("time", "ts", "timestamp", "@timestamp", "asctime", "datetime", "date", "t")
_LEVEL_KEYS = ("level", "levelname", "severity", "lvl", "log.level")
_MESSAGE_KEYS = ("msg", "message", "event", "log", "textPayload")
_RANK_KEYS = ("rank", "global_rank", "RANK", "rank_id")
_HOST_KEYS = ("host", "hostname", "node", "nodename")
_PINO_LEVELS = {10: "TRACE", 20: "DEBUG", 30: "INFO", 40: "WARN", 50: "ERROR", 60: "FATAL"}
_MAX_JSON = 1 << 20


def _document(text: str) -> dict[str, Any] | None:
    """The line as a JSON object; None where it is none (torn, too large, too deep)."""
    if len(text) > _MAX_JSON or not text.rstrip().endswith("}"):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _json(peeling: Peeling, match: re.Match[str]) -> str | None:
    document = _document(match.string)
    if document is None:
        return None
    if "__REALTIME_TIMESTAMP" in document:
        return _journal(peeling, document)
    if isinstance(document.get("log"), str) and "stream" in document:
        return _docker(peeling, document)
    return _logger(peeling, document)


def _docker(peeling: Peeling, document: dict[str, Any]) -> str:
    peeling.layers.append(Layer.DOCKER_JSON)
    if isinstance(when := document.get("time"), str):
        peeling.stamp(Layer.DOCKER_JSON, when)
    if (stream := document["stream"]) in ("stdout", "stderr"):
        peeling.stream = stream
    message: str = document["log"]
    peeling.partial = not message.endswith("\n")
    return clean(message.rstrip("\r\n"))


def _journal(peeling: Peeling, document: dict[str, Any]) -> str:
    """journalctl -o json: all values are strings, MESSAGE may be an array of bytes."""
    kernel = document.get("_TRANSPORT") == "kernel" or document.get("SYSLOG_IDENTIFIER") == "kernel"
    layer = Layer.KERNEL if kernel else Layer.SYSLOG
    peeling.layers.append(layer)
    monotonic = _digits(document.get("_SOURCE_MONOTONIC_TIMESTAMP"))
    if (wall := _digits(document["__REALTIME_TIMESTAMP"])) is not None:
        boot_seconds = monotonic / 1e6 if kernel and monotonic is not None else None
        peeling.add_stamp(layer, Stamp(wall * 1000, 0.001, "Z", boot_seconds))
    peeling.host = _text(document.get("_HOSTNAME"))
    peeling.logger = _text(document.get("SYSLOG_IDENTIFIER"))
    if (priority := _digits(document.get("PRIORITY"))) is not None:
        peeling.severity = severity_of_priority(priority)
    if not kernel:
        pid = _digits(document.get("_PID") or document.get("SYSLOG_PID"))
        peeling.process(str(pid) if pid is not None else None)
    message = document.get("MESSAGE")
    if isinstance(message, list):
        codes = bytes(code for code in message if isinstance(code, int) and 0 <= code < 256)
        return clean(codes.decode("utf-8", errors="replace"))
    return clean(message) if isinstance(message, str) else ""


def _logger(peeling: Peeling, document: dict[str, Any]) -> str | None:
    """A structured logger's object; refused without a message, or without both time and level."""
    payload = document.get("jsonPayload")
    fields = {**document, **payload} if isinstance(payload, dict) else document
    message = _first(fields, _MESSAGE_KEYS)
    level, when = _first(fields, _LEVEL_KEYS), _first(fields, _TIME_KEYS)
    if not isinstance(message, str) or (level is None and when is None):
        return None
    peeling.layers.append(Layer.JSON_LOG)
    peeling.add_stamp(Layer.JSON_LOG, _time(peeling, when))
    if isinstance(level, int):
        peeling.level(_PINO_LEVELS.get(level))
    elif isinstance(level, str):
        peeling.severity = severity_of(level) or peeling.severity
    rank = _digits(_first(fields, _RANK_KEYS))
    peeling.rank = rank if rank is not None and rank < NS_PER_SECOND else peeling.rank
    peeling.host = _text(_first(fields, _HOST_KEYS)) or peeling.host
    pid = _digits(_first(fields, ("pid", "process")))
    peeling.process(str(pid) if pid is not None else None)
    resource = document.get("resource")
    labels = resource.get("labels") if isinstance(resource, dict) else None
    if isinstance(labels, dict):
        peeling.pod = _text(labels.get("pod_name"))
        peeling.host = _text(labels.get("node_name")) or peeling.host
    return clean(message.rstrip("\r\n"))


def _time(peeling: Peeling, value: object) -> Stamp | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return epoch(str(value)) if 0 <= value < 1 << 63 else None
    if isinstance(value, float):
        return epoch(f"{value:.6f}") if 0 <= value < 1e10 else None
    return parse_stamp(value[:64], peeling.context) if isinstance(value, str) else None


def _first(fields: dict[str, Any], keys: tuple[str, ...]) -> object:
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def _digits(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 1 << 53 else None
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 16 else None


def _text(value: object) -> str | None:
    return clean(value) if isinstance(value, str) and 0 < len(value) <= 255 else None


def _logfmt(peeling: Peeling, match: re.Match[str]) -> str | None:
    """logrus and kin: `time="..." level=error msg="..."`."""
    if not peeling.stamp(Layer.LOGGING, match[1]):
        return None
    peeling.layers.append(Layer.LOGGING)
    peeling.level(match[2])
    quoted = match[3]
    return quoted[1:-1].replace('\\"', '"') if quoted.startswith('"') else quoted


RULES: tuple[Rule, ...] = (
    Rule("{", re.compile(r"\{ ?\""), _json),
    Rule(
        "t",
        re.compile(
            r'time="?([^"\s]{8,40})"? level=(\w{3,8}) (?:source="?[^"\s]{0,200}"? )?msg=("(?:[^"\\\n]|\\.)*"|[^\n]*)'
        ),
        _logfmt,
    ),
)
