"""What can be checked of the supply chain and of SECURITY.md without a network."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from correlator.cli.options import LIMITS, limits_of
from correlator.sources import Limits

ROOT = Path(__file__).parent.parent.parent
_MAKERS = r"eval|exec|compile|__import__|(?:pickle|marshal|dill|cloudpickle|joblib)\.loads?|pickle\.Unpickler|os\.(?:system|popen)|yaml\.load"
PINS = (ROOT / "constraints.txt").read_text().splitlines()


def test_every_pin_is_one_version_from_an_index() -> None:
    """No address, no path, no option, no range: nothing that could fetch another thing than its name says."""
    assert PINS
    for line in PINS:
        assert re.fullmatch(r"[A-Za-z0-9][\w.-]*==[\w.!+]+", line), line
    names = [re.split("==", line)[0].lower().replace("_", "-") for line in PINS]
    assert len(names) == len(set(names))


def test_nothing_is_required_by_address() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    required = [*data["project"]["dependencies"], *data["build-system"]["requires"]]
    required += [name for group in data["project"]["optional-dependencies"].values() for name in group]
    required += [name for group in data["dependency-groups"].values() for name in group if isinstance(name, str)]
    assert not [name for name in required if "@" in name or "://" in name or name.startswith("-")]


def test_what_is_installed_fits_together() -> None:
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    if "No module named pip" in done.stderr:
        pytest.skip("no pip here")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "path", sorted(path for path in (ROOT / ".ci").iterdir() if path.is_file()), ids=lambda path: path.name
)
def test_ci_takes_no_text_of_others_and_pipes_nothing_into_a_shell(path: Path) -> None:
    """What zizmor looks for, in the one script that there is: unquoted variables, downloads that are run, credentials."""
    text = path.read_text()
    assert "set -euo pipefail" in text
    assert not re.search(r"\b(?:curl|wget|eval|sudo)\b|\|\s*(?:ba|z)?sh\b|https?://", text)
    assert not re.search(r"(?<![\"'\w{])\$[A-Za-z@*]", re.sub(r'"[^"]*"|\'[^\']*\'', "", text)), "an unquoted variable"
    assert not re.search(r"(?i)token|password|secret", text)


def test_no_code_is_made_from_text() -> None:
    """In the whole product: no eval, exec, pickle or marshal of what was read, no shell."""
    found = []
    for folder in ("correlator", "parsers", "graphs"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and re.fullmatch(_MAKERS, name := ast.unparse(node.func)):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name}")
                if isinstance(node, ast.keyword) and node.arg == "shell":
                    found.append(f"{path.relative_to(ROOT)}:{node.value.lineno}: shell=")
    assert not found


def test_the_limits_of_the_page_are_those_of_the_program() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    stated = dict(re.findall(r"^\| `(\w+)` \| (\d+[KMGT]?) \|", text, re.MULTILINE))
    assert set(stated) == set(LIMITS)
    assert limits_of([f"{name}={value}" for name, value in stated.items()]) == Limits()
