"""Lines that look like errors and that nothing else knows: kept for their words, so that no error is lost.

They say nothing about a cause. `requires` is empty and the anchor is the printed line: a level such as `[ERROR]` counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Anchor, Dialect, Hit, LinePattern
from correlator.parsers.partial_lines import PARTIAL_ID
from correlator.parsers.table import UNCLASSIFIED_PRIORITY


def _no_event(_hit: Hit) -> Iterable[Event]:
    """The cut itself is no event; what the whole line says is found by other patterns."""
    return ()


DIALECT = Dialect(
    name="unclassified",
    title="Error-looking lines of no known kind",
    source="formats.md R8",
    patterns=(
        LinePattern(
            id="unclassified.error_line",
            event_name=Context.MESSAGE,
            regex=(
                r"(?i)(?:(?:error|exception)s?\b"
                r"|\b(?:fatal|failed|killed|abort(?:ed|ing)?|xid|timeout|timed out|panic|core dumped)\b)"
            ),
            samples=(
                "2025-11-30 01:02:03,123 [ERROR] uploader: nothing was sent",
                "wandb: Network error (ConnectTimeout), entering retry loop.",
                "mylib.errors.CodecError: bad frame",
                "Nov 30 01:02:03 node03 mmfs[812]: mmfs: [E] Disk failed. Volume gpfs1. rc = 5.",
            ),
            lookalikes=(
                "2025-11-30 01:02:03,123 [INFO] uploader: error_rate=0.1 timeout_s=30",
                "errorless: 3",
                "2025-11-30 01:02:03,123 [WARNING] watchdog started",
            ),
            anchor=Anchor.LINE,
            priority=UNCLASSIFIED_PRIORITY,
            source="formats.md R8",
        ),
        LinePattern(
            id=PARTIAL_ID,
            event_name=Context.MESSAGE,
            regex=(
                r"(?:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d) std(?:out|err) P |"
                r'^\{"log":"[^\n]*[^n\n]","stream":"std(?:out|err)")'
            ),
            samples=(
                "2025-11-30T01:02:03.123456789Z stderr P RuntimeError: CUDA error: an illegal mem",
                '{"log":"RuntimeError: CUDA error: an illegal mem","stream":"stderr","time":"2025-11-30T01:02:03.1Z"}',
            ),
            lookalikes=("2025-11-30T01:02:03.123456789Z stderr F ory access was encountered",),
            anchor=Anchor.LINE,
            priority=UNCLASSIFIED_PRIORITY,
            source="formats.md E2: a line cut into pieces of 16 KiB",
            build=_no_event,
        ),
    ),
)
