"""Each rule is a pure function that is listed once, and a rule that nobody lists is noticed."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from correlator.graphs import rules
from correlator.graphs.rules import RULES


def test_every_public_function_of_the_rule_files_is_listed() -> None:
    """A new rule is one function in a file and one line in RULES; without the line this fails."""
    found = set()
    for module_info in pkgutil.iter_modules(rules.__path__):
        module = importlib.import_module(f"correlator.graphs.rules.{module_info.name}")
        found |= {
            function
            for name, function in inspect.getmembers(module, inspect.isfunction)
            if not name.startswith("_") and function.__module__ == module.__name__
        }
    assert found == set(RULES)


def test_every_rule_says_what_it_holds() -> None:
    """The docstring of a rule begins with its number, since verdicts cite it."""
    for rule in RULES:
        assert (rule.__doc__ or "").startswith(("E", "A fault")), rule
