"""What to do first, for this very run: the catalogue's advice with this rank, node, GPU, file and checkpoint filled in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from correlator.advice.known import Known, is_shell_word, known_of
from correlator.advice.lines import Line, lines_of
from correlator.advice.readings import entry_for, numbers_of
from correlator.advice.resume import resume_words
from correlator.core.catalogue import Catalogue, Entry
from correlator.core.model import Actions, Checkpoint, Evidence, Initiator, Verdict
from correlator.core.ranges import fold_hosts, fold_numbers
from correlator.core.vocabulary import Context, Role, VerdictStatus

if TYPE_CHECKING:
    import polars as pl

_MOST_COMMANDS = 8
_MOST_PLACES = 4
"""Commands are written for so many initiators; the others are like them."""
_TRAIN = "$TRAIN"


def advise(
    verdict: Verdict,
    checkpoint: Checkpoint,
    missing: Sequence[str],
    catalogue: Catalogue,
    events: pl.DataFrame | None = None,
) -> Actions:
    """Actions for a verdict. A command that needs a value which the logs do not give is left out, never guessed."""
    if verdict.status is VerdictStatus.NO_FAILURE:
        return Actions(first="Nothing to do: the run did not fail.")
    lines = [] if events is None else lines_of(events)
    if not verdict.initiators:
        first = (
            f"Get {missing[0]} and run the diagnosis again." if missing else "Collect the logs of all ranks and nodes."
        )
        return Actions(first=first, resume=resume_words(checkpoint, None, lines))
    dialects = _dialects(events)
    chosen = [(i, *finest(i, lines, catalogue)) for i in verdict.initiators]
    initiator, entry, line = chosen[0]
    known = known_of(initiator, line, lines, checkpoint)
    commands: list[str] = []
    done: set[tuple[str | None, str]] = set()
    for other, others_entry, others_line in chosen[:_MOST_PLACES]:
        place = (other.node, others_entry.key)
        others = known_of(other, others_line, lines, checkpoint)
        container = other.node is not None and _CONTAINER.fullmatch(other.node) is not None
        useful = Useful(dialects, over=_is_over(other, lines), lustre=_on_lustre(lines), container=container)
        commands += _commands(others_entry, others, useful, again=place in done)
        done.add(place)
    return Actions(
        first=" ".join(
            filter(
                None,
                (
                    numbers_of(initiator.fault, line),
                    known.prose(entry.first_action),
                    _others(verdict.initiators),
                    _other_fault(chosen, lines, checkpoint),
                ),
            )
        ),
        commands=tuple(dict.fromkeys([*commands[:_MOST_COMMANDS], *_isolate(chosen, dialects)])),
        verify=known.prose(entry.verification),
        resume=resume_words(checkpoint, entry, lines),
    )


def finest(initiator: Initiator, lines: Sequence[Line], catalogue: Catalogue) -> tuple[Entry, Line | None]:
    """The finest entry for an initiator, and the event that names its fault (None where it was inferred)."""
    entry = catalogue.entry(initiator.fault)
    cited = [line for evidence in initiator.evidence for line in _records_of(evidence, lines)]
    named = [line for line in cited if line.name == initiator.fault]  # how it ended is told only where nothing names it
    found = [(entry_for(entry, line), line) for line in named or cited]
    specific = next(((finer, line) for finer, line in found if finer.variant), None)
    return specific or next(iter(found), (entry, None))


def _records_of(cited: Evidence, lines: Sequence[Line]) -> list[Line]:
    """The records that hold a cited line: evidence names the decisive line, a record begins above it."""
    return [
        line
        for line in lines
        if line.file == cited.file and line.number <= cited.line < line.number + max(1, line.count)
    ]


def _dialects(events: pl.DataFrame | None) -> frozenset[str]:
    """Which programs wrote the logs."""
    if events is None:
        return frozenset()
    import polars as pl

    return frozenset(events["dialect"].cast(pl.String).unique())


@dataclass(frozen=True, slots=True)
class Useful:
    """What decides whether a command is of any use in this run."""

    dialects: frozenset[str]
    """Which programs wrote the logs."""
    over: bool
    """Some line shows the end of the process, or of the job."""
    lustre: bool
    container: bool
    """The node's name is that of a container: nobody can log in there."""

    def has(self, command: str, known: Known) -> bool:
        """Whether a command of the catalogue can tell something here."""
        tool = command.partition(" ")[0]
        if any(tool in tools and not self.dialects & shown for shown, tools in _TOOLS.items()):
            return False
        if self.over and _OF_LIVING.search(command):
            return False
        if "lfs " in command and not self.lustre:
            return False
        if command.startswith("ssh ") and (self.container or (self._in_pods and _OF_PID.search(command))):
            return False
        return not (_TO_DUMP in command and "dumps" in known.values)

    @property
    def _in_pods(self) -> bool:
        """A pid in a log is then that of a pod, which its node does not know."""
        return "kubernetes" in self.dialects


_OF_PROCESS = re.compile(r"\{(?:pid|pci|gpu|device|worker_pid)\}")
_OF_PID = re.compile(r"\{(?:pid|worker_pid)\}")
_CONTAINER = re.compile(r"[0-9a-f]{12}")
_OF_LIVING = re.compile(r"--pid \{pid\}|-p \{pid\}|/proc/\{pid\}")
"""Asks a process that has to be there still."""
_TO_DUMP = "TORCH_NCCL_DUMP_ON_TIMEOUT"
"""Switches on what a run with dumps had switched on."""
_TOOLS = {
    frozenset({"slurm", "slurm_control"}): ("sacct", "scontrol", "squeue", "sbatch", "srun"),
    frozenset({"kubernetes"}): ("kubectl",),
    frozenset({"ray"}): ("ray",),
}
"""Commands of a scheduler are of use only where the logs show that scheduler."""
_ENDS = frozenset({Context.WORKER_FAILED, Context.CHILD_FAILED_ROW, Context.WORKER_SIGNALLED})
_ENDS_OF_ALL = frozenset({Context.TASK_EXIT, Context.SCHEDULER_CANCELLED, Context.AGENT_SIGNALLED})


def _is_over(initiator: Initiator, lines: Sequence[Line]) -> bool:
    """Whether the accused process is gone by the word of a launcher, a scheduler or the process itself."""
    if any(line.name in _ENDS_OF_ALL for line in lines):
        return True
    mine = [line for line in lines if line.rank is not None and line.rank == initiator.rank]
    return any(line.name in _ENDS or line.role is Role.INITIATING for line in mine)


def _on_lustre(lines: Sequence[Line]) -> bool:
    return any("lustre" in line.body.lower() for line in lines)


def _commands(entry: Entry, known: Known, useful: Useful, *, again: bool) -> list[str]:
    """The commands of an entry with their values; `again` = for another rank of a node: only what asks its own process."""
    wanted = [c for c in entry.commands if useful.has(c, known) and (not again or _OF_PROCESS.search(c))]
    filled = (known.command(command) for command in wanted)
    return [
        f"{command}  # TRAIN: your launch command" if _TRAIN in command else command for command in filled if command
    ]


def _others(initiators: Sequence[Initiator]) -> str:
    """Which others the same advice is for."""
    first, *others = initiators
    ranks = [other.rank for other in others if other.rank is not None and other.fault is first.fault]
    if not ranks:
        return ""
    return f"The same goes for rank{'s' if len(ranks) > 1 else ''} {fold_numbers(ranks)}."


def _other_fault(
    chosen: Sequence[tuple[Initiator, Entry, Line | None]], lines: Sequence[Line], checkpoint: Checkpoint
) -> str:
    """Where several faults are tied: what to do about the second of them."""
    first = chosen[0][0]
    for initiator, entry, line in chosen[1:]:
        if initiator.fault is not first.fault:
            who = f"Rank {initiator.rank}" if initiator.rank is not None else (initiator.node or "The other")
            where = f" on {initiator.node}" if initiator.rank is not None and initiator.node else ""
            known = known_of(initiator, line, lines, checkpoint)
            return f"{who}{where}, {initiator.fault.value}: {known.prose(entry.first_action)}"
    return ""


def _isolate(chosen: Sequence[tuple[Initiator, Entry, Line | None]], dialects: frozenset[str]) -> list[str]:
    """Commands that keep a bad node out of the next start, where the logs show which scheduler to tell."""
    bad = [(i.node, i, entry) for i, entry, _ in chosen if entry.drain and i.node is not None and is_shell_word(i.node)]
    if not bad:
        return []
    nodes = list(dict.fromkeys(node for node, _, _ in bad))
    reason = " ".join(filter(None, (bad[0][2].code, bad[0][1].gpu)))
    if dialects & {"slurm", "slurm_control"}:
        listed = fold_hosts(nodes)
        return [
            f'scontrol update NodeName="{listed}" State=DRAIN Reason="{reason}"',
            f'sbatch --exclude="{listed}" "$JOB_SCRIPT"  # JOB_SCRIPT: the batch script of this job',
        ]
    if "kubernetes" in dialects:
        return [f"kubectl cordon {node}" for node in nodes[:_MOST_PLACES]]
    return []
