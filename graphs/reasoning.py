"""What the rules concluded and what they refused, folded to what a person can read."""

from __future__ import annotations

from collections import Counter

from correlator.core.reasons import RuleUse
from correlator.graphs.build import AttemptGraph
from correlator.graphs.scene import TEARDOWN_ID, Refused, Scene

MOST_USES = 40
"""So many kinds of link, and of refusal, are told; beyond that only the most frequent."""


def rule_uses(attempt: AttemptGraph) -> tuple[RuleUse, ...]:
    """Links first, in the order of the rules' numbers; then refusals."""
    fired = sorted(_fired(attempt), key=lambda use: -use.number)[:MOST_USES]
    refused = [_refused(attempt, one) for one in attempt.refused[:MOST_USES]]
    return (*sorted(fired, key=_order), *sorted(refused, key=_order))


def _order(use: RuleUse) -> tuple[int, str, int, str, str]:
    digits = use.rule.removeprefix("E").rstrip("b")
    return (int(digits) if digits.isdigit() else 99, use.rule, -use.number, use.cause, use.effect)


def _fired(attempt: AttemptGraph) -> list[RuleUse]:
    graph = attempt.graph
    numbers: Counter[tuple[str, str, str]] = Counter()
    best: dict[tuple[str, str, str], tuple[float, str, str, str]] = {}
    for cause, effect, data in graph.edges(data=True):
        key = (str(data["rule"]), _code(attempt, cause), _code(attempt, effect))
        numbers[key] += 1
        if key not in best or best[key][0] < data["q"]:
            best[key] = (float(data["q"]), str(data["reason"]), cause, effect)
    return [
        RuleUse(
            rule=key[0],
            accepted=True,
            cause=key[1],
            effect=key[2],
            number=numbers[key],
            probability=q,
            reason=reason,
            example=_example(attempt.scene, cause, effect),
        )
        for key, (q, reason, cause, effect) in best.items()
    ]


def _refused(attempt: AttemptGraph, refused: Refused) -> RuleUse:
    one = refused.example
    return RuleUse(
        rule=refused.rule,
        accepted=False,
        cause=_code(attempt, one.cause),
        effect=_code(attempt, one.effect),
        number=refused.count,
        probability=None,
        reason=refused.reason,
        example=_example(attempt.scene, one.cause, one.effect),
    )


def _code(attempt: AttemptGraph, node: str) -> str:
    data = attempt.graph.nodes[node]
    return "waiting" if data["kind"] == "hub" else str(data["code"])


def _example(scene: Scene, cause: str, effect: str) -> str:
    return f"{_where(scene, cause)} -> {_where(scene, effect)}"


def _where(scene: Scene, node: str) -> str:
    if node in scene.by_id:
        return scene.by_id[node].where
    if node == TEARDOWN_ID:
        return "the scheduler"
    return next((hub.name for index, hub in enumerate(scene.hubs) if scene.hub_id(index) == node), node)
