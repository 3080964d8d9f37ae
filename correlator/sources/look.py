"""One look at one file: read its ends, and say what they and its name tell. Nothing of the sample is kept."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from correlator.core.files import Compression, Skipped
from correlator.core.vocabulary import FileKind
from correlator.sources.archives import is_archive
from correlator.sources.binary import binary_reason, is_own_report, is_pickle, name_reason
from correlator.sources.content import Traits, read_traits
from correlator.sources.found import Found
from correlator.sources.kinds import is_daemon_log, whole_file_kind
from correlator.sources.limits import Limits
from correlator.sources.reference import latest_stamps
from correlator.sources.sample import Sample, take_sample

_PRETTY_JSON: Final = re.compile(rb"\s*[\[{][ \t\r]*\n")


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a file that will be read."""

    found: Found
    compression: Compression
    whole_kind: FileKind | None
    """Set where the content alone decides what the file is."""
    traits: Traits = field(default_factory=Traits)
    stamps: tuple[int, ...] = ()
    """Late stamps with a year, epoch seconds."""
    empty: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveLook:
    """The file is a folder of further files."""


def look_at(item: Found, limits: Limits) -> Look | ArchiveLook | Skipped:
    """Look at a file once; whatever it holds, the answer is a value."""
    name = item.path.rpartition("/")[2]
    try:
        sample = take_sample(item.location, limits)
    except OSError as error:
        return Skipped(item.path, f"cannot be read: {(error.strerror or str(error)).lower()}")
    if not sample.head:
        if sample.cut_off:
            return Skipped(item.path, f"nothing can be read from it: {sample.cut_off}")
        return Look(item, sample.compression, None, empty=True)
    if is_archive(name, sample.head, named=item.named):
        return Skipped(item.path, "an archive inside an archive: unpack it first") if item.nested else ArchiveLook()
    kind = whole_file_kind(name, sample.head)
    if kind is not None:
        return Look(item, sample.compression, kind, stamps=latest_stamps(sample))
    if reason := _no_log_reason(name, sample):
        return Skipped(item.path, reason)
    traits = read_traits(sample)
    if not item.named and (reason := name_reason(name)) and not _logs_anyway(traits):
        return Skipped(item.path, reason)
    if traits.heads["daemon"] and not is_daemon_log(sample.head):
        del traits.heads["daemon"]
    return Look(item, sample.compression, None, traits, latest_stamps(sample))


def _no_log_reason(name: str, sample: Sample) -> str | None:
    if is_pickle(sample.head):
        return "a checkpoint" if name_reason(name) == "a checkpoint" else "a pickle that is no flight-recorder dump"
    if is_own_report(sample.head):
        return "a report that correlator wrote"
    if name.lower().endswith(".json") and _PRETTY_JSON.match(sample.head):
        return "a JSON document that is no log"
    return binary_reason(sample)


def _logs_anyway(traits: Traits) -> bool:
    """Lines that only logs have outweigh a name that logs do not have."""
    known = traits.stamped + traits.kernel + traits.heads.total() - traits.heads["table"]
    return known >= 0.3 * traits.lines
