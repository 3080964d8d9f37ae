"""The figure means what it says: by kind of finding and by how much of the logs is there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from correlator.core.vocabulary import FileKind, VerdictStatus
from correlator.graphs.confidence import FLOOR, SHARE_RIGHT, Coverage, Finding
from tests.graphs.conftest import RunBuilder

Builder = Callable[..., RunBuilder]


def test_fewer_logs_never_make_it_surer() -> None:
    assert set(SHARE_RIGHT) == set(Finding)
    for shares in SHARE_RIGHT.values():
        assert len(shares) == len(Coverage)
        assert list(shares) == sorted(shares, reverse=True)
        assert 0 < min(shares) <= max(shares) < 1


def oom(r: RunBuilder) -> RunBuilder:
    return r.steps(5).add("cuda_oom", 6.0, rank=1, exception_type="torch.OutOfMemoryError")


def test_a_stated_fault_is_as_sure_as_the_logs_are_complete(run: Builder) -> None:
    whole = oom(run()).judge().verdict.confidence
    most = oom(run(silent_ranks=frozenset({6, 7}))).judge().verdict.confidence
    few = oom(run(silent_ranks=frozenset(range(3, 8)))).judge().verdict.confidence
    assert [whole, most, few] == list(SHARE_RIGHT[Finding.STATED])


def test_several_ranks_that_are_merely_silent_accuse_nobody(run: Builder) -> None:
    """Two nodes, a rank missing of each, no counters: as often two logs that end early."""
    found = run(world=16).steps(5).timeouts([r for r in range(16) if r not in (3, 9)], 600).judge()
    assert max(SHARE_RIGHT[Finding.SEVERAL_SILENT]) < FLOOR
    assert found.verdict.status is VerdictStatus.UNDETERMINED


def test_the_one_that_is_silent_is_named(run: Builder) -> None:
    found = run(world=16).steps(5).timeouts([r for r in range(16) if r != 9], 600).judge()
    assert found.verdict.confidence == SHARE_RIGHT[Finding.SILENT][0]


@pytest.mark.parametrize(("signal", "open_"), [("SIGTERM", True), ("SIGHUP", False)])
def test_agents_told_to_stop_prove_little_without_the_other_logs(run: Builder, signal: str, *, open_: bool) -> None:
    """SIGTERM may come of a failure on the node whose logs are gone; SIGHUP comes of a terminal."""
    r = run(silent_ranks=frozenset({4, 5, 6, 7})).steps(5)
    r.add("agent_signalled", 6.0, node="node00", kind=FileKind.LAUNCHER_LOG, attributes={"signal": signal})
    assert (r.judge().verdict.status is VerdictStatus.UNDETERMINED) is open_
