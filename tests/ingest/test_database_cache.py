"""Kept databases speed a run up and never change or harm it."""

from __future__ import annotations

from pathlib import Path

import pytest

from correlator.ingest import database_cache

PATTERNS = (("abc", False, (b"xabcx",)), ("de+f", False, (b"deef",)))
RULES = b"rules"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CORRELATOR_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_what_is_written_is_read_back(folder: Path) -> None:
    """Bytes survive unchanged, several databases in order."""
    key = database_cache.key_of(PATTERNS, RULES)
    database_cache.write(key, (b"one", b"", b"three" * 1000))
    assert database_cache.read(key) == (b"one", b"", b"three" * 1000)
    assert [path.name for path in folder.iterdir()] == [f"{key}.hs"]


def test_other_patterns_have_another_name() -> None:
    """A changed pattern, sample or rule never meets an old database."""
    others = [
        PATTERNS,
        PATTERNS[:1],
        PATTERNS[::-1],
        (("abc", False, (b"xabcy",)), PATTERNS[1]),
        (("abc", True, (b"xabcx",)), PATTERNS[1]),
    ]
    keys = {database_cache.key_of(patterns, RULES) for patterns in others}
    keys.add(database_cache.key_of(PATTERNS, b"other rules"))
    assert len(keys) == len(others) + 1


@pytest.mark.parametrize("damage", [b"", b"correlator patterns 1\n", None])
def test_a_damaged_file_is_not_used(folder: Path, damage: bytes | None) -> None:
    """Truncated, emptied or flipped: None, so that the patterns are compiled anew."""
    key = database_cache.key_of(PATTERNS, RULES)
    database_cache.write(key, (b"one",))
    file = folder / f"{key}.hs"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + b"\0" if damage is None else damage)
    assert database_cache.read(key) is None


def test_a_file_that_others_may_write_is_not_used(folder: Path) -> None:
    """A database is machine code in all but name: only the user's own file is loaded."""
    key = database_cache.key_of(PATTERNS, RULES)
    database_cache.write(key, (b"one",))
    (folder / f"{key}.hs").chmod(0o666)
    assert database_cache.read(key) is None


def test_nothing_is_kept_where_it_is_turned_off_or_impossible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`CORRELATOR_CACHE=off`, and a folder that cannot be made, are no errors."""
    monkeypatch.setenv("CORRELATOR_CACHE", "off")
    assert database_cache.cache_folder() is None
    database_cache.write("key", (b"one",))
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("CORRELATOR_CACHE", str(blocked / "below"))
    database_cache.write("key", (b"one",))
    assert database_cache.read("key") is None


def test_old_databases_go(folder: Path) -> None:
    """The folder does not grow with every version."""
    for number in range(12):
        database_cache.write(f"{number:032x}", (b"x",))
    assert len(list(folder.iterdir())) == 8
