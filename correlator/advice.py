"""What to do first, for this very run: the catalogue's advice with this rank, node, GPU and checkpoint filled in."""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.core.catalogue import Catalogue
from correlator.core.model import Actions, Checkpoint, Initiator, Verdict
from correlator.core.vocabulary import VerdictStatus

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def advise(verdict: Verdict, checkpoint: Checkpoint, missing: Sequence[str], catalogue: Catalogue) -> Actions:
    """Actions for a verdict. A command that needs a value which the logs do not give is left out, never guessed."""
    if verdict.status is VerdictStatus.NO_FAILURE:
        return Actions(first="Nothing to do: the run did not fail.")
    if not verdict.initiators:
        first = (
            f"Get {missing[0]} and run the diagnosis again." if missing else "Collect the logs of all ranks and nodes."
        )
        return Actions(first=first, resume=_resume(checkpoint))
    initiator = verdict.initiators[0]
    entry = catalogue.entry(initiator.fault)
    known = _known(initiator, checkpoint)
    commands = tuple(filled for command in entry.commands if (filled := _fill(command, known)) is not None)
    return Actions(
        first=_fill(entry.first_action, known) or _without_placeholders(entry.first_action),
        commands=commands,
        verify=_fill(entry.verification, known) or _without_placeholders(entry.verification),
        resume=_resume(checkpoint),
    )


def _known(initiator: Initiator, checkpoint: Checkpoint) -> dict[str, str]:
    values: dict[str, object | None] = {
        "rank": initiator.rank,
        "local_rank": initiator.local_rank,
        "node": initiator.node,
        "gpu": initiator.gpu,
        "pid": initiator.pid,
        "step": initiator.step,
        "checkpoint": checkpoint.safe_to_resume_from,
    }
    if initiator.evidence:
        values |= {"file": initiator.evidence[0].file, "line": initiator.evidence[0].line}
    return {name: str(value) for name, value in values.items() if value is not None}


def _fill(text: str, known: dict[str, str]) -> str | None:
    """The text with its placeholders filled, or None where one is not known."""
    if any(name not in known for name in _PLACEHOLDER.findall(text)):
        return None
    return _PLACEHOLDER.sub(lambda match: known[match[1]], text)


def _without_placeholders(text: str) -> str:
    """Prose with unknown values said in general words."""
    return _PLACEHOLDER.sub(lambda match: f"the {match[1].replace('_', ' ')}", text)


def _resume(checkpoint: Checkpoint) -> str:
    if checkpoint.safe_to_resume_from is None:
        return f"No checkpoint here is known to be complete: {checkpoint.why}." if checkpoint.why else ""
    return f"Resume from {checkpoint.safe_to_resume_from}: {checkpoint.why}."
