"""Words of a known error without their frame: half a line, an error quoted in a sentence, a bare Xid number.

Nothing here proves that it happened to the process at hand, so such a match is never sure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from correlator.advice.lines import Line
from correlator.core.catalogue import Catalogue, Signature
from correlator.core.vocabulary import Role

_MOST_LINES = 400
_MOST_CHARACTERS = 1_000
_FEWEST_CHARACTERS = 14
_FEWEST_WORDS = 2
_MOST_CODES = 2
"""Half a line that fits the messages of more codes than this says nothing."""
_XID = re.compile(r"(?i)\bxid\b(?:[ \t]*\([^()\n]{0,40}\))?[ \t:#=]{0,3}(?:error[ \t:]{0,2})?(\d{1,3})\b")
_DIGITS = re.compile(r"\d+")
_TELLING = re.compile(
    r"(?i)error|exce|fail|fatal|kill|abort|xid|fault|cuda|cu(?:blas|dnn)|nccl|memory|time(?:d )?out|signal|assert|illegal|"
    r"denied|refused|reset|device|driver|stream|kernel|peer|mismatch|no space|full|bus\b|nan\b|terminat|cancel|corrupt|"
    r"double free|"
    r"invalid|sig[a-z]{3,5}\b|oom|lockup|\blink\b|unplugged|slowdown|interface|interrupt|reaping"
)
"""A word that every known message has; whatever lacks them all is not searched further, which would cost seconds."""


def fragments_of(text: str, catalogue: Catalogue) -> Iterator[Line]:
    """A `Line` for each place of the text that holds a known error's words, exact ones first."""
    numbered = enumerate(text.split("\n"), 1)
    lines = [(number, line[:_MOST_CHARACTERS]) for number, line in numbered if may_hold_a_message(line)]
    some = lines[:_MOST_LINES] + lines[_MOST_LINES:][-_MOST_LINES:]
    found = [*_quoted(some, catalogue), *_numbers(some, catalogue)]
    yield from found or _halves(some, catalogue)


def may_hold_a_message(line: str) -> bool:
    """Whether the line has a word that messages of the catalogue have."""
    return _TELLING.search(line[:_MOST_CHARACTERS]) is not None


def _quoted(lines: list[tuple[int, str]], catalogue: Catalogue) -> Iterator[Line]:
    """Lines that hold a whole message somewhere inside."""
    usable = [s for s in catalogue.signatures if s.role is not Role.CONTEXT and s.stack is None and s.priority >= 40]
    for number, line in lines:
        hits = [s for s in usable if s.regex.search(line)]
        if hits:
            best = max(hits, key=lambda signature: signature.priority)
            yield _line(best, number, line)


def _numbers(lines: list[tuple[int, str]], catalogue: Catalogue) -> Iterator[Line]:
    """`Xid 79` and the like: the signature is the one that knows the driver's own line of that number."""
    for number, line in lines:
        for match in _XID.finditer(line):
            said = f"NVRM: Xid (PCI:0000:00:00): {int(match[1])}, Fatal "
            known = [s for s in catalogue.signatures if s.regex.match(said)]
            if known:
                best = max(known, key=lambda signature: (signature.role is not Role.CONTEXT, signature.priority))
                yield _line(best, number, line, xid=str(int(match[1])))


def _halves(lines: list[tuple[int, str]], catalogue: Catalogue) -> Iterator[Line]:
    """Lines that are a part of a message: the samples of the catalogue are whole ones."""
    for number, line in lines:
        words = _folded(line)
        if len(words) < _FEWEST_CHARACTERS or words.count(" ") < _FEWEST_WORDS:
            continue
        fits = [s for s in catalogue.signatures if s.role is not Role.CONTEXT and words in _samples(s)]
        if fits and len({signature.code for signature in fits}) <= _MOST_CODES:
            yield _line(max(fits, key=lambda signature: signature.priority), number, line)


def _folded(text: str) -> str:
    return " ".join(_DIGITS.sub("0", text).lower().split()).strip(" .,:;\"'`")


@lru_cache(maxsize=2_048)
def _samples(signature: Signature) -> str:
    return "\n".join(map(_folded, signature.samples))


def _line(signature: Signature, number: int, text: str, **attributes: str) -> Line:
    match = signature.regex.search(text)
    groups = {} if match is None else {name: value for name, value in match.groupdict().items() if value is not None}
    return Line(
        signature.code, signature.role, signature.id, "", number, body=text.strip(), attributes=groups | attributes
    )
