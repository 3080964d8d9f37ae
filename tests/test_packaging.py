"""What gets shipped: real files behind the links, plain requirements, plain pins."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REQUIREMENTS = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def source_files(folder: str) -> set[str]:
    """All files below a folder of the repository, except what Python leaves behind."""
    files = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(ROOT)) for path in files}


@pytest.mark.parametrize("name", ["parsers", "graphs"])
def test_the_folders_are_real_and_linked(name: str) -> None:
    """A checkout without support for links would build a wheel that lacks both packages."""
    link = ROOT / "correlator" / name
    assert (ROOT / name).is_dir()
    assert link.is_symlink()
    assert link.readlink() == Path("..") / name


def test_the_wheel_holds_every_file_and_nothing_else(wheel: Path) -> None:
    """Data files too; links are resolved to their contents; no stray top-level package."""
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    own = {
        name for name in source_files("correlator") if not name.startswith(("correlator/parsers", "correlator/graphs"))
    }
    linked = {f"correlator/{name}" for folder in ("parsers", "graphs") for name in source_files(folder)}
    assert shipped == own | linked


def test_the_wheel_has_its_licence_and_its_command(wheel: Path) -> None:
    """As the metadata promise."""
    archive = zipfile.ZipFile(wheel)
    texts = {name.split("/")[-1]: name for name in archive.namelist() if ".dist-info/" in name}
    assert "Apache License" in archive.read(texts["LICENSE"]).decode()
    assert "correlator = correlator.cli.app:main" in archive.read(texts["entry_points.txt"]).decode()


def test_the_wheel_survives_files_of_the_same_names(wheel: Path, tmp_path: Path) -> None:
    """A user's own parsers.py and graphs.py in the working directory take nothing from us."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    for name in ("parsers.py", "graphs.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong module')")
    code = "import sys; sys.path.append('site'); import correlator.parsers.base, correlator.graphs; print(correlator.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["parsers", "graphs"])
def test_the_bare_name_is_refused(name: str) -> None:
    """`import parsers` in a checkout would give a second copy of every class."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert f"import correlator.{name}" in done.stderr


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda requirement: requirement.name)
def test_requirements_have_a_floor_and_no_ceiling(requirement: Requirement) -> None:
    """People install beside the pins of a training image; the pinned version satisfies the floor."""
    assert [specifier.operator for specifier in requirement.specifier] == [">="]
    assert requirement.specifier.contains(PINS[pin_name(requirement.name)])


def pin_name(name: str) -> str:
    """A requirement's name as constraints.txt spells it."""
    return next(pin for pin in PINS if canonicalize_name(pin) == canonicalize_name(name))


def test_networkx_resolves_on_the_oldest_python() -> None:
    """networkx 3.7 needs Python 3.12, so neither floor nor pin may ask for it."""
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    (networkx,) = (requirement for requirement in REQUIREMENTS if requirement.name == "networkx")
    assert networkx.specifier.contains("3.4")
    assert PINS["networkx"] < "3.7"


def test_pins_are_plain() -> None:
    """name==version and nothing more: no address of an index, no hash, no path."""
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line), line
