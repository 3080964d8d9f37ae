"""The loader: a user's file is laid over the built-in one, and every mistake names its file and key."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from correlator.core.catalogue import load_catalogue
from correlator.core.errors import CatalogueError

Write = Callable[..., Path]

SIGNATURE = """
[[faults.cuda_oom.signatures]]
name = 'ours'
pattern = 'OURS: out of memory'
samples = ['OURS: out of memory']
lookalikes = ['THEIRS: out of memory']
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a user's catalogue and gives its path."""

    def make(text: str, name: str = "my.toml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


def test_a_user_adds_a_signature(write: Write) -> None:
    """The built-in signatures stay, the new one follows, the built-in catalogue itself is not touched."""
    known = load_catalogue([write(SIGNATURE)])
    assert known.signature("cuda_oom.ours") is not None
    assert len(known.signatures) == len(load_catalogue().signatures) + 1
    assert known.entry("cuda_oom").signatures[-1].id == "cuda_oom.ours"
    assert load_catalogue().signature("cuda_oom.ours") is None


def test_a_user_overrides_by_key_and_by_name(write: Write) -> None:
    """Keys that are given replace, keys that are not stay; a signature of the same name is replaced whole."""
    text = "[faults.cuda_oom]\nfirst_action = 'Page the model team.'\n" + SIGNATURE.replace("'ours'", "'torch'")
    known = load_catalogue([write(text)])
    built_in = load_catalogue()
    assert known.entry("cuda_oom").first_action == "Page the model team."
    assert known.entry("cuda_oom").meaning == built_in.entry("cuda_oom").meaning
    replaced = known.signature("cuda_oom.torch")
    assert replaced is not None
    assert replaced.pattern == "OURS: out of memory"
    assert len(known.signatures) == len(built_in.signatures)


def test_later_files_win(write: Write) -> None:
    """Files are laid over each other in the order given."""
    first = write("[faults.cuda_oom]\ntitle = 'one'\n", "a.toml")
    second = write("[faults.cuda_oom]\ntitle = 'two'\n", "b.toml")
    assert load_catalogue([first, second]).entry("cuda_oom").title == "two"
    assert load_catalogue([second, first]).entry("cuda_oom").title == "one"


VARIANT = """
[faults.cuda_oom.variants.ours]
when = { signatures = ['cuda_oom.torch'], text = 'OURS' }
first_action = 'Page the model team for {node}.'
"""


def test_a_user_adds_a_finer_entry(write: Write) -> None:
    """What it leaves out is that of the code; the built-in variants stay; it is taken where its `when` fits."""
    known = load_catalogue([write(VARIANT)])
    entry, built_in = known.entry("cuda_oom"), load_catalogue().entry("cuda_oom")
    assert len(entry.variants) == len(built_in.variants) + 1
    finer = entry.specific("cuda_oom.torch", {}, "OURS: out")
    assert finer.key == "cuda_oom.ours"
    assert finer.first_action == "Page the model team for {node}."
    assert finer.rivals == built_in.rivals
    assert entry.specific("cuda_oom.torch", {}, "THEIRS") == entry
    assert entry.specific("cuda_oom.torch", {"reading": "limit"}, "OURS").key == "cuda_oom.limit"


def test_fragments_are_put_into_patterns(write: Write) -> None:
    """A part of a pattern is written once."""
    text = "[fragments]\nhead = 'OURS: '\n" + SIGNATURE.replace(
        "'OURS: out of memory'\nsamples", "'{{head}}out'\nsamples"
    )
    signature = load_catalogue([write(text)]).signature("cuda_oom.ours")
    assert signature is not None
    assert signature.pattern == "OURS: out"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[faults.cuda_oom]\ntitel = 'x'\n", "faults.cuda_oom.titel: unknown key"),
        ("[fault.cuda_oom]\ntitle = 'x'\n", "fault: unknown key"),
        ("[faults.cuda_ooom]\ntitle = 'x'\n", "faults.cuda_ooom: no such code"),
        ("[faults.store_lost]\ntitle = 'x'\n", "faults.store_lost: no such code"),
        ("faults = 3\n", "faults: must be a table"),
        ("[faults.cuda_oom]\ntitle = ''\n", "faults.cuda_oom.title: must be a text"),
        ("[faults.cuda_oom]\nsticky = 'yes'\n", "faults.cuda_oom.sticky: must be true or false"),
        ("[faults.cuda_oom]\ncheckpoint_trust = 'maybe'\n", "checkpoint_trust: 'maybe' is not one of"),
        ("[faults.cuda_oom]\ncommands = 'ls'\n", "commands: must be a list of texts"),
        (
            "[faults.cuda_oom]\nrivals = [{ code = 'nope', control = 'x' }]\n",
            "rivals[0].code: 'nope' is not a fault code",
        ),
        (SIGNATURE.replace("samples = ['OURS: out of memory']\n", ""), "signatures[0].samples: at least one line"),
        (SIGNATURE.replace("lookalikes", "looks"), "looks: unknown key"),
        (SIGNATURE + "priority = 500\n", "priority: must be a whole number"),
        (SIGNATURE + "priority = true\n", "priority: must be a whole number"),
        (SIGNATURE + "anchor = 'end'\n", "anchor: 'end' is not start or anywhere"),
        (SIGNATURE + "severity = 'BAD'\n", "severity: 'BAD' is not one of"),
        (SIGNATURE + "kinds = ['tarball']\n", "kinds: 'tarball' is not one of"),
        (SIGNATURE.replace("'ours'", "'Ours!'"), "name: must be lower-case"),
        (SIGNATURE + SIGNATURE, "cuda_oom.ours is there twice"),
        (SIGNATURE.replace("'OURS: out of memory'\nsamples", "'{{head}}out'\nsamples"), "no fragment 'head'"),
        (
            SIGNATURE.replace("'OURS: out of memory'\nsamples", "'OURS: (out'\nsamples"),
            "cuda_oom.ours: not a regular expression",
        ),
        (SIGNATURE.replace("'OURS: out of memory'\nsamples", r"'OURS:\sout'" + "\nsamples"), "can cross a line end"),
        (SIGNATURE.replace("'OURS: out of memory'\nsamples", "'NEVER'\nsamples"), "its sample does not match"),
        (SIGNATURE.replace("THEIRS", "OURS"), "its lookalike matches"),
        (VARIANT.replace("ours", "Ours!").replace("variants.Ours!", "variants.'Ours!'"), "must be lower-case"),
        (VARIANT.replace("text = 'OURS'", "text = '(OURS'"), "when.text: not a regular expression"),
        (VARIANT.replace("text = 'OURS'", "words = 'OURS'"), "when.words: unknown key"),
        (VARIANT.replace("signatures = ['cuda_oom.torch'], text = 'OURS'", ""), "when: needs signatures"),
        (VARIANT + "sticky = true\n", "sticky: unknown key"),
        ("[context.xid.variants.x]\n", "variants: unknown key"),
        ("not toml at all", "not a TOML file"),
    ],
)
def test_mistakes_name_file_and_key(write: Write, text: str, says: str) -> None:
    """Nothing is ignored in silence, and the message leads to the line to change."""
    with pytest.raises(CatalogueError) as caught:
        load_catalogue([write(text)])
    assert "my.toml: " in str(caught.value)
    assert says in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """One line, no traceback."""
    with pytest.raises(CatalogueError, match=r"gone\.toml: cannot be read"):
        load_catalogue([tmp_path / "gone.toml"])
    with pytest.raises(CatalogueError, match="cannot be read"):
        load_catalogue([tmp_path])


def test_an_unknown_code_is_an_error_of_the_caller() -> None:
    """`explain nope` says so."""
    with pytest.raises(CatalogueError, match="no entry nope"):
        load_catalogue().entry("nope")
    assert load_catalogue().find("nope") is None


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_any_bytes_load_or_fail_in_one_way(tmp_path: Path, data: bytes) -> None:
    """A user's file can be anything: the answer is a catalogue or a CatalogueError."""
    path = tmp_path / "any.toml"
    path.write_bytes(data)
    with suppress(CatalogueError):
        assert load_catalogue([path]).entries
