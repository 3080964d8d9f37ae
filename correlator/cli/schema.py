"""`correlator schema`: the JSON schema of a diagnosis."""

from __future__ import annotations

import json

from correlator.cli.output import standard_output


def schema() -> None:
    """Print the JSON schema of `correlator diagnose --json`."""
    from correlator.reports.json import json_schema

    with standard_output() as out:
        out.write(json.dumps(json_schema(), indent=2) + "\n")
