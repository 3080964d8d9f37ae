"""How the verdict was reached, for `--verbose`: the causes as a tree, and every rule that fired or was refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from correlator.core.model import Collateral, Diagnosis
from correlator.core.reasons import EpisodeSummary, RuleUse
from correlator.reports import phrases
from correlator.reports.page import Page, styled

MOST_TREE_LINES = 30
_RULE_WIDTH = 8
_PLACES_SHOWN = 60


@dataclass(slots=True)
class _Branch:
    """One step of the causal paths, folded over all ranks whose path comes through a step of the same kind."""

    label: str
    ranks: list[Collateral] = field(default_factory=list)
    """Ranks whose path ends here."""
    below: dict[str, _Branch] = field(default_factory=dict)

    @property
    def members(self) -> list[Collateral]:
        """All ranks whose path comes through here."""
        return [*self.ranks, *(member for branch in self.below.values() for member in branch.members)]


def tree_lines(diagnosis: Diagnosis) -> list[str]:
    """The causal graph from the initiators down, folded, in at most MOST_TREE_LINES lines; last whoever nothing explains."""
    steps = {step.id: step for step in diagnosis.episodes}
    top = _Branch("")
    loose: list[Collateral] = []
    for member in diagnosis.collateral:
        if not member.explained_by:
            loose.append(member)
            continue
        branch = top
        for step in member.explained_by:
            label = _label(steps.get(step), step, first=branch is top)
            if label == branch.label:
                continue
            branch = branch.below.setdefault(label, _Branch(label))
        branch.ranks.append(member)
    lines = list(_drawn(top.below.values(), ""))
    by_kind: dict[str, list[Collateral]] = {}
    for member in loose:
        by_kind.setdefault(member.kind, []).append(member)
    rest = [f"not explained: {_places(found)} ({kind})" for kind, found in sorted(by_kind.items())]
    room = max(MOST_TREE_LINES - len(rest[:MOST_TREE_LINES]), 1)
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1:,} more branches: correlator graph has all"]
    return [*lines, *rest][:MOST_TREE_LINES]


def _label(step: EpisodeSummary | None, name: str, *, first: bool) -> str:
    if step is None:
        return name
    if step.rank is None and step.what.endswith(tuple("0123456789")) and " waited in " in step.what:
        return "waiting in a collective"
    where = phrases.fold_places([(step.rank, step.node)]) if first and (step.rank is not None or step.node) else ""
    return f"{step.code}" + (f"  {where}" if where else "")


def _drawn(branches: Iterable[_Branch], indent: str) -> Iterable[str]:
    ordered = sorted(branches, key=lambda branch: (-len(branch.members), branch.label))
    for number, branch in enumerate(ordered):
        last = number == len(ordered) - 1
        tip = "" if not indent and len(ordered) == 1 else ("└─ " if last else "├─ ")
        members = branch.members
        whom = f"  {phrases.count(len(members), 'rank')}: {_places(members)}" if members else ""
        yield f"{indent}{tip}{branch.label}{whom}"
        yield from _drawn(branch.below.values(), indent + ("   " if last or not tip else "│  "))


def _places(members: Iterable[Collateral]) -> str:
    ranks = phrases.fold_places((member.rank, None) for member in members)
    ranks = ranks.removeprefix("ranks ").removeprefix("rank ") or "some"
    return ranks if len(ranks) <= _PLACES_SHOWN else ranks[: _PLACES_SHOWN - 1] + "…"


def reasons(page: Page, diagnosis: Diagnosis) -> None:
    """The tree, then the rules."""
    lines = tree_lines(diagnosis)
    if lines and diagnosis.verdict.initiators:
        page.heading("What led to what", "ranks folded; `correlator graph` has every link")
        for line in lines:
            page.block(styled("  ", line), max_lines=1)
    told = ((True, "Rules that fired", "cause -> effect, how many, how sure"), (False, "Looked for and refused", ""))
    for accepted, title, note in told:
        uses = [use for use in diagnosis.rules if use.accepted is accepted]
        if uses:
            page.heading(title, note)
        for use in uses:
            _rule(page, use)


def _rule(page: Page, use: RuleUse) -> None:
    times = f"  \N{MULTIPLICATION SIGN}{use.number:,}" if use.number > 1 else ""
    sure = f"  {use.probability:.2f}" if use.probability is not None else ""
    page.row(use.rule, styled((f"{use.cause} -> {use.effect}", "bold"), times, (sure, "dim")), indent=_RULE_WIDTH)
    page.row("", styled(use.reason, (f"  ({use.example})", "dim")), indent=_RULE_WIDTH, max_lines=2)
