"""Every entry has all its parts, each finer entry can be reached, each command is a command, and the pages are current."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
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
TOOLS_PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
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


def test_each_switch_is_told_where_it_helps() -> None:
    """The variables that people reach for, at the faults that they show more of."""
    wanted = {
        "CUDA_LAUNCH_BLOCKING": "cuda_illegal_address cuda_device_assert cuda_launch_failure cuda_misaligned_address",
        "TORCH_USE_CUDA_DSA": "cuda_device_assert",
        "TORCH_SHOW_CPP_STACKTRACES": "cuda_illegal_address python_exception",
        "PYTORCH_CUDA_ALLOC_CONF": "cuda_oom",
        "CUDA_VISIBLE_DEVICES": "cuda_oom cuda_invalid_device cuda_initialization",
        "TORCH_NCCL_": "rank_stalled collective_timeout heartbeat_exit",
        "NCCL_DEBUG": "nccl_init_failure nccl_internal_error remote_peer_lost network_fault",
        "PYTHONFAULTHANDLER": "native_segfault native_abort silent_exit",
    }
    told = {entry.code: " ".join(setting.name for setting in entry.environment) for entry in CATALOGUE.entries}
    lacking = [(name, code) for name, codes in wanted.items() for code in codes.split() if name not in told[code]]
    assert lacking == []
    oom = " ".join(setting.effect for setting in CATALOGUE.entry("cuda_oom").environment)
    assert "PYTORCH_ALLOC_CONF" in oom
    assert "Renumbers" in oom


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


def simple_commands(line: str) -> list[list[str]]:
    """The words of each command of a shell line, of those in quotes too, without assignments and ssh."""
    found: list[list[str]] = []
    words: list[str] = []
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        parts = list(lexer)
    except ValueError:
        return []
    for part in [*parts, ";"]:
        if set(part) <= set("();<>|&"):
            if words:
                found.append(words)
            words = []
        elif words or not re.fullmatch(r"[A-Z_]+=.*", part):
            words.append(part)
    inner = [word for command in found if command[0] in {"ssh", "bash"} for word in command[1:] if " " in word]
    bare = [command[2:] if command[0] == "ssh" else command for command in found]
    return [c for c in bare if c and " " not in c[0]] + [c for text in inner for c in simple_commands(text)]


COMMANDS = [words for entry in ENTRIES for line in entry.commands for words in simple_commands(filled(line))]
HERE = sorted({words[0] for words in COMMANDS if shutil.which(words[0], path=TOOLS_PATH)} - {"echo", "cat", "python"})


def test_the_commands_are_taken_apart() -> None:
    """The check below sees the tools that the catalogue names, on the node and here."""
    tools = {words[0] for words in COMMANDS}
    assert {
        "nvidia-smi",
        "dmesg",
        "grep",
        "py-spy",
        "dcgmi",
        "df",
        "torchfrtrace",
        "sacct",
        "compute-sanitizer",
    } <= tools
    assert len(HERE) >= 5, HERE


@pytest.mark.parametrize("tool", HERE)
def test_options_are_those_of_the_tool(tool: str) -> None:
    """Where a tool exists here, its help names each option that a command gives it."""
    where = shutil.which(tool, path=TOOLS_PATH)
    assert where is not None
    text = help_of(where, "")
    if not text.strip():
        pytest.skip(f"{tool} has no help")
    for words in (words for words in COMMANDS if words[0] == tool):
        told = text + (help_of(where, words[1]) if tool == "py-spy" else "")
        for option in (word.partition("=")[0] for word in words[1:] if re.match(r"--?[A-Za-z]", word)):
            names = [option] if option.startswith("--") else [f"-{letter}" for letter in option[1:]]
            lacking = [name for name in names if not re.search(rf"(?<![\w-]){name}\b|\[-\w*{name[-1]}", told)]
            assert not lacking, words


@functools.cache
def help_of(tool: str, sub: str) -> str:
    """What a tool, or one of its commands, says of its options."""
    asked = [tool, *filter(None, [sub]), "--help", *(["all"] if Path(tool).name == "ps" else [])]
    shown = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=30)
    return shown.stdout + shown.stderr


def test_the_pages_are_current() -> None:
    """docs/faults is what the catalogue says; `correlator catalogue --pages docs/faults` writes it anew."""
    wanted = fault_pages(CATALOGUE)
    folder = ROOT / "docs" / "faults"
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    stale = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
    assert stale == [], "stale: run `correlator catalogue --pages docs/faults`"
