"""Files that hold no log text, told from their bytes, with the words that a person reads as the reason."""

from __future__ import annotations

import re
from typing import Final

from correlator.sources.sample import Sample

_MAGIC: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"BM", "an image"),
    (b"II*\x00", "an image"),
    (b"MM\x00*", "an image"),
    (b"RIFF", "an image, sound or video"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program, library or core dump"),
    (b"PK\x03\x04", "a checkpoint, wheel or other zip file"),
    (b"PAR1", "a Parquet table"),
    (b"ARROW1", "an Arrow table"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF", "an HDF5 file"),
    (b"GGUF", "a checkpoint"),
    (b"SQLite format 3", "a database"),
    (b"LPKSHHRH", "a binary journal: export it with `journalctl --file FILE -o short-iso-precise`"),
    (b"BZh", "bzip2: unpack it first"),
    (b"\xfd7zXZ", "xz: unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it first"),
    (b"Rar!", "a RAR archive: unpack it first"),
    (b"\xff\xfe", "UTF-16 or binary data: convert it to UTF-8 if it is text"),
    (b"\xfe\xff", "UTF-16 or binary data: convert it to UTF-8 if it is text"),
    (b"\xca\xfe\xba\xbe", "a compiled program"),
    (b"!<arch>", "a library"),
)
_TEXT_MAGIC: Final = frozenset({b"BM", b"RIFF", b"GIF8", b"GGUF", b"PAR1", b"BZh", b"Rar!", b"ARROW1"})
"""Magic that is also plain letters: believed only where the bytes are not text."""
_NO_LOG_SUFFIX: Final[dict[str, str]] = {
    **dict.fromkeys(("py", "sh", "bash", "sbatch", "slurm", "c", "cc", "cpp", "cu", "h", "rs", "go"), "source code"),
    **dict.fromkeys(("yaml", "yml", "toml", "ini", "cfg", "conf", "env", "lock"), "a configuration file"),
    **dict.fromkeys(("md", "rst", "html", "css", "tex", "svg", "xml", "ipynb", "diff", "patch"), "a document"),
    **dict.fromkeys(("csv", "tsv"), "a table of values"),
    **dict.fromkeys(("pt", "pth", "ckpt", "safetensors", "distcp"), "a checkpoint"),
}
_CONTROL: Final = bytes(set(range(32)) - {0, 7, 8, 9, 10, 12, 13, 27}) + b"\x7f"
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05]")
_SAFETENSORS: Final = re.compile(rb"[^\x00]{1,4}\x00{4,7}\{\"", re.DOTALL)
_OWN_REPORT: Final = re.compile(rb'\s*\{\s*"schema":\s*"correlator\.')


def binary_reason(sample: Sample) -> str | None:
    """Why the file is no text, or None where it is. Pickles are asked about elsewhere: a dump may be one."""
    head = sample.head
    known = next((magic for magic in _MAGIC if head.startswith(magic[0])), None)
    if known is not None and known[0] not in _TEXT_MAGIC:
        return known[1]
    if _SAFETENSORS.match(head):
        return "a checkpoint"
    part = head if head.strip(b"\0") else sample.tail
    text = part.strip(b"\0")
    if not text:
        return "holds only NUL bytes"
    if _looks_binary(text):
        return known[1] if known else "binary data"
    if not sample.whole and not _has_line_end(head) and not _has_line_end(sample.tail):
        return "no line ends: not a log"
    return None


def is_pickle(head: bytes) -> bool:
    """True for pickle protocols 2 to 5."""
    return _PICKLE.match(head) is not None


def name_reason(name: str) -> str | None:
    """What a file's name alone says it is, where that is no log; content may overrule it."""
    return _NO_LOG_SUFFIX.get(name.rpartition(".")[2].lower()) if "." in name else None


def is_own_report(head: bytes) -> bool:
    """True for a diagnosis that this program wrote into the folder of the run."""
    return _OWN_REPORT.match(head) is not None


def _has_line_end(data: bytes) -> bool:
    return b"\n" in data or b"\r" in data


def _looks_binary(text: bytes) -> bool:
    """Control bytes beyond those of logs, or bytes above ASCII that are no UTF-8. NULs do not count (formats.md R9)."""
    size = len(text)
    controls = size - len(text.translate(None, _CONTROL))
    if controls > 0.03 * size + 1:
        return True
    if text.isascii():
        return False
    bad = text.decode("utf-8", "replace").count("\ufffd")
    return bad > 0.1 * size + 3
