"""What `correlator explain` shows: a catalogue entry as JSON, and the reading of pasted lines as text and as JSON."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from correlator.core.catalogue import Entry
from correlator.core.errors import NoLogsError
from correlator.core.secrets import mask_secrets

if TYPE_CHECKING:
    from correlator.advice import Match, Paste

_HEAD_BYTES = 1 << 20
_MOST_SHOWN = 5
PASTED = "pasted.txt"
"""A name that says nothing of ranks or nodes."""


def read_lines(path: Path, catalogue: Sequence[Path] = ()) -> Paste:
    """The reading of a file of pasted lines. Raises InputError where it cannot be read or is empty.

    Where nothing in it is known as it stands, it is read again without the marks that mail or an editor put around lines,
    and then searched for words of an error that stand alone.
    """
    from correlator.advice import read_plain, tidy
    from correlator.core.catalogue import load_catalogue

    text = _head(path)
    paste = _as_log(path, catalogue)
    if paste is not None and paste.matches:
        return paste
    if (bare := tidy(text)) != text:
        with tempfile.TemporaryDirectory() as folder:
            tidied = Path(folder) / PASTED
            tidied.write_text(bare, encoding="utf-8", errors="replace")
            again = _as_log(tidied, catalogue)
        if again is not None and again.matches:
            return again
    if paste is None and not text.strip("\ufeff \t\r\n"):
        raise NoLogsError("nothing to explain: the text is empty", hint="paste a traceback, or some lines of a log")
    plain = read_plain(bare, load_catalogue(catalogue))
    return plain if plain.matches or paste is None else paste


def _as_log(path: Path, catalogue: Sequence[Path]) -> Paste | None:
    """The reading of lines that a known program wrote; None where it wrote none of them."""
    from correlator.advice import read_paste
    from correlator.pipeline import open_run

    try:
        run = open_run(path, workers=1, catalogue=catalogue)
    except NoLogsError:  # a few lines of anything may be pasted: that none is known is an answer
        return None
    return read_paste(run.events, run.findings.verdict, run.findings.checkpoint, run.catalogue, _head(path))


def _head(path: Path) -> str:
    """The beginning of the lines as text, for facts that are no event."""
    with path.open("rb") as stream:
        data = stream.read(_HEAD_BYTES)
    codec = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    return data.decode(codec, "replace").replace("\0", "")


def entry_values(entry: Entry) -> dict[str, object]:
    """Everything that is known of a code, as JSON values."""
    return {
        "code": entry.code,
        "class": None if entry.fault_class is None else entry.fault_class.value,
        "title": entry.title,
        "meaning": entry.meaning,
        "first_action": entry.first_action,
        "commands": list(entry.commands),
        "environment": [{"name": setting.name, "effect": setting.effect} for setting in entry.environment],
        "verify": entry.verification,
        "rivals": [{"code": rival.code, "control": rival.control} for rival in entry.rivals],
        "checkpoint_trust": entry.checkpoint_trust.value,
        "sources": list(entry.sources),
        "role": entry.role.value,
        "variant": entry.variant or None,
        "cannot_tell": list(entry.cannot_tell),
        "fetch": list(entry.fetch),
        "generic_reason": entry.generic_reason,
        "variants": [variant.entry.key for variant in entry.variants if not entry.variant],
    }


def paste_values(paste: Paste) -> dict[str, object]:
    """The reading of pasted lines, as JSON values."""
    return {
        "matches": [_match_values(match) for match in paste.matches],
        "cannot_tell": list(paste.cannot_tell),
        "fetch": list(paste.fetch),
    }


def _match_values(match: Match) -> dict[str, object]:
    entry = match.entry
    return {
        "code": entry.code,
        "class": None if entry.fault_class is None else entry.fault_class.value,
        "probability": match.probability,
        "lines": list(match.lines),
        "first_action": mask_secrets(match.first_action),
        "variant": entry.variant or None,
        "title": entry.title,
        "reading": mask_secrets(match.reading),
    }


def write_json(values: Mapping[str, object] | Sequence[Mapping[str, object]], out: TextIO) -> None:
    """One JSON document, readable by a person too."""
    out.write(json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def render_paste(paste: Paste, out: TextIO, *, width: int, color: bool) -> None:
    """The reading of pasted lines for a terminal: the best entry in full, the others by name."""
    from correlator.reports.page import Page, styled

    page = Page(out, width=width, color=color)
    if not paste.matches:
        page.block(styled(("Nothing here is known to the catalogue.", "bold")))
    for number, match in enumerate(paste.matches[:_MOST_SHOWN]):
        entry = match.entry
        kind = entry.fault_class.value if entry.fault_class is not None else "dragged in, never the cause"
        title = styled((f"{match.probability * 100:.0f} %  {entry.key}", "bold"), f"  {entry.title} ({kind})")
        if number:
            page.block(styled(*[(part.plain, "dim") for part in (title,)]))
            continue
        page.block(title)
        page.gap()
        if match.lines:
            page.field("lines", styled(", ".join(map(str, match.lines))))
        if match.reading:
            page.field("numbers", styled(mask_secrets(match.reading)))
        page.field("meaning", styled(entry.meaning))
        page.field("do first", styled(mask_secrets(match.first_action)))
        if len(paste.matches) > 1:
            page.heading("Less likely")
    if paste.cannot_tell:
        page.heading("These lines cannot tell")
        page.list_items(paste.cannot_tell)
    if paste.fetch:
        page.heading("To fetch", "it would decide")
        page.list_items(paste.fetch)
    if paste.matches:
        page.gap()
        page.block(
            styled(("correlator explain ", "dim"), (paste.matches[0].entry.key, "dim"), (" says all of it.", "dim"))
        )
