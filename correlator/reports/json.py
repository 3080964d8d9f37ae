"""The diagnosis as JSON, and the JSON schema that it keeps to (design: the diagnosis is a contract)."""

from __future__ import annotations

import dataclasses
import json
import math
from enum import Enum
from typing import Any, TextIO

from correlator.core.model import Diagnosis

RENAMED = {"fault_class": "class"}
"""Fields whose JSON name is a keyword of Python."""


def render(diagnosis: Diagnosis, out: TextIO, *, width: int, color: bool, verbose: bool) -> None:
    """Write one JSON object, always whole and in the same order; width, colour and verbosity mean nothing here."""
    del width, color, verbose
    out.write(json.dumps(to_jsonable(diagnosis), indent=2, allow_nan=False) + "\n")


def to_jsonable(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis as plain values under their public names, `schema` first."""
    plain: dict[str, Any] = _plain(diagnosis)
    return {"schema": plain.pop("schema"), **plain}


def json_schema() -> dict[str, Any]:
    """The schema of `to_jsonable`'s result, JSON Schema draft 2020-12, generated from the dataclasses."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(Diagnosis).json_schema(mode="serialization")
    for definition in [schema, *schema["$defs"].values()]:
        if "properties" in definition:
            definition["properties"] = {RENAMED.get(k, k): v for k, v in definition["properties"].items()}
            definition["required"] = list(definition["properties"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _plain(value: Any) -> Any:
    """A value of the model as JSON has it: lists for tuples, None for what no JSON number can say."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple):
        members = [_plain(member) for member in value]
        unbounded = any(isinstance(member, float) and not math.isfinite(member) for member in value)
        return None if unbounded else members
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {RENAMED.get(f.name, f.name): _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value
