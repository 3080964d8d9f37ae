"""The rules of the house for patterns and prose: run by the tests, and on a user's file when it is loaded.

Patterns must mean the same to Python `re`, hyperscan and Rust's regex, must stay inside one line, and must be cheap
on a hostile one: log text is untrusted.
"""

from __future__ import annotations

import importlib
import re
import string
import time
import warnings
from collections.abc import Iterator
from typing import Any

from correlator.core.catalogue.model import PLACEHOLDERS, Catalogue, Entry, Signature

HOSTILE_LINE_BYTES = 64 << 10
TIME_LIMIT_S = 0.050
_TRIES = 3
_SIZES = (16, 20, 24, 28, 34, 42, 64, 256, 1 << 10, 4 << 10, 16 << 10, HOSTILE_LINE_BYTES)
"""Lengths tried in turn; small steps first, because an exponential pattern doubles its time with each character."""
_MAX_REPEAT = 60  # each bounded repeat is unrolled by hyperscan: large ones cost seconds when the database is built

# `re` offers its parse tree under this private name only; typeshed does not know it. Only the linter needs it.
_parser: Any = importlib.import_module("re._parser")
_constants: Any = importlib.import_module("re._constants")

_FORBIDDEN_TEXT: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"(?<!\\)(?:\\\\)*\\[sSDW]"),
        r"\s and \W, \D can cross a line end, \S differs between engines: write [ \t], [^x\n]",
    ),
    (re.compile(r"(?<!\\)(?:\\\\)*\\[AZzGKRXCQEpP]"), "an escape that not all engines know"),
    (re.compile(r"(?<!\\)\(\?[a-zA-Z]*[aLusmx]"), "an inline flag other than (?i)"),
    (re.compile(r"[^\x20-\x7e]"), "a character outside printable ASCII"),
)
_CHEAP_NODES = {
    "ASSERT": "look-around",
    "ASSERT_NOT": "look-around",
    "GROUPREF": "a back-reference",
    "GROUPREF_EXISTS": "a conditional group",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive quantifier",
}


def lint_catalogue(catalogue: Catalogue) -> list[str]:
    """Every broken rule of a whole catalogue, as `id: problem`; empty when it is sound."""
    problems: list[str] = []
    for signature in catalogue.signatures:
        problems += (f"{signature.id}: {problem}" for problem in lint_signature(signature))
    for entry in catalogue.entries:
        problems += (f"{entry.code}: {problem}" for problem in lint_entry(entry))
    return problems


def lint_signature(signature: Signature) -> list[str]:
    """Every broken rule of one signature; empty when it is sound."""
    problems = pattern_problems(signature.pattern)
    if signature.stack is not None:
        problems += (f"stack: {problem}" for problem in pattern_problems(signature.stack))
    if problems:
        return problems
    compiled = signature.regex
    problems += (f"its sample does not match: {text!r}" for text in signature.samples if not compiled.search(text))
    find = compiled.match if signature.anchor == "start" else compiled.search
    problems += (f"its lookalike matches: {text!r}" for text in signature.lookalikes if find(text))
    if signature.anchor == "start" and signature.pattern.startswith("^"):
        problems.append("^ would only match a line without prefixes: the anchor says `start` already")
    problems += (
        f"lines must not hold a line end: {t!r}" for t in signature.samples + signature.lookalikes if "\n" in t
    )
    slowest = slowest_search_s(signature)
    if slowest > TIME_LIMIT_S:
        problems.append(f"takes {slowest * 1e3:.0f} ms on a hostile line, more than {TIME_LIMIT_S * 1e3:.0f} ms")
    return problems


def lint_entry(entry: Entry) -> list[str]:
    """Placeholders that no one fills, rivals that are the fault itself."""
    problems: list[str] = []
    controls = (rival.control for rival in entry.rivals)
    for text in (entry.first_action, entry.verification, *entry.commands, *controls):
        try:
            names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
        except ValueError as error:
            problems.append(f"unbalanced braces ({error}): {text!r}")
            continue
        problems += (f"unknown placeholder {{{name}}}: {text!r}" for name in names if name not in PLACEHOLDERS)
    problems += (f"is its own rival: {rival.control!r}" for rival in entry.rivals if rival.code == entry.code)
    for variant in entry.variants:
        if variant.when.text is not None:
            problems += (f"{variant.entry.variant}: {problem}" for problem in pattern_problems(variant.when.text))
        problems += (f"{variant.entry.variant}: {problem}" for problem in lint_entry(variant.entry))
    return problems


def pattern_problems(pattern: str) -> list[str]:
    """What keeps a pattern from meaning the same in every engine, or from staying inside one line."""
    problems = [problem for bad, problem in _FORBIDDEN_TEXT if bad.search(pattern)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python only warns of (a set in a set) is judged below
            tree = _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return [f"not a regular expression: {error}"]
    problems += _walk(tree, repeated=False)
    problems += _set_problems(pattern)
    if _can_be_empty(tree):
        problems.append("matches the empty text")
    return list(dict.fromkeys(problems))


def _can_be_empty(tree: Any) -> bool:
    return int(tree.getwidth()[0]) == 0


def _walk(nodes: Any, *, repeated: bool) -> Iterator[str]:
    """Problems of a parse tree; `repeated` = inside a quantifier without upper bound."""
    for op, argument in nodes:
        name = str(op)
        if name in _CHEAP_NODES:
            yield f"uses {_CHEAP_NODES[name]}"
        elif name in ("NOT_LITERAL", "IN"):
            yield from _class_problems(name, argument)
        elif name == "LITERAL" and argument == ord("\n"):
            yield r"\n can cross a line end"
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, body = argument
            endless = high == _constants.MAXREPEAT
            if endless and repeated:
                yield "nests an open-ended quantifier in another"
            if not endless and high > _MAX_REPEAT:
                yield f"repeats up to {high} times, more than {_MAX_REPEAT}"
            if low > _MAX_REPEAT:
                yield f"repeats at least {low} times, more than {_MAX_REPEAT}"
            yield from _walk(body, repeated=repeated or endless)
        elif name == "SUBPATTERN":
            yield from _walk(argument[3], repeated=repeated)
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from _walk(branch, repeated=repeated)


def _set_problems(pattern: str) -> Iterator[str]:
    """Text inside a class that Rust reads as a nested class or a set operation, and the others as plain characters."""
    body_start: int | None = None
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 2
            continue
        if body_start is None and char == "[":
            index += 1 if pattern.startswith("^", index + 1) else 0
            body_start = index + 1
        elif body_start is not None and char == "]" and index > body_start:
            body_start = None
        elif body_start is not None and (char == "[" or pattern[index : index + 2] in ("&&", "--", "~~")):
            yield "a class within a class, or a set operation, to Rust: escape it"
        index += 1


def _class_problems(name: str, argument: Any) -> Iterator[str]:
    """A class that can match a line end: negated without it, or holding it."""
    newline = ord("\n")
    if name == "NOT_LITERAL":
        if argument != newline:
            yield r"a negated class without \n can cross a line end"
        return
    items = [(str(op), value) for op, value in argument]
    negated = items[0][0] == "NEGATE"
    holds = any(
        (op == "LITERAL" and value == newline) or (op == "RANGE" and value[0] <= newline <= value[1])
        for op, value in items
    )
    if negated != holds:
        yield r"a class that can match a line end"


def slowest_search_s(signature: Signature) -> float:
    """CPU seconds of an unanchored search in the worst of some hostile 64 KiB lines, best of a few tries each."""
    compiled = signature.regex
    return max(_best_time_s(compiled, text) for text in _hostile_lines(signature))


def _best_time_s(compiled: re.Pattern[str], text: str) -> float:
    """Time of the whole line, or of its first beginning that takes too long already: no pattern can hang the linter."""
    best = 0.0
    for size in _SIZES:
        best = _search_s(compiled, text[:size])
        tries = 1
        while best > TIME_LIMIT_S and tries < _TRIES:
            best, tries = min(best, _search_s(compiled, text[:size])), tries + 1
        if best > TIME_LIMIT_S or best * (HOSTILE_LINE_BYTES / size) ** 2 < TIME_LIMIT_S:
            break  # too slow already, or fast even if its time grows with the square of the length
    return best


def _search_s(compiled: re.Pattern[str], text: str) -> float:
    start = time.process_time()
    compiled.search(text)
    return time.process_time() - start


def _hostile_lines(signature: Signature) -> Iterator[str]:
    """Long runs of what patterns repeat, and the beginning of a sample over and over."""
    sample = signature.samples[0]
    seeds = ["a", "A", "0", " ", "\t", "_", ".", "a.", "0x", "[", "(", "/a", sample[:-1], sample[: len(sample) // 2]]
    for seed in seeds:
        yield (seed * (HOSTILE_LINE_BYTES // max(len(seed), 1) + 1))[:HOSTILE_LINE_BYTES]
