"""The README is true: its commands exist, and its demo is what the demo prints."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from correlator.cli.app import app
from correlator.core.vocabulary import VerdictStatus
from correlator.reports import ReportFormat

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
DEMO_BLOCK = re.compile(
    r"<!-- demo -->\n```console\n\$ correlator (?P<arguments>.+)\n(?P<output>(?s:.*?))```\n<!-- /demo -->"
)
COMMANDS = sorted(info.name for info in app.registered_commands if info.name)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_names_every_command(command: str) -> None:
    """A command that is not in the README does not exist for its users."""
    assert f"correlator {command}" in README


@pytest.mark.parametrize(
    "word", [*(status.value for status in VerdictStatus), *(f"`{report.value}`" for report in ReportFormat)]
)
def test_the_readme_names_every_verdict_and_format(word: str) -> None:
    """What a person or a script can get is documented."""
    assert word in README


def test_the_first_two_commands_are_demo_and_test() -> None:
    """On a fresh machine nothing else is needed."""
    commands = re.findall(r"^make [a-z]+", README, flags=re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z]+)", README))))
def test_every_make_target_of_the_readme_exists(target: str) -> None:
    """As written in the Makefile, with a comment for `make help`."""
    assert re.search(rf"^{target}:.*## ", MAKEFILE, flags=re.MULTILINE)


def test_the_demo_in_the_readme_is_what_the_demo_prints(request: pytest.FixtureRequest) -> None:
    """The block is the real output of the command above it, that of `make demo`; --snapshot-update writes it anew."""
    block = DEMO_BLOCK.search(README)
    assert block is not None, "the README has no demo block"
    arguments = shlex.split(block["arguments"])
    assert f"\nDEMO ?= {arguments[-1]}\n" in MAKEFILE
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "FORCE_COLOR"}}
    done = subprocess.run(
        [sys.executable, "-m", "correlator", *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed = "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines()) + "\n"
    if request.config.getoption("update_snapshots"):
        start, end = block.span("output")
        (ROOT / "README.md").write_text(README[:start] + printed + README[end:], encoding="utf-8")
    else:
        assert [line.rstrip() for line in block["output"].splitlines()] == printed.splitlines()
