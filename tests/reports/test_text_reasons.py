"""How the verdict was reached, in the verbose report: a tree that stays short, and the rules with their reasons."""

from __future__ import annotations

import io

from correlator.core.model import Collateral, Diagnosis, Initiator, RunSummary, Verdict
from correlator.core.reasons import EpisodeSummary, RuleUse
from correlator.core.vocabulary import FaultClass, FaultCode, VerdictStatus
from correlator.reports import render
from correlator.reports.text_reasons import MOST_TREE_LINES, tree_lines


def told(world: int, kinds: int) -> Diagnosis:
    """Rank 0 fails; all others follow through one hub, each by one of so many kinds; the last one is unexplained."""
    root = Initiator(0, 0, "node00", None, None, FaultCode.CUDA_OOM, FaultClass.SOFTWARE, None, None, None, None)
    steps = [EpisodeSummary("e0", "cuda_oom", 0, "node00", "CUDA out of memory", ("1",))]
    steps.append(EpisodeSummary("h0", "collective_timeout", None, None, "7 ranks waited in default_pg #77", ("2",)))
    steps += [EpisodeSummary(f"e{n}", f"kind_{n % kinds}", n, "node00", "", ("3",)) for n in range(1, world)]
    members = [
        Collateral(n, "node00", f"kind_{n % kinds}", None, (), ("e0", "h0", f"e{n}")) for n in range(1, world - 1)
    ]
    members.append(Collateral(world - 1, "node00", "store_lost", None))
    accepted = True
    rules = (
        RuleUse("E3", accepted, "cuda_oom", "waiting", 1, 0.95, "rank 0 never entered it", "rank 0 -> default_pg #77"),
        RuleUse("E5", not accepted, "xid", "remote_peer_lost", 9, None, "too long after", "node01 -> rank 3"),
    )
    return Diagnosis(
        RunSummary("run", world, world, ("node00",), 1, 1, 1, None, None),
        Verdict(VerdictStatus.IDENTIFIED, 0.9, "Rank 0 ran out of memory.", (root,)),
        collateral=tuple(members),
        episodes=tuple(steps),
        rules=rules,
    )


def test_the_tree_folds_ranks_and_names_the_unexplained() -> None:
    lines = tree_lines(told(64, 2))
    assert lines[0] == "cuda_oom  rank 0 on node00  62 ranks: 1-62"
    assert lines[1].strip() == "└─ waiting in a collective  62 ranks: 1-62"
    assert [line.split()[1] for line in lines[2:4]] == ["kind_0", "kind_1"]
    assert lines[-1] == "not explained: 63 (store_lost)"


def test_the_tree_is_never_longer_than_a_screen() -> None:
    lines = tree_lines(told(64, 60))
    assert len(lines) == MOST_TREE_LINES
    assert "more branches" in lines[-2]
    assert lines[-1].startswith("not explained:")


def test_verbose_shows_which_rules_fired_and_which_were_refused() -> None:
    out = io.StringIO()
    render(told(8, 2), out, width=100, verbose=True)
    text = out.getvalue()
    fired, refused = text.index("Rules that fired"), text.index("Looked for and refused")
    assert "rank 0 never entered it" in text[fired:refused]
    assert "too long after" in text[refused:]
    out = io.StringIO()
    render(told(8, 2), out, width=100, verbose=False)
    assert "Rules that fired" not in out.getvalue()
