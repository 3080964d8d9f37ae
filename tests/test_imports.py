"""What is imported when: --help is instant, and every module can be imported alone."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = {"polars", "networkx", "pyarrow", "numpy", "hyperscan", "dateparser", "jinja2"}
HELP_BUDGET_S = 0.3

LIST_IMPORTS = """
import json, sys
from correlator.cli.app import main
try:
    main(json.loads(sys.argv[1]))
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["diagnose", "--help"], ["timeline", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """Heavy libraries belong inside the commands."""
    done = subprocess.run(
        [sys.executable, "-c", LIST_IMPORTS, json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    imported = set(json.loads(done.stderr.splitlines()[-1]))
    assert "typer" in imported
    assert sorted(imported & (HEAVY | {"rich.progress", "rich.markdown", "correlator.pipeline"})) == []


def test_importing_the_library_imports_nothing_heavy() -> None:
    """`import correlator` costs nothing; its names come on first use."""
    code = "import sys, correlator; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not [name for name in HEAVY if f"'{name}'" in done.stdout]


def test_help_is_instant() -> None:
    """Processor time of `correlator --help`, the best of five: other work on the machine does not count."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV_")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    costs = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "correlator", "--help"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(costs) < HELP_BUDGET_S


def test_every_part_can_be_imported_first() -> None:
    """No part depends on another having been imported before it: each is imported by a fork that has none of them."""
    code = """
import os, pkgutil, sys, traceback
import correlator
import networkx, numpy, polars, pyarrow, typer  # shared by all forks
names = [module.name for module in pkgutil.iter_modules(correlator.__path__, "correlator.")]
names.remove("correlator.__main__")
print(len(names))
for name in names:
    if not os.fork():
        try:
            __import__(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(f"cannot import {name}")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 12
