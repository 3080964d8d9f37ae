"""Thinning: dense lines are thinned by their step alone, faults never, and memory grows with the logarithm of a file."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.core.vocabulary import FileKind
from correlator.ingest import selection
from correlator.ingest.engines import HyperscanEngine
from correlator.ingest.matches import find_matches, step_before
from correlator.ingest.quota import MANY_WRITERS, quota
from correlator.ingest.scanform import scan_form
from correlator.ingest.segments import SegmentIndex
from correlator.ingest.selection import Selection, Selector

PROGRESS = 6


def _select(selector: Selector, engine: HyperscanEngine, data: bytes, *, final: bool = True) -> Selection:
    buffer = bytearray(data)
    index = SegmentIndex(buffer, len(data), open_end=True)
    chosen = selector.select(find_matches(engine, buffer, len(data), index, selector.dense), final=final)
    selector.consumed(chosen, len(index))
    return chosen


def _steps(first: int, count: int, every: int = 1) -> bytes:
    return b"".join(b"iter step: %d/99 loss 1.5\n" % step for step in range(first, first + count * every, every))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**18 - 1), st.binary(max_size=5))
def test_a_step_is_read_backwards_from_its_end(step: int, before: bytes) -> None:
    data = before + b" " + str(step).encode()
    assert step_before(data, np.array([len(data)])).tolist() == [step]


def test_few_progress_lines_are_all_kept(table: Any) -> None:
    chosen = _select(Selector(table.patterns), HyperscanEngine(table.patterns), _steps(0, 4096))
    assert len(chosen.hits) == 4096
    assert len(chosen.thinned) == 0


def test_files_that_begin_elsewhere_keep_the_same_steps(table: Any) -> None:
    """Ranks restart, and chunks are cut, at different steps; outside their tails the kept steps must agree."""
    engine = HyperscanEngine(table.patterns)
    kept = []
    for first, count in ((0, 12000), (1777, 9000)):
        chosen = _select(Selector(table.patterns), engine, _steps(first, count))
        steps = [first + segment for segment, _ in chosen.hits]
        assert steps[-MANY_WRITERS.last_tail :] == list(range(first + count - MANY_WRITERS.last_tail, first + count))
        assert len(steps) + len(chosen.thinned) == count
        assert len(steps) <= 2 * MANY_WRITERS.target + MANY_WRITERS.last_tail
        kept.append({step for step in steps if 1777 <= step < 10000})
    assert kept[0] <= kept[1] or kept[1] <= kept[0]
    assert len(kept[0] & kept[1]) > 100


def test_a_stride_is_found_for_steps_that_are_logged_every_thousand(table: Any) -> None:
    chosen = _select(Selector(table.patterns), HyperscanEngine(table.patterns), _steps(0, 6000, every=1024))
    assert MANY_WRITERS.last_tail < len(chosen.hits) <= 2 * MANY_WRITERS.target + MANY_WRITERS.last_tail


def test_one_step_over_and_over_leaves_the_last_ones(table: Any) -> None:
    chosen = _select(Selector(table.patterns), HyperscanEngine(table.patterns), b"step: 5 again\n" * 6000)
    assert [segment for segment, _ in chosen.hits] == list(range(6000 - MANY_WRITERS.last_tail, 6000))


def test_a_fault_among_progress_lines_is_kept(table: Any) -> None:
    data = _steps(0, 3001) + b"step: 3001 KeyError: 'x'\n" + _steps(3002, 6000)
    chosen = _select(Selector(table.patterns), HyperscanEngine(table.patterns), data)
    assert (3001, (0, PROGRESS)) in chosen.hits


def test_a_long_file_keeps_ever_fewer(table: Any) -> None:
    engine, selector = HyperscanEngine(table.patterns), Selector(table.patterns)
    data = _steps(0, 9000)
    kept = [len(_select(selector, engine, data, final=False).hits) for _ in range(90)]
    assert 0 < kept[-1] < 0.6 * kept[0]
    selector.reset(FileKind.TEXT)
    assert len(_select(selector, engine, data, final=False).hits) == kept[0], "a new file starts afresh"


def test_a_warning_in_every_line_is_kept_at_its_ends_once_it_had_its_share(table: Any) -> None:
    engine, selector = HyperscanEngine(table.patterns), Selector(table.patterns)
    selector.reset(FileKind.RANK_LOG)
    data = b"[rank3] warning\n" * 5500
    assert len(_select(selector, engine, data).hits) == 5500
    again = _select(selector, engine, data)
    assert [segment for segment, _ in again.hits] == [
        *range(selection.FLOOD_TARGET),
        *range(5500 - selection.FLOOD_TARGET, 5500),
    ]
    assert len(again.thinned) == 5500 - 2 * selection.FLOOD_TARGET


def test_the_same_line_of_many_ranks_is_no_flood(table: Any) -> None:
    engine, selector = HyperscanEngine(table.patterns), Selector(table.patterns)
    selector.reset(FileKind.CONSOLE_LOG)
    data = b"[rank3] watchdog\n" * 5500
    assert [len(_select(selector, engine, data).hits) for _ in range(3)] == [5500] * 3


def test_segments_that_are_given_again_are_counted_once(table: Any) -> None:
    """A record that stays open at the end of a chunk is carried; what follows it is thinned when it is consumed."""
    engine, selector = HyperscanEngine(table.patterns), Selector(table.patterns)
    data = bytearray(_steps(0, 9000))
    index = SegmentIndex(data, len(data), open_end=False)
    chosen = selector.select(find_matches(engine, data, len(data), index, selector.dense), final=False)
    half = selector.consumed(chosen, 4000)
    assert half == sum(segment < 4000 for segment in chosen.thinned.tolist())
    assert 0 < half < len(chosen.thinned)


def test_a_file_of_one_rank_keeps_the_less_the_more_there_are(table: Any) -> None:
    engine = HyperscanEngine(table.patterns)
    data = _steps(0, 20_000)
    kept = []
    for rank_logs in (1, 64, 256, 4096, 16_384):
        selector = Selector(table.patterns, rank_logs)
        selector.reset(FileKind.RANK_LOG)
        steps = {segment for segment, _ in _select(selector, engine, data).hits}
        wanted = quota(FileKind.RANK_LOG, rank_logs)
        assert wanted.last_tail <= len(steps) <= 2 * wanted.target + wanted.last_tail
        assert max(steps) == 19_999
        kept.append(steps)
    assert kept[0] == kept[1] > kept[2] > kept[3] == kept[4]
    selector = Selector(table.patterns, 4096)
    selector.reset(FileKind.CONSOLE_LOG)
    assert len(_select(selector, engine, data).hits) > len(kept[0]), "in a file of many ranks each has its own steps"


def test_what_a_file_of_one_rank_keeps_grows_with_the_logarithm_of_its_size(table: Any) -> None:
    engine, selector = HyperscanEngine(table.patterns), Selector(table.patterns, 64)
    selector.reset(FileKind.RANK_LOG)
    data = _steps(0, 9000)
    sizes = [len(_select(selector, engine, data, final=False).hits) for _ in range(64)]
    assert sum(sizes[:32]) > 2 * sum(sizes[32:])
    assert sizes[-1] >= 8


def test_progress_that_would_be_left_out_is_not_looked_for(table: Any) -> None:
    """In the middle of a dense chunk only multiples of 8 are found, and what is kept is the same."""
    engine = HyperscanEngine(table.patterns)
    data = bytearray(b"".join(b"iter step: %d/99 loss 1.5 %s\n" % (step, b"x" * 40) for step in range(7, 25_007)))
    index = SegmentIndex(data, len(data), open_end=False)
    whole = find_matches(engine, data, len(data), index, Selector(table.patterns).dense)
    for final in (False, True):
        selector = Selector(table.patterns, 64)
        selector.reset(FileKind.RANK_LOG)
        found = find_matches(engine, data, len(data), index, selector.dense, selector.now)
        assert found.thin
        assert len(found.ids) < len(whole.ids) / 2
        assert selector.select(found, final=final).hits == selector.select(whole, final=final).hits


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**7))
def test_a_thin_form_finds_the_multiples_of_eight(step: int) -> None:
    form = re.compile(scan_form(r"step: +(?P<step>[0-9]+)", dense=True, thin=True))
    assert (form.search(b"step: %d/99" % step) is not None) == (step % 8 == 0)


def test_the_last_step_is_exact_though_the_log_goes_on_without_progress(table: Any) -> None:
    engine = HyperscanEngine(table.patterns)
    steps = b"".join(b"iter step: %d/99 loss 1.5 %s\n" % (step, b"x" * 40) for step in range(7, 25_006))
    data = bytearray(steps + b"nothing to be seen here\n" * 20_000)
    index = SegmentIndex(data, len(data), open_end=False)
    selector = Selector(table.patterns, 64)
    selector.reset(FileKind.RANK_LOG)
    found = find_matches(engine, data, len(data), index, selector.dense, selector.now)
    kept = [segment + 7 for segment, _ in selector.select(found, final=True).hits]
    assert found.thin
    assert kept[-quota(FileKind.RANK_LOG, 64).last_tail :] == list(range(25_006 - 64, 25_006))
