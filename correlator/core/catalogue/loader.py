"""Reads the catalogue's TOML files, ours and a user's, into one `Catalogue`.

    [faults.cuda_oom]                    an initiating fault (FaultCode)      -> an Entry
    [collateral.store_lost]              a collateral kind (CollateralKind)   -> an Entry
    [context.xid]                        a context event: signatures only, no prose
    [[faults.cuda_oom.signatures]]       name, pattern, samples, lookalikes, ...; its id is `cuda_oom.<name>`
    [faults.gpu_ecc_dbe.variants.xid_94] a finer entry; its `when` says for which events, and what it leaves out is
                                         taken from the entry of the code
    [fragments]                          parts of patterns, used in this file's patterns as `{{name}}`

A later file may name the same code: keys that it gives replace the earlier ones, a signature of the same name replaces
that signature (likewise a variant), any other is added. Our own files are linted by the tests, a user's file here,
before it is used.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path

from correlator.core.catalogue.lint import lint_signature, pattern_problems
from correlator.core.catalogue.model import (
    Catalogue,
    CheckpointTrust,
    Entry,
    Rival,
    Setting,
    Signature,
    Variant,
    When,
)
from correlator.core.catalogue.reader import Table
from correlator.core.errors import CatalogueError
from correlator.core.vocabulary import FAULT_CLASS, CollateralKind, Context, FaultCode, FileKind, Role, Severity

BUILTIN_FILES: tuple[str, ...] = (
    "cuda.toml",
    "gpu_hardware.toml",
    "host.toml",
    "storage.toml",
    "communication.toml",
    "application.toml",
    "launcher.toml",
    "collateral.toml",
    "cuda_variants.toml",
    "gpu_hardware_variants.toml",
    "host_variants.toml",
    "communication_variants.toml",
)
"""Registration of the families; where two signatures match equally well, the earlier file wins."""

_FAMILIES: dict[str, Role] = {"faults": Role.INITIATING, "collateral": Role.COLLATERAL, "context": Role.CONTEXT}
_CODES: dict[Role, frozenset[str]] = {
    Role.INITIATING: frozenset(FaultCode),
    Role.COLLATERAL: frozenset(CollateralKind),
    Role.CONTEXT: frozenset(Context),
}
_PROSE = frozenset(
    "title meaning first_action commands environment verification rivals checkpoint_trust sticky generic_reason "
    "cannot_tell fetch drain sources".split()
)
_LISTS = frozenset({"signatures", "variants"})
_WHEN_KEYS = frozenset("signatures attributes text".split())
_SIGNATURE_KEYS = frozenset(
    "name pattern samples lookalikes anchor requires kinds severity priority stack versions source".split()
)
_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")
_FRAGMENT = re.compile(r"\{\{([a-z0-9_]+)\}\}")
_MAX_FILE_BYTES = 4 << 20


@dataclass(slots=True)
class _Draft:
    """An entry while files are merged: the latest value of each key, and where it was read."""

    code: str
    role: Role
    file: str
    values: dict[str, object] = field(default_factory=dict)
    signatures: dict[str, Signature] = field(default_factory=dict)
    variants: dict[str, Table] = field(default_factory=dict)


_Drafts = dict[tuple[Role, str], _Draft]


def load_catalogue(extra: Sequence[Path] = ()) -> Catalogue:
    """The built-in catalogue, with a user's files laid over it in order.

    Raises CatalogueError, naming file and key, where a file cannot be read or breaks a rule.
    """
    if not extra:
        return _builtin()
    drafts = _read_builtin()
    for path in extra:
        changed = _merge(drafts, _parse(_read_user_file(path), str(path)), str(path))
        for signature in changed:
            problems = lint_signature(signature)
            if problems:
                raise CatalogueError(f"{path}: {signature.id}: {problems[0]}")
    return _build(drafts.values())


@cache
def _builtin() -> Catalogue:
    return _build(_read_builtin().values())


def _read_builtin() -> _Drafts:
    drafts: _Drafts = {}
    folder = resources.files("correlator.core.catalogue")
    for name in BUILTIN_FILES:
        _merge(drafts, _parse(folder.joinpath(name).read_bytes(), name), name)
    return drafts


def _read_user_file(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CatalogueError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > _MAX_FILE_BYTES:
        raise CatalogueError(f"{path}: larger than {_MAX_FILE_BYTES >> 20} MiB, which no catalogue is")
    return data


def _parse(data: bytes, file: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CatalogueError(
            f"{file}: not a TOML file: {error}", hint="patterns go in literal strings: '...'"
        ) from error


def _merge(drafts: _Drafts, document: Mapping[str, object], file: str) -> list[Signature]:
    """Lay one file over the drafts; returns the signatures that it brought."""
    for family in document:
        if family not in _FAMILIES and family != "fragments":
            raise CatalogueError(f"{file}: {family}: unknown key", hint="known: fragments, " + ", ".join(_FAMILIES))
    root = Table(document, file, "")
    fragments = root.table("fragments")
    changed: list[Signature] = []
    for family, role in _FAMILIES.items():
        entries = root.table(family)
        for code in entries.values:
            if code not in _CODES[role]:
                entries.fail(code, "no such code", hint="correlator catalogue lists the codes")
            table = entries.table(code)
            table.allow(_LISTS | _PROSE if role is not Role.CONTEXT else frozenset({"signatures"}))
            draft = drafts.setdefault((role, code), _Draft(code, role, file))
            if _PROSE & table.values.keys():
                draft.file = file
            draft.values.update({key: value for key, value in table.values.items() if key not in _LISTS})
            changed += _merge_signatures(draft, table, fragments)
            variants = table.table("variants")
            for name in variants.values:
                if not _NAME.fullmatch(name):
                    variants.fail(name, "must be lower-case letters, digits and underscores")
                draft.variants[name] = variants.table(name)
    return changed


def _merge_signatures(draft: _Draft, table: Table, fragments: Table) -> list[Signature]:
    found: dict[str, Signature] = {}
    for row in table.tables("signatures"):
        signature = _signature(row, draft.code, draft.role, fragments)
        if signature.id in found:
            row.fail("name", f"{signature.id} is there twice")
        found[signature.id] = signature
    draft.signatures.update(found)
    return list(found.values())


def _signature(row: Table, code: str, role: Role, fragments: Table) -> Signature:
    row.allow(_SIGNATURE_KEYS)
    name = row.text("name")
    if not _NAME.fullmatch(name):
        row.fail("name", "must be lower-case letters, digits and underscores")
    for key in ("samples", "lookalikes"):
        if not row.texts(key):
            row.fail(key, "at least one line is needed: it is the pattern's test")
    for kind in row.texts("kinds"):
        if kind not in frozenset(FileKind):
            row.fail("kinds", f"{kind!r} is not one of {', '.join(FileKind)}")
    anchor = row.text("anchor", "start")
    if anchor not in ("start", "anywhere"):
        row.fail("anchor", f"{anchor!r} is not start or anywhere")
    return Signature(
        id=f"{code}.{name}",
        code=code,
        role=role,
        pattern=_expand(row, "pattern", fragments),
        samples=row.texts("samples"),
        lookalikes=row.texts("lookalikes"),
        anchor=anchor,
        requires=row.texts("requires"),
        kinds=row.texts("kinds"),
        severity=row.choice("severity", Severity, Severity.ERROR).value if "severity" in row.values else None,
        priority=row.integer("priority", 50, 0, 100),
        stack=_expand(row, "stack", fragments) if "stack" in row.values else None,
        versions=row.text("versions", ""),
        source=row.text("source", ""),
    )


def _expand(row: Table, key: str, fragments: Table) -> str:
    """A pattern with its fragments put in; one level, so that no text can grow without bound."""

    def fragment(match: re.Match[str]) -> str:
        if match[1] not in fragments.values:
            row.fail(key, f"no fragment {match[1]!r} in this file")
        return fragments.text(match[1])

    return _FRAGMENT.sub(fragment, row.text(key))


def _build(drafts: Iterable[_Draft]) -> Catalogue:
    entries: list[Entry] = []
    signatures: list[Signature] = []
    for draft in drafts:
        signatures += draft.signatures.values()
        if draft.role is not Role.CONTEXT:
            entries.append(_entry(draft))
    return Catalogue(entries=tuple(entries), signatures=tuple(signatures))


def _entry(draft: _Draft) -> Entry:
    family = next(name for name, role in _FAMILIES.items() if role is draft.role)
    table = Table(draft.values, draft.file, f"{family}.{draft.code}")
    initiating = draft.role is Role.INITIATING
    entry = _prose(
        table,
        Entry(
            code=draft.code,
            role=draft.role,
            title=table.text("title"),
            meaning=table.text("meaning"),
            fault_class=FAULT_CLASS[FaultCode(draft.code)] if initiating else None,
            first_action=table.text("first_action"),
            verification=table.text("verification"),
            sticky=table.flag("sticky"),
            signatures=tuple(draft.signatures.values()),
        ),
    )
    return replace(entry, variants=tuple(_variant(name, row, entry) for name, row in draft.variants.items()))


def _variant(name: str, row: Table, whole: Entry) -> Variant:
    """A finer entry: its own words, and those of the whole code for the rest."""
    row.allow(_PROSE - {"sticky"} | {"when"})
    when = row.table("when")
    when.allow(_WHEN_KEYS)
    attributes = when.table("attributes")
    text = when.text("text", "") or None
    if text is not None and (problems := pattern_problems(text)):
        when.fail("text", problems[0])
    known = When(
        signatures=when.texts("signatures"),
        attributes=tuple((key, attributes.texts(key)) for key in attributes.values),
        text=text,
    )
    if known == When():
        row.fail("when", "needs signatures, attributes or text: it says which events the variant is about")
    entry = replace(
        whole,
        variant=name,
        title=row.text("title", whole.title),
        meaning=row.text("meaning", whole.meaning),
        first_action=row.text("first_action", whole.first_action),
        verification=row.text("verification", whole.verification),
        signatures=(),
    )
    return Variant(known, _prose(row, entry))


def _prose(table: Table, entry: Entry) -> Entry:
    """The entry with whatever lists and marks the table gives."""

    def texts(key: str, inherited: tuple[str, ...]) -> tuple[str, ...]:
        return table.texts(key) if key in table.values else inherited

    environment = tuple(_setting(row) for row in table.tables("environment"))
    rivals = tuple(_rival(row) for row in table.tables("rivals"))
    return replace(
        entry,
        commands=texts("commands", entry.commands),
        cannot_tell=texts("cannot_tell", entry.cannot_tell),
        fetch=texts("fetch", entry.fetch),
        sources=texts("sources", entry.sources),
        environment=environment if "environment" in table.values else entry.environment,
        rivals=rivals if "rivals" in table.values else entry.rivals,
        checkpoint_trust=table.choice("checkpoint_trust", CheckpointTrust, entry.checkpoint_trust),
        generic_reason=table.text("generic_reason", entry.generic_reason),
        drain=table.flag("drain", default=entry.drain),
    )


def _setting(row: Table) -> Setting:
    row.allow(frozenset({"name", "effect"}))
    return Setting(name=row.text("name"), effect=row.text("effect"))


def _rival(row: Table) -> Rival:
    row.allow(frozenset({"code", "control"}))
    code = row.text("code")
    if code not in _CODES[Role.INITIATING]:
        row.fail("code", f"{code!r} is not a fault code")
    return Rival(code=code, control=row.text("control"))
