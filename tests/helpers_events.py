"""Hand-made event tables for tests: Event values in, a schema-valid polars table out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from correlator.core.event import Event
from correlator.core.files import FileHints, FileReport, LogFile
from correlator.core.schema import COLUMNS, polars_schema
from correlator.core.vocabulary import CollateralKind, FaultCode, FileKind, Role, TimeSource

START_NS = int(datetime(2025, 11, 30, 1, tzinfo=UTC).timestamp()) * 10**9


def at(seconds: float) -> int:
    """ns since the epoch, `seconds` after the start of the made-up run."""
    return START_NS + round(seconds * 1e9)


def event(name: str, line: int, *, seconds: float | None = None, **fields: Any) -> Event:
    """One event; attributes are given as a dict, times in seconds after START_NS."""
    faults, collateral = set(FaultCode), set(CollateralKind)
    role = Role.INITIATING if name in faults else Role.COLLATERAL if name in collateral else Role.CONTEXT
    attributes = tuple(sorted((key, str(value)) for key, value in fields.pop("attributes", {}).items()))
    if seconds is not None:
        fields.setdefault("timestamp_ns", at(seconds))
        fields.setdefault("time_source", TimeSource.EXPLICIT)
        fields.setdefault("time_granularity_ms", 1.0)
    return Event(
        event_name=name,
        role=fields.pop("role", role),
        signature=fields.pop("signature", f"test.{name}"),
        line_number=line,
        byte_offset=line * 100,
        attributes=attributes,
        **fields,
    )


def log(path: str, kind: FileKind, **hints: Any) -> LogFile:
    """A file of the run."""
    return LogFile(path=path, location=f"/nonexistent/{path}", kind=kind, hints=FileHints(**hints))


def report(file: LogFile, lines: int = 10) -> FileReport:
    """What was read from it."""
    return FileReport(path=file.path, kind=file.kind, node=file.hints.node, rank=file.hints.rank, lines=lines)


def table(parts: Iterable[tuple[LogFile, Iterable[Event]]]) -> pl.DataFrame:
    """The event table of files and their events."""
    rows = [_row(file, item, number) for number, (file, item) in enumerate((f, e) for f, es in parts for e in es)]
    return pl.DataFrame(rows, schema=polars_schema(), orient="row")


def _row(file: LogFile, item: Event, number: int) -> dict[str, Any]:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)

    def moment(ns: int | None) -> Any:
        return None if ns is None else epoch + timedelta(microseconds=ns / 1000)

    values: dict[str, Any] = {
        column.name: getattr(item, column.name) for column in COLUMNS if column.name in Event.__dataclass_fields__
    }
    values |= {
        "event_id": number,
        "timestamp": moment(item.timestamp_ns),
        "observed_timestamp": moment(item.observed_timestamp_ns),
        "time_aligned": None,
        "time_uncertainty_ms": None,
        "severity_number": None,
        "severity_text": item.severity,
        "log_file_path": file.path,
        "file_kind": file.kind,
        "clock_domain": file.hints.node or file.path,
        "attributes": [{"key": key, "value": value} for key, value in item.attributes],
    }
    return values
