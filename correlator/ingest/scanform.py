"""The form of a pattern that is searched in raw bytes: a net that lets through no line which the pattern itself would take.

A line pattern is written for a decoded message without prefixes. The scan sees bytes with every prefix still on them, and a
whole chunk at once, so the pattern is rewritten: `^` and `$` go (a message starts after its prefixes and may end in a carriage
return), everything that could swallow a line end is narrowed, and named groups become plain ones, which hyperscan needs.
The result is valid for hyperscan and for Python's `re` on bytes alike. Its classes are those of ASCII, and `.` is one byte:
patterns should not count characters that may lie outside ASCII.
"""

from __future__ import annotations

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


def scan_form(regex: str) -> bytes:
    """The pattern as bytes for the scan engines.

    >>> scan_form(r"^iteration\\s+(?P<step>\\d+)$")
    b'(?:)iteration[ \\\\t\\\\x0b\\\\x0c]+(\\\\d+)(?:)'
    """
    parts: list[str] = []
    position = 0
    while position < len(regex):
        piece, position = _next_piece(regex, position)
        parts.append(piece)
    return "".join(parts).encode("utf-8", errors="replace")


def _next_piece(regex: str, position: int) -> tuple[str, int]:
    """One token of the pattern, rewritten, and where the next one begins."""
    char = regex[position]
    if char == "\\":
        escaped = regex[position + 1 : position + 2]
        return _ESCAPES.get(escaped, char + escaped), position + 2
    if char == "[":
        return _character_class(regex, position)
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
        char = regex[position]
        width = 2 if char == "\\" else 1
        member = regex[position : position + width]
        if member == r"\s" and not negated:
            member = _BLANKS
        parts.append(rf"\{member}" if member == "[" else member)
        position += width
    if negated:
        parts.append(_NO_LINE_END)
    return "".join(parts) + "]", position + 1
