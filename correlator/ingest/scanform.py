r"""The form of a pattern that is searched in raw bytes: a net through which no line slips that the pattern would take.

A line pattern is written for a decoded message without prefixes. The scan sees bytes with every prefix still on them,
and a whole chunk at once, so the pattern is rewritten: `^` and `$` go (a message starts after its prefixes and may end
in a carriage return), everything that could swallow a line end is narrowed, and named groups become plain ones, which
hyperscan needs. The result is valid for hyperscan and for Python's `re` on bytes alike. Its classes are those of ASCII,
and `.` is one byte: patterns should not count characters that may lie outside ASCII.

Hyperscan reports a match at each of its possible ends, so `caught: .*` would be reported once for each byte of the
line. What is optional at the end of a pattern is therefore cut off; and a dense pattern, whose end must be the last
digit of the step, is made to look at what follows, so that `step: 12345` is reported once and not five times. What
stands before the first long literal is cut off as well: the scan gets faster, and hyperscan loses matches of patterns
that begin alike (see `database`).
"""

from __future__ import annotations

import re
from functools import lru_cache

_BLANKS = r" \t\x0b\x0c"
_NO_LINE_END = r"\n\r"
_ESCAPES = {
    "s": f"[{_BLANKS}]",
    "D": rf"[^\d{_NO_LINE_END}]",
    "W": rf"[^\w{_NO_LINE_END}]",
    "A": "(?:)",
    "Z": "(?:)",
}
_PLAIN = {"^": "(?:)", "$": "(?:)", ".": f"[^{_NO_LINE_END}]"}
_REPEAT = re.compile(r"\{\d*,?\d*\}")
_OPTIONAL = re.compile(r"[?*]|\{0?,\d*\}")
_OPEN_NUMBER = re.compile(r"(\\d|\[0-9\])(?:\+|\{1,\d*\})(\)*)$")
_LITERAL = re.compile(r"""[A-Za-z0-9 _:,'"/#=<>!@%&~`;-]|\\[^a-zA-Z0-9]""")
_LITERAL_RUN = 8
_VAGUE = re.compile(r"\[(?:[^\\\]]|\\.)+\]|\\[dw]|[()?*+]|\{\d*,?\d*\}")
_ESCAPED = re.compile(r"\\(.)")
_ESCAPED_IN_RUST = frozenset("\\.+*?()|[]{}^$#&~-")
_FLAGS = re.compile(r"\(\?[a-z]+\)")
STEP_END = r"(?:[^\d\n]|$)"
"""What stands behind the last digit of a step; one byte of the match, unless it is the end of the line."""


_EIGHTS = (
    r"(?:(?:[0-9]*[02468])?(?:00|08|16|24|32|40|48|56|64|72|80|88|96)"
    r"|[0-9]*[13579](?:04|12|20|28|36|44|52|60|68|76|84|92)|[08])"
)
"""A multiple of 8, by its last three digits."""


@lru_cache(maxsize=4096)
def scan_form(regex: str, *, dense: bool = False, thin: bool = False) -> bytes:
    r"""The pattern as bytes for the scan engines.

    Args:
        regex: the pattern, as it is written for a peeled message.
        dense: its matches end at the step number or one byte behind it.
        thin: of a dense pattern, only the steps that are multiples of 2**quota.THIN_EXPONENT.

    >>> scan_form(r"^iteration\s+(?P<step>\d+):.*$")
    b'iteration[ \\t\\x0b\\x0c]+(\\d+):'
    """
    flags = _FLAGS.match(regex)
    pieces = _without_head(_from_literal(_pieces(regex, flags.end() if flags else 0)))
    form = (flags.group() if flags else "") + "".join(pieces if dense else _trimmed(pieces))
    if dense and _OPEN_NUMBER.search(form):
        number = _EIGHTS if thin else r"\1+"
        form = _OPEN_NUMBER.sub(rf"{number}\2", form) + STEP_END
    return form.encode("utf-8", errors="replace")


def rust_form(form: bytes) -> str:
    r"""A scan form for Rust's regex, which takes no escape that is not needed.

    >>> rust_form(rb"\"a\" \[x\] \d")
    '"a" \\[x\\] \\d'
    """

    def plainly(escape: re.Match[str]) -> str:
        return escape[0] if escape[1].isalnum() or escape[1] in _ESCAPED_IN_RUST else escape[1]

    return _ESCAPED.sub(plainly, form.decode())


def _pieces(regex: str, position: int) -> list[str]:
    """The tokens of the pattern from a position on, rewritten."""
    pieces: list[str] = []
    while position < len(regex):
        piece, position = _next_piece(regex, position)
        pieces.append(piece)
    return pieces


def _next_piece(regex: str, position: int) -> tuple[str, int]:
    """One token of the pattern, rewritten, and where the next one begins."""
    char = regex[position]
    if char == "\\":
        escaped = regex[position + 1 : position + 2]
        end = position + (4 if escaped == "x" else 2)
        return _ESCAPES.get(escaped, regex[position:end]), end
    if char == "[":
        return _character_class(regex, position)
    if char == "{" and (repeat := _REPEAT.match(regex, position)):
        return repeat.group(), repeat.end()
    if regex.startswith("(?P<", position):
        end = regex.find(">", position)
        return ("(", end + 1) if end > 0 else (char, position + 1)
    if not char.isascii():
        return f"(?:{char})", position + 1  # a quantifier must apply to the whole character, not to its last byte
    return _PLAIN.get(char, char), position + 1


def _character_class(regex: str, start: int) -> tuple[str, int]:
    """A `[...]` rewritten so that it holds no line end, and the position behind it."""
    position = start + 1
    negated = regex.startswith("^", position)
    position += negated
    parts = ["[^" if negated else "["]
    first = position
    while position < len(regex) and (regex[position] != "]" or position == first):
        width = 2 if regex[position] == "\\" else 1
        member = regex[position : position + width]
        if member == r"\s" and not negated:
            member = _BLANKS
        parts.append(rf"\{member}" if member == "[" else member)
        position += width
    if negated:
        parts.append(_NO_LINE_END)
    return "".join(parts) + "]", position + 1


def _from_literal(pieces: list[str]) -> list[str]:
    """From the first run of literal characters on that every match must hold; all of it where there is none."""
    depth = run = 0
    start: int | None = None
    for position, piece in enumerate(pieces):
        if piece == "|" and not depth:
            return pieces
        literal = not depth and _LITERAL.fullmatch(piece) is not None and not _is_repeated(pieces, position)
        depth += (piece == "(") - (piece == ")")
        run = run + 1 if literal else 0
        if run == _LITERAL_RUN and start is None:
            start = position + 1 - run
    return pieces[start or 0 :]


def _without_head(pieces: list[str]) -> list[str]:
    """Without what at the start is optional or of no certain letters, where letters follow.

    `([a-z0-9-]+)[ ]+[0-9]/[0-9]+` keeps a scan busy in every word of a log; `/[0-9]+` finds as much.
    """
    rest = pieces
    depth = 0
    for piece in pieces:
        depth += (piece == "(") - (piece == ")")
        if piece == "|" and not depth:
            return pieces
    while rest:
        end = _group_end(rest) + 1
        item = rest[:end]
        while end < len(rest) and (rest[end] in ("?", "*", "+") or _REPEAT.fullmatch(rest[end])):
            end += 1
        optional = end > len(item) and _OPTIONAL.fullmatch(rest[len(item)]) is not None
        if not optional and not _is_vague(item):
            break
        rest = rest[end:]
    certain = any((len(piece) == 1 and piece.isalpha()) or piece in "/[" for piece in rest)
    return rest if certain else pieces


def _group_end(pieces: list[str]) -> int:
    """Where the first item ends, without its quantifier."""
    depth = 0
    for position, piece in enumerate(pieces):
        depth += (piece == "(") - (piece == ")")
        if not depth:
            return position
    return len(pieces) - 1


def _is_vague(item: list[str]) -> bool:
    """Whether an item is made of classes alone."""
    inner = [
        piece for number, piece in enumerate(item) if not (piece == ":" and item[number - 2 : number] == ["(", "?"])
    ]
    return all(_VAGUE.fullmatch(piece) for piece in inner)


def _is_repeated(pieces: list[str], position: int) -> bool:
    following = pieces[position + 1] if position + 1 < len(pieces) else ""
    return following in ("?", "*", "+") or _REPEAT.fullmatch(following) is not None


def _trimmed(pieces: list[str]) -> list[str]:
    """Without what is optional at the end; `x+` there is as good as `x`."""
    while (end := _optional_from(pieces)) and pieces[end - 1] not in "|(":
        pieces = pieces[:end]
    return pieces


def _optional_from(pieces: list[str]) -> int:
    """Where the last, optional item begins; 0 where the last item is needed."""
    if len(pieces) < 2:
        return 0
    last = len(pieces) - 1
    if pieces[last] == "(?:)":  # once `$`
        return last
    if pieces[last] == ")" and pieces[last - 1] == "*" and pieces[last - 3 : last - 2] == ["("]:  # (?P<rest>[^\n]*)
        return last - 3
    if pieces[last] == "+" and pieces[last - 1] != ")":
        return last
    if pieces[last] == "?" and _OPTIONAL.fullmatch(pieces[last - 1]):  # the ? of a lazy quantifier
        last -= 1
    if not _OPTIONAL.fullmatch(pieces[last]) or pieces[last - 1] == "+" or _REPEAT.fullmatch(pieces[last - 1]):
        return 0
    return _item_start(pieces, last - 1)


def _item_start(pieces: list[str], end: int) -> int:
    """Where the item that ends at `end` begins: a single piece, or a group with all that is in it."""
    if pieces[end] != ")":
        return end
    depth = 0
    for position in range(end, -1, -1):
        depth += (pieces[position] == ")") - (pieces[position] == "(")
        if not depth:
            return position
    return 0
