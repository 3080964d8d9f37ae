"""Rows of the timeline as a person or a program reads them: one line each, masked and harmless."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TextIO

from correlator.core.model import Topology
from correlator.core.schema import COLUMN_NAMES
from correlator.core.secrets import mask_secrets
from correlator.core.vocabulary import Context, Role, TimeSource
from correlator.reports.cleaning import visible

LONGEST_TEXT = 4_096
"""Characters of a message in the text form; --json has all of it."""
_WIDEST_NODE = 24
_NAME_WIDTH = 22
_RESET = "\x1b[0m"
_DIM, _RED, _YELLOW = "2", "1;31", "33"
_PALETTE = ("36", "35", "32", "34", "96", "95", "92", "94", "33", "93", "38;5;208", "38;5;141", "38;5;109", "38;5;175")
"""Colours of ranks, in turn; red is for faults alone."""
_LEVELS = {"FATAL": ("F", _RED), "ERROR": ("E", _RED), "WARN": ("W", _YELLOW), "INFO": ("I", ""), "DEBUG": ("D", _DIM)}

Row = Mapping[str, Any]


class TextRows:
    """Writes `~17:35:37.124 node077 [41] E rank_stalled  message  (file:line)`, a rule where rows are left out."""

    def __init__(self, out: TextIO, topology: Topology, *, color: bool, zoned: bool) -> None:
        """`zoned`: times are UTC, else local to the reference clock."""
        self._out = out
        self._zone = " UTC" if zoned else ""
        self._color = color
        self._day = ""
        self._number: int | None = None
        names = [len(node) for node in topology.nodes]
        self._node_width = min(max(names, default=4), _WIDEST_NODE)
        self._rank_width = len(str(max((place.rank for place in topology.ranks), default=0)))

    def write(self, row: Row, *, gaps: bool) -> None:
        """Write a row; `gaps`: say where the rows between it and the one before are left out."""
        if gaps and self._number is not None and row["number"] != self._number + 1:
            self._out.write(self._styled("--", _DIM) + "\n")
        self._number = row["number"]
        day, clock = _day_and_clock(row["time_aligned"])
        if day and day != self._day:
            self._day = day
            self._out.write(self._styled(f"--- {day}{self._zone}", _DIM) + "\n")
        mark = self._mark(row)
        is_line = row["signature"] == Context.LINE
        parts = [f"{mark}{clock:<12}", self._writer(row), self._level(row)]
        name = self._name(row)
        if not is_line:
            parts.append(name + " " * max(_NAME_WIDTH - len(row["event_name"]), 0))
        parts.append(_readable(row["body"] or ""))
        if is_line and row["event_name"] != Context.LINE:
            parts.append(f"<{name}>")
        line = row.get("body_line_number") or row["line_number"]
        parts.append(self._styled(f"({visible(row['log_file_path'])}:{line})", _DIM))
        self._out.write(" ".join(parts) + "\n")

    def _mark(self, row: Row) -> str:
        """`>`: not before; the time is that of a line before it. `~`: may have come before the row above."""
        if row["time_source"] == TimeSource.INHERITED and row["time_aligned"] is not None:
            return self._styled(">", _DIM)
        return self._styled("~", _YELLOW) if row["order_uncertain"] else " "

    def _writer(self, row: Row) -> str:
        """`node077 [41]` in the colour of the rank."""
        rank = row["rank"]
        label = f"[{'' if rank is None else rank:>{self._rank_width}}]"
        text = f"{visible(row['host_name'] or '-')[:_WIDEST_NODE]:<{self._node_width}} {label}"
        return self._styled(text, _DIM if rank is None else _PALETTE[rank % len(_PALETTE)])

    def _level(self, row: Row) -> str:
        letter, style = _LEVELS.get(row["severity_text"] or "", (" ", ""))
        return self._styled(letter, style)

    def _name(self, row: Row) -> str:
        match row["role"]:
            case Role.INITIATING:
                style = _RED
            case Role.COLLATERAL:
                style = _YELLOW
            case _:
                style = _DIM
        return self._styled(visible(row["event_name"]), style)

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}{_RESET}" if self._color and style else text


class JsonRows:
    """Writes one JSON object a line: the columns of the event table that are not null, and `order_uncertain`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, row: Row, *, gaps: bool) -> None:
        """Write a row. `event_id` is text: many programs read larger numbers than 2**53 wrongly."""
        del gaps
        values = {name: _plain(row[name]) for name in COLUMN_NAMES if row[name] is not None}
        values["event_id"] = str(row["event_id"])
        values["attributes"] = {a["key"]: _plain(a["value"]) for a in row["attributes"] or ()}
        values["order_uncertain"] = row["order_uncertain"]
        self._out.write(json.dumps(values, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return "\n".join(visible(line) for line in mask_secrets(value).split("\n"))
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _readable(text: str) -> str:
    """One line, masked, of a length that a person reads."""
    shown = visible(mask_secrets(text[: 2 * LONGEST_TEXT]))
    return shown if len(shown) <= LONGEST_TEXT else f"{shown[:LONGEST_TEXT]}…"


def _day_and_clock(time: datetime | None) -> tuple[str, str]:
    if time is None:
        return "", "(no time)"
    return f"{time:%Y-%m-%d}", f"{time:%H:%M:%S}.{time.microsecond // 1000:03d}"
