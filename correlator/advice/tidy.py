"""Pasted text as the program printed it: without the marks that mail, chats, editors and grep put around lines.

The number of lines stays as it is, so that a line of the paste keeps its number.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

_TYPESET = str.maketrans({"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u00a0": " ", "\ufeff": None})
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|#\d{1,5}|#x[0-9a-fA-F]{1,5});")
_FENCE = re.compile(r"\s*(?:```|~~~)[\w-]{0,20}\s*$")
_QUOTED = re.compile(r"(?:[>|\u2502](?: |$)?){1,8}")
_NUMBERED = re.compile(r"[ \t]{0,12}(\d{1,9})(?:[:|\u2502\t]|-(?=\S)|(?= {2,})|(?= \S))[ \t]?")
_NAMED = re.compile(r"[\w./@+-]{1,200}\.(?:log|out|err|txt)(?:\.\d+)?[:-](?:\d{1,9}[:-])? ?")
_ENCLOSED = re.compile(r"(?P<mark>[`\"'*]{1,3})(?P<inside>.{8,})(?P=mark)[,;.]?\s*$")
_MOST = 0.6
"""Share of the lines that must carry a mark before it is taken off: a single `>` can be the program's own."""


def tidy(text: str) -> str:
    """The text with such marks taken off, as many layers as there are; the same text where there are none."""
    lines = text.translate(_TYPESET).split("\n")
    if _ENTITY.search(text):
        lines = [html.unescape(line).replace("\n", " ") for line in lines]
    lines = ["" if _FENCE.match(line) else line for line in lines]
    for _ in range(3):
        before = lines
        for take_off in (_quote_marks, _line_numbers, _file_names, _margin, _enclosure):
            lines = take_off(lines)
        if lines == before:
            break
    return "\n".join(lines)


def _off(lines: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    """Without what the pattern finds at the head of lines, where most have it."""
    written = [line for line in lines if line.strip()]
    marked = [line for line in written if pattern.match(line)]
    if len(marked) < max(1.0, _MOST * len(written)):
        return list(lines)
    return [pattern.sub("", line, count=1) if pattern.match(line) else line for line in lines]


def _quote_marks(lines: Sequence[str]) -> list[str]:
    return _off(lines, _QUOTED)


def _line_numbers(lines: Sequence[str]) -> list[str]:
    """Numbers that an editor, `nl` or `grep -n` put in front: they rise from line to line."""
    numbers = [int(match[1]) for line in lines if (match := _NUMBERED.match(line))]
    rising = len(numbers) > 1 and all(a < b for a, b in pairwise(numbers))
    return _off(lines, _NUMBERED) if rising else list(lines)


def _file_names(lines: Sequence[str]) -> list[str]:
    """`rank_3.log:` or `rank_3.log:12:` of grep over several files."""
    return _off(lines, _NAMED)


def _margin(lines: Sequence[str]) -> list[str]:
    """The margin that all lines share; the first may have lost its own when it was selected."""
    written = [line for line in lines if line.strip()]
    margins = [len(line) - len(line.lstrip(" \t")) for line in written]
    common = min(margins, default=0)
    first_cut = len(margins) > 1 and margins[0] == 0 and min(margins[1:]) > 0
    if first_cut and written[0].startswith(("Traceback ", "Exception ")):
        common = min(margins[1:])
        heads = {written[0]}
    else:
        heads = set()
    return [line if line in heads else line[common:] if line.strip() else "" for line in lines]


def _enclosure(lines: Sequence[str]) -> list[str]:
    """Quotation marks or backticks around a whole line."""
    strip: Callable[[str], str] = lambda line: m["inside"] if (m := _ENCLOSED.match(line.strip())) else line  # noqa: E731
    return [strip(line) for line in lines]
