"""The catalogue as Markdown: one page an entry and an index, as they stand in docs/faults/."""

from __future__ import annotations

import re
from collections.abc import Iterator

from correlator.core.catalogue import Catalogue, CheckpointTrust, Entry
from correlator.core.catalogue.model import PLACEHOLDERS
from correlator.core.vocabulary import Role
from correlator.reports.entries import NO_CURE, trust_words

INDEX = "README.md"
_PLACEHOLDER = re.compile(rf"\{{({'|'.join(sorted(PLACEHOLDERS))})\}}")
_HEAD = "<!-- Generated from the catalogue by `correlator catalogue --pages docs/faults`; do not edit. -->\n"


def fault_pages(catalogue: Catalogue) -> dict[str, str]:
    """File name -> text of every page."""
    pages = {page_name(entry): "".join(_page(entry)) for entry in catalogue.entries}
    pages[INDEX] = "".join(_index(catalogue))
    return pages


def page_name(entry: Entry) -> str:
    """`cuda_oom.md`; `silent_exit`, which is a fault and a kind of collateral, has two pages."""
    return f"{'collateral-' if entry.role is Role.COLLATERAL else ''}{entry.code}.md"


def _index(catalogue: Catalogue) -> Iterator[str]:
    yield f"{_HEAD}\n# Faults\n\nWhat `correlator explain CODE` says of each, one page a code. In commands `<node>`, "
    yield "`<pci>` and the like stand for values that a diagnosis fills in, and `$TRAIN` for the launch command of the job.\n"
    groups: dict[str, list[Entry]] = {}
    for entry in catalogue.entries:
        groups.setdefault("collateral" if entry.fault_class is None else entry.fault_class.value, []).append(entry)
    for name in sorted(groups, key=lambda name: (name == "collateral", name)):
        yield f"\n## {name.capitalize()}\n\n| code | what |\n| --- | --- |\n"
        for entry in sorted(groups[name], key=lambda entry: entry.code):
            yield f"| [{entry.code}]({page_name(entry)}) | {prose(entry.title)} |\n"


def _page(entry: Entry) -> Iterator[str]:
    kind = "collateral: dragged in, never the cause" if entry.fault_class is None else entry.fault_class.value
    yield f"{_HEAD}\n# {prose(entry.title)}\n\n`{entry.code}` ({kind})\n"
    yield from _body(entry, entry, "##")
    if entry.variants:
        yield "\n## More exactly\n"
        for variant in entry.variants:
            finer = variant.entry
            yield f"\n### {prose(finer.title)}\n\n`{finer.key}`\n"
            yield from _body(finer, entry, "####")
    if entry.signatures:
        yield "\n## Recognised by\n\n"
        yield from (f"- `{signature.id}`: {code(signature.samples[0])}\n" for signature in entry.signatures)


def _body(entry: Entry, whole: Entry, level: str) -> Iterator[str]:
    """The parts of an entry; of a finer one, those that differ from the whole."""
    own = entry is whole

    def differs(part: str) -> bool:
        return bool(getattr(entry, part)) and (own or getattr(entry, part) != getattr(whole, part))

    if differs("meaning"):
        yield f"\n{prose(entry.meaning)}\n"
    if differs("generic_reason"):
        yield f"\nBeware: {prose(entry.generic_reason)}\n"
    if differs("cannot_tell"):
        yield f"\n{level} What the message cannot tell\n\n" + _list(entry.cannot_tell)
    if differs("first_action") or differs("commands"):
        yield f"\n{level} Do first\n\n{prose(entry.first_action)}\n"
        if entry.commands:
            yield "\n```sh\n" + "".join(f"{_generic(command)}\n" for command in entry.commands) + "```\n"
    if differs("fetch"):
        yield f"\n{level} Fetch\n\n" + _list(entry.fetch)
    if differs("environment"):
        yield f"\n{level} Environment variables\n\n{NO_CURE.capitalize()}.\n\n"
        yield from (f"- `{setting.name}`: {prose(setting.effect)}\n" for setting in entry.environment)
    if differs("verification"):
        yield f"\n{level} Verify\n\n{prose(entry.verification)}\n"
    if differs("rivals"):
        yield f"\n{level} What else it could be\n\n"
        yield from (f"- [{rival.code}]({rival.code}.md): {prose(rival.control)}\n" for rival in entry.rivals)
    if whole.role is Role.INITIATING and differs("checkpoint_trust"):
        yield f"\n{level} Checkpoints\n\n{_sentence(entry.checkpoint_trust)}\n"
    if differs("sources"):
        yield f"\n{level} Sources\n\n" + _list(entry.sources)


def _sentence(trust: CheckpointTrust) -> str:
    words = trust_words(trust)
    return f"{words[:1].upper()}{words[1:]}."


def _list(items: tuple[str, ...]) -> str:
    return "".join(f"- {prose(item)}\n" for item in items)


def _generic(text: str) -> str:
    return _PLACEHOLDER.sub(r"<\1>", text)


def prose(text: str) -> str:
    """Prose for Markdown: nothing in it is markup."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", _generic(text))


def code(text: str) -> str:
    """A line of a log as inline code, whatever backticks it holds."""
    fence = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    space = " " if "`" in text or text != text.strip() else ""
    return f"{fence}{space}{text}{space}{fence}"
