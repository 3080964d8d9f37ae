"""`correlator schema`: the JSON schema of a diagnosis."""

from __future__ import annotations

import json

import typer


def schema() -> None:
    """Print the JSON schema of `correlator diagnose --json`."""
    from correlator.reports.json import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
