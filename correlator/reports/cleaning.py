"""Log text is untrusted: what has to happen to it before anybody sees it."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from correlator.core.masking import map_texts
from correlator.core.model import Diagnosis
from correlator.core.secrets import mask_secrets

_ESCAPE_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"  # CSI: colours, cursor moves
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS: titles, links
    r"|\x1b[ -/]{0,16}[0-~]"  # two-character escapes
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNPRINTABLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_FIRST_BYTE_SURROGATE = 0xDC80


def shareable(diagnosis: Diagnosis) -> Diagnosis:
    r"""The same diagnosis with credentials masked and undecodable bytes of file names spelt out as `\\xff`."""
    return map_texts(diagnosis, shareable_text)


@lru_cache(maxsize=65536)
def visible(text: str) -> str:
    r"""One line that a terminal cannot mistake for orders: escape sequences go, other control characters are spelt out.

    >>> visible("\x1b[31mred\x1b[0m\ttab\x07 \u202ebidi")
    'red tab\\x07 \\u202ebidi'
    """
    if text.isprintable():
        return text
    text = _ESCAPE_SEQUENCE.sub("", text).strip("\r\n")
    return "".join(character if character.isprintable() else _spell_out(character) for character in text)


def clipped(text: str, limit: int) -> str:
    """The text, or its beginning with the number of characters that it had: a line of a megabyte is shown by its head.

    >>> clipped("x" * 2000, 8)
    'xxxxxxxx … (2,000 characters)'
    """
    return text if len(text) <= limit else f"{text[:limit].rstrip()} … ({len(text):,} characters)"


def _spell_out(character: str) -> str:
    if character in "\t\n\r\v\f" or unicodedata.category(character) == "Zs":
        return " "
    if unicodedata.category(character) in _UNPRINTABLE_CATEGORIES:
        return character.encode("unicode_escape").decode("ascii")
    return character


def shareable_text(text: str) -> str:
    r"""One text with credentials masked and undecodable bytes spelt out: what `shareable` does to each of a diagnosis."""
    return _SURROGATE.sub(_surrogate_as_byte, mask_secrets(text))


def _surrogate_as_byte(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number - 0xDC00:02x}" if _FIRST_BYTE_SURROGATE <= number <= 0xDCFF else "\N{REPLACEMENT CHARACTER}"
