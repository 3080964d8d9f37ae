"""What the catalogue holds: an `Entry` for each fault code and collateral kind, and the `Signature`s that tell them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from correlator.core.errors import CatalogueError
from correlator.core.vocabulary import FaultClass, Role

PLACEHOLDERS: frozenset[str] = frozenset(
    "rank local_rank device node gpu pci pid step checkpoint file line frame worker_pid peer path folder frame_file "
    "frame_lines job dumps dump_prefix".split()
)
"""Names that commands, first action, verification and controls may hold in braces.

A command without its value is left out, prose says `the node` instead. `gpu` is the PCI address as the kernel log
prints it (0000:3b:00), `pci` as nvidia-smi takes it (0000:3b:00.0), `device` what CUDA_VISIBLE_DEVICES takes (a UUID,
else the local rank), `frame` the innermost line of the user's code, `frame_file` and `frame_lines` (`83,93`) the same for a
tool, `path` what the message names, `folder` the folder that it lies in, `dumps` the folder of the flight-recorder dumps
and `dump_prefix` the beginning of their names.
"""


class CheckpointTrust(StrEnum):
    """Which checkpoints may be resumed from after a fault."""

    COMPLETED = "completed"
    """Every one whose save completed on all ranks."""
    BEFORE_FIRST_SIGN = "before_first_sign"
    """Only one completed before the first sign of the fault: values may have been wrong without a word since then."""
    VERIFY_FILES = "verify_files"
    """The fault touches the files themselves: load one that completed earlier, after a check that it reads back."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One shape of text that means one thing.

    The scan engine searches `pattern` in raw bytes; the parser then matches it again on the message whose prefixes were
    peeled, or on the final line `Type: message` of a Python exception. Named groups become fields of the event.
    """

    id: str
    """`<code>.<name>`, unique in the catalogue."""
    code: str
    """A FaultCode, a CollateralKind or a Context value; `role` says which."""
    role: Role
    pattern: str
    samples: tuple[str, ...]
    """Whole printed lines, prefixes included, that must match."""
    lookalikes: tuple[str, ...]
    """Printed lines that must not."""
    anchor: str = "start"
    """`start` or `anywhere` of the peeled message."""
    requires: tuple[str, ...] = ()
    """Prefix layers (parsers.base.Layer) of which one must have been peeled; empty = none needed."""
    kinds: tuple[str, ...] = ()
    """FileKinds it is looked for in; empty = all."""
    severity: str | None = None
    """Overrides the line's own severity."""
    priority: int = 50
    """Where several patterns match, the highest wins: 20-40 weak or general, 50 usual, 60-80 most exact."""
    stack: str | None = None
    """Regex that must be found in the stack trace of the Python exception, such as a data loader's frames."""
    versions: str = ""
    source: str = ""

    @property
    def regex(self) -> re.Pattern[str]:
        """The compiled pattern (kept by `re`'s own cache)."""
        return re.compile(self.pattern)


@dataclass(frozen=True, slots=True)
class Rival:
    """Another explanation of the same picture, and the control that separates the two."""

    code: str
    control: str


@dataclass(frozen=True, slots=True)
class Setting:
    """An environment variable that shows more of the fault. It is a diagnostic: it cures nothing."""

    name: str
    """As one would set it: `CUDA_LAUNCH_BLOCKING=1`."""
    effect: str
    """What it does, and what it costs."""


@dataclass(frozen=True, slots=True)
class When:
    """Which events a variant is about: every condition that is given must hold."""

    signatures: tuple[str, ...] = ()
    """Ids of signatures or line patterns, of which the event has one."""
    attributes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further facts of the event, each with the values that count; `reading` is what advice reads from its numbers."""
    text: str | None = None
    """Regex that must be found in the message, or in the stack trace of the exception."""

    def fits(self, signature: str, attributes: Mapping[str, str], text: str) -> bool:
        """Whether an event is one of those."""
        if self.signatures and signature not in self.signatures:
            return False
        if any(attributes.get(name) not in values for name, values in self.attributes):
            return False
        return self.text is None or re.search(self.text, text) is not None


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one fault code or collateral kind, or of a variant of it: the text that people get to read."""

    code: str
    role: Role
    title: str
    meaning: str
    """What the message says, and what it does not."""
    fault_class: FaultClass | None
    """None for a collateral kind."""
    first_action: str
    commands: tuple[str, ...] = ()
    environment: tuple[Setting, ...] = ()
    verification: str = ""
    rivals: tuple[Rival, ...] = ()
    checkpoint_trust: CheckpointTrust = CheckpointTrust.COMPLETED
    sticky: bool = False
    """True where the process cannot go on: later CUDA errors of the same process follow from it."""
    generic_reason: str = ""
    """Why the code alone explains little, where that is so; such a finding gives way to a more exact one."""
    cannot_tell: tuple[str, ...] = ()
    """What the message leaves open, each as the end of a sentence that begins with "it cannot tell"."""
    fetch: tuple[str, ...] = ()
    """Files that would decide what the message leaves open, most useful first."""
    drain: bool = False
    """True where the node should get no more work until somebody has looked at it."""
    sources: tuple[str, ...] = ()
    """Where its facts can be read up: manuals and source files, by name."""
    signatures: tuple[Signature, ...] = ()
    variant: str = ""
    """Name of the finer entry; empty for the code as a whole."""
    variants: tuple[Variant, ...] = ()

    @property
    def key(self) -> str:
        """`gpu_ecc_dbe` or, for a finer entry, `gpu_ecc_dbe.xid_94`."""
        return f"{self.code}.{self.variant}" if self.variant else self.code

    def specific(self, signature: str, attributes: Mapping[str, str], text: str) -> Entry:
        """The finest entry for an event: the first variant that is about it, else this one."""
        fitting = (variant.entry for variant in self.variants if variant.when.fits(signature, attributes, text))
        return next(fitting, self)


@dataclass(frozen=True, slots=True)
class Variant:
    """A finer entry, where the cure depends on more than the code. What it does not say is as in the entry of the code."""

    when: When
    entry: Entry


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All entries and signatures, in the order of the files."""

    entries: tuple[Entry, ...]
    signatures: tuple[Signature, ...]
    """Those of the entries, and those of role context, which need no entry."""
    _by_key: dict[tuple[str, Role], Entry] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        keys = {(entry.code, entry.role): entry for entry in self.entries}
        object.__setattr__(self, "_by_key", keys)

    def find(self, code: str, role: Role | None = None) -> Entry | None:
        """The entry of a code, or None; of `silent_exit`, which has two roles, the fault unless `role` says."""
        if role is not None:
            return self._by_key.get((code, role))
        return self._by_key.get((code, Role.INITIATING)) or self._by_key.get((code, Role.COLLATERAL))

    def entry(self, code: str, role: Role | None = None) -> Entry:
        """The entry of a code; CatalogueError where there is none."""
        entry = self.find(code, role)
        if entry is None:
            raise CatalogueError(f"the catalogue has no entry {code}", hint="correlator catalogue lists the codes")
        return entry

    def keyed(self, key: str) -> tuple[Entry, ...]:
        """The entries of a code (`silent_exit` has two), or the one variant that `code.variant` names; else none."""
        code, _, name = key.partition(".")
        entries = tuple(
            entry for role in (Role.INITIATING, Role.COLLATERAL) if (entry := self.find(code, role)) is not None
        )
        if not name:
            return entries
        return tuple(v.entry for entry in entries for v in entry.variants if v.entry.variant == name)

    def signature(self, signature_id: str) -> Signature | None:
        """The signature of an id, or None."""
        return next((signature for signature in self.signatures if signature.id == signature_id), None)
