"""Catalogue entries as text: one in full, or all in a list."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TextIO

from correlator.core.catalogue import Catalogue, CheckpointTrust, Entry
from correlator.core.catalogue.model import PLACEHOLDERS
from correlator.core.vocabulary import Role
from correlator.reports.page import Page, styled

NO_CURE = "a diagnostic that makes a fault vanish has located it, not fixed it"
_NAME_WIDTH = 26
_CODE_WIDTH = 32
_PLACEHOLDER = re.compile(rf"\{{({'|'.join(sorted(PLACEHOLDERS))})\}}")


def render_entry(entry: Entry, out: TextIO, *, width: int, color: bool) -> None:
    """Everything that is known of one code."""
    page = Page(out, width=width, color=color)
    kind = entry.fault_class.value if entry.fault_class is not None else "dragged in, never the cause"
    page.field((entry.key, "bold"), styled((entry.title, "bold"), f"  ({kind})"))
    page.gap()
    page.field("meaning", styled(entry.meaning))
    for index, open_question in enumerate(entry.cannot_tell):
        page.field("" if index else "cannot tell", styled(f"- {open_question}"))
    if entry.generic_reason:
        page.field("beware", styled(entry.generic_reason))
    page.field("do first", styled(_generic(entry.first_action)))
    for command in entry.commands:
        page.command(_generic(command))
    if entry.verification:
        page.field("then verify", styled(_generic(entry.verification)))
    if entry.role is Role.INITIATING:
        page.field("checkpoints", styled(trust_words(entry.checkpoint_trust)))
    if entry.fetch:
        page.heading("To fetch", "it would decide")
        page.list_items(entry.fetch)
    if entry.environment:
        page.heading("To see more", f"environment variables; {NO_CURE}")
        for setting in entry.environment:
            page.row((setting.name, "cyan"), styled(setting.effect), indent=_NAME_WIDTH)
    if entry.rivals:
        page.heading("What it could be instead", "and what tells the two apart")
        for rival in entry.rivals:
            page.row((rival.code, "bold"), styled(_generic(rival.control)), indent=_NAME_WIDTH)
    if entry.variants:
        page.heading("More exactly", "correlator explain CODE.NAME")
        for variant in entry.variants:
            page.row((variant.entry.key, "bold"), styled(variant.entry.title), indent=_CODE_WIDTH)
    if entry.sources:
        page.heading("Read up in")
        page.list_items(entry.sources)
    if entry.signatures:
        page.heading("Recognised by", "for example")
        for signature in entry.signatures:
            page.block(styled((signature.id, "dim")), indent=2)
            page.block(styled(signature.samples[0]), indent=4, max_lines=2)


def render_catalogue(catalogue: Catalogue, out: TextIO, *, width: int, color: bool, patterns: bool) -> None:
    """All codes with their titles; `patterns` adds what recognises each."""
    page = Page(out, width=width, color=color)
    for title, note, entries in _families(catalogue.entries):
        page.heading(title, note)
        for entry in sorted(entries, key=lambda entry: entry.code):
            page.row(entry.code, styled(entry.title), indent=_CODE_WIDTH)
            for signature in entry.signatures if patterns else ():
                page.block(styled((f"{signature.id}  ", "dim"), (signature.pattern, "cyan")), indent=4)


def _families(entries: Iterable[Entry]) -> Iterable[tuple[str, str, list[Entry]]]:
    """Faults by who has to act, then the kinds of collateral."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.fault_class.value if entry.fault_class is not None else "", []).append(entry)
    dragged_in = groups.pop("", [])
    for fault_class in sorted(groups):
        yield f"Faults: {fault_class}", "", groups[fault_class]
    if dragged_in:
        yield "Collateral", "how a rank is dragged in", dragged_in


def _generic(text: str) -> str:
    """Advice that is not about a certain run: `ssh {node}` as `ssh <node>`."""
    return _PLACEHOLDER.sub(r"<\1>", text)


def trust_words(trust: CheckpointTrust) -> str:
    """Which checkpoints may be resumed from, in words."""
    match trust:
        case CheckpointTrust.COMPLETED:
            return "every one whose save completed on all ranks can be resumed from"
        case CheckpointTrust.BEFORE_FIRST_SIGN:
            return "only those completed before the first sign of it: values may have been wrong since, without a word"
        case CheckpointTrust.VERIFY_FILES:
            return "it touches the files themselves: take an earlier one, and check that it reads back"
