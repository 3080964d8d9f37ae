"""Which of many possible causes a rule links to one effect: the ones it names, else the few that come first.

Where a thousand ranks fail and a thousand lose their peers, a link for each pair would be a million links that say nothing
more. Each effect keeps at most MOST_CAUSES; once the verdict is known, the graph is drawn again with the accused tried first,
so that a path from them is never lost to the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from correlator.graphs.episodes import Episode
from correlator.graphs.scene import WEAK, Edge, Rejection, Scene

MOST_CAUSES = 3
MOST_TRIES = 32
"""Refused causes of one effect after which no further one is tried; earlier ones were likelier."""
SURE = 0.5


def in_turn(scene: Scene, causes: Iterable[Episode]) -> list[Episode]:
    """Possible causes, likeliest first: those that the verdict accuses, stated faults before bare ends, then by onset."""

    def turn(cause: Episode) -> tuple[bool, bool, int, str, int]:
        vague = cause.code in WEAK or cause.specificity < SURE
        onset = cause.onset_ns
        place = (cause.head.file, cause.head.line)
        return (cause.id not in scene.accused, vague, onset if onset is not None else 1 << 62, *place)

    return sorted(causes, key=turn)


def pair(causes: Sequence[Episode], judge: Callable[[Episode], Edge | Rejection | None]) -> Iterator[Edge | Rejection]:
    """What the rule says of the causes of one effect, given in turn, until enough of them fit or too many were refused."""
    linked = refused = 0
    seen: set[str] = set()
    for cause in causes:
        if linked >= MOST_CAUSES or refused >= MOST_TRIES:
            return
        if cause.id in seen:
            continue
        seen.add(cause.id)
        answer = judge(cause)
        if isinstance(answer, Edge):
            linked += 1
            yield answer
        elif answer is not None:
            refused += 1
            yield answer
