"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("correlator", "parsers", "graphs")
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50
MAY_PRINT = "correlator/cli/"
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ""}
CACHES = {"__pycache__", ".git", ".venv", "sample_runs", ".hypothesis", ".mypy_cache", ".ruff_cache", ".pytest_cache"}

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def modules() -> tuple[Path, ...]:
    """Every module that is shipped, by its real path: the links are not followed."""
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    real = {path.resolve() for path in found if "__pycache__" not in path.parts}
    return tuple(sorted(real))


def name_of(path: Path) -> str:
    """A module's path as people write it."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def length_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, less those of the docstring."""
    first = function.body[0]
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    return lines - ((first.end_lineno or first.lineno) - first.lineno + 1 if ast.get_docstring(function) else 0)


def test_modules_can_be_read_at_one_sitting() -> None:
    """About 250 lines is the aim; past the limit a module has two subjects."""
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert not {name: length for name, length in lengths.items() if length > MAX_MODULE_LINES}


def test_functions_fit_a_screen() -> None:
    """Long ones hide a name that a part of them deserves."""
    lengths = {
        f"{name_of(path)}:{node.lineno} {node.name}": length_without_docstring(node)
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, Function)
    }
    assert not {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES}


def test_only_the_command_line_prints() -> None:
    """Library code returns values and raises errors; it writes to no stream that it was not given."""
    library = (path for path in modules() if not name_of(path).startswith(MAY_PRINT))
    assert not [
        f"{name_of(path)}:{node.lineno}"
        for path in library
        for node in ast.walk(tree_of(path))
        if (isinstance(node, ast.Call) and dotted(node.func) in {("", "print"), ("", "input")})
        or (isinstance(node, ast.expr) and dotted(node) in {("sys", "stdout"), ("sys", "stderr")})
    ]


def test_nothing_dangerous_is_called() -> None:
    """Logs are untrusted: nothing is evaluated, and no pickle is loaded by a loader that can build classes."""
    forbidden = {("", "eval"), ("", "exec"), ("pickle", "load"), ("pickle", "loads"), ("os", "system")}
    assert not [
        f"{name_of(path)}:{node.lineno}"
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and dotted(node.func) in forbidden
    ]


def dotted(expression: ast.expr) -> tuple[str, str]:
    """`sys.stdout` as ("sys", "stdout"), `print` as ("", "print")."""
    if isinstance(expression, ast.Attribute) and isinstance(expression.value, ast.Name):
        return expression.value.id, expression.attr
    return "", expression.id if isinstance(expression, ast.Name) else ""


def test_modules_say_what_they_are_for() -> None:
    """A docstring, unless there is no code either; and annotations are never evaluated at import."""
    with_code = [path for path in modules() if tree_of(path).body]
    assert not [name_of(path) for path in with_code if not ast.get_docstring(tree_of(path))]
    future = "from __future__ import annotations"
    definitions = (Function, ast.ClassDef)
    defining = [path for path in with_code if any(isinstance(node, definitions) for node in tree_of(path).body)]
    assert not [name_of(path) for path in defining if future not in path.read_text(encoding="utf-8")]


def text_files() -> Iterator[Path]:
    """Everything that we wrote: no logs, no caches."""
    for path in ROOT.rglob("*"):
        ours = not CACHES & set(path.relative_to(ROOT).parts)
        if ours and path.suffix in TEXT_SUFFIXES and path.is_file() and not path.is_symlink():
            yield path


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    """No path of this checkout, of its Python, or of a home folder; no address of a package index."""
    machine = {str(ROOT), sys.prefix, sys.base_prefix, str(Path.home())} - {"/", "/usr", "/root"}
    pattern = re.compile("|".join([*map(re.escape, machine), r"https?://[\w.:-]+/(?:\w+/)?simple\b"]))
    found = {
        name_of(path): pattern.findall(path.read_text(encoding="utf-8", errors="replace")) for path in text_files()
    }
    assert not {name: matches for name, matches in found.items() if matches}
