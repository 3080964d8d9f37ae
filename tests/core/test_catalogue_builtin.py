"""The built-in catalogue: complete, sound by the linter, and readable by hyperscan and by Rust's regex too."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys

import hyperscan
import polars as pl
import pytest

from correlator.core.catalogue import Catalogue, CheckpointTrust, Entry, load_catalogue
from correlator.core.catalogue.lint import lint_catalogue
from correlator.core.vocabulary import FAULT_CLASS, CollateralKind, FaultCode, Role
from correlator.parsers.base import Layer

CATALOGUE = load_catalogue()


def test_every_code_has_exactly_one_entry() -> None:
    """A code of the published vocabulary without an entry would be a verdict without advice."""
    faults = [entry.code for entry in CATALOGUE.entries if entry.role is Role.INITIATING]
    collateral = [entry.code for entry in CATALOGUE.entries if entry.role is Role.COLLATERAL]
    assert sorted(faults) == sorted(FaultCode)
    assert sorted(collateral) == sorted(CollateralKind)


def test_the_linter_finds_nothing() -> None:
    """Subset, line ends, samples, look-alikes, hostile lines, placeholders: all of the house's rules."""
    assert lint_catalogue(CATALOGUE) == []


@pytest.mark.parametrize("entry", CATALOGUE.entries, ids=lambda entry: f"{entry.role}-{entry.code}")
def test_prose_is_there_and_short(entry: Entry) -> None:
    """What is read at 3 a.m. fits a screen, is made of whole sentences, and holds no placeholder text."""
    for text in (entry.meaning, entry.first_action, entry.verification):
        assert 20 <= len(text) <= 420, text
        assert text.endswith((".", "?")), text
        assert not re.search(r"TODO|TBD|lorem|placeholder", text), text
    assert len(entry.title) <= 80
    if entry.role is Role.INITIATING:
        assert entry.rivals, "a fault without a rival is a fault that no one doubts"
        assert entry.fault_class is FAULT_CLASS[FaultCode(entry.code)]
    else:
        assert entry.fault_class is None


def test_corruption_forbids_checkpoints_after_its_first_sign() -> None:
    """Memory errors and NaN may have been in the weights before the run stopped."""
    for code in (FaultCode.CUDA_ECC_UNCORRECTABLE, FaultCode.GPU_ECC_DBE, FaultCode.NAN_LOSS):
        assert CATALOGUE.entry(code).checkpoint_trust is CheckpointTrust.BEFORE_FIRST_SIGN
    assert CATALOGUE.entry(FaultCode.CUDA_OOM).checkpoint_trust is CheckpointTrust.COMPLETED
    assert CATALOGUE.entry(FaultCode.DISK_FULL).checkpoint_trust is CheckpointTrust.VERIFY_FILES


def test_silent_exit_is_a_fault_and_a_collateral_kind() -> None:
    """The one code of both vocabularies: the fault unless asked otherwise."""
    assert CATALOGUE.entry("silent_exit").role is Role.INITIATING
    assert CATALOGUE.entry("silent_exit", Role.COLLATERAL).role is Role.COLLATERAL


def test_ids_are_unique_and_begin_with_their_code() -> None:
    """An id is what people see as the rule of an evidence line."""
    ids = [signature.id for signature in CATALOGUE.signatures]
    assert len(set(ids)) == len(ids)
    assert all(signature.id.startswith(f"{signature.code}.") for signature in CATALOGUE.signatures)


def test_required_layers_are_layers_of_the_peeler() -> None:
    """A misspelt layer would never be peeled, and the signature would be silent for ever."""
    known = frozenset(Layer)
    assert all(set(signature.requires) <= known for signature in CATALOGUE.signatures)


def test_rust_reads_every_pattern_and_stack() -> None:
    """polars runs Rust's regex; a pattern that it refuses could not run there."""
    line = pl.Series(["x"])
    for signature in CATALOGUE.signatures:
        line.str.contains(signature.pattern, strict=True)
        if signature.stack is not None:
            line.str.contains(signature.stack, strict=True)


def test_rust_finds_every_sample() -> None:
    """The engines agree on what the samples say."""
    for signature in CATALOGUE.signatures:
        found = pl.Series(list(signature.samples)).str.contains(signature.pattern, strict=True)
        assert found.all(), signature.id


def test_hyperscan_finds_every_sample_in_one_database() -> None:
    """All signatures compile into one database, and each is reported on its own samples."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    expressions = [signature.pattern.encode() for signature in CATALOGUE.signatures]
    flags = [hyperscan.HS_FLAG_MULTILINE] * len(expressions)
    database.compile(expressions=expressions, ids=list(range(len(expressions))), flags=flags)
    for index, signature in enumerate(CATALOGUE.signatures):
        for sample in signature.samples:
            hits: set[int] = set()
            database.scan(sample.encode(), match_event_handler=lambda number, *_, hits=hits: hits.add(number))
            assert index in hits, (signature.id, sample)


def test_it_travels_to_worker_processes() -> None:
    """Workers get the catalogue by pickle."""
    copy = pickle.loads(pickle.dumps(CATALOGUE))
    assert isinstance(copy, Catalogue)
    assert copy == CATALOGUE
    assert copy.entry("cuda_oom") == CATALOGUE.entry("cuda_oom")


def test_loading_needs_no_heavy_library() -> None:
    """`explain` and `--help` stay fast: the catalogue imports only the standard library."""
    code = "import json, sys; from correlator.core.catalogue import load_catalogue; load_catalogue(); print(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"polars", "pyarrow", "numpy", "networkx", "hyperscan", "typer"} & set(json.loads(ran.stdout))
