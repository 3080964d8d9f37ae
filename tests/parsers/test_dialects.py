"""Every pattern of the table is proved by its own samples and look-alikes, and keeps to the regex subset of all engines."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable
from pathlib import Path

import hyperscan
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from correlator.core.vocabulary import CollateralKind, Context, FaultCode, FileKind, Role
from correlator.parsers import dialects
from correlator.parsers.base import Anchor, FileContext, LinePattern
from correlator.parsers.chunk_view import ChunkLines, ChunkView, PatternMatch
from correlator.parsers.interpret import NOTE
from correlator.parsers.records import STITCHERS
from correlator.parsers.table import LOWEST_PRIORITY, PatternTable, pattern_table

TABLE: PatternTable = pattern_table()
IDS = [pattern.id for pattern in TABLE.patterns]
ALL = range(len(TABLE.patterns))
_LOOK_AROUND = re.compile(r"\(\?[=!<]|\(\?P=|\\[1-9]|\(\?>|[*+?}]\+")
_HOSTILE = ("a" * 4_000, "[" * 4_000, " " * 4_000, "1:" * 2_000, "rank=" * 800, "(pid=1, " * 500, "x: y, " * 600)
_HOSTILE_LIMIT_S = 0.4


Hits = list[tuple[int, tuple[int, ...]]]


def kind_of(pattern: LinePattern) -> FileKind:
    """A kind of file in which the pattern is looked for."""
    return min(pattern.kinds) if pattern.kinds else FileKind.TEXT


def recognised(
    text: str,
    pattern: LinePattern,
    one_line: Callable[..., tuple[ChunkLines, Hits]],
    context_of: Callable[..., FileContext],
) -> list[PatternMatch]:
    """What takes the segments of a line, all patterns competing."""
    lines, hits = one_line(text.encode(), TABLE)
    view = ChunkView(lines, hits, TABLE, context_of(kind_of(pattern)))
    found = [view.best(line) for line in view.segments(0)]
    return [match for match in found if match is not None]


def agrees(match: PatternMatch, pattern: LinePattern) -> bool:
    """Whether the winner is the pattern, or its double in the catalogue or a dialect, which says the same.

    The catalogue knows every fault's line so that exceptions can be explained; a dialect reads the same line for its fields. A
    pattern of the lowest priority only begins a record: any other may give the meaning.
    """
    if match.pattern.id == pattern.id:
        return True
    if pattern.priority == LOWEST_PRIORITY:
        return match.record == pattern.record
    return match.pattern.event_name == pattern.event_name and match.pattern.role is pattern.role


@pytest.mark.parametrize("index", ALL, ids=IDS)
def test_samples_are_taken_by_their_own_pattern(
    index: int,
    one_line: Callable[..., tuple[ChunkLines, Hits]],
    context_of: Callable[..., FileContext],
    read_file: Callable[..., object],
) -> None:
    """Each sample is recognised by this pattern and by none that says otherwise, and no builder breaks on it."""
    pattern = TABLE.patterns[index]
    assert pattern.samples
    for sample in pattern.samples:
        if TABLE.stacks[index] is not None:
            assert TABLE.compiled[index].search(sample), sample
            continue
        found = recognised(sample, pattern, one_line, context_of)
        assert any(agrees(match, pattern) for match in found), (sample, [match.pattern.id for match in found])
        parsed = read_file(sample.encode(), kind=kind_of(pattern))
        notes = [event.attribute(NOTE) for event in parsed.events if event.attribute(NOTE)]  # type: ignore[attr-defined]
        assert not notes, sample


@pytest.mark.parametrize("index", ALL, ids=IDS)
def test_lookalikes_are_not_taken(
    index: int, one_line: Callable[..., tuple[ChunkLines, Hits]], context_of: Callable[..., FileContext]
) -> None:
    """A line that only resembles it is left alone."""
    pattern = TABLE.patterns[index]
    assert pattern.lookalikes
    for lookalike in pattern.lookalikes:
        found = recognised(lookalike, pattern, one_line, context_of)
        assert pattern.id not in {match.pattern.id for match in found}, lookalike


def test_no_dialect_takes_anothers_sample_lines(
    one_line: Callable[..., tuple[ChunkLines, Hits]], context_of: Callable[..., FileContext]
) -> None:
    """The whole matrix: every dialect and the catalogue compete for every sample, and the owner or a double of it wins."""
    taken: list[tuple[str, str, str]] = []
    lines = 0
    for index in ALL:
        pattern, owner = TABLE.patterns[index], TABLE.dialect_of[index]
        if TABLE.stacks[index] is not None:
            continue  # told by the frames of a traceback
        for sample in pattern.samples:
            lines += 1
            found = recognised(sample, pattern, one_line, context_of)
            owners = {TABLE.dialect_of[match.scan_id] for match in found}
            if owner not in owners and not any(agrees(match, pattern) for match in found):
                taken.append((pattern.id, sample, ", ".join(sorted(owners))))
    assert lines > 700
    assert not taken


@pytest.mark.parametrize("index", ALL, ids=IDS)
def test_declaration_is_sound(index: int) -> None:
    """Names come from the vocabulary, the role fits the name, and the record has a stitcher."""
    pattern = TABLE.patterns[index]
    vocabulary = {Role.INITIATING: FaultCode, Role.COLLATERAL: CollateralKind, Role.CONTEXT: Context}[pattern.role]
    assert pattern.event_name in set(vocabulary)
    assert pattern.record is None or pattern.record in STITCHERS


def test_ids_are_unique() -> None:
    """An id names one pattern: event ids derive from it."""
    assert len(set(IDS)) == len(IDS)


@pytest.mark.parametrize("index", ALL, ids=IDS)
def test_regex_keeps_to_the_common_subset(index: int) -> None:
    """No look-around, back-reference, possessive or atomic part, nothing that crosses a newline; RE2 compiles it."""
    regex = TABLE.patterns[index].regex
    assert not _LOOK_AROUND.search(re.sub(r"\\\\", "", regex))
    assert r"\s" not in regex
    assert r"\S" not in regex
    assert not re.search(r"\[\^(?!\\n)[^\]]*\]", regex.replace(r"\n", "\n").replace("\n", "")) or r"\n" in regex
    pc.match_substring_regex(pa.array(["x"]), pattern=regex)


def test_hyperscan_compiles_all_of_them() -> None:
    """One database holds the whole table."""
    count = len(TABLE.patterns)
    hyperscan.Database().compile(
        expressions=[pattern.regex.encode() for pattern in TABLE.patterns],
        ids=list(range(count)),
        elements=count,
        flags=[hyperscan.HS_FLAG_MULTILINE] * count,
    )


@pytest.mark.parametrize("index", ALL, ids=IDS)
def test_hostile_lines_take_no_time(index: int) -> None:
    """No backtracking without bound, matched as the parser matches it."""
    regex = TABLE.compiled[index]
    look = regex.match if TABLE.patterns[index].anchor is Anchor.START else regex.search
    began = time.process_time()
    for text in _HOSTILE:
        look(text)
    assert time.process_time() - began < _HOSTILE_LIMIT_S


def test_every_dialect_file_is_registered() -> None:
    """A file that defines DIALECT and is not in DIALECTS would be dead."""
    folder = Path(dialects.__file__).parent
    defining = {path.stem for path in folder.glob("*.py") if _defines_dialect(path)}
    registered = {dialect.name for dialect in dialects.DIALECTS}
    assert len(registered) == len(dialects.DIALECTS)
    assert len(defining) == len(registered)
    for stem in defining:
        module = getattr(dialects, stem, None)
        assert module is not None, stem
        assert module.DIALECT in dialects.DIALECTS, stem


def _defines_dialect(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    targets = [node.targets for node in tree.body if isinstance(node, ast.Assign)]
    targets += [[node.target] for node in tree.body if isinstance(node, ast.AnnAssign)]
    return any(isinstance(name, ast.Name) and name.id == "DIALECT" for group in targets for name in group)
