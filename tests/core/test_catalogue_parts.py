"""Every entry has all its parts, each finer entry can be reached, each command is a command, and the pages are current."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from correlator.core.catalogue import Entry, load_catalogue
from correlator.core.catalogue.model import PLACEHOLDERS
from correlator.core.vocabulary import Role
from correlator.parsers.table import pattern_table
from correlator.reports.fault_pages import fault_pages

ROOT = Path(__file__).parent.parent.parent
CATALOGUE = load_catalogue()
ENTRIES = [*CATALOGUE.entries, *(variant.entry for entry in CATALOGUE.entries for variant in entry.variants)]
VARIANTS = [variant for entry in CATALOGUE.entries for variant in entry.variants]
VALUES = dict.fromkeys(PLACEHOLDERS, "7") | {"node": "node03", "pci": "0000:3b:00.0", "path": "/ckpt/step_10"}
ABSENT = re.compile(r"\b(?:[Nn]o|not|none|without|never)\b")


def name_of(entry: Entry) -> str:
    return f"{entry.role}-{entry.key}"


def filled(command: str) -> str:
    return re.sub(r"\{([a-z_]+)\}", lambda match: VALUES[match[1]], command)


@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
def test_every_entry_has_all_its_parts(entry: Entry) -> None:
    """Meaning, what it cannot tell, first action, commands, variables, verification, rivals, files to fetch, sources."""
    parts = "title meaning cannot_tell first_action verification rivals environment fetch sources"
    assert not [part for part in parts.split() if not getattr(entry, part)]
    if not entry.variant:
        assert entry.commands
    for text in (entry.meaning, entry.first_action, entry.verification, *(r.control for r in entry.rivals)):
        assert text.endswith((".", "?")), text
        assert len(text) <= 420, text
    for words in (*entry.cannot_tell, *entry.fetch):
        assert len(words) <= 160
        assert not words.endswith("."), words


@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
def test_verification_says_what_must_be_absent(entry: Entry) -> None:
    """A cure is proven by what no longer appears on a repeat, not by a run that happened to pass."""
    assert ABSENT.search(entry.verification), entry.verification


@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
def test_environment_variables_are_no_cure(entry: Entry) -> None:
    """Each says that it diagnoses, costs, or only moves the fault."""
    honest = re.compile(
        r"[Cc]ures nothing|[Nn]o cure|[Nn]ot a cure|not (?:fix|mend|lower|lengthen)|not fixed|[Dd]iagnos(?:es|tic)|[Ff]rees no|mends nothing"
        r"|fixes nothing|changes nothing|hides|it frees none|Compare GPUs|lower"
    )
    assert not [setting.name for setting in entry.environment if not honest.search(setting.effect)]


def test_the_cures_that_differ_have_entries_of_their_own() -> None:
    """Each Xid family, each NCCL result, each reading of an out-of-memory message."""
    keys = {entry.key for entry in ENTRIES}
    wanted = (
        "gpu_ecc_dbe.xid_48 gpu_ecc_dbe.xid_63 gpu_ecc_dbe.xid_64 gpu_ecc_dbe.xid_94 gpu_ecc_dbe.xid_95 gpu_ecc_dbe.xid_140 "
        "gpu_mmu_fault.xid_13 gpu_mmu_fault.xid_31 gpu_nvlink.xid_74 gpu_nvlink.nvlink5 gpu_gsp_timeout.xid_120 "
        "nccl_internal_error.system_error nccl_internal_error.internal_error nccl_init_failure.invalid_usage "
        "nccl_init_failure.invalid_argument remote_peer_lost.nccl_remote context_poisoned.nccl_cuda "
        "cuda_oom.exhaustion cuda_oom.fragmentation cuda_oom.other_process cuda_oom.huge_request cuda_initialization.fork "
        "cuda_launch_failure.graph_replay native_segfault.during_save native_segfault.teardown native_segfault.extension"
    )
    assert set(wanted.split()) <= keys


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.entry.key)
def test_a_variant_differs_from_the_code_and_is_about_known_lines(variant: object) -> None:
    """Signatures that it names exist; its first action is its own."""
    entry, when = variant.entry, variant.when  # type: ignore[attr-defined]
    known = {signature.id for signature in CATALOGUE.signatures} | {pattern.id for pattern in pattern_table().patterns}
    assert not set(when.signatures) - known
    whole = CATALOGUE.entry(entry.code, entry.role)
    assert entry.first_action != whole.first_action
    assert entry.title != whole.title


def test_a_key_finds_its_entry() -> None:
    """`code` and `code.variant`; nothing for what is neither."""
    assert [entry.key for entry in CATALOGUE.keyed("gpu_ecc_dbe.xid_94")] == ["gpu_ecc_dbe.xid_94"]
    assert [entry.role for entry in CATALOGUE.keyed("silent_exit")] == [Role.INITIATING, Role.COLLATERAL]
    assert CATALOGUE.keyed("gpu_ecc_dbe.nope") == ()
    assert CATALOGUE.keyed("nope") == ()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_every_command_is_shell() -> None:
    """`bash -n` takes each line, and what ssh is to run on the node as well."""
    lines = [filled(command) for entry in ENTRIES for command in entry.commands]
    remote = [match[1] for line in lines if (match := re.fullmatch(r'ssh \S+ "(.*)"', line))]
    assert remote
    bad = []
    for line in dict.fromkeys([*lines, *(text.replace('\\"', '"') for text in remote)]):
        done = subprocess.run(["bash", "-n"], input=line + "\n", capture_output=True, text=True, check=False)
        if done.returncode != 0:
            bad.append((line, done.stderr))
    assert bad == []


def test_commands_name_no_value_of_their_own() -> None:
    """No `<placeholder>` that a person would have to fill by hand, and no host or path that is ours."""
    for entry in ENTRIES:
        for command in entry.commands:
            assert not re.search(r"<[a-z ]+>", command), command
            assert "node0" not in command
            assert not re.search(r"/(?:home|workspace|scratch|data)/", command), command


@pytest.mark.parametrize(
    "tool", ["df", "free", "grep", "ls", "ps", "cksum", "uptime", "last", "journalctl", "dmesg", "lscpu"]
)
def test_options_are_those_of_the_tool(tool: str) -> None:
    """Where a tool exists here, its help names each long option that a command gives it."""
    where = shutil.which(tool)
    if where is None:
        pytest.skip(f"no {tool} here")
    text = " ".join(command for entry in ENTRIES for command in entry.commands)
    used = set(re.findall(rf"(?<![.\w,-]){tool}((?: --[a-z][a-z-]+)+)", text))
    options = {option for group in used for option in group.split()}
    shown = subprocess.run([where, "--help"], capture_output=True, text=True, check=False)
    assert not {option for option in options if option not in shown.stdout + shown.stderr}


def test_the_pages_are_current() -> None:
    """docs/faults is what the catalogue says; `correlator catalogue --pages docs/faults` writes it anew."""
    wanted = fault_pages(CATALOGUE)
    folder = ROOT / "docs" / "faults"
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    stale = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
    assert stale == [], "stale: run `correlator catalogue --pages docs/faults`"
