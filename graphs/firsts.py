"""Of many episodes, which one certainly began before a given one: without comparing every pair.

On one clock, whatever ends first on that clock is before all that any other is before; across clocks the same holds for
the latest true time at which an episode can have begun. So each episode is compared with the first few of a sorted list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from correlator.core.vocabulary import Order
from correlator.graphs.episodes import Episode, Mark
from correlator.graphs.scene import Scene

Bound = tuple[int, Episode]


class Firsts:
    """Episodes sorted for `before`."""

    def __init__(self, scene: Scene, episodes: Sequence[Episode]) -> None:
        self._scene = scene
        self._by_clock: dict[str | None, list[Bound]] = {}
        self._by_reference: dict[str | None, list[Bound]] = {}
        self._by_writer: dict[tuple[str, int | None], list[Episode]] = {}
        self._untimed: dict[str, list[Episode]] = {}
        self._of_file: dict[str, list[Episode]] = {}
        for episode in episodes:
            self._add(episode, scene.mark(episode))
        for bounds in (*self._by_clock.values(), *self._by_reference.values()):
            bounds.sort(key=lambda bound: bound[0])
        for found in (*self._by_writer.values(), *self._untimed.values(), *self._of_file.values()):
            found.sort(key=lambda episode: _line(scene.mark(episode)))

    def _add(self, episode: Episode, mark: Mark) -> None:
        window, fact = mark.window, mark.fact
        if window is not None and window.high_ns is not None:
            self._by_clock.setdefault(window.domain, []).append((window.high_ns, episode))
            estimate = self._scene.clocks.estimate(window.domain)
            interval = None if estimate is None else estimate.interval_at(window.high_ns)
            if estimate is not None and interval is not None:
                latest = window.high_ns - int(interval[0] * 1e6)
                self._by_reference.setdefault(estimate.reference, []).append((latest, episode))
        if not mark.concluded:
            self._by_writer.setdefault((fact.file, fact.rank), []).append(episode)
            self._of_file.setdefault(fact.file, []).append(episode)
            if fact.printed_ns is None:
                self._untimed.setdefault(fact.file, []).append(episode)

    def before(self, episode: Episode, *, beside: Callable[[Episode], bool]) -> Episode | None:
        """An episode that certainly began before this one, those `beside` it left out; or None."""
        found = (one for one in self._likely(episode) if one is not episode and not beside(one))
        return next((one for one in found if self._scene.order(one, episode) is Order.BEFORE), None)

    def _likely(self, episode: Episode) -> Iterator[Episode]:
        mark = self._scene.mark(episode)
        window, fact = mark.window, mark.fact
        parts: list[Iterable[Episode]] = []
        if window is not None:
            estimate = self._scene.clocks.estimate(window.domain)
            interval = None if estimate is None else estimate.interval_at(window.low_ns)
            if estimate is not None and interval is not None:
                earliest = window.low_ns - int(interval[1] * 1e6)
                parts.append(_until(self._by_reference.get(estimate.reference, ()), earliest))
            parts.append(_until(self._by_clock.get(window.domain, ()), window.low_ns))
        if not mark.concluded:
            same = self._of_file if fact.printed_ns is None else self._untimed
            written = (self._by_writer.get((fact.file, fact.rank), ()), same.get(fact.file, ()))
            parts += [self._above(found, mark) for found in written]
        return chain.from_iterable(parts)

    def _above(self, episodes: Iterable[Episode], mark: Mark) -> Iterator[Episode]:
        for episode in episodes:
            if _line(self._scene.mark(episode)) >= _line(mark):
                return
            yield episode


def _until(bounds: Iterable[Bound], ns: int) -> Iterator[Episode]:
    for latest, episode in bounds:
        if latest > ns:
            return
        yield episode


def _line(mark: Mark) -> tuple[int, int]:
    return (mark.fact.line, mark.fact.byte_offset)
