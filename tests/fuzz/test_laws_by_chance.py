"""Laws of the verdict under chains of changes drawn by chance, and trees of any names and bytes, from files to reports.

`make fuzz` runs these with many more examples and fresh seeds; `make laws` runs each change alone on all labelled cases.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import correlator
from benchmarks.degradation import expected_there
from benchmarks.scenarios import Expected, from_json
from benchmarks.scenarios.judging import Grade, judge, place_of
from benchmarks.scenarios.mutations import CHANGES, LOSSES, TEARS
from benchmarks.scenarios.specimen import Renamed, Specimen
from correlator.core.errors import NoLogsError
from correlator.pipeline import Run
from tests.fuzz.targets import whole_run

pytestmark = pytest.mark.timeout(300)  # processes of their own, on machines that may be busy
ROOT = Path(__file__).parent.parent.parent / "sample_runs"
RUNS = ("pub-oom-rank11-slurm", "real-nan-assert-011", "real-sigkill-005", "sim-python-data-error-merged-30s-340")
FEW = settings().max_examples // 25 or 1
"""Four in an ordinary test run, sixteen with the profile of `make fuzz`: each costs a second."""
SOLITARY = frozenset(
    {"names counted", "names counted in folders", "everything twice", "nodes renamed", "names spelt otherwise"}
)
"""Change paths: what comes behind them would look for files where they are no longer."""
STEPS = tuple(
    name for name in CHANGES if name not in SOLITARY and not name.startswith(("joined", "woven", "split", "names"))
)


@cache
def whole(name: str) -> tuple[Run, Expected]:
    run = correlator.open_run(ROOT / name / "run", workers=1)
    return run, from_json(json.loads((ROOT / name / "expected.json").read_text()))


def changed(name: str, mutations: list[str], seed: int) -> tuple[Run, Expected]:
    """A copy of a run after several mutations, diagnosed, and the truth of it."""
    run, expected = whole(name)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "run"
        shutil.copytree(ROOT / name / "run", copy)
        for mutation in mutations:
            told = {**CHANGES, **TEARS, **LOSSES}[mutation](
                Specimen(copy, run, expected, random.Random(f"{seed}:{mutation}"))
            )
            if isinstance(told, Renamed):
                expected = expected_there(expected, told)
        return correlator.open_run(copy, workers=1), expected


@settings(max_examples=FEW, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(RUNS),
    mutations=st.lists(st.sampled_from(STEPS), min_size=1, max_size=3, unique=True),
    last=st.sampled_from([None, *sorted(CHANGES.keys() - set(STEPS))]),
    seed=st.integers(0, 1 << 30),
)
def test_no_chain_of_changes_of_form_changes_the_verdict(
    name: str, mutations: list[str], last: str | None, seed: int
) -> None:
    before = whole(name)[0].diagnosis.verdict
    chain = [*mutations, *([last] if last and not {"packed", "packed by zstd"} & set(mutations) else [])]
    run, expected = changed(name, chain, seed)
    after = run.diagnosis.verdict
    assert after.status is before.status
    if last != "nodes renamed":
        assert set(map(place_of, after.initiators)) == set(map(place_of, before.initiators))
    assert {one.fault for one in after.initiators} == {one.fault for one in before.initiators}
    assert judge(expected, run.diagnosis).grade is not Grade.WRONG


@settings(max_examples=FEW, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(RUNS),
    mutations=st.lists(
        st.sampled_from([*LOSSES, *(tear for tear in TEARS if tear not in SOLITARY)]),
        min_size=1,
        max_size=2,
        unique=True,
    ),
    seed=st.integers(0, 1 << 30),
)
def test_no_loss_accuses_the_innocent(name: str, mutations: list[str], seed: int) -> None:
    try:
        run, expected = changed(name, mutations, seed)
    except NoLogsError:
        return  # nothing is left
    found = judge(expected, run.diagnosis)
    assert found.grade is not Grade.WRONG, (mutations, found.said)


names = st.one_of(
    st.sampled_from(
        [
            "rank_3.log",
            "node01.log",
            "slurm-12.out",
            "nccl_trace_rank_1",
            "error.json",
            "dmesg.txt",
            "a.tar",
            "b.zip",
            "c.gz",
        ]
    ),
    st.text(st.characters(exclude_characters="/\0", exclude_categories=()), min_size=1, max_size=12),
)
contents = st.one_of(
    st.binary(max_size=300),
    st.sampled_from([b"", b"\x80\x02", b"PK\x03\x04", b"\x1f\x8b", b"(\xb5/\xfd", b"{", b"\xff\xfe", b"\n" * 50]),
    st.sampled_from([b"[rank1]: ", b"2026-01-01 00:00:00,000 ", b"Traceback (most recent call last):\n"]).flatmap(
        lambda head: st.binary(max_size=80).map(lambda rest: (head + rest + b"\n") * 3)
    ),
)


@settings(max_examples=FEW * 3, suppress_health_check=list(HealthCheck))
@given(tree=st.lists(st.tuples(names, contents), min_size=1, max_size=5))
def test_any_tree_is_a_verdict_or_one_clear_error(tree: list[tuple[str, bytes]]) -> None:
    parts = [
        b"FILE " + name.encode("utf-8", "surrogatepass").replace(b"\n", b"_") + b"\n" + data for name, data in tree
    ]
    whole_run(b"\0" + b"\0".join(parts))
