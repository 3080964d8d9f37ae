"""A first answer while the whole run is still read: the verdict of the last lines of all files."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

from correlator.core.model import Verdict

Tell = Callable[[Verdict], None]
"""Is given the first verdict, from another thread."""


def answer_meanwhile(first_verdict: Callable[[], Verdict | None], tell: Tell) -> None:
    """Find the first verdict beside the reading and tell it. Nothing waits for it, and what goes wrong there is no error.

    The reading is done by other processes where it is long, so that this one is idle meanwhile.
    """

    def find() -> None:
        try:
            verdict = first_verdict()
        except Exception:  # noqa: BLE001  (the whole run is read all the same, and its answer is the one that counts)
            return
        if verdict is not None:
            tell(verdict)

    Thread(target=find, name="first verdict", daemon=True).start()


def differs(first: Verdict, final: Verdict) -> bool:
    """Whether two verdicts say different things of who and what; times and confidence may change."""
    return _said(first) != _said(final)


def _said(verdict: Verdict) -> tuple[object, ...]:
    return verdict.status, sorted((str(one.rank), str(one.node), str(one.fault)) for one in verdict.initiators)
