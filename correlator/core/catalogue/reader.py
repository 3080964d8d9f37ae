"""Typed access to one TOML table, so that every mistake in a catalogue names its file and key."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NoReturn, TypeVar

from correlator.core.errors import CatalogueError

Choice = TypeVar("Choice", bound=StrEnum)


class Table:
    """One table of a catalogue file. Each getter raises CatalogueError where the value has the wrong type."""

    def __init__(self, values: Mapping[str, object], file: str, path: str) -> None:
        self.values = values
        self.file = file
        self.path = path

    def fail(self, key: str, problem: str, hint: str | None = None) -> NoReturn:
        """Raise for one key of this table."""
        raise CatalogueError(f"{self.file}: {self._path_of(key)}: {problem}", hint=hint)

    def allow(self, keys: frozenset[str]) -> None:
        """Refuse keys that no one reads: a misspelt key would be silence otherwise."""
        for key in self.values:
            if key not in keys:
                self.fail(key, "unknown key", hint="known: " + ", ".join(sorted(keys)))

    def text(self, key: str, default: str | None = None) -> str:
        """A string; required and not empty where there is no default."""
        value = self.values.get(key, default)
        if value is None:
            self.fail(key, "missing")
        if not isinstance(value, str) or (not value.strip() and default is None):
            self.fail(key, "must be a text that is not empty")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; empty where the key is absent."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            self.fail(key, "must be a list of texts")
        return tuple(value)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """A boolean; `default` where the key is absent."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            self.fail(key, "must be true or false")
        return value

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        """A whole number within bounds."""
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.fail(key, f"must be a whole number from {low} to {high}")
        return value

    def choice(self, key: str, choices: type[Choice], default: Choice) -> Choice:
        """A member of an enumeration, by its value."""
        value = self.values.get(key, default)
        try:
            return choices(value)  # type: ignore[arg-type]
        except ValueError:
            self.fail(key, f"{value!r} is not one of {', '.join(choices)}")

    def tables(self, key: str) -> tuple[Table, ...]:
        """A list of tables; empty where the key is absent."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.fail(key, "must be a list of tables")
        return tuple(Table(item, self.file, f"{self._path_of(key)}[{number}]") for number, item in enumerate(value))

    def table(self, key: str) -> Table:
        """A table; empty where the key is absent."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self.fail(key, "must be a table")
        return Table(value, self.file, self._path_of(key))

    def _path_of(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key
