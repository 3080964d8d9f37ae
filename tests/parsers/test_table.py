"""The pattern table: catalogue and dialects under one numbering."""

from __future__ import annotations

from correlator.core.catalogue import load_catalogue
from correlator.core.catalogue.model import Signature
from correlator.core.vocabulary import Role
from correlator.parsers.base import Dialect, LinePattern
from correlator.parsers.table import CATALOGUE, build_table, pattern_table

ONE = LinePattern(id="one", event_name="message", regex="one", samples=("one",), lookalikes=("two",))
SIGNATURE = Signature(
    "x.y", "cuda_oom", Role.INITIATING, "boom", ("boom",), ("bo",), stack="loader", kinds=("kernel_log",)
)


def test_scan_ids_are_indexes_dialects_first() -> None:
    """The engine's id leads back to pattern and dialect."""
    table = build_table((Dialect("d", "D", (ONE,)),), (SIGNATURE,))
    assert [pattern.id for pattern in table.patterns] == ["one", "x.y"]
    assert table.dialect_of == ("d", CATALOGUE)
    assert table.stack_of == (None, "loader")


def test_the_digest_names_ids_and_regexes() -> None:
    """Tables that scan alike share a compiled database; others do not."""
    first = build_table((Dialect("d", "D", (ONE,)),), ())
    assert first.digest == build_table((Dialect("other", "D", (ONE,)),), ()).digest
    assert first.digest != build_table((Dialect("d", "D", (ONE,)),), (SIGNATURE,)).digest


def test_the_default_table_is_made_once_and_holds_the_catalogue() -> None:
    """Every signature of the catalogue is scanned for."""
    table = pattern_table()
    assert table is pattern_table()
    ids = {pattern.id for pattern in table.patterns}
    assert {signature.id for signature in load_catalogue().signatures} <= ids


def test_a_kernels_signature_explains_no_python_exception() -> None:
    """Only what a training process can raise classifies an exception."""
    table = build_table((), (SIGNATURE,))
    assert table.exception_ids == ()


def test_the_package_offers_its_registries() -> None:
    """Public names are found on first use, others are not."""
    from correlator import parsers

    assert parsers.pattern_table is pattern_table
    assert all(hasattr(parsers, name) for name in parsers.__all__)
    assert not hasattr(parsers, "nothing")
