"""What has to go from texts before they are shared: credentials always; on request also people's names, hosts, addresses.

A `Masker` gives the same thing the same new name everywhere in a run (`host3`, `user1`, `address2`), so that a masked
report can still be read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeVar

from correlator.core.ranges import fold_hosts, unfold_hosts
from correlator.core.secrets import mask_secrets

T = TypeVar("T")
Change = Callable[[str], str]

_HOME = re.compile(r"(?P<keep>/(?:home|Users|users|usr/people|homes)/)(?P<name>[^/\s\"':;,=<>|&()\[\]{}]{1,64})")
_ADDRESS = re.compile(r"(?<![\w.-])(?P<address>(?:\d{1,3}\.){3}\d{1,3})(?![\w-]|\.\d)")
_DOMAIN = (
    r"(?:(?:\.[A-Za-z][A-Za-z0-9-]{0,62}){0,6}\.(?:com|net|org|edu|gov|mil|io|ai|cloud|dev|local|internal|lan|cluster|corp|"
    r"intra|localdomain|home|de|fr|uk|eu|ch|jp|cn|kr|au|ca|us)(?![A-Za-z0-9]))?"
)
_ACCOUNT_AT = re.compile(r"(?<![\w.-])(?P<name>[A-Za-z_][\w.-]{0,31})@(?=host\d)")
_NO_PLACES = frozenset({"localhost", "127.0.0.1", "0.0.0.0"})  # noqa: S104 (nothing is bound to it)
_LARGEST_OCTET = 255
_SHORTEST_HOST = 2
_DIGITS = re.compile(r"\d+")


class Masker:
    """Changes any text of one run. Without hosts and `places` it masks credentials and e-mail addresses alone."""

    def __init__(self, hosts: Iterable[str] = (), *, places: bool = False) -> None:
        """`hosts`: every node name of the run; they are numbered in their natural order, so the same run has the same."""
        self.places = places
        names = {host for host in hosts if _is_name(host)} if places else set()
        self._hosts = {host: f"host{number}" for number, host in enumerate(sorted(names, key=_natural), 1)}
        self._users: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._lists = _pattern_of_lists(names)
        self._names = _pattern_of_names(names)

    def __call__(self, text: str) -> str:
        """The text with all that must not be shared replaced."""
        text = mask_secrets(text)
        if not self.places:
            return text
        if "/" in text:
            text = _HOME.sub(lambda match: match["keep"] + self._user(match["name"]), text)
        if self._lists is not None and "[" in text:
            text = self._lists.sub(self._folded, text)
        if self._names is not None:
            text = self._names.sub(lambda match: self._hosts[match["host"]], text)
            text = _ACCOUNT_AT.sub(lambda match: self._user(match["name"]) + "@", text)
        return _ADDRESS.sub(self._address, text)

    def _user(self, name: str) -> str:
        return self._users.setdefault(name, f"user{len(self._users) + 1}")

    def _folded(self, match: re.Match[str]) -> str:
        """A list of hosts as reports fold it, by its members."""
        try:
            hosts = unfold_hosts(match[0])
        except ValueError:
            return match[0]
        return fold_hosts(self._hosts.get(host, host) for host in hosts)

    def _address(self, match: re.Match[str]) -> str:
        address = match["address"]
        if address in _NO_PLACES or any(int(part) > _LARGEST_OCTET for part in address.split(".")):
            return address
        return self._addresses.setdefault(address, f"address{len(self._addresses) + 1}")


def map_texts(value: T, change: Change) -> T:
    """A frozen dataclass (or a tuple, or a text) with every text in it changed; enum members stay."""
    changed: Any = value
    if isinstance(value, str) and not isinstance(value, Enum):
        changed = change(value)
    elif isinstance(value, tuple):
        changed = tuple(map_texts(member, change) for member in value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: map_texts(getattr(value, f.name), change) for f in dataclasses.fields(value) if f.init}
        changed = dataclasses.replace(value, **fields)
    return changed  # type: ignore[no-any-return]


def _is_name(host: str) -> bool:
    """False for what stands in any text: a number, a single letter, the machine itself."""
    return len(host) >= _SHORTEST_HOST and host not in _NO_PLACES and not host.isdigit()


def _natural(name: str) -> tuple[tuple[str, int], ...]:
    """node9 before node10."""
    numbers = [*(int(digits) for digits in _DIGITS.findall(name)), -1]
    return tuple(zip(_DIGITS.split(name), numbers, strict=True))


def _pattern_of_names(hosts: Iterable[str]) -> re.Pattern[str] | None:
    """Any of the hosts, with the domain that may follow; part of a longer word it is none."""
    alternatives = _any_of(hosts)
    if not alternatives:
        return None
    return re.compile(rf"(?<![A-Za-z0-9])(?P<host>{alternatives})(?![A-Za-z0-9]){_DOMAIN}")


def _pattern_of_lists(hosts: Iterable[str]) -> re.Pattern[str] | None:
    """Folded lists of them, `node[01-03,7]`: the names themselves stand nowhere in it."""
    parts = [(host[: match.start()], host[match.end() :]) for host in hosts for match in _DIGITS.finditer(host)]
    if not parts:
        return None
    begins, ends = (_any_of(side) for side in zip(*parts, strict=True))
    return re.compile(rf"(?<![A-Za-z0-9])(?:{begins})\[[0-9,-]{{1,4000}}\](?:{ends})")


def _any_of(texts: Iterable[str]) -> str:
    """Alternatives of a regular expression, the longest first."""
    return "|".join(re.escape(text) for text in sorted(set(texts), key=lambda text: (-len(text), text)))
